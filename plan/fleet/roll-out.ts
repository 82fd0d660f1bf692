/**
 * How a roll-out continues: the events that it has received, folded into a plain value, and what is asked of the leading
 * watcher next.
 *
 * It asks which pods go next, has these carried out as a batch, and asks again. A batch does not wait for the one before:
 * several are in flight while the budget of the object has room.
 */

import { qualifiedName } from '../../api/core/refs.ts';
import type { WaitingFor } from '../../api/engine/waiting-for.ts';
import type { RollOutChanged, RollOutFacts } from '../../api/fleet/operation.ts';
import { isSaying, type RollOutOrders } from '../../api/fleet/roll-out-orders.ts';
import { shortened, summaryBytes } from '../text-size.ts';
import { type BatchVerdict, batchText, type ChosenPod, type PodBatch, podsOf } from './batch.ts';
import type { ChoiceVerdict, Leave } from './permit.ts';
import {
  isHeld,
  joinedOrders,
  namedBy,
  type OrderCommand,
  type OrdersAfter,
  ordersAfter,
  ordersFor,
  undoOf,
  withoutSkips,
} from './roll-out-orders.ts';

/** Where a roll-out stands. */
export interface RollOutProgress {
  readonly facts: RollOutFacts;
  /** Of the object; empty where it has none. Absent: unknown. */
  readonly namespace?: string;
  readonly orders: RollOutOrders | undefined;
  /** The version of the orders that stands in the object, as far as known. */
  readonly recorded: number;
  /** The number of the next batch, from 1. */
  readonly next: number;
  /** The batches that are carried out, in the order of their numbers. */
  readonly inFlight: readonly InFlight[];
  /** Grows whenever the same is to be asked again. */
  readonly round: number;
  readonly waitingFor?: WaitingFor;
  /** What kept it when it was last asked, until there is another answer: people see that for as long. */
  readonly blockedBefore?: readonly string[];
  /** Why nothing is asked for the time being. Absent: it is asked. */
  readonly parked?: Parked;
  /** It was parked before the question that is pending, which may be parked again as soon as its wait is reported. */
  readonly wasParked: boolean;
  /** The signal `changed` has come since the last question was asked, and nothing in it was new. */
  readonly isWoken: boolean;
  /** The object asks for a state that this roll-out has not received yet. */
  readonly awaitsFacts: boolean;
  /** How often in a row it has asked for something else than the object. */
  readonly misses: number;
  /** How far it has come, for people. */
  readonly summary: string;
  /** What has been done, the last lines of it. */
  readonly log: readonly string[];
  readonly end?: RollOutEnd;
}

/** `superseded`: it has not received what the object asks for; the watcher starts another if there is anything to do. */
export type RollOutEnd = 'done' | 'withdrawn' | 'superseded';

/**
 * `watched`: the watcher signals `changed` as soon as there is another answer. `held`: only a command or a change of the
 * object can change anything; `refused`: the question has failed, and is asked again after a pause. Both ask while a batch
 * is in flight.
 */
export type Parked = 'watched' | 'held' | 'refused';

/** A batch that is carried out. */
export interface InFlight {
  readonly number: number;
  /** The revision of the leave under which it was chosen. */
  readonly revision: string;
  readonly batch: PodBatch;
  readonly startedAtMs: number;
}

export type RollOutNews =
  /** Undefined: another look is requested. */
  | { readonly kind: 'changed'; readonly change: RollOutChanged | undefined }
  | { readonly kind: 'command'; readonly id: number; readonly command: OrderCommand }
  /** Who gave a command of this name at this time. */
  | { readonly kind: 'identified'; readonly command: Pick<OrderCommand, 'name' | 'at'>; readonly by: string }
  /** The orders stand in the object, but for skips of pods that it does not have. */
  | { readonly kind: 'recorded'; readonly version: number; readonly unknown?: readonly string[] }
  /** The orders could not be written. */
  | { readonly kind: 'refused'; readonly waitingFor: WaitingFor }
  /** The orders were not written: newer ones stand in the object, which this roll-out has not received. */
  | { readonly kind: 'overtaken'; readonly orders: RollOutOrders }
  /** The question has failed for an unforeseen reason. It is not asked again automatically. */
  | { readonly kind: 'parked'; readonly waitingFor: WaitingFor }
  | { readonly kind: 'verdict'; readonly verdict: ChoiceVerdict; readonly of: Asked; readonly atMs: number }
  | { readonly kind: 'carriedOut'; readonly number: number; readonly verdict: BatchVerdict; readonly atMs: number }
  /** A batch came to no verdict: its activity was ended by hand, or the roll-out did not wait for it any longer. */
  | { readonly kind: 'lost'; readonly number: number; readonly why: string }
  /** No facts have come for a while. */
  | { readonly kind: 'noFacts' }
  /** The run has waited for its batches in flight as long as it may. */
  | { readonly kind: 'graceOver' };

/** What was asked, and the object that it was about. */
export interface Asked {
  readonly leave: Leave;
  readonly generation: number;
}

/** Waits that only a change of the object ends. */
const untilChanged: readonly string[] = ['Paused'];

/** Waits that are over once the orders are written. */
const refusalReasons = ['Denied', 'Parked'] as const;

const logLines = 12;

/** So many of the batches in flight are named. */
const mostShown = 5;

/** After so many it ends; the watcher starts another if there is anything to do. */
const mostMisses = 5;

/** A roll-out that has just begun, or continues where an earlier run ended. */
export function begun(
  facts: RollOutFacts,
  before: Partial<Pick<RollOutProgress, 'next' | 'inFlight' | 'log' | 'namespace'>> = {},
): RollOutProgress {
  const orders = ordersFor(facts.orders, facts.revision);
  const { next = 1, inFlight = [], log = [], namespace } = before;
  return {
    ...{ facts, orders, next, inFlight, log },
    ...(namespace !== undefined && { namespace }),
    recorded: versionOf(facts.orders),
    round: 0,
    wasParked: false,
    isWoken: false,
    awaitsFacts: false,
    misses: 0,
    summary: '',
  };
}

/** What becomes of a command that is applied to this progress. */
export function afterCommand(progress: RollOutProgress, command: OrderCommand): OrdersAfter {
  return ordersAfter(command, sceneOf(progress));
}

function sceneOf({ facts, orders, waitingFor, blockedBefore, inFlight, namespace }: RollOutProgress) {
  const { revision, previous, previousDoubt, noUndo } = facts;
  const nameOf = (pod: ChosenPod) => (namespace === '' ? qualifiedName(pod) : pod.name);
  const batches = new Map(inFlight.map(({ number, batch }) => [number, podsOf(batch).map(nameOf)]));
  const blockedBy = waitingFor?.blockedBy ?? blockedBefore ?? [];
  const undo = {
    ...(previous !== undefined && { previous }),
    ...(previousDoubt !== undefined && { previousDoubt }),
    ...(noUndo !== undefined && { noUndo }),
  };
  const inObject = facts.orders && { inObject: facts.orders };
  return { orders, ...inObject, revision, ...undo, blockedBy, batches, ...(namespace !== undefined && { namespace }) };
}

/** The progress after one event. */
export function heard(progress: RollOutProgress, news: RollOutNews): RollOutProgress {
  if (progress.end === 'withdrawn' && news.kind !== 'carriedOut' && news.kind !== 'lost') return progress;
  switch (news.kind) {
    case 'changed':
      return changed(progress, news.change);
    case 'command': {
      const after = ordersAfter(news.command, sceneOf(progress));
      if ('refused' in after) return progress;
      return askedAnew({ ...progress, orders: after.orders });
    }
    case 'identified': {
      const { orders } = progress;
      const named = orders && namedBy(orders, news.command, news.by);
      return named === orders ? progress : { ...progress, orders: named };
    }
    case 'recorded': {
      const { waitingFor, ...others } = progress;
      const isRefusal = !progress.parked && refusalReasons.some((reason) => reason === waitingFor?.reason);
      const recorded = Math.max(progress.recorded, news.version);
      const { orders } = progress;
      return {
        ...others,
        recorded,
        ...(orders && news.unknown?.length && { orders: withoutSkips(orders, news.unknown) }),
        ...(waitingFor && !isRefusal && { waitingFor }),
      };
    }
    case 'refused':
      return { ...progress, waitingFor: news.waitingFor };
    case 'overtaken': {
      const orders = joinedOrders(progress.orders, news.orders, progress.facts.revision);
      return askedAnew({ ...progress, orders, recorded: Math.max(progress.recorded, news.orders.version) });
    }
    case 'parked':
      return { ...progress, waitingFor: news.waitingFor, parked: 'refused' };
    case 'verdict':
      return judged(progress, news);
    case 'carriedOut':
      return carriedOut(progress, news);
    case 'lost':
      return withoutBatch(progress, news.number, `batch ${news.number}: ${news.why}`);
    case 'graceOver':
      return progress;
    case 'noFacts':
      if (!progress.awaitsFacts) return progress;
      return progress.misses < mostMisses ? askedAnew(progress) : { ...progress, end: 'superseded' };
  }
}

/** Whoever commands or changes something wants to know what comes of it, not what it waited for before. */
function askedAnew({ waitingFor: _, end: __, parked: ___, ...progress }: RollOutProgress): RollOutProgress {
  return { ...progress, wasParked: false, isWoken: false, awaitsFacts: false, round: progress.round + 1 };
}

/**
 * Another look is requested, and nothing else is new: what a parked roll-out waits for has changed, or another watcher
 * leads, which does not know what is parked. The signal may overtake the answer that parks the roll-out.
 */
function woken(progress: RollOutProgress): RollOutProgress {
  const { parked, ...others } = progress;
  if (progress.awaitsFacts || parked === 'refused') return askedAnew(progress);
  if (parked === undefined) return { ...progress, isWoken: true };
  // it goes on waiting for the same thing until something else is known
  return { ...others, wasParked: true, isWoken: false, round: progress.round + 1 };
}

function changed(progress: RollOutProgress, change: RollOutChanged | undefined): RollOutProgress {
  if (change === undefined) return woken(progress);
  if ('withdrawn' in change) return { ...progress, end: 'withdrawn' };
  const { facts } = progress;
  // A signal that was sent before others may come after them.
  if (change.generation < facts.generation) return progress;

  const isNewer = versionOf(change.orders) > versionOf(progress.orders);
  const orders = ordersFor(isNewer ? change.orders : progress.orders, change.revision);
  const recorded = Math.max(progress.recorded, versionOf(change.orders));
  const isSame = change.generation === facts.generation && change.revision === facts.revision && !isNewer;
  const known = { ...progress, facts: change, orders, recorded };
  if (isSame && !progress.awaitsFacts) return woken(known);
  if (change.revision === facts.revision) {
    const { waitingFor, parked, awaitsFacts, end } = progress;
    return waitingFor || parked || awaitsFacts || end ? askedAnew(known) : known;
  }
  return askedAnew({
    ...known,
    log: withLine(progress.log, `revision ${change.revision} is now the update revision`),
  });
}

function versionOf(orders: RollOutOrders | undefined): number {
  return orders?.version ?? 0;
}

function judged(
  progress: RollOutProgress,
  { verdict, of, atMs }: Extract<RollOutNews, { kind: 'verdict' }>,
): RollOutProgress {
  const { facts } = progress;
  const isOutdated = facts.generation > of.generation || !isSameLeave(of.leave, leaveOf(progress));
  switch (verdict.kind) {
    case 'batch': {
      // What was chosen under other orders is not carried out.
      if (!isSameLeave(of.leave, leaveOf(progress))) return askedAnew(progress);
      const { waitingFor: _, blockedBefore: __, ...others } = progress;
      const { batch } = verdict;
      const chosen = { number: progress.next, revision: of.leave.revision, batch, startedAtMs: atMs };
      return {
        ...others,
        summary: `${verdict.updated} of ${verdict.of} pods are of revision ${batch.revision}`,
        wasParked: false,
        isWoken: false,
        round: progress.round + 1,
        misses: 0,
        next: progress.next + 1,
        inFlight: [...progress.inFlight, chosen],
      };
    }
    case 'allDone': {
      const { waitingFor: _, blockedBefore: __, ...others } = progress;
      const known = { ...others, summary: verdict.summary };
      // It ends with the latest facts, not with those of the time at which it asked.
      return isOutdated ? askedAnew(known) : { ...known, end: 'done', log: withLine(progress.log, verdict.summary) };
    }
    case 'superseded':
      // The caches of the watcher may be a moment behind what this roll-out has written, or it behind them.
      return isOutdated ? askedAnew(progress) : { ...progress, awaitsFacts: true, misses: progress.misses + 1 };
    case 'blocked': {
      // The order that held it may have been withdrawn since.
      if (isOutdated) return askedAnew(progress);
      const { waitingFor } = verdict;
      const parked = parkedBy(verdict, of, progress);
      const wasParked = verdict.parked === true && parked === undefined;
      const { parked: _, ...others } = progress;
      const blockedBefore = waitingFor.blockedBy;
      const asked = {
        ...{ ...others, waitingFor, blockedBefore, wasParked },
        ...{ isWoken: false, misses: 0, round: progress.round + 1 },
      };
      return parked ? { ...asked, parked } : asked;
    }
  }
}

function parkedBy(
  { waitingFor, parked }: Extract<ChoiceVerdict, { kind: 'blocked' }>,
  { leave }: Asked,
  { isWoken }: RollOutProgress,
): Parked | undefined {
  if (parked) return isWoken ? undefined : 'watched';
  return leave.paused || untilChanged.includes(waitingFor.reason) ? 'held' : undefined;
}

function carriedOut(
  progress: RollOutProgress,
  { number, verdict, atMs }: Extract<RollOutNews, { kind: 'carriedOut' }>,
): RollOutProgress {
  const ended = progress.inFlight.find((batch) => batch.number === number);
  if (ended === undefined) return progress;
  const seconds = Math.round((atMs - ended.startedAtMs) / 1000);
  const not = verdict.pods.filter(({ why }) => why !== undefined);
  const [first] = not;
  const others = not.length > 1 ? ` and ${not.length - 1} more` : '';
  const failed = first === undefined ? '' : `; not ${first.pod}${others}: ${first.why}`;
  const pods = verdict.pods.length - not.length;
  const line = `batch ${number}: ${pods} pods in ${seconds} s${failed}; ${verdict.summary}`;
  const summary = progress.end === 'done' ? progress.summary : verdict.summary || progress.summary;
  return { ...withoutBatch(progress, number, line), summary };
}

function withoutBatch(progress: RollOutProgress, number: number, line: string): RollOutProgress {
  const inFlight = progress.inFlight.filter((batch) => batch.number !== number);
  return { ...progress, inFlight, log: withLine(progress.log, line) };
}

function withLine(log: readonly string[], line: string): readonly string[] {
  return [...log, line].slice(-logLines);
}

/** The orders that still have to be written into the object; undefined when they stand there, or it is gone. */
export function unrecordedOrders({ orders, recorded, end }: RollOutProgress): RollOutOrders | undefined {
  if (end === 'withdrawn') return undefined;
  return orders !== undefined && orders.version > recorded ? orders : undefined;
}

/**
 * What should be asked now; undefined when nothing is to be. Leave for something waits until the orders behind it stand in
 * the object; leave that takes something back does not wait. While batches are in flight it is asked unless the watcher
 * remembers the question, since it begins none of their pods before it has heard what the roll-out allows.
 */
export function wantedChoice(progress: RollOutProgress): WantedChoice | undefined {
  const { waitingFor, inFlight, parked, wasParked } = progress;
  if (progress.end || progress.awaitsFacts || parked === 'watched' || (parked && inFlight.length === 0)) {
    return undefined;
  }
  const leave = leaveOf(progress);
  if (!leave.paused && unrecordedOrders(progress)) return undefined;
  return { leave, ...(waitingFor && { told: waitingFor.reason }), ...(wasParked && { parked: true }) };
}

export interface WantedChoice {
  readonly leave: Leave;
  /** The reason of a wait that has been reported. */
  readonly told?: string;
  /** The roll-out was parked before. */
  readonly parked?: true;
}

/** What the object and the orders of operators allow. */
function leaveOf({ facts, orders }: RollOutProgress): Leave {
  const undo = undoOf(orders);
  const revision = undo?.to ?? facts.revision;
  return {
    revision,
    paused: isHeld(orders),
    ...(orders?.aborted && { aborted: true }),
    skip: orders?.skip ?? [],
    ...(undo && { undo }),
  };
}

function isSameLeave(one: Leave, other: Leave): boolean {
  const told = ({ revision, paused, aborted, skip, undo }: Leave) =>
    JSON.stringify([revision, paused, aborted, skip, undo]);
  return told(one) === told(other);
}

/** What is asked, as people read it in the history. */
export function choiceText({ next, facts }: RollOutProgress, { paused, revision, undo }: Leave): string {
  if (paused) return 'choose no pods, report progress';
  const of = `${facts.replicas} pods`;
  return undo ? `choose batch ${next}: back to ${revision}, ${of}` : `choose batch ${next}: ${revision}, ${of}`;
}

/** What a batch does, as people read it in the history: `undo: update shop-a in place`. */
export function inFlightText({ orders }: Pick<RollOutProgress, 'orders'>, { revision, batch }: InFlight): string {
  const goesBack = orders?.undo?.to === revision;
  return goesBack ? shortened(`undo: ${batchText(batch)}`, summaryBytes) : batchText(batch);
}

/** Whether it is over, and nothing is left to be written or to be carried out. */
export function isOver(progress: RollOutProgress): boolean {
  return isEnding(progress) && progress.inFlight.length === 0;
}

/** Whether it is over but for the batches in flight. */
export function isEnding(progress: RollOutProgress): boolean {
  return progress.end !== undefined && unrecordedOrders(progress) === undefined;
}

/** In which phase people find it. */
export function phaseOf({ end, orders }: RollOutProgress): string {
  if (end !== undefined) return endPhases[end];
  if (orders?.aborted) return 'Aborted';
  if (orders?.paused) return 'Paused';
  return orders?.undo ? 'Undoing' : 'RollingOut';
}

const endPhases: Readonly<Record<RollOutEnd, string>> = {
  done: 'Completed',
  withdrawn: 'Deleted',
  superseded: 'Superseded',
};

/** What one has done that is through: an undo has taken the update back. */
export function doneReason({ orders }: Pick<RollOutProgress, 'orders'>): 'RolledOut' | 'RolledBack' {
  return orders?.undo ? 'RolledBack' : 'RolledOut';
}

/** All that there is to say, in lines. What has ended waits for nothing, and nothing of it is in flight. */
export function detailsOf(progress: RollOutProgress, hasEnded = false): string {
  const { facts, orders, log } = progress;
  const { waitingFor, inFlight } = hasEnded ? { waitingFor: undefined, inFlight: [] } : progress;
  const revision = orders?.undo?.to ?? facts.revision;
  const given = [
    ['paused', orders?.paused],
    ['aborted', orders?.aborted],
    [`undone to ${orders?.undo?.to}`, orders?.undo],
  ] as const;
  return [
    `${phaseOf(progress)}: revision ${revision}, ${facts.replicas} pods`,
    ...given.flatMap(([what, order]) => (order ? [`${what} by ${order.by || 'an operator'} at ${order.at}`] : [])),
    ...(orders && isSaying(orders) && orders.skip ? [`skipped: ${orders.skip.join(', ')}`] : []),
    ...(waitingFor ? [waitText(waitingFor)] : []),
    ...inFlight.slice(0, mostShown).map((one) => `batch ${one.number} in flight: ${inFlightText(progress, one)}`),
    ...(inFlight.length > mostShown ? [`${inFlight.length - mostShown} more batches in flight`] : []),
    ...log,
  ].join('\n\n');
}

function waitText({ reason, since, blockedBy, blockedCount, unblock }: WaitingFor): string {
  const more = blockedCount > blockedBy.length ? ` and ${blockedCount - blockedBy.length} more` : '';
  const by = blockedBy.length === 0 ? '' : ` (${blockedBy.join(', ')}${more})`;
  return `waits since ${since}: ${reason}${by}: ${unblock}`;
}
