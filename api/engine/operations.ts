import { isJsonObject } from '../base/json.ts';
import type { NodeRef, ObjectRef, PodRef } from '../core/refs.ts';
import { type RollOutOrders, readOrders } from '../fleet/roll-out-orders.ts';

/** Task queues. A node's queue carries the UID of the Node, so a rebuilt node never sees work of its predecessor. */
export const queues = {
  cluster: 'cluster',
  fleet: 'fleet',
  node: (nodeUid: string): string => `node/${nodeUid}`,
} as const;

/** The internal signal that tells an operation that what it works on has changed. */
export const changedSignal = 'changed';

/** Asks a run to go on in another one at its next safe point, on the version of the workers that is current then. */
export const handOverSignal = 'handOver';

/** The commands of operators that every operation understands: Temporal signals of exactly these names. */
export const commandNames = ['pause', 'resume', 'retry', 'skip', 'abort'] as const;

/** What is rolled out can be taken back, too. */
export const rollOutCommandNames = [...commandNames, 'undo'] as const;

/** A command of any operation. */
export type CommandName = (typeof rollOutCommandNames)[number];

/** Whether the text is the name of one of these commands. */
export function isCommandName<Name extends CommandName>(text: string, understood: readonly Name[]): text is Name {
  return understood.some((name) => name === text);
}

/** What a command may carry. All of it is optional, and anything else is ignored. */
export interface CommandPayload {
  readonly by?: string;
  readonly target?: string;
  /** A command that comes twice under the same ID counts once. */
  readonly id?: string;
  /**
   * UID of the ContainerRecreateRequest that it is meant for: requests of one pod follow one another under one workflow
   * ID. Absent: it is for the one that is being worked on.
   */
  readonly request?: string;
}

/** What an Event about the object says of a command: `Paused by alice`, `Skipped app by alice`. */
export function commandEvent(
  name: CommandName,
  by: string,
  target?: string,
): { readonly reason: string; readonly message: string } {
  const reason = commandReasons[name];
  return { reason, message: `${reason}${target === undefined ? '' : ` ${target}`} by ${by}` };
}

/** What an Event says of a command that had no effect. */
export function refusedCommandEvent(
  name: CommandName,
  by: string,
  why: string,
): { readonly reason: string; readonly message: string } {
  return { reason: 'CommandRefused', message: `Command ${name} by ${by} has no effect: ${why}` };
}

/** What an Event says of an annotation that is no command, which is taken off. */
export function unreadableCommandEvent(
  text: string,
  understood: readonly CommandName[],
): { readonly reason: string; readonly message: string } {
  const quoted = JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text);
  const expected = `one of ${understood.join(', ')}, optionally followed by a space and a target of at most ${longestTarget} characters`;
  return { reason: 'CommandRefused', message: `Command ${quoted} is invalid and was removed: must be ${expected}` };
}

const commandReasons = {
  pause: 'Paused',
  resume: 'Resumed',
  retry: 'Retried',
  skip: 'Skipped',
  abort: 'Aborted',
  undo: 'Undone',
} as const satisfies Record<CommandName, string>;

/** Reads whatever a person has sent with a signal: an object with `by` and `target`, null, nothing, or anything else. */
export function parseCommandPayload(payload: unknown): CommandPayload {
  if (typeof payload !== 'object' || payload === null) return {};
  const { by, target, id, request } = payload as Readonly<Record<keyof CommandPayload, unknown>>;
  return {
    ...(typeof by === 'string' && by !== '' ? { by: by.slice(0, 253) } : {}),
    ...(typeof target === 'string' && target !== '' ? { target: target.slice(0, 253) } : {}),
    ...(typeof id === 'string' && id !== '' ? { id: id.slice(0, 253) } : {}),
    ...(typeof request === 'string' && request !== '' ? { request: request.slice(0, 253) } : {}),
  };
}

/** Names of objects and containers are not longer; what is given with a signal is cut there. */
const longestTarget = 253;

/**
 * Reads a command from an annotation: its name, and its target behind a blank. Undefined when it is none of these, or its
 * target is longer than any name.
 */
export function parseCommandText<Name extends CommandName>(
  text: string,
  understood: readonly Name[],
): { readonly name: Name; readonly target?: string } | undefined {
  const [name = '', target, ...rest] = text.trim().split(/\s+/);
  if (!isCommandName(name, understood) || rest.length > 0) return undefined;
  if (target !== undefined && target.length > longestTarget) return undefined;
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

/**
 * The other work of `restartContainers`: to stop the containers of a pod whose environment is older than its labels and
 * annotations. Which ones is read from the pod. Nobody has made a request for it: it is part of an update in place.
 */
export interface RefreshOperation {
  readonly refresh: 'environment';
  readonly pod: PodRef;
  /** The node as the watcher saw it last; the operation itself looks again. */
  readonly node: NodeRef;
}

/** All for which containers of one pod are stopped. */
export type RestartWork = RestartOperation | RefreshOperation;

/** Whether two pieces of work on the same pod are the same: the same request, or both its environment. */
export function isSameWork(left: RestartWork, right: RestartWork): boolean {
  if ('refresh' in left || 'refresh' in right) return 'refresh' in left && 'refresh' in right;
  return left.request.uid === right.request.uid;
}

/** What the `changed` signal of `restartContainers` carries. */
export interface RestartChanged {
  /** What should be worked on: this, or the next work on the same pod. */
  readonly operation: RestartWork;
  /** Grows with every change that an operation has to look at. */
  readonly generation: number;
  /** The request went away: whoever works on it stops nothing further, and nobody goes on to it. */
  readonly withdrawn?: boolean;
}

/** Reads the signal `changed`. Nothing but what the watcher sends names an operation; all else is a wish to look again. */
export function parseRestartChanged(payload: unknown): Partial<RestartChanged> {
  if (!isJsonObject(payload) || !isJsonObject(payload.operation)) return {};
  const { request, refresh, pod, node } = payload.operation;
  if (!isRef(pod) || !isJsonObject(node)) return {};
  if (typeof node.name !== 'string' || typeof node.uid !== 'string') return {};
  const target = { pod: refOf(pod), node: { name: node.name, uid: node.uid } };
  if (!isRef(request) && refresh !== 'environment') return {};
  return {
    operation: isRef(request) ? { request: refOf(request), ...target } : { refresh: 'environment', ...target },
    generation: typeof payload.generation === 'number' ? payload.generation : 0,
    withdrawn: payload.withdrawn === true,
  };
}

/**
 * Rolls out a change of one fleet object of any kind: one run for as long as there is something to roll out. It gives the
 * leave to disrupt; the leading watcher does it.
 */
export const rollOutType = 'rollOut';

export function rollOutId(uid: string): string {
  return `roll-out/${uid}`;
}

/** What a run of `rollOut` is started with. */
export interface RollOutOperation {
  /** `CloneSet`. */
  readonly kind: string;
  readonly target: ObjectRef;
  /** The object as the watcher saw it last. */
  readonly facts: RollOutFacts;
}

/** What a roll-out has to know of its object. The signal `changed` carries it anew. */
export interface RollOutFacts {
  /** Of the object; grows with every change of its spec. */
  readonly generation: number;
  /** The revision that the spec asks for. */
  readonly revision: string;
  /** The revision that an undo would return to. Absent: none is kept. */
  readonly previous?: string;
  /** How many pods the object wants. */
  readonly replicas: number;
  /** What operators have decided, as it stands in the object. */
  readonly orders?: RollOutOrders;
}

/** What the signal `changed` of `rollOut` carries. */
export type RollOutChanged = RollOutFacts | { readonly withdrawn: true };

/** Reads the signal `changed`. Nothing but what the watcher sends is believed; all else is a wish to look again. */
export function parseRollOutChanged(payload: unknown): RollOutChanged | undefined {
  if (!isJsonObject(payload)) return undefined;
  if (payload.withdrawn === true) return { withdrawn: true };
  const { generation, revision, previous, replicas } = payload;
  if (typeof generation !== 'number' || typeof replicas !== 'number') return undefined;
  if (typeof revision !== 'string' || revision === '') return undefined;
  const orders = readOrders(payload.orders);
  return {
    generation,
    revision,
    replicas,
    ...(typeof previous === 'string' && previous !== '' && { previous }),
    ...(orders && { orders }),
  };
}

function isRef(value: unknown): value is ObjectRef {
  if (!isJsonObject(value)) return false;
  return [value.namespace, value.name, value.uid].every((part) => typeof part === 'string');
}

function refOf({ namespace, name, uid }: ObjectRef): ObjectRef {
  return { namespace, name, uid };
}

/** Ends the sidecars of one pod whose main containers are done. What it stops goes through `restartContainers`. */
export const terminateSidecarsType = 'terminateSidecars';

export function terminateSidecarsId(podUid: string): string {
  return `terminate-sidecars/${podUid}`;
}

/** What a run of `terminateSidecars` is started with. */
export interface SidecarOperation {
  readonly pod: PodRef;
}

/** Keeps the images of one node true. The ID makes it the only path to a pull on that node. */
export const pullImagesType = 'pullImages';

export function pullImagesId(nodeImageUid: string): string {
  return `pull-images/${nodeImageUid}`;
}

/** What a run of `pullImages` is started with. */
export interface PullOperation {
  readonly nodeImage: NodeRef;
  /** The node as the watcher saw it last; a newer one comes with `changed`. */
  readonly node: NodeRef;
}

/** What the `changed` signal of `pullImages` carries. */
export interface PullChanged {
  readonly node: NodeRef;
}

/** Reads the signal `changed`. All that the watcher does not send is a wish to look again. */
export function parsePullChanged(payload: unknown): Partial<PullChanged> {
  if (!isJsonObject(payload) || !isJsonObject(payload.node)) return {};
  const { name, uid } = payload.node;
  return typeof name === 'string' && typeof uid === 'string' ? { node: { name, uid } } : {};
}

/** Steers the pull of one image on many nodes, which the watcher carries out. */
export const pullOnNodesType = 'pullOnNodes';

export function pullOnNodesId(jobUid: string): string {
  return `pull-on-nodes/${jobUid}`;
}

/** What a run of `pullOnNodes` is started with: an ImagePullJob. */
export interface PullJobOperation {
  readonly job: ObjectRef;
}
