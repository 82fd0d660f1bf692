// Resource quantities: `100m`, `32Mi`, `1e3`. Many texts mean the same amount, and the API server stores the canonical
// form: no fraction, the largest unit in which the amount is an integer. Texts that pass Go's cheap test for the
// canonical form are kept, even if the canonical form is another (`1.500`): Go does the same, and revision hashes
// depend on it.

/** A parsed amount. */
export interface Quantity {
  /** The amount in billionths; smaller parts were rounded up, away from zero. */
  readonly nano: bigint;
  readonly format: 'decimal' | 'binary' | 'exponent';
  /** The original text, where it is kept. */
  readonly spelling?: string;
  /** The exponent of the last digit of the text, as a power of ten. */
  readonly scale: number;
}

const decimalUnits = { n: -9, u: -6, m: -3, '': 0, k: 3, M: 6, G: 9, T: 12, P: 15, E: 18 } as const;
const binaryUnits = { Ki: 1, Mi: 2, Gi: 3, Ti: 4, Pi: 5, Ei: 6 } as const;

const units: ReadonlyMap<string, Unit> = new Map<string, Unit>([
  ...Object.entries(decimalUnits).map(([unit, exponent]) => [unit, { format: 'decimal', exponent }] as const),
  ...Object.entries(binaryUnits).map(([unit, exponent]) => [unit, { format: 'binary', exponent }] as const),
]);

/** A unit as a power of ten, or of 1024 for binary units. */
interface Unit {
  readonly format: Quantity['format'];
  readonly exponent: number;
}

const nanoExponent = 9;
const milli = -3;
const largestBinary = 2n ** 63n - 1n;
/** Larger exponents are rejected, so that a hostile one does not cost memory. */
const largestExponent = 1000;
/** Longer texts are rejected, so that a hostile one does not cost time. */
const longest = 256;
/** The number of decimal digits that always fits into 64 bits. */
const safeDigits = 18;

/** Parses a quantity; undefined for an invalid one. Numbers are parsed as their text. */
export function parseQuantity(value: string | number): Quantity | undefined {
  const text = String(value).trim();
  if (text.length > longest) return undefined;
  const [, sign = '', digits = '', fraction = '', suffix = ''] = quantityPattern.exec(text) ?? [];
  const unit = unitOf(suffix);
  if (unit === undefined || digits + fraction === '') return undefined;

  const whole = digits.replace(/^0+/, '') || '0';
  const magnitude = BigInt(whole + fraction);
  const scale = (unit.format === 'binary' ? 0 : unit.exponent) - fraction.length;
  const nano = amountOf(magnitude, fraction.length, unit);
  return {
    nano: sign === '-' ? -nano : nano,
    format: unit.format,
    scale,
    ...(isPlain(whole, fraction, scale, unit) && { spelling: text }),
  };
}

/** The text that the API server stores for this quantity; an invalid one is returned unchanged. */
export function canonicalQuantity(value: string | number): string {
  const quantity = parseQuantity(value);
  return quantity === undefined ? String(value) : formatQuantity(quantity);
}

/** The same, rounded up to thousandths, as in every list of resources. */
export function canonicalResource(value: string | number): string {
  const quantity = parseQuantity(value);
  if (quantity === undefined) return String(value);
  if (quantity.spelling !== undefined && quantity.scale >= milli) return quantity.spelling;
  return formatQuantity({ ...withoutSpelling(quantity), nano: roundedUp(quantity.nano, 10n ** 6n) * 10n ** 6n });
}

/** Less than 0, 0 or more than 0; invalid quantities come first. */
export function compareQuantities(left: string | number, right: string | number): number {
  const [leftNano, rightNano] = [parseQuantity(left)?.nano, parseQuantity(right)?.nano];
  if (leftNano === rightNano) return 0;
  if (leftNano === undefined || rightNano === undefined) return leftNano === undefined ? -1 : 1;
  return leftNano < rightNano ? -1 : 1;
}

/** Whether two texts mean the same amount. Two invalid quantities are compared as texts. */
export function sameQuantity(left: string | number, right: string | number): boolean {
  const readable = parseQuantity(left) !== undefined && parseQuantity(right) !== undefined;
  return readable ? compareQuantities(left, right) === 0 : left === right;
}

/** The canonical text of an amount in billionths. */
export function formatAmount(nano: bigint, format: Quantity['format']): string {
  return formatQuantity({ nano, format, scale: 0 });
}

const quantityPattern = /^([+-]?)(\d*)(?:\.(\d*))?([eEinumkKMGTP]*(?:[-+]?\d+)?)$/;

function unitOf(suffix: string): Unit | undefined {
  const named = units.get(suffix);
  if (named !== undefined) return named;
  const exponent = /^[eE]([-+]?\d+)$/.exec(suffix)?.[1];
  if (exponent === undefined || Math.abs(Number(exponent)) > largestExponent) return undefined;
  return { format: 'exponent', exponent: Number(exponent) };
}

/** In billionths. */
function amountOf(magnitude: bigint, fractionDigits: number, unit: Unit): bigint {
  if (unit.format === 'binary') {
    const nano = scaled(magnitude * 1024n ** BigInt(unit.exponent), nanoExponent - fractionDigits);
    const most = largestBinary * 10n ** BigInt(nanoExponent);
    return nano > most ? most : nano;
  }
  return scaled(magnitude, nanoExponent + unit.exponent - fractionDigits);
}

function scaled(magnitude: bigint, exponent: number): bigint {
  return exponent >= 0 ? magnitude * powerOfTen(exponent) : roundedUp(magnitude, powerOfTen(-exponent));
}

/** Known powers: a large one takes as long as everything else about a quantity. */
const powers: bigint[] = [];

function powerOfTen(exponent: number): bigint {
  const power = powers[exponent] ?? 10n ** BigInt(exponent);
  powers[exponent] = power;
  return power;
}

/** The amount divided by `size`, rounded away from zero. */
function roundedUp(amount: bigint, size: bigint): bigint {
  const whole = amount / size;
  if (whole * size === amount) return whole;
  return amount > 0n ? whole + 1n : whole - 1n;
}

/** Go's cheap test for canonical texts; it accepts some that are not canonical. */
function isPlain(whole: string, fraction: string, scale: number, unit: Unit): boolean {
  if (unit.format === 'binary') {
    const fits = fraction === '' && whole.length <= safeDigits - 4 - 3 * unit.exponent;
    return fits && BigInt(whole) % 8n !== 0n;
  }
  const digits = whole + fraction;
  if (digits.length > safeDigits || scale < -nanoExponent) return false;
  return scale % 3 === 0 && !digits.endsWith('000') && !digits.startsWith('0');
}

function formatQuantity(quantity: Quantity): string {
  if (quantity.spelling !== undefined) return quantity.spelling;
  const { nano } = quantity;
  if (nano === 0n) return '0';

  const one = 10n ** BigInt(nanoExponent);
  const magnitude = nano < 0n ? -nano : nano;
  const isBinary = quantity.format === 'binary' && magnitude >= 1024n * one && magnitude % one === 0n;
  if (isBinary) {
    const { mantissa, exponent } = reduced(nano / one, 1024n, Object.keys(binaryUnits).length);
    return `${mantissa}${Object.keys(binaryUnits)[exponent - 1] ?? ''}`;
  }

  if (quantity.format === 'exponent') {
    const { mantissa, exponent } = reduced(nano, 1000n, Number.POSITIVE_INFINITY);
    const power = exponent * 3 - nanoExponent;
    return `${mantissa}${power === 0 ? '' : `e${power}`}`;
  }
  const { mantissa, exponent } = reduced(nano, 1000n, Object.keys(decimalUnits).length - 1);
  return `${mantissa}${Object.keys(decimalUnits)[exponent]}`;
}

function reduced(amount: bigint, base: bigint, mostTimes: number): { mantissa: bigint; exponent: number } {
  let mantissa = amount;
  let exponent = 0;
  for (; exponent < mostTimes && mantissa % base === 0n; exponent++) mantissa /= base;
  return { mantissa, exponent };
}

function withoutSpelling({ spelling: _, ...quantity }: Quantity): Quantity {
  return quantity;
}
