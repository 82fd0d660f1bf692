// Differences between two JSON documents, as the operations of a JSON patch (RFC 6902).
import { entryOf, isJsonList, isJsonObject, type Json, sameJson } from './json.ts';

/** One operation. The path is in pieces, list indexes as decimal texts. */
export type DiffOperation =
  | { readonly op: 'add' | 'replace'; readonly path: readonly string[]; readonly value: Json }
  | { readonly op: 'remove'; readonly path: readonly string[] };

/**
 * What turns one document into the other. Lists are compared item by item and never realigned: one that has grown or
 * shrunk gains or loses its last items. Whatever is missing on one side is one operation, however large it is.
 */
export function diffJson(from: Json | undefined, to: Json | undefined, path: readonly string[] = []): DiffOperation[] {
  if (to === undefined) return from === undefined ? [] : [{ op: 'remove', path }];
  if (from === undefined) return [{ op: 'add', path, value: to }];

  if (isJsonList(from) && isJsonList(to)) {
    const length = Math.max(from.length, to.length);
    return Array.from({ length }, (_, index) => diffJson(from[index], to[index], [...path, String(index)])).flat();
  }
  if (isJsonObject(from) && isJsonObject(to)) {
    const keys = [...new Set([...Object.keys(from), ...Object.keys(to)])];
    return keys.flatMap((key) => diffJson(entryOf(from, key), entryOf(to, key), [...path, key]));
  }
  return sameJson(from, to) ? [] : [{ op: 'replace', path, value: to }];
}

/** The path as people write it: `spec.containers[0].image`, keys with other characters in brackets. */
export function formatPath(path: readonly string[]): string {
  return path
    .map((piece, index) => {
      if (!/^[A-Za-z_$][\w$-]*$/.test(piece)) return `[${piece}]`;
      return index === 0 ? piece : `.${piece}`;
    })
    .join('');
}
