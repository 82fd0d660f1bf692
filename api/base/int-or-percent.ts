// Numbers of things that may also be given as a share of a whole: `3`, `20%`, `12.5%`.

/** A number of things, or a share of them such as `20%`. */
export type IntOrPercent = number | string;

/** A share, exactly: `numerator` of `denominator`. */
export interface Share {
  readonly numerator: bigint;
  readonly denominator: bigint;
}

/** Reads a percentage; undefined for any other text, also for a number without `%`. */
export function parsePercent(text: string): Share | undefined {
  if (text.length > longest) return undefined;
  const [, sign = '', whole = '', fraction = ''] = /^([+-]?)(\d*)(?:\.(\d*))?%$/.exec(text) ?? [];
  if (whole + fraction === '') return undefined;
  const magnitude = BigInt(whole + fraction);
  return { numerator: sign === '-' ? -magnitude : magnitude, denominator: 100n * 10n ** BigInt(fraction.length) };
}

/** So many of the whole; a share is rounded in that direction. Undefined: it is neither a number nor a percentage. */
export function countOf(value: IntOrPercent, whole: number, rounding: 'up' | 'down'): number | undefined {
  if (typeof value === 'number') return Number.isSafeInteger(value) ? value : undefined;
  const share = parsePercent(value);
  if (share === undefined) return undefined;

  const product = share.numerator * BigInt(whole);
  const quotient = product / share.denominator; // towards zero
  const rest = product % share.denominator;
  if (rest > 0n && rounding === 'up') return Number(quotient + 1n);
  if (rest < 0n && rounding === 'down') return Number(quotient - 1n);
  return Number(quotient);
}

/** Whether it is less than nothing, whatever it is a share of. */
export function isNegative(value: IntOrPercent): boolean {
  return typeof value === 'number' ? value < 0 : (parsePercent(value)?.numerator ?? 0n) < 0n;
}

/** Nobody needs more digits, and a hostile text must not cost time. */
const longest = 64;

/** Whether the value is a whole number that Go can hold as `int32`. */
export function isInt32(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= -(2 ** 31) && value < 2 ** 31;
}

/** Reads a whole number of 32 bits; undefined for any other text. */
export function parseInt32(text: string): number | undefined {
  const value = /^[+-]?\d+$/.test(text) ? Number(text) : undefined;
  return isInt32(value) ? value : undefined;
}
