import { isJsonList, isJsonObject, type Json, type JsonObject, jsonPointer, sameJson } from '../../api/base/json.ts';

/** An operation of a JSON patch (RFC 6902), of the kinds that admission uses. */
export type PatchOperation =
  | { readonly op: 'add' | 'replace'; readonly path: string; readonly value: Json }
  | { readonly op: 'remove'; readonly path: string };

/**
 * Fields this deep are replaced as a whole, such as `/spec/containers/0/env`. The smallest difference would take time
 * and memory proportional to the product of both sizes, and nobody reads the patch.
 */
const deepest = 4;

/**
 * The patch from the received object to the returned one, which replaces whole fields. Parts that a mutator returns as
 * the same values are unchanged, and are not compared; the rest is read once.
 */
export function patchOf(before: JsonObject, after: JsonObject): readonly PatchOperation[] {
  return before === after ? [] : fieldsOf([], before, after);
}

type Path = readonly (string | number)[];

function changesAt(path: Path, before: Json | undefined, after: Json | undefined): readonly PatchOperation[] {
  if (before === after) return [];
  if (after === undefined) return [{ op: 'remove', path: jsonPointer(...path) }];
  if (before === undefined) return [{ op: 'add', path: jsonPointer(...path), value: after }];
  if (path.length < deepest) {
    if (isJsonObject(before) && isJsonObject(after)) return fieldsOf(path, before, after);
    if (isJsonList(before) && isJsonList(after) && before.length === after.length) {
      return after.flatMap((item, index) => changesAt([...path, index], before[index], item));
    }
  }
  return sameJson(before, after) ? [] : [{ op: 'replace', path: jsonPointer(...path), value: after }];
}

function fieldsOf(path: Path, before: JsonObject, after: JsonObject): readonly PatchOperation[] {
  const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...keys].flatMap((key) => changesAt([...path, key], before[key], after[key]));
}
