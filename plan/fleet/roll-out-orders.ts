/** What becomes of the orders of operators: by the next command, by another revision, and once they are through. */

import { jsonBytes } from '../../api/base/json-bytes.ts';
import { type PodRef, qualifiedName } from '../../api/core/refs.ts';
import { windlassAnnotation } from '../../api/core/well-known.ts';
import type { CommandAnswer, CommandName } from '../../api/engine/operations.ts';
import {
  hasOrdersAnnotation,
  isSaying,
  mostSkipBytes,
  type Order,
  type OrderedObject,
  ordersLimit,
  ordersOf,
  type RollOutOrders,
} from '../../api/fleet/roll-out-orders.ts';
import { fitting, listed, shortened } from '../text-size.ts';
import type { Undo } from './permit.ts';

/** A command as the leading watcher applies it. */
export interface OrderCommand {
  /** The same each time it is given: it is applied once. At most `ordersLimit.key` characters. */
  readonly key: string;
  readonly name: CommandName;
  /** Empty until it is known. */
  readonly by: string;
  /** RFC 3339 in UTC. */
  readonly at: string;
  /** The names of the pods that it is about. Absent: the whole roll-out. */
  readonly pods?: readonly string[];
  /** What `resume` takes back, as its sender has seen it. Absent: what was ordered last. */
  readonly takesBack?: TakesBack;
}

/** `unwritten`: a hold that was given a moment before, and may not stand in the object yet. */
export type TakesBack = 'hold' | 'undo' | 'unwritten';

/** What a command is applied to. */
export interface OrderScene {
  readonly orders: RollOutOrders | undefined;
  /** The revision that the spec asks for. */
  readonly revision: string;
  /** What an undo returns to. */
  readonly previous?: string;
  /** What speaks against it. Absent: nothing is known. */
  readonly previousDoubt?: string;
  /** Why there is none although an earlier revision is kept. Absent: none is kept. */
  readonly noUndo?: string;
  /** The wall clock. Absent: no order is from the future. */
  readonly nowMs?: number;
}

/** The clocks of those who give and apply commands differ by less. */
const clockSkewMs = 60_000;

/** What a person sees who gives a command. */
export interface SceneOfSender {
  readonly orders: RollOutOrders | undefined;
  /** A hold that was given may not stand in the object yet. */
  readonly isHolding?: boolean;
  /** What the roll-out waits for, as `kind/name`: what `skip` without a target leaves out. Absent: whoever applies it knows. */
  readonly blockedBy?: readonly string[];
  /** The names of the pods of each batch in flight. */
  readonly batches: ReadonlyMap<number, readonly string[]>;
  /**
   * Of the object, and so of its pods. Empty: the object has none, and names of pods have theirs. Absent: any may stand
   * before the name of a pod.
   */
  readonly namespace?: string;
}

const mostNameBytes = 120;

/** A roll-out is told of a wait once it has lasted for 5 s, and the status says it at once. */
const noPodInTheWay = 'it has no target, and the roll-out has not waited for a pod for 5 s; name the pod';

/** Names of pods in an Event. */
const mostListBytes = 300;

/** What a command is about, or why it is about nothing. */
export type Understood = Pick<OrderCommand, 'pods' | 'takesBack'> | { readonly refused: string };

/**
 * What a person means by a command. `target` is `web-3`, `pod/web-3`, `shop/web-3`, or `batch 3` for all pods of that batch;
 * a `skip` without one leaves out what the roll-out waits for.
 */
export function understood(
  { name, target }: { readonly name: CommandName; readonly target?: string | undefined },
  scene: SceneOfSender,
): Understood {
  if (name === 'resume') {
    if (scene.isHolding) return { takesBack: 'unwritten' };
    if (isHeld(scene.orders)) return { takesBack: 'hold' };
    return scene.orders?.undo ? { takesBack: 'undo' } : {};
  }
  if (target !== undefined) {
    const pods = podsNamed(target, scene);
    return typeof pods === 'string' ? { refused: pods } : { pods };
  }
  if (name !== 'skip' || scene.blockedBy === undefined) return {};
  const pods = podsIn(scene.blockedBy);
  return pods.length === 0 ? { refused: noPodInTheWay } : { pods };
}

/** The orders once a command is applied, and what has become of it. A command that is refused changes nothing. */
export interface OrdersAfter {
  /** Absent: they stay as they are. */
  readonly orders?: RollOutOrders;
  readonly answer: CommandAnswer;
}

export function ordersAfter(command: OrderCommand, scene: OrderScene): OrdersAfter {
  const { revision, previous } = scene;
  const before = ordersFor(scene.orders, revision);
  const { paused, aborted, undo, skip, applied = [] } = before ?? {};
  const { key, pods = [] } = command;
  const order: Order = { by: shortened(command.by, mostNameBytes), at: command.at };
  const kept = { ...(paused && { paused }), ...(aborted && { aborted }), ...(undo && { undo }), ...(skip && { skip }) };
  const obeyed = (orders: Omit<RollOutOrders, 'version' | 'revision' | 'applied'>, answer: CommandAnswer = {}) => ({
    orders: {
      ...{ version: (before?.version ?? 0) + 1, revision, ...orders },
      applied: [...applied, key].slice(-ordersLimit.applied),
    },
    answer,
  });
  const refused = (why: string): OrdersAfter => ({ answer: { refused: why } });
  // A command that arrives late, as one that was refused before, takes nothing back that was ordered after it was given. A time in
  // the future comes from a wrong clock or an edit of the status, and must not keep an order in effect until then.
  const latestMs = (scene.nowMs ?? Number.POSITIVE_INFINITY) + clockSkewMs;
  const isLater = (order: Order | undefined) =>
    order !== undefined && Date.parse(order.at) > Date.parse(command.at) && Date.parse(order.at) <= latestMs;
  const later = { ...(paused && isLater(paused) && { paused }), ...(aborted && isLater(aborted) && { aborted }) };
  const latest = (before: Order | undefined) => (before?.by && isLater(before) ? before : order);
  // an earlier attempt has applied it, and its answer was lost
  if (applied.includes(key)) return { answer: command.name === 'undo' ? { target: undo?.to } : about(pods) };
  switch (command.name) {
    case 'pause':
      return obeyed({ ...kept, paused: latest(paused) });
    case 'abort':
      return obeyed({ ...kept, aborted: latest(aborted) });
    case 'resume': {
      const { paused: _, aborted: __, ...others } = kept;
      const { undo: ___, ...rolledOut } = others;
      const { takesBack } = command;
      // the last thing that was ordered is taken back first
      const holds = [paused, aborted].filter((one) => one !== undefined);
      if (holds.some((one) => !isLater(one)) && takesBack !== 'undo') return obeyed({ ...others, ...later });
      const [newer] = holds;
      if (newer && takesBack !== 'undo')
        return refused(`${newer.by || 'an operator'} has held it since, at ${newer.at}`);
      if (takesBack === 'unwritten') return { answer: {} };
      // holds that its sender has not seen stay
      const unseen = { ...(paused && { paused }), ...(aborted && { aborted }) };
      if (undo && takesBack !== 'hold')
        return obeyed({ ...rolledOut, ...unseen }, { note: `the undo is taken back: pods get revision ${revision}` });
      return refused('it is neither paused nor aborted nor undone');
    }
    case 'retry': {
      const { aborted: _, skip: skipped = [], ...unheld } = kept;
      const others = { ...unheld, ...later };
      if (command.pods === undefined) return obeyed(others, about(skipped));
      const again = skipped.filter((name) => pods.includes(name));
      if (again.length === 0 && !aborted) {
        const those = skipped.length === 0 ? 'no pod is' : `skipped: ${listed(skipped, mostListBytes)}`;
        return refused(`${listed(pods, mostNameBytes)} is not skipped; ${those}`);
      }
      const left = skipped.filter((name) => !pods.includes(name));
      return obeyed({ ...others, ...(left.length > 0 && { skip: left }) }, about(again));
    }
    case 'undo': {
      const to = undo?.to ?? previous;
      if (to === undefined) return refused(scene.noUndo ?? 'no earlier revision is kept');
      const note = to === previous ? scene.previousDoubt : undefined;
      return obeyed(
        { ...later, undo: undo ?? { ...order, to } },
        { target: to, ...(note && { note, isWarning: true }) },
      );
    }
    case 'skip': {
      const skips = pods.filter((name) => !skip?.includes(name));
      if (skips.length === 0) return refused(`skipped already: ${listed(pods, mostListBytes)}`);
      const all = [...(skip ?? []), ...skips];
      if (jsonBytes(all) > mostSkipBytes)
        return refused('no more pods can be skipped; retry includes the skipped pods again');
      return obeyed({ ...kept, skip: all }, about(skips));
    }
  }
}

function about(pods: readonly string[]): CommandAnswer {
  return pods.length === 0 ? {} : { target: listed(pods, mostListBytes) };
}

/** A pod of an object. */
export interface PodOfFleet {
  /** As orders name it: with its namespace if the object has none. */
  readonly name: string;
  /** It is unavailable, and counted by maxUnavailable also while it is skipped. */
  readonly spendsBudget: boolean;
}

/** A `skip` without the pods that the object does not have; or why nothing is left of it. */
export function skipOfPods(
  command: OrderCommand,
  present: readonly PodOfFleet[],
): OrderCommand | { readonly refused: string } {
  const { pods = [] } = command;
  const names = present.map(({ name }) => name);
  const known = pods.filter((name) => names.includes(name));
  if (known.length > 0) return { ...command, pods: known };
  const first = fitting(names.toSorted(), mostListBytes);
  const more = names.length > first.length ? ` and ${names.length - first.length} more` : '';
  const has = names.length === 0 ? 'it has none' : `it has ${first.join(', ')}${more}`;
  return { refused: `${listed(pods, mostNameBytes)} is none of its pods: ${has}` };
}

/** What the sender of a `skip` has to know of its effect. */
export function noteOnSkip(pods: readonly string[], present: readonly PodOfFleet[]): Pick<CommandAnswer, 'note'> {
  const still = present.filter(({ name, spendsBudget }) => spendsBudget && pods.includes(name));
  if (still.length === 0) return {};
  const names = listed(
    still.map(({ name }) => name),
    mostListBytes,
  );
  return { note: `still unavailable, and so still counted by maxUnavailable: ${names}` };
}

/** The pods that a target names, or why it names none. */
function podsNamed(
  target: string,
  { batches, namespace }: Pick<SceneOfSender, 'batches' | 'namespace'>,
): readonly string[] | string {
  const [, batch] = /^batch[ /#]?(\d{1,9})$/i.exec(target.trim()) ?? [];
  if (batch !== undefined) {
    return batches.get(Number(batch)) ?? `batch ${batch} is not in flight; name its pods`;
  }
  const name = podName(target);
  const slash = name.indexOf('/');
  if (namespace === '') return slash < 0 ? 'it must name the namespace of the pod, as in shop/web-3' : [name];
  if (slash < 0) return [name];
  const of = name.slice(0, slash);
  if (namespace && of !== namespace)
    return `its pods are in namespace ${namespace}, not in ${shortened(of, mostNameBytes)}`;
  return [name.slice(slash + 1)];
}

/** The name of a pod as orders for an object of this namespace have it. An object without a namespace has pods in many. */
export function nameInOrders(pod: Pick<PodRef, 'namespace' | 'name'>, namespaceOfObject = ''): string {
  return namespaceOfObject === '' ? qualifiedName(pod) : pod.name;
}

function podName(target: string): string {
  return target.replace(/^pod\//i, '');
}

function podsIn(blockedBy: readonly string[]): readonly string[] {
  return blockedBy.filter((name) => name.startsWith('pod/')).map(podName);
}

/** What holds for this revision: for another than it was given for only a pause does. */
export function ordersFor(orders: RollOutOrders | undefined, revision: string): RollOutOrders | undefined {
  if (orders === undefined || orders.revision === revision) return orders;
  const { version, paused, applied } = orders;
  return { version: version + 1, revision, ...(paused && { paused }), ...(applied && { applied }) };
}

/**
 * The orders that the status of an object should contain: what is void goes, and when all pods are where the spec wants them
 * there is nothing left to order. What an undo has made of them stays, as it is about later pods, too.
 */
export function keptOrders(
  object: OrderedObject,
  { revision, isRolledOut }: { readonly revision: string; readonly isRolledOut: boolean },
): RollOutOrders | undefined {
  const orders = ordersOf(object);
  if (orders === undefined) return undefined;
  const valid = isRolledOut ? undefined : ordersFor(orders, revision);
  // a command that is given once more has to be known
  if (valid && (isSaying(valid) || valid.applied)) return valid;
  // without orders in the status those of the annotation would count again
  return hasOrdersAnnotation(object) ? { version: orders.version, revision } : undefined;
}

/** Whether the annotation of release 0.1.0 is to be removed: the status has what it says. */
export function isOrdersAnnotationRead(object: OrderedObject): boolean {
  return hasOrdersAnnotation(object) && (object.status?.rollOut !== undefined || ordersOf(object) === undefined);
}

/** The write that removes the annotation of release 0.1.0. */
export const withoutOrdersAnnotation = { metadata: { annotations: { [windlassAnnotation.rollOut]: null } } } as const;

/** Whether an operator holds the roll-out. */
export function isHeld(orders: RollOutOrders | undefined): boolean {
  return orders?.paused !== undefined || orders?.aborted !== undefined;
}

/** The undo that is ordered. */
export function undoOf(orders: RollOutOrders | undefined): Undo | undefined {
  return orders?.undo && { from: orders.revision, to: orders.undo.to };
}

/** The orders as a roll-out is told of them; undefined when they say nothing. An undo without a revision to go to holds only. */
export function toldOrders(orders: RollOutOrders | undefined, isUndoLost = false): RollOutOrders | undefined {
  if (orders === undefined) return undefined;
  const { applied: _, undo, ...others } = orders;
  const told = { ...others, ...(undo && !isUndoLost && { undo }) };
  return isSaying(told) ? told : undefined;
}
