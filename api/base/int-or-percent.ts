// Counts that may be given as a percentage of a whole: `3`, `20%`, `12.5%`.

/** A count, or a percentage such as `20%`. */
export type IntOrPercent = number | string;

/** An exact fraction: `numerator` of `denominator`. */
export interface Share {
  readonly numerator: bigint;
  readonly denominator: bigint;
}

/** Parses a percentage; undefined for any other text, including a number without `%`. */
export function parsePercent(text: string): Share | undefined {
  if (text.length > longest) return undefined;
  const [, sign = '', whole = '', fraction = ''] = /^([+-]?)(\d*)(?:\.(\d*))?%$/.exec(text) ?? [];
  if (whole + fraction === '') return undefined;
  const magnitude = BigInt(whole + fraction);
  return { numerator: sign === '-' ? -magnitude : magnitude, denominator: 100n * 10n ** BigInt(fraction.length) };
}

/**
 * The count for this whole; a percentage is rounded in the given direction. Undefined: it is neither a number nor a
 * percentage.
 */
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

/** Whether the number or percentage is negative. */
export function isNegative(value: IntOrPercent): boolean {
  return typeof value === 'number' ? value < 0 : (parsePercent(value)?.numerator ?? 0n) < 0n;
}

/** Whether it is a percentage above 100%. */
export function isMoreThanAll(value: IntOrPercent): boolean {
  const share = typeof value === 'string' ? parsePercent(value) : undefined;
  return share !== undefined && share.numerator > share.denominator;
}

/** Longer texts are rejected, so that a hostile one does not cost time. */
const longest = 64;

/** Whether the value is an integer in the range of Go's `int32`. */
export function isInt32(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= -(2 ** 31) && value < 2 ** 31;
}

/** Parses a 32-bit integer; undefined for any other text. */
export function parseInt32(text: string): number | undefined {
  const value = /^[+-]?\d+$/.test(text) ? Number(text) : undefined;
  return isInt32(value) ? value : undefined;
}
