import { isJsonObject } from './json.ts';
import type { NodeRef, ObjectRef, PodRef } from './refs.ts';

/** Task queues. A node's queue carries the UID of the Node, so a rebuilt node never sees work of its predecessor. */
export const queues = {
  cluster: 'cluster',
  fleet: 'fleet',
  node: (nodeUid: string): string => `node/${nodeUid}`,
} as const;

/** The internal signal that tells an operation that what it works on has changed. */
export const changedSignal = 'changed';

/** The commands of operators: Temporal signals of exactly these names. */
export const commandNames = ['pause', 'resume', 'retry', 'skip', 'abort'] as const;

export type CommandName = (typeof commandNames)[number];

export function isCommandName(text: string): text is CommandName {
  return commandNames.some((name) => name === text);
}

/** What a command may carry. All of it is optional, and anything else is ignored. */
export interface CommandPayload {
  readonly by?: string;
  readonly target?: string;
  /** A command that comes twice under the same ID counts once. */
  readonly id?: string;
}

/** What an Event about the object says of a command: `Paused by alice`, `Skipped app by alice`. */
export function commandEvent(
  name: CommandName,
  by: string,
  target?: string,
): { readonly reason: string; readonly message: string } {
  const reason = { pause: 'Paused', resume: 'Resumed', retry: 'Retried', skip: 'Skipped', abort: 'Aborted' }[name];
  return { reason, message: `${reason}${target === undefined ? '' : ` ${target}`} by ${by}` };
}

/** Reads whatever a person has sent with a signal: an object with `by` and `target`, null, nothing, or anything else. */
export function parseCommandPayload(payload: unknown): CommandPayload {
  if (typeof payload !== 'object' || payload === null) return {};
  const { by, target, id } = payload as { by?: unknown; target?: unknown; id?: unknown };
  return {
    ...(typeof by === 'string' && by !== '' ? { by: by.slice(0, 253) } : {}),
    ...(typeof target === 'string' && target !== '' ? { target: target.slice(0, 253) } : {}),
    ...(typeof id === 'string' && id !== '' ? { id: id.slice(0, 253) } : {}),
  };
}

/** Reads a command from an annotation: its name, and its target behind a blank. Undefined when it is none. */
export function parseCommandText(text: string): { readonly name: CommandName; readonly target?: string } | undefined {
  const [name = '', target, ...rest] = text.trim().split(/\s+/);
  if (!isCommandName(name) || rest.length > 0) return undefined;
  return { name, ...(target === undefined ? {} : { target }) };
}

/** Search attributes of every operation, all of type Keyword. */
export const searchAttributes = {
  kind: 'WindlassKind',
  namespace: 'WindlassNamespace',
  name: 'WindlassName',
  node: 'WindlassNode',
  phase: 'WindlassPhase',
  reason: 'WindlassReason',
} as const;

/** Restarts containers of one pod. The ID makes it the only path to a stop of any container of that pod. */
export const restartContainersType = 'restartContainers';

export function restartContainersId(podUid: string): string {
  return `restart-containers/${podUid}`;
}

/** What a run of `restartContainers` is started with. */
export interface RestartOperation {
  readonly request: ObjectRef;
  readonly pod: PodRef;
  /** The node as the watcher saw it last; the operation itself looks again. */
  readonly node: NodeRef;
}

/** What the `changed` signal of `restartContainers` carries. */
export interface RestartChanged {
  /** The request that should be worked on: this one, or the next of the same pod. */
  readonly operation: RestartOperation;
  /** Grows with every change that an operation has to look at. */
  readonly generation: number;
  /** The request went away: whoever works on it stops nothing further, and nobody goes on to it. */
  readonly withdrawn?: boolean;
}

/** Reads the signal `changed`. Nothing but what the watcher sends names an operation; all else is a wish to look again. */
export function parseRestartChanged(payload: unknown): Partial<RestartChanged> {
  if (!isJsonObject(payload) || !isJsonObject(payload.operation)) return {};
  const { request, pod, node } = payload.operation;
  if (!isRef(request) || !isRef(pod) || !isJsonObject(node)) return {};
  if (typeof node.name !== 'string' || typeof node.uid !== 'string') return {};
  return {
    operation: { request: refOf(request), pod: refOf(pod), node: { name: node.name, uid: node.uid } },
    generation: typeof payload.generation === 'number' ? payload.generation : 0,
    withdrawn: payload.withdrawn === true,
  };
}

function isRef(value: unknown): value is ObjectRef {
  if (!isJsonObject(value)) return false;
  return [value.namespace, value.name, value.uid].every((part) => typeof part === 'string');
}

function refOf({ namespace, name, uid }: ObjectRef): ObjectRef {
  return { namespace, name, uid };
}
