// Base64 of strings, implemented here because the APIs of Node and browsers are not available in workflows.

const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

/** The text's UTF-8 in base64, padded. */
export function toBase64(text: string): string {
  const bytes = new TextEncoder().encode(text);
  let result = '';
  for (let at = 0; at < bytes.length; at += 3) {
    const [first = 0, second, third] = bytes.subarray(at, at + 3);
    const bits = (first << 16) | ((second ?? 0) << 8) | (third ?? 0);
    result += letters.charAt(bits >> 18) + letters.charAt((bits >> 12) & 63);
    result += second === undefined ? '=' : letters.charAt((bits >> 6) & 63);
    result += third === undefined ? '=' : letters.charAt(bits & 63);
  }
  return result;
}

/** Decodes padded base64; undefined for an invalid text. */
export function fromBase64(base64: string): string | undefined {
  const digits = base64.replace(/={0,2}$/, '');
  if (base64.length % 4 !== 0 || !/^[A-Za-z0-9+/]*$/.test(digits)) return undefined;
  const bytes = new Uint8Array(Math.floor((digits.length * 6) / 8));
  let bits = 0;
  let filled = 0;
  let length = 0;
  for (const digit of digits) {
    bits = ((bits << 6) | letters.indexOf(digit)) & 0xffff;
    filled += 6;
    if (filled < 8) continue;
    filled -= 8;
    bytes[length++] = (bits >> filled) & 0xff;
  }
  return new TextDecoder().decode(bytes);
}
