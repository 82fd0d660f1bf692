/**
 * How a roll-out continues: the events that it has received, folded into a plain value, and what is asked of the leading
 * watcher next.
 *
 * It asks which pods go next, has these carried out as a batch, and asks again. A batch does not wait for the one before:
 * several are in flight while the budget of the object has room.
 */

import type { WaitingFor } from '../../api/engine/waiting-for.ts';
import type { RollOutFacts } from '../../api/fleet/operation.ts';
import type { RollOutOrders } from '../../api/fleet/roll-out-orders.ts';
import {
  afterAnswer,
  type BatchItems,
  handedInAnew,
  type InFlight,
  mostShown,
  nextAfter,
  notReceived,
  notRunning,
  onTheirWay,
  type PermitNews,
  type Permitting,
  standingOf,
  withBatches,
} from '../permits/in-flight.ts';
import { shortened, summaryBytes } from '../text-size.ts';
import { batchText, type PodBatch, podsOf } from './batch.ts';
import type { Answer, BatchResult, JustPermitted } from './permit.ts';
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
export interface RollOutProgress extends Permitting<PodBatch> {
  readonly facts: RollOutFacts;
  /** Of the object; empty where it has none. Absent: unknown. */
  readonly namespace?: string;
  /** The commands that the leading watcher has not applied yet, in the order in which they were given. */
  readonly commands: readonly GivenCommand[];
  readonly waitingFor?: WaitingFor;
  /** Why the first of the commands is not applied yet. Absent: that is not known, or there is none. */
  readonly notApplied?: WaitingFor;
  /** How far it has come, for people. */
  readonly summary: string;
  /** Of one that is aborted: the leading watcher carries out none of its batches any more. */
  readonly isIdle?: true;
  /** What has been done, the last lines of it. */
  readonly log: readonly string[];
  readonly end?: RollOutEnd;
}

/** `aborted`: by an operator. `withdrawn`: the object is being deleted, or gone. */
export type RollOutEnd = 'done' | 'aborted' | 'withdrawn';

/** A command as it was received. `by` may not be known before it is applied. */
export interface GivenCommand extends Omit<OrderCommand, 'by'> {
  readonly by?: string;
}

export type RollOutNews =
  | PermitNews<Answer, BatchResult>
  /** The object is gone. */
  | { readonly kind: 'withdrawn' }
  | { readonly kind: 'command'; readonly command: GivenCommand }
  /** A command was applied or refused. */
  | { readonly kind: 'applied'; readonly key: string; readonly next: Answer | undefined; readonly atMs: number }
  /** A command could not be applied yet. */
  | { readonly kind: 'notApplied'; readonly waitingFor: WaitingFor }
  /** The time of the run is over: it has waited as long as it may, or is to hand over. */
  | { readonly kind: 'timeOver' };

const logLines = 12;

/** So many commands wait to be applied at most, besides holds: they travel to the next run. */
const mostCommands = 20;

const podItems: BatchItems<PodBatch> = {
  idsOf: ({ pods }) => pods.map(({ uid }) => uid),
  without(batch, ids) {
    const pods = batch.pods.filter(({ uid }) => !ids.has(uid));
    return pods.length > 0 ? { ...batch, pods } : undefined;
  },
};

/** A roll-out that has just begun, or continues where an earlier run ended. */
export function begun(
  facts: RollOutFacts,
  before: Partial<Pick<RollOutProgress, 'next' | 'inFlight' | 'log' | 'commands' | 'namespace'>> = {},
): RollOutProgress {
  const { next = 1, inFlight = [], log = [], commands = [], namespace } = before;
  return {
    ...{ facts, next: nextAfter(inFlight, next), inFlight, log, commands },
    ...(namespace !== undefined && { namespace }),
    mustAsk: true,
    isNew: true,
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
  const meant = understood(command, sceneOf(progress));
  // a run that has heard nothing yet may have begun with orders of long ago: what was ordered last is taken back
  const isUnsure = command.name === 'resume' && progress.isNew === true && !commands.some(isHold);
  return isUnsure ? {} : meant;
}

function sceneOf(progress: RollOutProgress): SceneOfSender {
  const { waitingFor, inFlight, commands, namespace } = progress;
  const batches = new Map(
    inFlight.map(({ number, batch }) => [
      number,
      podsOf(batch).map((pod) => nameInOrders(pod, namespace ?? pod.namespace)),
    ]),
  );
  const scene = { orders: ordersIn(progress), isHolding: commands.some(isHold), batches };
  return {
    ...scene,
    ...(namesPods(waitingFor) && { blockedBy: waitingFor.blockedBy }),
    ...(namespace !== undefined && { namespace }),
  };
}

/** Whether people see pods in the way. If not, the leading watcher may know of some. */
function namesPods(waitingFor: WaitingFor | undefined): waitingFor is WaitingFor {
  return waitingFor?.blockedBy.some((name) => name.startsWith('pod/')) === true;
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
      return { ...progress, mustAsk: true };
    case 'withdrawn':
      return { ...progress, end: 'withdrawn' };
    case 'command':
      return commanded(progress, news.command);
    case 'applied': {
      const { notApplied: _, ...others } = progress;
      const known = { ...others, commands: progress.commands.filter(({ key }) => key !== news.key) };
      return news.next ? answered(known, news.next, news) : { ...known, mustAsk: true };
    }
    case 'notApplied':
      return { ...progress, notApplied: news.waitingFor };
    case 'answer':
      return answered(progress, news.answer, { atMs: news.atMs, isAsked: true });
    case 'notAnswered': {
      // it was asked as something has changed, so what was answered before does not end it
      const { end: _, ...others } = progress;
      return { ...others, waitingFor: news.waitingFor };
    }
    case 'carriedOut':
      return carriedOut(progress, news);
    case 'lost':
      if (!progress.inFlight.some(({ number }) => number === news.number)) return progress;
      return { ...withoutBatch(progress, news.number, `batch ${news.number}: ${news.why}`), mustAsk: true };
    case 'timeOver':
      return progress;
  }
}

/** It has asked. */
export function asked(progress: RollOutProgress): RollOutProgress {
  return { ...progress, mustAsk: false };
}

/** The pods of the last batches, if the leading watcher may not have these yet when it is asked: a new run brings them all. */
export function justPermitted(progress: RollOutProgress, nowMs: number): readonly JustPermitted[] {
  return onTheirWay(progress, nowMs).map((batch) => ({ revision: batch.revision, uids: podItems.idsOf(batch) }));
}

/** The batches that may be handed in. An answer and a hold may have been read together: then none, as the hold forbids them. */
export function mayBegin({ inFlight, commands }: RollOutProgress): readonly InFlight<PodBatch>[] {
  return commands.some(isHold) ? [] : inFlight;
}

/** Whether it asks now. Not while a hold is on its way to the leading watcher, as nothing could be permitted. */
export function asks({ mustAsk, end, commands }: RollOutProgress): boolean {
  return mustAsk && end !== 'withdrawn' && !commands.some(isHold);
}

/** A `resume` takes back holds that are not applied yet, without waiting for them. */
function commanded(progress: RollOutProgress, command: GivenCommand): RollOutProgress {
  const before = command.name === 'resume' ? progress.commands.filter((one) => !isHold(one)) : progress.commands;
  const { notApplied, ...others } = progress;
  const isSame = before[0] === progress.commands[0];
  return { ...others, commands: [...before, command], ...(isSame && notApplied && { notApplied }) };
}

/** `isAsked`: it answers a question, and does not come with a result. */
function answered(
  before: RollOutProgress,
  answer: Answer,
  { atMs, isAsked = false }: { readonly atMs: number; readonly isAsked?: boolean },
): RollOutProgress {
  const { order } = answer;
  const standing = standingOf(before, order, { isAsked });
  if (standing === 'stale') return before;
  if (standing === 'ofAnother') return { ...before, mustAsk: true };
  const { waitingFor: _, end: __, isIdle: ___, isNew: ____, ...known } = withFacts(before, answer.facts);
  const batches = answer.kind === 'pods' ? answer.batches : [];
  const named = new Set(batches.flatMap(podItems.idsOf));
  const inFlight = afterAnswer(before, { ...(order && { order }), named, atMs }, podItems);
  const progress = { ...known, inFlight, ...(order && { order }) };
  switch (answer.kind) {
    case 'pods':
      // what was answered before a hold may not go; it is asked again when the hold is applied, or taken back
      return progress.commands.some(isHold)
        ? { ...progress, mustAsk: true }
        : permitted(progress, answer, { atMs, isAsked });
    case 'nothing':
      return progress;
    case 'wait':
      return { ...progress, waitingFor: answer.waitingFor };
    case 'done':
    case 'aborted': {
      const { kind: end, summary } = answer;
      const isKnown = before.end === end && before.summary === summary;
      const isIdle = answer.kind === 'aborted' && answer.isIdle;
      const log = isKnown ? progress.log : withLine(progress.log, summary);
      return { ...progress, summary, end, log, ...(isIdle && { isIdle }) };
    }
    case 'withdrawn':
      return { ...progress, end: 'withdrawn' };
  }
}

/** The pods that are in no batch yet go in further ones, as many as may be in flight. */
function permitted(
  progress: RollOutProgress,
  { batches, more, of, updated }: Extract<Answer, { kind: 'pods' }>,
  { atMs, isAsked }: { readonly atMs: number; readonly isAsked: boolean },
): RollOutProgress {
  const { inFlight, next } = progress;
  const { begun, hasRoom } = withBatches(progress, batches, podItems, atMs);
  const [batch] = batches;
  const stuck = begun.length > 0 ? [] : notReceived(inFlight, atMs);
  return {
    ...progress,
    ...(batch && { summary: `${updated} of ${of} pods are of revision ${batch.revision}` }),
    ...(stuck.length > 0 && { waitingFor: notRunning(stuck, batchNotRunning) }),
    // pods of batches that do not get there would be answered again and again
    mustAsk: progress.mustAsk || (more && hasRoom && (begun.length > 0 || !isAsked)),
    next: next + begun.length,
    inFlight: [...inFlight, ...begun],
  };
}

/**
 * Batches that an earlier leader has named are handed in again. Not while a hold is on its way, as that forbids them. To be asked when all
 * news are folded.
 */
export function handedInAgain(progress: RollOutProgress, atMs: number): RollOutProgress {
  if (progress.end === 'withdrawn' || progress.commands.some(isHold)) return progress;
  const anew = handedInAnew(progress, 'batches', atMs);
  if (anew === undefined) return progress;
  const { line, ...inFlight } = anew;
  return { ...progress, ...inFlight, log: withLine(progress.log, line) };
}

const batchNotRunning = {
  reason: 'BatchNotRunning',
  name: 'batch',
  unblock: 'The pods of these batches may go, but their activities are not running: unpause or reset them',
} as const;

/** What the object asks for now, unless that is older than what is known. */
function withFacts(progress: RollOutProgress, facts: RollOutFacts | undefined): RollOutProgress {
  if (facts === undefined || facts.generation < progress.facts.generation) return progress;
  const isOther = facts.revision !== progress.facts.revision;
  const log = isOther ? withLine(progress.log, `revision ${facts.revision} is now the update revision`) : progress.log;
  return { ...progress, facts, log };
}

function carriedOut(
  progress: RollOutProgress,
  { number, result, atMs }: Extract<RollOutNews, { kind: 'carriedOut' }>,
): RollOutProgress {
  const ended = progress.inFlight.find((batch) => batch.number === number);
  if (ended === undefined) return progress;
  const seconds = Math.round((atMs - ended.startedAtMs) / 1000);
  const not = result.pods.filter(({ why }) => why !== undefined);
  const [first] = not;
  const others = not.length > 1 ? ` and ${not.length - 1} more` : '';
  const failed = first === undefined ? '' : `; not ${first.pod}${others}: ${first.why}`;
  const pods = result.pods.length - not.length;
  const line = `batch ${number}: ${pods} pods in ${seconds} s${failed}; ${result.summary}`;
  const summary = progress.end === 'done' ? progress.summary : result.summary || progress.summary;
  const known = { ...withoutBatch(progress, number, line), summary };
  return progress.end === 'withdrawn' ? known : answered(known, result.next, { atMs });
}

function withoutBatch(progress: RollOutProgress, number: number, line: string): RollOutProgress {
  const inFlight = progress.inFlight.filter((batch) => batch.number !== number);
  return { ...progress, inFlight, log: withLine(progress.log, line) };
}

function withLine(log: readonly string[], line: string): readonly string[] {
  return [...log, line].slice(-logLines);
}

/** Whether an operator holds it, also if the watcher has not heard of that yet. */
function isPaused(progress: RollOutProgress): boolean {
  return isHeld(ordersIn(progress)) || progress.commands.some(isHold);
}

/** What a batch does, as people read it in the history: `undo: update shop-a in place`. */
export function inFlightText(progress: Pick<RollOutProgress, 'facts'>, { batch }: InFlight<PodBatch>): string {
  const goesBack = ordersIn(progress)?.undo?.to === batch.revision;
  return goesBack ? shortened(`undo: ${batchText(batch)}`, summaryBytes) : batchText(batch);
}

/** Whether it is over, and nothing is left to be applied or to be carried out. */
export function isOver(progress: RollOutProgress): boolean {
  return isEnding(progress) && progress.inFlight.length === 0;
}

/** Whether it is over but for the batches in flight. */
export function isEnding({ end, mustAsk, commands }: RollOutProgress): boolean {
  return end === 'withdrawn' || (end !== undefined && !mustAsk && commands.length === 0);
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
  aborted: 'Aborted',
  withdrawn: 'Deleted',
};

/** What one has done that is through: an undo has taken the update back. */
export function doneReason(progress: Pick<RollOutProgress, 'facts'>): 'RolledOut' | 'RolledBack' {
  return ordersIn(progress)?.undo ? 'RolledBack' : 'RolledOut';
}

/** Who has aborted it, for people. */
export function abortedBy(progress: Pick<RollOutProgress, 'facts'>): string {
  return ordersIn(progress)?.aborted?.by || 'an operator';
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
