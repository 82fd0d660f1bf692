// Differences between two JSON documents, as the operations of a JSON patch (RFC 6902).
import { entryOf, isJsonList, isJsonObject, type Json, sameJson } from './json.ts';

/** One operation. The path is a list of keys; list indexes are decimal strings. */
export type DiffOperation =
  | { readonly op: 'add' | 'replace'; readonly path: readonly string[]; readonly value: Json }
  | { readonly op: 'remove'; readonly path: readonly string[] };

/**
 * The operations that turn one document into the other. Lists are compared item by item and never realigned: a list of
 * another length gains or loses its last items. A value that exists on one side only is a single operation.
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

/** The path for people: `spec.containers[0].image`, keys with other characters in brackets. */
export function formatPath(path: readonly string[]): string {
  return path
    .map((piece, index) => {
      if (!/^[A-Za-z_$][\w$-]*$/.test(piece)) return `[${piece}]`;
      return index === 0 ? piece : `.${piece}`;
    })
    .join('');
}
