// The 32-bit hashes of Fowler, Noll and Vo, which OpenKruise and the kubelet use in names and labels.

const prime = 0x01000193;
const start = 0x811c9dc5;

/** FNV-1 over the text in UTF-8. */
export function fnv1(text: string): number {
  let hash = start;
  for (const byte of new TextEncoder().encode(text)) hash = Math.imul(hash, prime) ^ byte;
  return hash >>> 0;
}

/** FNV-1a over the text in UTF-8. */
export function fnv1a(text: string): number {
  let hash = start;
  for (const byte of new TextEncoder().encode(text)) hash = Math.imul(hash ^ byte, prime);
  return hash >>> 0;
}

/**
 * FNV-1a over the bytes of the text in the format in which a Go program prints a byte list: Kubernetes' deep hash of
 * JSON (IPU 4.4).
 */
export function deepHash(text: string): number {
  return fnv1a(`([]uint8)[${new TextEncoder().encode(text).join(' ')}]`);
}
