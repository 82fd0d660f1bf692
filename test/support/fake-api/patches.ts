import { applyPatch, type Operation } from 'rfc6902';
import { isJsonObject, type Json, type JsonObject } from '../../../api/base/json.ts';
import type { PatchType } from '../../../kube/client.ts';
import { badRequest, patchDoesNotFit, Refused } from './refusals.ts';
import type { Stored } from './stored.ts';
import { strategicMerge } from './strategic-merge.ts';
import type { Traits } from './traits.ts';

/** The object with a patch of this type; the object itself stays as it is. */
export function patched(object: Stored, type: PatchType, body: unknown, { isBuiltIn }: Traits): Stored {
  const before = object as unknown as JsonObject;
  if (type === 'json') return afterOperations(before, body) as unknown as Stored;
  if (!isJsonObject(body)) throw badRequest('error decoding patch: json: cannot unmarshal into map');
  if (type === 'merge') return mergePatch(before, body) as unknown as Stored;
  if (type === 'strategic' && isBuiltIn) return strategicMerge(before, body) as unknown as Stored;
  // Strategic merges of custom resources are refused like this by every API server; apply is not played.
  const message = `the body of the request was in an unknown format: ${type}`;
  throw new Refused(415, 'UnsupportedMediaType', message);
}

function afterOperations(before: JsonObject, body: unknown): JsonObject {
  if (!Array.isArray(body)) throw badRequest('error decoding patch: json: cannot unmarshal into JSON patch');
  // What comes through structuredClone has lists of another realm, which are none to the library.
  const after = JSON.parse(JSON.stringify(before)) as JsonObject;
  const operations = JSON.parse(JSON.stringify(body)) as Operation[];
  if (!applyPatch(after, operations).every((failure) => failure === null)) throw patchDoesNotFit();
  return after;
}

/** RFC 7386. */
function mergePatch(target: Json | undefined, patch: Json): Json {
  if (!isJsonObject(patch)) return patch;
  const result: Record<string, Json | undefined> = isJsonObject(target) ? { ...target } : {};
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete result[name];
    else if (value !== undefined) result[name] = mergePatch(result[name], value);
  }
  return result;
}
