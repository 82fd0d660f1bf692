/** Control characters but tab and line feed, U+2028 and U+2029, and what changes the direction of text. */
const notPrintable = /(?![\t\n])[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu;

/** Whether the text has characters that `printable` replaces. */
export function hasControls(text: string): boolean {
  return text.search(notPrintable) >= 0;
}

/**
 * The text with control characters as `\u001b`: texts of the cluster must not control the user's terminal. In JSON
 * and in double-quoted YAML that is the same value.
 */
export function printable(text: string): string {
  return text.replace(notPrintable, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
