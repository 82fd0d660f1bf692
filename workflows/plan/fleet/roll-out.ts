/**
 * How a roll-out continues: the events that it has received, folded into a plain value, and the permit that follows from it.
 *
 * Pods go as the budget of the object allows. Batches do not hold them up; they are what history, progress and people go
 * by, a tenth of the pods each and five at least, so that a large roll-out is tens of events.
 */

import type { WaitingFor } from '../../../api/engine/waiting-for.ts';
import type { RollOutChanged, RollOutFacts } from '../../../api/fleet/operation.ts';
import { isSaying, type RollOutOrders } from '../../../api/fleet/roll-out-orders.ts';
import type { Permit, Verdict } from './permit.ts';
import { isHeld, joinedOrders, namedBy, type OrderCommand, ordersAfter, ordersFor, undoOf } from './roll-out-orders.ts';

/** Where a roll-out stands. */
export interface RollOutProgress {
  readonly facts: RollOutFacts;
  readonly orders: RollOutOrders | undefined;
  /** The version of the orders that stands in the object, as far as known. */
  readonly recorded: number;
  readonly batch: Batch;
  /** Grows whenever an equal permit is to be handed in again. */
  readonly round: number;
  readonly waitingFor?: WaitingFor;
  /** Only a command or a change of the object can change anything, so no permit is handed in. */
  readonly isParked: boolean;
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

export interface Batch {
  /** From 1. */
  readonly number: number;
  /** How many pods are there when it is done. */
  readonly milestone: number;
  readonly startedAtMs: number;
  /** How many pods were there when it began; absent for the first. */
  readonly arrived?: number;
}

export type RollOutNews =
  /** Undefined: another look is requested. */
  | { readonly kind: 'changed'; readonly change: RollOutChanged | undefined }
  | { readonly kind: 'command'; readonly id: number; readonly command: OrderCommand }
  /** Who gave a command of this name at this time. */
  | { readonly kind: 'identified'; readonly command: Pick<OrderCommand, 'name' | 'at'>; readonly by: string }
  | { readonly kind: 'recorded'; readonly version: number }
  /** The orders could not be written. */
  | { readonly kind: 'refused'; readonly waitingFor: WaitingFor }
  /** The orders were not written: newer ones stand in the object, which this roll-out has not received. */
  | { readonly kind: 'overtaken'; readonly orders: RollOutOrders }
  /** A permit has failed for an unforeseen reason. It is not handed in again automatically. */
  | { readonly kind: 'parked'; readonly waitingFor: WaitingFor }
  | { readonly kind: 'verdict'; readonly verdict: Verdict; readonly of: Handed; readonly atMs: number }
  /** No facts have come for a while. */
  | { readonly kind: 'noFacts' };

/** A permit that was handed in, and the object that it was for. */
export interface Handed {
  readonly permit: Permit;
  readonly generation: number;
}

/** For a permit that is limited by nothing but the budget. */
const everyPod = 2 ** 31 - 1;

/** Waits that only a change of the object ends. */
const untilChanged: readonly string[] = ['Paused'];

/** Waits that are over once the orders are written. */
const refusalReasons = ['Denied', 'Parked'] as const;

const logLines = 12;

/** After so many it ends; the watcher starts another if there is anything to do. */
const mostMisses = 5;

/** A roll-out that has just begun, or continues where an earlier run ended. */
export function begun(
  facts: RollOutFacts,
  nowMs: number,
  before: Partial<Pick<RollOutProgress, 'batch' | 'log'>> = {},
) {
  const orders = ordersFor(facts.orders, facts.revision);
  const progress: RollOutProgress = {
    facts,
    orders,
    recorded: versionOf(facts.orders),
    batch: before.batch ?? firstBatch(facts, nowMs),
    round: 0,
    isParked: false,
    awaitsFacts: false,
    misses: 0,
    summary: '',
    log: before.log ?? [],
  };
  return progress;
}

function firstBatch({ replicas }: RollOutFacts, nowMs: number): Batch {
  return { number: 1, milestone: batchSize(replicas), startedAtMs: nowMs };
}

function batchSize(replicas: number): number {
  return Math.max(Math.ceil(replicas / 10), 5);
}

/** Why a command cannot be obeyed; undefined when it can. */
export function refusalOf(progress: RollOutProgress, command: OrderCommand): string | undefined {
  const after = ordersAfter(command, sceneOf(progress));
  return 'refused' in after ? after.refused : undefined;
}

function sceneOf({ facts, orders, waitingFor }: RollOutProgress) {
  const { revision, previous } = facts;
  return { orders, revision, ...(previous !== undefined && { previous }), blockedBy: waitingFor?.blockedBy ?? [] };
}

/** The progress after one event. */
export function heard(progress: RollOutProgress, news: RollOutNews): RollOutProgress {
  if (progress.end === 'withdrawn') return progress;
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
      const isRefusal = !progress.isParked && refusalReasons.some((reason) => reason === waitingFor?.reason);
      const recorded = Math.max(progress.recorded, news.version);
      return { ...others, recorded, ...(waitingFor && !isRefusal && { waitingFor }) };
    }
    case 'refused':
      return { ...progress, waitingFor: news.waitingFor };
    case 'overtaken': {
      const orders = joinedOrders(progress.orders, news.orders, progress.facts.revision);
      return askedAnew({ ...progress, orders, recorded: Math.max(progress.recorded, news.orders.version) });
    }
    case 'parked':
      return { ...progress, waitingFor: news.waitingFor, isParked: true };
    case 'verdict':
      return judged(progress, news);
    case 'noFacts':
      if (!progress.awaitsFacts) return progress;
      return progress.misses < mostMisses ? askedAnew(progress) : { ...progress, end: 'superseded' };
  }
}

/** Whoever commands or changes something wants to know what comes of it, not what it waited for before. */
function askedAnew({ waitingFor: _, end: __, ...progress }: RollOutProgress): RollOutProgress {
  return { ...progress, isParked: false, awaitsFacts: false, round: progress.round + 1 };
}

function changed(progress: RollOutProgress, change: RollOutChanged | undefined): RollOutProgress {
  if (change === undefined) return progress.isParked || progress.awaitsFacts ? askedAnew(progress) : progress;
  if ('withdrawn' in change) return { ...progress, end: 'withdrawn' };
  const { facts } = progress;
  // A signal that was sent before others may come after them.
  if (change.generation < facts.generation) return progress;

  const isNewer = versionOf(change.orders) > versionOf(progress.orders);
  const orders = ordersFor(isNewer ? change.orders : progress.orders, change.revision);
  const recorded = Math.max(progress.recorded, versionOf(change.orders));
  const isSame = change.generation === facts.generation && change.revision === facts.revision && !isNewer;
  const known = { ...progress, facts: change, orders, recorded };
  if (isSame && !progress.awaitsFacts) return known;
  if (change.revision === facts.revision) {
    const { waitingFor, isParked, awaitsFacts, end } = progress;
    return waitingFor || isParked || awaitsFacts || end ? askedAnew(known) : known;
  }
  const batch = { ...firstBatch(change, progress.batch.startedAtMs), number: progress.batch.number };
  return askedAnew({
    ...known,
    batch,
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
  const { facts, batch } = progress;
  const isOutdated = facts.generation > of.generation || !isSameLeave(of.permit, leaveOf(progress));
  switch (verdict.kind) {
    case 'batchDone': {
      const { waitingFor: _, ...others } = progress;
      const seconds = Math.round((atMs - batch.startedAtMs) / 1000);
      const pods = batch.arrived === undefined ? '' : ` ${verdict.arrived - batch.arrived} pods in ${seconds} s,`;
      return {
        ...others,
        summary: verdict.summary,
        round: progress.round + 1,
        misses: 0,
        log: withLine(progress.log, `batch ${batch.number}:${pods} ${verdict.summary}`),
        batch: {
          number: batch.number + 1,
          milestone: verdict.arrived + batchSize(facts.replicas),
          startedAtMs: atMs,
          arrived: verdict.arrived,
        },
      };
    }
    case 'allDone': {
      const { waitingFor: _, ...others } = progress;
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
      const isParked = of.permit.paused || untilChanged.includes(waitingFor.reason);
      return { ...progress, waitingFor, isParked, misses: 0, round: progress.round + 1 };
    }
  }
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
 * The permit that should be handed in now; undefined when none is to be. A permit that allows something waits until the orders
 * behind it stand in the object; one that takes something back does not wait.
 */
export function wantedPermit(progress: RollOutProgress): Permit | undefined {
  const { batch, waitingFor } = progress;
  if (progress.end || progress.isParked || progress.awaitsFacts) return undefined;
  const leave = leaveOf(progress);
  if (!leave.paused && unrecordedOrders(progress)) return undefined;
  return {
    ...leave,
    batch: everyPod,
    ...(!leave.paused && { milestone: batch.milestone }),
    ...(waitingFor && { told: waitingFor.reason }),
  };
}

/** The permit by what the object and the orders of operators allow. */
type Leave = Pick<Permit, 'revision' | 'paused' | 'aborted' | 'skip' | 'undo'>;

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

/** What the permit is for, as people read it in the history. */
export function permitText({ batch, facts }: RollOutProgress, { paused, revision, undo, milestone }: Permit): string {
  if (paused) return 'disrupt nothing, report progress';
  const pods = milestone === undefined ? 'all pods' : `up to ${Math.min(milestone, facts.replicas)} pods`;
  return `batch ${batch.number}: ${pods} ${undo ? 'back to' : 'of'} ${revision}`;
}

/** Whether it is over, and nothing is left to be written. */
export function isOver(progress: RollOutProgress): boolean {
  return progress.end !== undefined && unrecordedOrders(progress) === undefined;
}

/** In which phase people find it. */
export function phaseOf({ end, orders }: RollOutProgress): string {
  if (end === 'done') return 'Complete';
  if (end !== undefined) return 'Superseded';
  if (orders?.aborted) return 'Aborted';
  if (orders?.paused) return 'Paused';
  return orders?.undo ? 'Undoing' : 'RollingOut';
}

/** All that there is to say, in lines. */
export function detailsOf(progress: RollOutProgress): string {
  const { facts, orders, waitingFor, log } = progress;
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
    ...log,
  ].join('\n\n');
}

function waitText({ reason, since, blockedBy, blockedCount, unblock }: WaitingFor): string {
  const more = blockedCount > blockedBy.length ? ` and ${blockedCount - blockedBy.length} more` : '';
  const by = blockedBy.length === 0 ? '' : ` (${blockedBy.join(', ')}${more})`;
  return `waits since ${since}: ${reason}${by}: ${unblock}`;
}
