// The commands of operators about the roll-out of a fleet object that are in effect, in addition to its spec.
//
// They are in `.status.rollOut` of the object, because they must hold while Temporal is away, after it has lost its
// database, and when nothing is left to roll out: pods that are recreated after an undo must have the previous revision.
// There `kubectl replace` and GitOps tools do not reach them. The leading watcher applies commands, and removes orders that no
// longer hold; nobody else writes them. People give commands instead of editing the status.
import { isJsonObject, type Json, listOr } from '../base/json.ts';
import { jsonBytes } from '../base/json-bytes.ts';
import { windlassAnnotation } from '../core/well-known.ts';

/** Who gave an order, and when (RFC 3339 in UTC). */
export interface Order {
  readonly by: string;
  readonly at: string;
}

export interface RollOutOrders {
  /** Incremented by every change, so that an older copy can be detected. */
  readonly version: number;
  /** The revision that the spec had when they were given. For another revision all but `paused` are void. */
  readonly revision: string;
  /** No further pod is disrupted until `resume`. */
  readonly paused?: Order;
  /** No further pod is disrupted for this revision until `resume` or `retry`. */
  readonly aborted?: Order;
  /** Pods of the revision, and new pods, are to have this revision instead. */
  readonly undo?: Order & { readonly to: string };
  /** Names of pods to leave out. */
  readonly skip?: readonly string[];
  /** The keys of the last commands that were applied, the latest last: one that is given once more changes nothing. */
  readonly applied?: readonly string[];
}

/** Orders travel through histories, and the names of skipped pods are what grows in them. As JSON. */
export const mostSkipBytes = 1_800;

/**
 * What is read of orders, as anybody may have written them: numbers of characters, and of entries in `skip` and `applied`. A
 * version is far from what a number can count.
 */
export const ordersLimit = {
  ...{ version: 1e15, revision: 253, by: 256, at: 64, skip: 450, name: 320 },
  /** Keys of commands, and the characters of one. */
  ...{ applied: 16, key: 80 },
} as const;

/** An object that operators may have given orders for. */
export interface OrderedObject {
  readonly metadata: { readonly annotations?: Readonly<Record<string, string>> };
  readonly status?: { readonly rollOut?: RollOutOrders };
}

/**
 * The orders for an object; undefined when there are none. Until the leading watcher has moved them, those of release 0.1.0 are
 * in an annotation, which counts for nothing once there are orders in the status.
 */
export function ordersOf({ metadata, status }: OrderedObject): RollOutOrders | undefined {
  return status?.rollOut === undefined
    ? ordersIn(metadata.annotations?.[windlassAnnotation.rollOut])
    : readOrders(status.rollOut);
}

/** Whether the object has the annotation of release 0.1.0. */
export function hasOrdersAnnotation({ metadata }: OrderedObject): boolean {
  return metadata.annotations?.[windlassAnnotation.rollOut] !== undefined;
}

function ordersIn(text: string | undefined): RollOutOrders | undefined {
  if (text === undefined) return undefined;
  try {
    return readOrders(JSON.parse(text));
  } catch {
    return undefined;
  }
}

/** Whether they contain any order. */
export function isSaying({ paused, aborted, undo, skip = [] }: RollOutOrders): boolean {
  return [paused, aborted, undo].some((order) => order !== undefined) || skip.length > 0;
}

/** Parses orders from JSON. Invalid parts are left out; undefined when it is unknown which revision they are about. */
export function readOrders(value: unknown): RollOutOrders | undefined {
  if (!isJsonObject(value)) return undefined;
  const { version, undo, skip } = value;
  const revision = readRevision(value.revision);
  if (!isVersion(version) || revision === undefined) return undefined;
  const paused = readOrder(value.paused);
  const aborted = readOrder(value.aborted);
  const undone = readOrder(undo);
  const to = readRevision(isJsonObject(undo) ? undo.to : undefined);
  const names = readNames(skip);
  const applied = readKeys(value.applied);
  return {
    version,
    revision,
    ...(paused && { paused }),
    ...(aborted && { aborted }),
    ...(undone && to !== undefined && { undo: { ...undone, to } }),
    ...(names.length > 0 && { skip: names }),
    ...(applied.length > 0 && { applied }),
  };
}

function isVersion(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0 && Number(value) <= ordersLimit.version;
}

function readRevision(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' && value.length <= ordersLimit.revision ? value : undefined;
}

function readOrder(value: Json | undefined): Order | undefined {
  if (!isJsonObject(value)) return undefined;
  const textOf = (field: unknown, most: number) => (typeof field === 'string' ? field.slice(0, most) : '');
  return { by: textOf(value.by, ordersLimit.by), at: textOf(value.at, ordersLimit.at) };
}

/** The first of the names that fit. */
function readNames(value: Json | undefined): readonly string[] {
  let bytes = 1;
  return listOr(value)
    .slice(0, ordersLimit.skip)
    .filter((name) => typeof name === 'string')
    .filter(({ length }) => length <= ordersLimit.name)
    .filter((name) => {
      bytes += jsonBytes(name) + 1;
      return bytes <= mostSkipBytes;
    });
}

function readKeys(value: Json | undefined): readonly string[] {
  return listOr(value)
    .filter((key) => typeof key === 'string')
    .filter(({ length }) => length <= ordersLimit.key)
    .slice(-ordersLimit.applied);
}
