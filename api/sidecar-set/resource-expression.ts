// The expressions of `resourcesPolicy.resourcesExpr` (SCS-66 to SCS-69): arithmetic on numbers and quantities, such as
// `max(memory*20% + 100Mi, 200Mi)`.
//
//   sum      = product (("+" | "-") product)*
//   product  = factor (("*" | "/") factor)*
//   factor   = "-" factor | "(" sum ")" | ("max" | "min") "(" sum "," sum ")" | variable | number
//
// Numbers are IEEE doubles, quantities are thousandths. An expression is evaluated while it is read.

import { formatAmount, parseQuantity } from '../base/quantity.ts';

/** A resource whose amount is computed; also the variable of its expressions. */
export type ComputedResource = 'cpu' | 'memory';

type Format = 'decimal' | 'binary';

/** An amount in thousandths. */
export interface Amount {
  readonly kind: 'quantity';
  readonly milli: bigint;
  readonly format: Format;
}

type Value = Amount | { readonly kind: 'number'; readonly number: number };

export type Evaluated =
  /** `ignored`: numbers with an unknown suffix, which count as 0 as in OpenKruise (SCS-69). */
  | { readonly kind: 'amount'; readonly text: string; readonly ignored: readonly string[] }
  | { readonly kind: 'failed'; readonly problem: string };

/** Characters of an expression. */
export const longestExpression = 4_096;
/** Levels of parentheses of an expression. */
export const deepestExpression = 200;

const mostMilli = 2n ** 63n - 1n;

class ExpressionError extends Error {
  override readonly name = 'ExpressionError';
}

/** The amount of this resource, as it is written in `resources`, for this value of the variable. */
export function evaluateExpression(text: string, resource: ComputedResource, variable: Amount | number): Evaluated {
  try {
    if (text.length > longestExpression) {
      throw new ExpressionError(`must not be longer than ${longestExpression} characters`);
    }
    const value: Value = typeof variable === 'number' ? { kind: 'number', number: variable } : variable;
    const { result, ignored } = read(text, resource, value);
    const amount = result.kind === 'quantity' ? result : plainAmount(result.number, resource);
    if (amount.milli < 0n) throw new ExpressionError('the result is negative');
    return { kind: 'amount', text: formatAmount(amount.milli * 1_000_000n, amount.format), ignored };
  } catch (error) {
    if (error instanceof ExpressionError) return { kind: 'failed', problem: error.message };
    throw error;
  }
}

/** An amount of a pod's container; undefined for an invalid one. */
export function amountOf(text: string | number): Amount | undefined {
  const quantity = parseQuantity(text);
  if (quantity === undefined) return undefined;
  const format = quantity.format === 'binary' ? 'binary' : 'decimal';
  return { kind: 'quantity', milli: milliOf(quantity.nano), format };
}

/** The sum; an amount of 0 does not decide on the format. */
export function addAmounts(left: Amount, right: Amount): Amount {
  return quantity(left.milli + right.milli, left.milli === 0n ? right.format : left.format);
}

/** The number of cores or bytes. */
function plainAmount(number: number, resource: ComputedResource): Amount {
  if (resource === 'cpu') return asAmount({ kind: 'number', number });
  return quantity(truncated(number) * 1_000n, 'binary');
}

function read(text: string, resource: ComputedResource, variable: Value) {
  const ignored: string[] = [];
  let at = 0;
  let depth = 0;

  const skipSpace = () => {
    while (/\s/.test(text[at] ?? '')) at++;
  };
  const take = (...signs: readonly string[]): string | undefined => {
    skipSpace();
    const sign = text[at];
    if (sign === undefined || !signs.includes(sign)) return undefined;
    at++;
    return sign;
  };
  const need = (sign: string) => {
    if (take(sign) === undefined) throw new ExpressionError(`expected "${sign}" ${place(text, at)}`);
  };
  const sum = (): Value => {
    let value = product();
    for (let sign = take('+', '-'); sign !== undefined; sign = take('+', '-')) {
      value = added(value, product(), sign === '+' ? 1 : -1);
    }
    return value;
  };
  const product = (): Value => {
    let value = factor();
    for (let sign = take('*', '/'); sign !== undefined; sign = take('*', '/')) {
      value = sign === '*' ? multiplied(value, factor()) : divided(value, factor());
    }
    return value;
  };
  const nested = <Result>(inner: () => Result): Result => {
    if (++depth > deepestExpression) throw new ExpressionError('nests too deeply');
    const result = inner();
    depth--;
    return result;
  };
  const factor = (): Value => {
    if (take('-') !== undefined) return nested(() => negated(factor()));
    if (take('(') !== undefined) {
      const value = nested(sum);
      need(')');
      return value;
    }
    skipSpace();
    const name = /^[A-Za-z_]\w*/.exec(text.slice(at, at + 64))?.[0];
    return name === undefined ? literal() : named(name);
  };
  const named = (name: string): Value => {
    at += name.length;
    const lower = name.toLowerCase();
    if (lower === resource) return variable;
    if (lower !== 'max' && lower !== 'min') throw new ExpressionError(`unknown name "${name}"`);
    need('(');
    const left = nested(sum);
    need(',');
    const right = nested(sum);
    need(')');
    return extreme(left, right, lower);
  };
  const literal = (): Value => {
    const [whole = '', digits = '', suffix = ''] = literalPattern.exec(text.slice(at)) ?? [];
    if (whole === '') throw new ExpressionError(`unexpected text ${place(text, at)}`);
    at += whole.length;
    if (suffix === '') return { kind: 'number', number: Number(digits) };
    if (suffix === '%') return { kind: 'number', number: Number(digits) / 100 };
    const amount = suffixes.includes(suffix) ? amountOf(`${digits}${suffix}`) : undefined;
    if (amount !== undefined) return amount;
    ignored.push(whole);
    return { kind: 'number', number: 0 };
  };

  const result = sum();
  skipSpace();
  if (at < text.length) throw new ExpressionError(`unexpected text ${place(text, at)}`);
  return { result, ignored };
}

const literalPattern = /^((?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)(%|[A-Za-z]\w*)?/;
const suffixes: readonly string[] = ['m', 'k', 'M', 'G', 'T', 'P', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi'];

function place(text: string, at: number): string {
  return at >= text.length ? 'at the end' : `at "${text.slice(at, at + 10)}"`;
}

function added(left: Value, right: Value, sign: 1 | -1): Value {
  if (left.kind === 'number' && right.kind === 'number') return number(left.number + sign * right.number);
  const [first, second] = [asAmount(left), asAmount(right)];
  return addAmounts(first, { ...second, milli: BigInt(sign) * second.milli });
}

function multiplied(left: Value, right: Value): Value {
  if (left.kind === 'number') {
    return right.kind === 'number' ? number(left.number * right.number) : scaled(right, (milli) => milli * left.number);
  }
  if (right.kind === 'quantity') throw new ExpressionError('a quantity cannot be multiplied by a quantity');
  return scaled(left, (milli) => milli * right.number);
}

function divided(left: Value, right: Value): Value {
  if (right.kind === 'quantity') throw new ExpressionError('nothing can be divided by a quantity');
  if (right.number === 0) throw new ExpressionError('division by zero');
  return left.kind === 'number' ? number(left.number / right.number) : scaled(left, (milli) => milli / right.number);
}

function negated(value: Value): Value {
  return value.kind === 'number' ? number(-value.number) : { ...value, milli: -value.milli };
}

function extreme(left: Value, right: Value, which: 'max' | 'min'): Value {
  const isSecond = (order: boolean) => (which === 'max' ? order : !order);
  if (left.kind === 'number' && right.kind === 'number') return isSecond(left.number < right.number) ? right : left;
  const [first, second] = [asAmount(left), asAmount(right)];
  return isSecond(first.milli < second.milli) ? second : first;
}

function number(value: number): Value {
  if (!Number.isFinite(value)) throw new ExpressionError('a number is too large');
  return { kind: 'number', number: value };
}

function quantity(milli: bigint, format: Format): Amount {
  if (milli > mostMilli || milli < -mostMilli) throw new ExpressionError('a quantity is too large');
  return { kind: 'quantity', milli, format };
}

/** In doubles, as in OpenKruise (SCS-67a). */
function scaled(amount: Amount, change: (milli: number) => number): Amount {
  return quantity(truncated(change(Number(amount.milli))), amount.format);
}

function asAmount(value: Value): Amount {
  return value.kind === 'quantity' ? value : quantity(truncated(value.number * 1_000), 'decimal');
}

function truncated(value: number): bigint {
  if (!Number.isFinite(value)) throw new ExpressionError('a number is too large');
  return BigInt(Math.trunc(value));
}

/** In thousandths, rounded up. */
function milliOf(nano: bigint): bigint {
  const milli = nano / 1_000_000n;
  return nano > 0n && milli * 1_000_000n !== nano ? milli + 1n : milli;
}
