/** The size of a value as JSON in UTF-8: on the wire, in etcd and in a payload. */
export function jsonBytes(value: unknown): number {
  return textBytes(JSON.stringify(value) ?? '');
}

/** The size of a text in UTF-8. */
export function textBytes(text: string): number {
  let bytes = 0;
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index);
    // each half of a surrogate pair counts two bytes
    bytes += unit < 0x80 ? 1 : unit < 0x800 || (unit >= 0xd800 && unit <= 0xdfff) ? 2 : 3;
  }
  return bytes;
}
