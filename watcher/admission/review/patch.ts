import { isJsonList, isJsonObject, type Json, type JsonObject, jsonPointer, sameJson } from '../../../api/base/json.ts';

/** One operation of a JSON patch (RFC 6902), as far as admission needs them. */
export type PatchOperation =
  | { readonly op: 'add' | 'replace'; readonly path: string; readonly value: Json }
  | { readonly op: 'remove'; readonly path: string };

/**
 * Fields so far down are told as a whole, such as `/spec/containers/0/env`. Looking for the smallest difference takes time
 * and memory with the product of both sizes, and nobody reads the patch.
 */
const deepest = 4;

/**
 * What turns the object that came into the one that goes back: whole fields that were changed. A mutator that hands back
 * the parts it has left alone says by that that they are unchanged, and they are not looked at; the rest is read once.
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
