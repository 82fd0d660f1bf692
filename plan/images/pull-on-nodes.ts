/**
 * How the operation of an ImagePullJob continues: the events that it has received, folded into a plain value.
 *
 * It asks which nodes go next, hands these in as waves, and is told with the result of each which ones are next. A wave does not wait for
 * the one before. Commands are written to the job, where the watcher obeys them, so nothing here depends on them.
 */
import { timestamp } from '../../api/base/time.ts';
import type { WaitingFor } from '../../api/engine/waiting-for.ts';
import { pullJobWait } from '../../api/image-pull-job/texts.ts';
import {
  afterAnswer,
  handedInAnew,
  type InFlight,
  mostShown,
  nextAfter,
  notReceived,
  notRunning,
  type PermitNews,
  type Permitting,
  standingOf,
  withBatches,
} from '../permits/in-flight.ts';
import { listed } from '../text-size.ts';
import {
  firstNames,
  isGivenBack,
  type NodeOutcome,
  type NodesAnswer,
  nodeItems,
  type PullEnd,
  type Wave,
  type WaveResult,
  waveText,
} from './pull-waves.ts';

/** Where the operation stands. */
export interface PullProgress extends Permitting<Wave> {
  /** Empty before the first answer. */
  readonly image: string;
  /** What keeps further nodes from getting the job, by the last answer. */
  readonly waitingFor?: WaitingFor;
  /** A pause that is written to the job, until an answer says what it has come to. */
  readonly pause?: WaitingFor;
  /** Why a command cannot be written to the job. */
  readonly notWritten?: WaitingFor;
  /** How many nodes the job selects, and how many of them have ended, as far as is known. */
  readonly of: number;
  readonly ended: number;
  /** Nodes without the image, in the order in which they were reported. */
  readonly failed: readonly string[];
  /** What has been done, the last lines of it. */
  readonly log: readonly string[];
  /** How the job has ended. */
  readonly end?: PullEnd | 'withdrawn';
}

/** What a run leaves to the next one. */
export type CarriedProgress = Pick<PullProgress, 'next' | 'inFlight' | 'log' | 'image' | 'of' | 'ended' | 'failed'>;

export type PullNews =
  | PermitNews<NodesAnswer, WaveResult>
  /** A command was received. */
  | { readonly kind: 'command'; readonly name: string }
  /** A command was written to the job, or the job has refused it. */
  | { readonly kind: 'written'; readonly name: string; readonly isRefused: boolean; readonly atMs: number }
  /** A command could not be written. */
  | { readonly kind: 'notWritten'; readonly waitingFor: WaitingFor }
  /** The time of the run is over: it has waited as long as it may, or is to hand over. */
  | { readonly kind: 'timeOver' };

const logLines = 12;
const mostFailedKept = 10;

/** An operation that has just begun, or continues where an earlier run ended. */
export function begun(before: Partial<CarriedProgress> = {}): PullProgress {
  const { next = 1, inFlight = [], log = [], image = '', of = 0, ended = 0, failed = [] } = before;
  return {
    ...{ inFlight, log, image, of, ended, failed },
    next: nextAfter(inFlight, next),
    ...{ mustAsk: true, isNew: true },
  };
}

/** The progress after one event. */
export function heard(progress: PullProgress, news: PullNews): PullProgress {
  switch (news.kind) {
    case 'changed':
      return { ...progress, mustAsk: true };
    case 'command':
      return news.name === 'retry' ? { ...progress, mustAsk: true } : progress;
    case 'written':
      return written(progress, news);
    case 'notWritten':
      return { ...progress, notWritten: news.waitingFor };
    case 'answer':
      return answered(progress, news.answer, { atMs: news.atMs, isAsked: true });
    case 'notAnswered':
      return { ...progress, waitingFor: news.waitingFor };
    case 'carriedOut':
      return carriedOut(progress, news);
    case 'lost': {
      if (!progress.inFlight.some(({ number }) => number === news.number)) return progress;
      return { ...withoutWave(progress, news.number, `wave ${news.number}: ${news.why}`), mustAsk: true };
    }
    case 'timeOver':
      return progress;
  }
}

/** It has asked. */
export function asked(progress: PullProgress): PullProgress {
  return { ...progress, mustAsk: false };
}

/** Waves that an earlier leader has named are handed in again. To be asked when all news are folded. */
export function handedInAgain(progress: PullProgress, atMs: number): PullProgress {
  const anew = progress.end === 'withdrawn' ? undefined : handedInAnew(progress, 'waves', atMs);
  if (anew === undefined) return progress;
  const { line, ...inFlight } = anew;
  return { ...progress, ...inFlight, log: withLine(progress.log, line) };
}

/** The watcher may see a pause a moment later, so it is shown from here on. */
function written(progress: PullProgress, { name, isRefused, atMs }: Extract<PullNews, { kind: 'written' }>) {
  const { notWritten: _, ...others } = progress;
  if (isRefused) return others;
  switch (name) {
    case 'pause':
      return { ...others, pause: pullJobWait('Paused', { blockedBy: ['operator'], since: timestamp(atMs) }) };
    case 'resume': {
      const { pause: __, waitingFor, ...resumed } = others;
      return waitingFor === undefined || waitingFor.reason === 'Paused' ? resumed : { ...resumed, waitingFor };
    }
    default:
      return others;
  }
}

/** `isAsked`: it answers a question, and does not come with a result. */
function answered(
  before: PullProgress,
  answer: NodesAnswer,
  { atMs, isAsked = false }: { readonly atMs: number; readonly isAsked?: boolean },
): PullProgress {
  const { order, image = before.image, of = before.of, ended = before.ended } = answer;
  const standing = standingOf(before, order, { isAsked });
  if (standing === 'stale') return before;
  if (standing === 'ofAnother') return { ...before, mustAsk: true };
  const { waitingFor: _, pause: __, end, isNew: ___, ...known } = before;
  const waves = answer.kind === 'nodes' ? answer.waves : [];
  const inFlight = afterAnswer(before, { ...(order && { order }), named: new Set(waves.flat()), atMs }, nodeItems);
  const progress = { ...known, image, of, ended, inFlight, ...(order && { order }) };
  switch (answer.kind) {
    case 'nodes':
      return permitted(progress, answer, { atMs, isAsked });
    case 'nothing':
      return progress;
    case 'wait':
      return { ...progress, waitingFor: answer.waitingFor };
    case 'done':
      return { ...progress, end: answer.end };
    case 'withdrawn':
      // how a job has ended is known from before it was deleted
      return { ...progress, end: end ?? 'withdrawn' };
  }
}

/** The nodes that are in no wave yet go in further ones, as many as may be in flight. */
function permitted(
  progress: PullProgress,
  { waves, more }: Extract<NodesAnswer, { kind: 'nodes' }>,
  { atMs, isAsked }: { readonly atMs: number; readonly isAsked: boolean },
): PullProgress {
  const { inFlight, next } = progress;
  const { begun: added, hasRoom } = withBatches(progress, waves, nodeItems, atMs);
  const stuck = added.length > 0 ? [] : notReceived(inFlight, atMs);
  return {
    ...progress,
    ...(stuck.length > 0 && { waitingFor: notRunning(stuck, waveNotRunning) }),
    // nodes of waves that do not get there would be answered again and again
    mustAsk: progress.mustAsk || (more && hasRoom && (added.length > 0 || !isAsked)),
    next: next + added.length,
    inFlight: [...inFlight, ...added],
  };
}

const waveNotRunning = {
  reason: 'WaveNotRunning',
  name: 'wave',
  unblock: 'The nodes of these waves may go, but their activities are not running: unpause or reset them',
} as const;

function carriedOut(
  progress: PullProgress,
  { number, result, atMs }: Extract<PullNews, { kind: 'carriedOut' }>,
): PullProgress {
  const held = progress.inFlight.find((one) => one.number === number);
  if (held === undefined) return progress;
  const without = result.nodes.filter(({ why }) => why !== undefined);
  const seconds = Math.round((atMs - held.startedAtMs) / 1_000);
  const names = listed(namesIn(without), shownBytes);
  const not = without.length === 0 ? '' : `; not ${names}: ${without[0]?.why}`;
  const line = `wave ${number}: ${result.nodes.length - without.length} nodes in ${seconds} s${not}`;
  const ended = new Set(namesIn(result.nodes));
  const failed = without.filter((outcome) => !isGivenBack(outcome));
  const known = {
    ...withoutWave(progress, number, line),
    failed: [...progress.failed.filter((node) => !ended.has(node)), ...namesIn(failed)].slice(-mostFailedKept),
  };
  return answered(known, result.next, { atMs });
}

function namesIn(nodes: readonly NodeOutcome[]): readonly string[] {
  return nodes.map(({ node }) => node);
}

function withoutWave(progress: PullProgress, number: number, line: string): PullProgress {
  const inFlight = progress.inFlight.filter((one) => one.number !== number);
  return { ...progress, inFlight, log: withLine(progress.log, line) };
}

function withLine(log: readonly string[], line: string): readonly string[] {
  return [...log, line].slice(-logLines);
}

/** Whether it is over but for the waves in flight. */
export function isEnding({ end, mustAsk }: PullProgress): boolean {
  return end === 'withdrawn' || (end !== undefined && !mustAsk);
}

/** What happens to a wave in flight, for people. */
export function inFlightText({ image }: Pick<PullProgress, 'image'>, { batch }: InFlight<Wave>): string {
  return waveText(image, batch);
}

/** In which phase people find it. */
export function phaseOf({ end, pause, waitingFor }: PullProgress): string {
  if (end === 'withdrawn') return 'Deleted';
  if (end) return end.failed ? 'Failed' : 'Completed';
  return (pause ?? waitingFor)?.reason === 'Paused' ? 'Paused' : 'Pulling';
}

/** What people find it to wait for; empty when it waits for nodes that pull. */
export function reasonOfWait({ notWritten, pause, waitingFor }: PullProgress): string {
  return (notWritten ?? pause ?? waitingFor)?.reason ?? '';
}

const shownBytes = 400;

/** All that there is to say, in lines. What has ended waits for nothing, and nothing of it is in flight. */
export function detailsOf(progress: PullProgress): string {
  const { image, of, ended, failed, notWritten, pause, waitingFor, end, log } = progress;
  const inFlight = end ? [] : progress.inFlight;
  const waits = end ? [] : [notWritten, pause, waitingFor];
  return [
    `${phaseOf(progress)}${image ? `: ${image}` : ''}, ${ended} of ${of} nodes have ended`,
    ...waits.flatMap((wait) => (wait ? [waitText(wait)] : [])),
    ...(failed.length > 0 ? [`not pulled on ${listed(failed, shownBytes)}`] : []),
    ...inFlight.slice(0, mostShown).map((one) => `wave ${one.number} in flight: ${inFlightText(progress, one)}`),
    ...(inFlight.length > mostShown ? [`${inFlight.length - mostShown} more waves in flight`] : []),
    ...log,
  ].join('\n\n');
}

function waitText({ reason, since, blockedBy, unblock }: WaitingFor): string {
  const by = blockedBy.length === 0 ? '' : ` (${firstNames(blockedBy).join(', ')})`;
  return `waits since ${since}: ${reason}${by}: ${unblock}`;
}
