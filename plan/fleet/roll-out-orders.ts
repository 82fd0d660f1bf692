/** What becomes of the orders of operators: by the next command, by another revision, and once they are through. */

import { jsonBytes } from '../../api/base/json-bytes.ts';
import { windlassAnnotation } from '../../api/core/well-known.ts';
import type { CommandAnswer, CommandName } from '../../api/engine/operations.ts';
import {
  hasOrdersAnnotation,
  isSaying,
  mostSkipBytes,
  type Order,
  type OrderedObject,
  ordersOf,
  type RollOutOrders,
} from '../../api/fleet/roll-out-orders.ts';
import { fitting, listed, shortened } from '../text-size.ts';
import type { Permit, Undo } from './permit.ts';

/** A command as far as it is about orders. */
export interface OrderCommand {
  readonly name: CommandName;
  /** Empty until it is known. */
  readonly by: string;
  /** RFC 3339 in UTC. */
  readonly at: string;
  /** `web-3`, `pod/web-3`, `shop/web-3`, or `batch 3` for all pods of that batch. */
  readonly target?: string;
}

/** What the command is given to. */
export interface OrderScene {
  readonly orders: RollOutOrders | undefined;
  /** The orders that were last seen in the object. Absent: none. */
  readonly inObject?: RollOutOrders;
  /** The revision that the spec asks for. */
  readonly revision: string;
  /** What an undo returns to. */
  readonly previous?: string;
  /** What speaks against it. Absent: nothing is known. */
  readonly previousDoubt?: string;
  /** Why there is none although an earlier revision is kept. Absent: none is kept. */
  readonly noUndo?: string;
  /** What the roll-out waits for, as `kind/name`: what `skip` without a target leaves out. */
  readonly blockedBy: readonly string[];
  /** The names of the pods of each batch in flight. Absent: none is known. */
  readonly batches?: ReadonlyMap<number, readonly string[]>;
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

/** The orders once a command is obeyed, and what it was about; or why it cannot be. */
export type OrdersAfter =
  | {
      readonly orders: RollOutOrders;
      readonly answer: CommandAnswer;
      /** The pods that it skips. Absent: it skips none. */
      readonly skips?: readonly string[];
    }
  | { readonly refused: string };

export function ordersAfter(command: OrderCommand, scene: OrderScene): OrdersAfter {
  const { revision, previous } = scene;
  const before = ordersFor(scene.orders, revision);
  const { paused, aborted, undo, skip } = before ?? {};
  const order: Order = { by: shortened(command.by, mostNameBytes), at: command.at };
  const kept = { ...(paused && { paused }), ...(aborted && { aborted }), ...(undo && { undo }), ...(skip && { skip }) };
  const obeyed = (orders: Omit<RollOutOrders, 'version' | 'revision'>, answer: CommandAnswer = {}) => ({
    orders: { version: Math.max(scene.orders?.version ?? 0, scene.inObject?.version ?? 0) + 1, revision, ...orders },
    answer,
  });
  switch (command.name) {
    case 'pause':
      return obeyed({ ...kept, paused: paused ?? order });
    case 'abort':
      return obeyed({ ...kept, aborted: aborted ?? order });
    case 'resume': {
      const { paused: _, aborted: __, ...others } = kept;
      const { undo: ___, ...rolledOut } = others;
      // the last thing that was ordered is taken back first
      if (paused || aborted) return obeyed(others);
      if (undo) return obeyed(rolledOut, { note: `the undo is taken back: pods get revision ${revision}` });
      // of which this roll-out has received newer ones, so that they were put there again, as from an old manifest
      const left = ordersFor(scene.inObject, revision);
      if (left && (isHeld(left) || left.undo)) return obeyed({});
      return { refused: 'it is neither paused nor aborted nor undone' };
    }
    case 'retry': {
      const { aborted: _, skip: skipped = [], ...others } = kept;
      if (command.target === undefined) return obeyed(others, about(skipped));
      const names = podsNamed(command.target, scene);
      if (typeof names === 'string') return { refused: names };
      const again = skipped.filter((name) => names.includes(name));
      if (again.length === 0 && !aborted) {
        const those = skipped.length === 0 ? 'no pod is' : `skipped: ${listed(skipped, mostListBytes)}`;
        return { refused: `${listed(names, mostNameBytes)} is not skipped; ${those}` };
      }
      const left = skipped.filter((name) => !names.includes(name));
      return obeyed({ ...others, ...(left.length > 0 && { skip: left }) }, about(again));
    }
    case 'undo': {
      const to = undo?.to ?? previous;
      if (to === undefined) return { refused: scene.noUndo ?? 'no earlier revision is kept' };
      const note = to === previous ? scene.previousDoubt : undefined;
      return obeyed({ undo: undo ?? { ...order, to } }, { target: to, ...(note && { note, isWarning: true }) });
    }
    case 'skip': {
      const names = command.target === undefined ? podsIn(scene.blockedBy) : podsNamed(command.target, scene);
      if (typeof names === 'string') return { refused: names };
      if (names.length === 0) return { refused: noPodInTheWay };
      const skips = names.filter((name) => !skip?.includes(name));
      if (skips.length === 0) return { refused: `skipped already: ${listed(names, mostListBytes)}` };
      const all = [...(skip ?? []), ...skips];
      if (jsonBytes(all) > mostSkipBytes)
        return { refused: 'no more pods can be skipped; retry includes the skipped pods again' };
      return { ...obeyed({ ...kept, skip: all }, about(skips)), skips };
    }
  }
}

function about(pods: readonly string[]): CommandAnswer {
  return pods.length === 0 ? {} : { target: listed(pods, mostListBytes) };
}

/** The orders without the skips of these pods, which the object does not have. */
export function withoutSkips(orders: RollOutOrders, names: readonly string[]): RollOutOrders {
  const { skip = [], ...others } = orders;
  const left = skip.filter((name) => !names.includes(name));
  return left.length === 0 ? others : { ...others, skip: left };
}

/** What has become of the names of pods that were to be skipped. */
export interface CheckedSkips {
  /** No pod of the object has this name. */
  readonly unknown: readonly string[];
  /** They are unavailable, and counted by maxUnavailable also while they are skipped. */
  readonly unavailable: readonly string[];
  /** Pods that the object has, the first of them, and how many there are. */
  readonly pods: readonly string[];
  readonly count: number;
}

/** The answer to the command that skips these pods, once that is known. */
export function answerToSkip(names: readonly string[], checked: CheckedSkips | undefined): CommandAnswer {
  if (checked === undefined) return about(names);
  const { unknown, unavailable, pods, count } = checked;
  const known = names.filter((name) => !unknown.includes(name));
  if (known.length === 0) {
    const more = count > pods.length ? ` and ${count - pods.length} more` : '';
    const has = count === 0 ? 'it has none' : `it has ${pods.join(', ')}${more}`;
    return { refused: `${listed(names, mostNameBytes)} is none of its pods: ${has}` };
  }
  const still = known.filter((name) => unavailable.includes(name));
  if (still.length === 0) return about(known);
  const note = `still unavailable, and so still counted by maxUnavailable: ${listed(still, mostListBytes)}`;
  return { ...about(known), note };
}

/**
 * Orders that were given without knowledge of newer ones, together with those. What either holds back is held back, since
 * it is unknown which of the two was meant to end it.
 */
export function joinedOrders(own: RollOutOrders | undefined, newer: RollOutOrders, revision: string): RollOutOrders {
  const { version: _, revision: __, skip: ownSkip = [], ...ownOrders } = ordersFor(own, revision) ?? newer;
  const { version, skip = [], ...orders } = ordersFor(newer, revision) ?? newer;
  const all = [...new Set([...skip, ...ownSkip])];
  const fit = fitting(all, mostSkipBytes);
  return {
    ...ownOrders,
    ...orders,
    version: version + 1,
    revision,
    ...(fit.length > 0 && { skip: fit }),
  };
}

/** The same orders under the name of who gave this command, which is learnt later. */
export function namedBy(
  orders: RollOutOrders,
  { name, at }: Pick<OrderCommand, 'name' | 'at'>,
  by: string,
): RollOutOrders {
  const field = ({ pause: 'paused', abort: 'aborted', undo: 'undo' } as const)[name as 'pause' | 'abort' | 'undo'];
  const order = field && orders[field];
  if (order?.at !== at || order.by !== '') return orders;
  return { ...orders, version: orders.version + 1, [field]: { ...order, by: shortened(by, mostNameBytes) } };
}

/** The pods that a target names, or why it names none. */
function podsNamed(target: string, { batches, namespace }: OrderScene): readonly string[] | string {
  const [, batch] = /^batch[ /#]?(\d{1,9})$/i.exec(target.trim()) ?? [];
  if (batch !== undefined) {
    return batches?.get(Number(batch)) ?? `batch ${batch} is not in flight; name its pods`;
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

function podName(target: string): string {
  return target.replace(/^pod\//i, '');
}

function podsIn(blockedBy: readonly string[]): readonly string[] {
  return blockedBy.filter((name) => name.startsWith('pod/')).map(podName);
}

/** What holds for this revision: for another than it was given for only a pause does. */
export function ordersFor(orders: RollOutOrders | undefined, revision: string): RollOutOrders | undefined {
  if (orders === undefined || orders.revision === revision) return orders;
  return { version: orders.version + 1, revision, ...(orders.paused && { paused: orders.paused }) };
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
  if (valid && isSaying(valid)) return valid;
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

/** The permit as restricted by the orders: the roll-out may not have received the last command yet. */
export function permitUnder(permit: Permit, orders: RollOutOrders | undefined): Permit {
  if (orders === undefined) return permit;
  return {
    ...permit,
    paused: permit.paused || isHeld(orders),
    skip: [...new Set([...permit.skip, ...(orders.skip ?? [])])],
  };
}
