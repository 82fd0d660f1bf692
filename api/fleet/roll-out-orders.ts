// What operators have decided about the roll-out of a fleet object, beyond what its spec says.
//
// It stands as JSON in the annotation windlass.io/roll-out of the object, because it has to hold while Temporal is away,
// after it has lost its database, and when nothing is left to roll out: pods that are made anew after an undo have to be
// of the previous revision. The roll-out decides it and has the leading watcher write it; the leading watcher itself takes
// off what has become void. People give commands instead of editing it.
import { isJsonObject, type Json } from '../base/json.ts';
import { windlassAnnotation } from '../core/well-known.ts';

/** Who gave an order, and when, RFC 3339 in UTC. */
export interface Order {
  readonly by: string;
  readonly at: string;
}

export interface RollOutOrders {
  /** Grows with every change, so that an older copy is known as such. */
  readonly version: number;
  /** The revision that the spec asked for when they were given. For another one all but `paused` is void. */
  readonly revision: string;
  /** Nothing new is disrupted until somebody resumes. */
  readonly paused?: Order;
  /** Nothing new is disrupted for this revision until somebody resumes or retries. */
  readonly aborted?: Order;
  /** Pods of the revision are to be of this one instead, and new pods, too. */
  readonly undo?: Order & { readonly to: string };
  /** Names of pods to leave out. */
  readonly skip?: readonly string[];
}

/** The orders in the annotation of an object; undefined when there are none, or none that can be read. */
export function ordersOf({ metadata }: { readonly metadata: { readonly annotations?: Annotations } }) {
  const text = metadata.annotations?.[windlassAnnotation.rollOut];
  if (text === undefined) return undefined;
  try {
    return readOrders(JSON.parse(text));
  } catch {
    return undefined;
  }
}

type Annotations = Readonly<Record<string, string>>;

/** The annotations that say this; `null` takes them off. */
export function ordersAnnotation(orders: RollOutOrders | undefined): Readonly<Record<string, string | null>> {
  return { [windlassAnnotation.rollOut]: orders && isSaying(orders) ? JSON.stringify(orders) : null };
}

/** Whether they order anything. */
export function isSaying({ paused, aborted, undo, skip = [] }: RollOutOrders): boolean {
  return [paused, aborted, undo].some((order) => order !== undefined) || skip.length > 0;
}

/** Reads orders from JSON. What is not as we write it is left out; undefined when nobody can tell what they are about. */
export function readOrders(value: unknown): RollOutOrders | undefined {
  if (!isJsonObject(value)) return undefined;
  const { version, revision, undo, skip } = value;
  if (typeof version !== 'number' || typeof revision !== 'string' || revision === '') return undefined;
  const paused = readOrder(value.paused);
  const aborted = readOrder(value.aborted);
  const undone = readOrder(undo);
  const to = isJsonObject(undo) ? undo.to : undefined;
  const names = Array.isArray(skip) ? skip.filter((name) => typeof name === 'string') : [];
  return {
    version,
    revision,
    ...(paused && { paused }),
    ...(aborted && { aborted }),
    ...(undone && typeof to === 'string' && to !== '' && { undo: { ...undone, to } }),
    ...(names.length > 0 && { skip: names }),
  };
}

function readOrder(value: Json | undefined): Order | undefined {
  if (!isJsonObject(value)) return undefined;
  const { by, at } = value;
  return { by: typeof by === 'string' ? by : '', at: typeof at === 'string' ? at : '' };
}
