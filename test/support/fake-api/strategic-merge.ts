import { isJsonList, isJsonObject, type Json, type JsonObject, listOr } from '../../../api/base/json.ts';

// By which field the items of a list are the same. A list of another name is replaced as a whole.
const mergeKeys: Readonly<Record<string, string>> = {
  addresses: 'type',
  conditions: 'type',
  containers: 'name',
  env: 'name',
  ephemeralContainers: 'name',
  hostAliases: 'ip',
  imagePullSecrets: 'name',
  initContainers: 'name',
  ownerReferences: 'uid',
  podIPs: 'ip',
  ports: 'containerPort',
  schedulingGates: 'name',
  topologySpreadConstraints: 'topologyKey',
  volumeDevices: 'devicePath',
  volumeMounts: 'mountPath',
  volumes: 'name',
};

/** Before the name of a list of strings: those that are taken off it. */
const removalOf = '$deleteFromPrimitiveList/';

/** A strategic merge patch of a pod or a node, with the merge keys of their types. */
export function strategicMerge(object: JsonObject, patch: JsonObject): JsonObject {
  const result: Record<string, Json | undefined> = { ...object };
  for (const [name, value] of Object.entries(patch)) {
    if (name.startsWith(removalOf)) {
      const list = name.slice(removalOf.length);
      result[list] = listOr(result[list]).filter((item) => !listOr(value).includes(item));
      continue;
    }
    if (name.startsWith('$')) throw new Error(`the fake API server does not know the directive ${name}`);
    const before = result[name];
    if (value === null || value === undefined) delete result[name];
    else if (isJsonList(value)) result[name] = mergedList(name, listOr(before), value);
    else if (isJsonObject(value)) result[name] = strategicMerge(isJsonObject(before) ? before : {}, value);
    else result[name] = value;
  }
  return result;
}

function mergedList(name: string, before: readonly Json[], patch: readonly Json[]): readonly Json[] {
  if (name === 'finalizers') return [...new Set([...before, ...patch])];
  const key = mergeKeys[name];
  if (key === undefined) return patch;

  let items = before;
  for (const change of patch) {
    if (!isJsonObject(change) || change[key] === undefined) {
      throw new Error(`an item of ${name} in a strategic merge patch has no ${key}`);
    }
    const isSame = (item: Json) => isJsonObject(item) && item[key] === change[key];
    if (change.$patch === 'delete') items = items.filter((item) => !isSame(item));
    else if (!items.some(isSame)) items = [...items, strategicMerge({}, change)];
    else items = items.map((item) => (isJsonObject(item) && isSame(item) ? strategicMerge(item, change) : item));
  }
  return items;
}
