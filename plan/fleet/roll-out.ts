/**
 * How a roll-out continues: the events that it has received, folded into a plain value, and what is asked of the leading
 * watcher next.
 *
 * It asks which pods go next, has these carried out as a batch, and asks again. A batch does not wait for the one before:
 * several are in flight while the budget of the object has room.
 */

import { sameJson } from '../../api/base/json.ts';
import type { WaitingFor } from '../../api/engine/waiting-for.ts';
import type { RollOutChanged, RollOutFacts } from '../../api/fleet/operation.ts';
import type { RollOutOrders } from '../../api/fleet/roll-out-orders.ts';
import { shortened, summaryBytes } from '../text-size.ts';
import { type BatchVerdict, batchText, type PodBatch, podsOf } from './batch.ts';
import type { ChoiceVerdict, Leave, ToldVerdict } from './permit.ts';
import {
  isHeld,
  nameInOrders,
  type OrderCommand,
  ordersFor,
  type SceneOfSender,
  type Understood,
  understood,
} from './roll-out-orders.ts';

/** Where a roll-out stands. */
export interface RollOutProgress {
  readonly facts: RollOutFacts;
  /** Of the object; empty where it has none. Absent: unknown. */
  readonly namespace?: string;
  /** The commands that the leading watcher has not applied yet, in the order in which they were given. */
  readonly commands: readonly GivenCommand[];
  /** The number of the next batch, from 1. */
  readonly next: number;
  /** The batches that are carried out, in the order of their numbers. */
  readonly inFlight: readonly InFlight[];
  /** Grows whenever the same is to be asked again. */
  readonly round: number;
  readonly waitingFor?: WaitingFor;
  /** Why the first of the commands is not applied yet. Absent: that is not known, or there is none. */
  readonly notApplied?: WaitingFor;
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

/** A command as it was received. `by` may not be known before it is applied. */
export interface GivenCommand extends Omit<OrderCommand, 'by'> {
  readonly by?: string;
}

export type RollOutNews =
  /** Undefined: another look is requested. */
  | { readonly kind: 'changed'; readonly change: RollOutChanged | undefined }
  | { readonly kind: 'command'; readonly command: GivenCommand }
  /** A command was applied or refused; these orders stand in the object since. */
  | { readonly kind: 'applied'; readonly key: string; readonly orders: RollOutOrders | undefined }
  /** A command could not be applied yet. */
  | { readonly kind: 'notApplied'; readonly waitingFor: WaitingFor }
  /** The question has failed for an unforeseen reason. It is not asked again automatically. */
  | { readonly kind: 'parked'; readonly waitingFor: WaitingFor }
  | { readonly kind: 'verdict'; readonly verdict: ToldVerdict; readonly of: Asked; readonly atMs: number }
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
  readonly round: number;
}

/** Waits that only a change of the object ends. */
const untilChanged: readonly string[] = ['Paused'];

const logLines = 12;

/** So many commands wait to be applied at most, besides holds: they travel to the next run. */
const mostCommands = 20;

/** So many of the batches in flight are named. */
const mostShown = 5;

/** After so many it ends; the watcher starts another if there is anything to do. */
const mostMisses = 5;

/** A roll-out that has just begun, or continues where an earlier run ended. */
export function begun(
  facts: RollOutFacts,
  before: Partial<Pick<RollOutProgress, 'next' | 'inFlight' | 'log' | 'commands' | 'namespace'>> = {},
): RollOutProgress {
  const { next = 1, inFlight = [], log = [], commands = [], namespace } = before;
  return {
    ...{ facts, next, inFlight, log, commands },
    ...(namespace !== undefined && { namespace }),
    round: 0,
    wasParked: false,
    isWoken: false,
    awaitsFacts: false,
    misses: 0,
    summary: '',
  };
}

/** What a person means who gives this command now. What holds, or ends that, is not refused as one of too many. */
export function meantBy(progress: RollOutProgress, command: Parameters<typeof understood>[0]): Understood {
  const { commands } = progress;
  const isUrgent = isHold(command) || command.name === 'resume';
  const isNew = !commands.some(({ name }) => name === command.name);
  if (commands.length >= mostCommands && !(isUrgent && isNew)) {
    return { refused: `${commands.length} commands before it are not applied yet; see what the roll-out waits for` };
  }
  return understood(command, sceneOf(progress));
}

function sceneOf(progress: RollOutProgress): SceneOfSender {
  const { waitingFor, blockedBefore, inFlight, commands, namespace } = progress;
  const batches = new Map(
    inFlight.map(({ number, batch }) => [
      number,
      podsOf(batch).map((pod) => nameInOrders(pod, namespace ?? pod.namespace)),
    ]),
  );
  const blockedBy = waitingFor?.blockedBy ?? blockedBefore ?? [];
  const scene = { orders: ordersIn(progress), isHolding: commands.some(isHold), blockedBy, batches };
  return { ...scene, ...(namespace !== undefined && { namespace }) };
}

/** The orders of operators as the leading watcher has told them. */
function ordersIn({ facts }: Pick<RollOutProgress, 'facts'>): RollOutOrders | undefined {
  return ordersFor(facts.orders, facts.revision);
}

/** Whether a command holds the roll-out from the moment in which it is given. */
export function isHold({ name }: Pick<GivenCommand, 'name'>): boolean {
  return name === 'pause' || name === 'abort';
}

/** The progress after one event. */
export function heard(progress: RollOutProgress, news: RollOutNews): RollOutProgress {
  if (progress.end === 'withdrawn' && news.kind !== 'carriedOut' && news.kind !== 'lost') return progress;
  switch (news.kind) {
    case 'changed':
      return changed(progress, news.change);
    case 'command':
      return commanded(progress, news.command);
    case 'applied': {
      const { notApplied: _, ...others } = withOrders(progress, news.orders);
      return askedAnew({ ...others, commands: progress.commands.filter(({ key }) => key !== news.key) });
    }
    case 'notApplied':
      return { ...progress, notApplied: news.waitingFor };
    case 'parked':
      return { ...progress, waitingFor: news.waitingFor, parked: 'refused' };
    case 'verdict':
      // the orders that an earlier question was told may be older
      return judged(news.of.round === progress.round ? withOrders(progress, news.verdict.orders) : progress, news);
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

/** These are the orders that stand in the object. */
function withOrders(progress: RollOutProgress, orders: RollOutOrders | undefined): RollOutProgress {
  const { orders: _, ...facts } = progress.facts;
  return { ...progress, facts: { ...facts, ...(orders && { orders }) } };
}

/** A `resume` takes back holds that are not applied yet, without waiting for them. */
function commanded(progress: RollOutProgress, command: GivenCommand): RollOutProgress {
  const before = command.name === 'resume' ? progress.commands.filter((one) => !isHold(one)) : progress.commands;
  const { notApplied, ...others } = progress;
  const isSame = before[0] === progress.commands[0];
  const known = { ...others, commands: [...before, command], ...(isSame && notApplied && { notApplied }) };
  return isPaused(known) === isPaused(progress) ? known : askedAnew(known);
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

  const isSameState = change.generation === facts.generation && change.revision === facts.revision;
  const isSame = isSameState && sameJson(change.orders, facts.orders);
  const known = { ...progress, facts: change };
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

/**
 * What should be asked now; undefined when nothing is to be. While batches are in flight it is asked unless the watcher
 * remembers the question, since it begins none of their pods before it has heard what the roll-out allows.
 */
export function wantedChoice(progress: RollOutProgress): WantedChoice | undefined {
  const { waitingFor, inFlight, parked, wasParked } = progress;
  if (progress.end || progress.awaitsFacts || parked === 'watched' || (parked && inFlight.length === 0)) {
    return undefined;
  }
  const leave = leaveOf(progress);
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
function leaveOf(progress: RollOutProgress): Leave {
  return { revision: ordersIn(progress)?.undo?.to ?? progress.facts.revision, paused: isPaused(progress) };
}

/** Whether an operator holds it, also if the watcher has not heard of that yet. */
function isPaused(progress: RollOutProgress): boolean {
  return isHeld(ordersIn(progress)) || progress.commands.some(isHold);
}

function isSameLeave(one: Leave, other: Leave): boolean {
  return one.revision === other.revision && one.paused === other.paused;
}

/** What is asked, as people read it in the history. */
export function choiceText(progress: RollOutProgress, { paused, revision }: Leave): string {
  if (paused) return 'choose no pods, report progress';
  const { next, facts } = progress;
  const of = `${facts.replicas} pods`;
  return ordersIn(progress)?.undo
    ? `choose batch ${next}: back to ${revision}, ${of}`
    : `choose batch ${next}: ${revision}, ${of}`;
}

/** What a batch does, as people read it in the history: `undo: update shop-a in place`. */
export function inFlightText(progress: Pick<RollOutProgress, 'facts'>, { revision, batch }: InFlight): string {
  const goesBack = ordersIn(progress)?.undo?.to === revision;
  return goesBack ? shortened(`undo: ${batchText(batch)}`, summaryBytes) : batchText(batch);
}

/** Whether it is over, and nothing is left to be applied or to be carried out. */
export function isOver(progress: RollOutProgress): boolean {
  return isEnding(progress) && progress.inFlight.length === 0;
}

/** Whether it is over but for the batches in flight. */
export function isEnding(progress: RollOutProgress): boolean {
  return progress.end === 'withdrawn' || (progress.end !== undefined && progress.commands.length === 0);
}

/** In which phase people find it. */
export function phaseOf(progress: RollOutProgress): string {
  const { end, commands } = progress;
  const orders = ordersIn(progress);
  if (end !== undefined) return endPhases[end];
  if (orders?.aborted || commands.some(({ name }) => name === 'abort')) return 'Aborted';
  if (isPaused(progress)) return 'Paused';
  return orders?.undo ? 'Undoing' : 'RollingOut';
}

const endPhases: Readonly<Record<RollOutEnd, string>> = {
  done: 'Completed',
  withdrawn: 'Deleted',
  superseded: 'Superseded',
};

/** What one has done that is through: an undo has taken the update back. */
export function doneReason(progress: Pick<RollOutProgress, 'facts'>): 'RolledOut' | 'RolledBack' {
  return ordersIn(progress)?.undo ? 'RolledBack' : 'RolledOut';
}

/** What people see that it waits for. */
export function shownWait({ notApplied, waitingFor }: RollOutProgress): WaitingFor | undefined {
  return notApplied ?? waitingFor;
}

const ended: Pick<RollOutProgress, 'inFlight' | 'waitingFor' | 'notApplied'> = { inFlight: [] };

/** All that there is to say, in lines. What has ended waits for nothing, and nothing of it is in flight. */
export function detailsOf(progress: RollOutProgress, hasEnded = false): string {
  const { facts, commands, log } = progress;
  const orders = ordersIn(progress);
  const { waitingFor, notApplied, inFlight } = hasEnded ? ended : progress;
  const revision = orders?.undo?.to ?? facts.revision;
  const given = [
    ['paused', orders?.paused],
    ['aborted', orders?.aborted],
    [`undone to ${orders?.undo?.to}`, orders?.undo],
  ] as const;
  return [
    `${phaseOf(progress)}: revision ${revision}, ${facts.replicas} pods`,
    ...given.flatMap(([what, order]) => (order ? [`${what} by ${order.by || 'an operator'} at ${order.at}`] : [])),
    ...(orders?.skip ? [`skipped: ${orders.skip.join(', ')}`] : []),
    ...commands.map(({ name, by = 'an operator', at }) => `${name} by ${by} at ${at}: not applied yet`),
    ...[notApplied, waitingFor].flatMap((wait) => (wait ? [waitText(wait)] : [])),
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
