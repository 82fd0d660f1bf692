/**
 * How the operation of an ImagePullJob continues: the events that it has received, folded into a plain value, and what is
 * asked of the leading watcher next.
 *
 * It asks which nodes go next, hands these in as a wave, and asks again. A wave does not wait for the one before. Commands
 * are written to the job, where the watcher obeys them, so nothing here depends on them.
 */
import type { WaitingFor } from '../../api/engine/waiting-for.ts';
import type { FirstWave } from '../../api/image-pull-job/operation.ts';
import { listed } from '../text-size.ts';
import {
  firstNames,
  type NextNodes,
  type PullEnd,
  type WaveOutcome,
  type WaveQuestion,
  waveText,
} from './pull-waves.ts';

/** What a look at the job has found. */
export type PullJobLook =
  | { readonly kind: 'gone' }
  | { readonly kind: 'open'; readonly image: string }
  | { readonly kind: 'finished'; readonly image: string; readonly end: PullEnd };

/** A wave that is handed in. */
export interface WaveInFlight {
  readonly wave: number;
  readonly nodes: readonly string[];
  readonly startedAtMs: number;
}

/** Where the operation stands. */
export interface PullProgress {
  /** Empty before the first look. */
  readonly image: string;
  /** The number of the next wave, from 1. */
  readonly next: number;
  /** The waves that are handed in, in the order of their numbers. */
  readonly inFlight: readonly WaveInFlight[];
  /** How many looks at the job are wanted so far. */
  readonly looks: number;
  /** Grows whenever the same is to be asked again. */
  readonly round: number;
  /** Nothing is asked before the watcher, an operator or the end of a pause says so. */
  readonly isParked: boolean;
  /** What keeps further nodes from getting the job. */
  readonly waitingFor?: WaitingFor;
  /** Why the job cannot be read, or a command not be written to it. */
  readonly refused: Readonly<Partial<Record<Refusing, WaitingFor>>>;
  /** How many nodes the job selects, and how many of them have ended, as far as is known. */
  readonly of: number;
  readonly ended: number;
  /** Nodes without the image, in the order in which they were reported. */
  readonly failed: readonly string[];
  /** What has been done, the last lines of it. */
  readonly log: readonly string[];
  /** How the job has ended. */
  readonly end?: PullEnd | 'gone';
  /** The watcher has named every node that it will name. */
  readonly isNamed: boolean;
}

type Refusing = 'look' | 'command';

export type PullNews =
  | { readonly kind: 'changed' }
  | { readonly kind: 'command'; readonly name: string }
  | { readonly kind: 'looked'; readonly look: PullJobLook }
  | { readonly kind: 'refused'; readonly step: Refusing; readonly waitingFor: WaitingFor }
  /** What was refused is done. */
  | { readonly kind: 'allowed'; readonly step: Refusing }
  | { readonly kind: 'next'; readonly next: NextNodes; readonly of: WaveQuestion; readonly atMs: number }
  /** The question has failed for an unforeseen reason. */
  | { readonly kind: 'parked'; readonly waitingFor: WaitingFor }
  /** The pause after that is over. */
  | { readonly kind: 'again' }
  | { readonly kind: 'ended'; readonly wave: number; readonly outcome: WaveOutcome; readonly atMs: number }
  /** A wave has no outcome: its activity was ended by hand. */
  | { readonly kind: 'lost'; readonly wave: number; readonly why: string }
  /** The run has waited for its waves as long as it may. */
  | { readonly kind: 'graceOver' };

const logLines = 12;

/** So many waves in flight are named, and so many nodes that have failed. */
const mostWavesShown = 5;
const mostFailedKept = 10;

/** An operation that has just begun, or continues where an earlier run ended. */
export function begun({ next = 1 }: { readonly next?: number | undefined } = {}): PullProgress {
  return {
    image: '',
    next,
    inFlight: [],
    looks: 1,
    round: 0,
    isParked: false,
    refused: {},
    of: 0,
    ended: 0,
    failed: [],
    log: [],
    isNamed: false,
  };
}

/** An operation that was told its first wave when it was started: nothing is to be read or asked yet. */
export function begunWith({ image, ...first }: FirstWave, atMs: number): PullProgress {
  const progress = { ...begun(), image, looks: 0 };
  return answered(progress, { kind: 'next', next: { kind: 'wave', ...first }, of: { wave: 1, after: [] }, atMs });
}

/** The progress after one event. */
export function heard(progress: PullProgress, news: PullNews): PullProgress {
  switch (news.kind) {
    case 'changed':
      return { ...progress, looks: progress.looks + 1 };
    case 'command':
      return news.name === 'retry' ? askedAnew(progress) : progress;
    case 'looked':
      return looked(progress, news.look);
    case 'refused':
      return { ...progress, refused: { ...progress.refused, [news.step]: news.waitingFor } };
    case 'allowed': {
      const { [news.step]: _, ...refused } = progress.refused;
      return { ...progress, refused };
    }
    case 'next':
      return answered(progress, news);
    case 'parked':
      return { ...progress, waitingFor: news.waitingFor, isParked: true };
    case 'again':
      return askedAnew(progress);
    case 'ended':
      return waveEnded(progress, news);
    case 'lost':
      return lost(progress, news.wave, news.why);
    case 'graceOver':
      return progress;
  }
}

/** Only if it is parked: a question that is pending sees by itself what has changed. */
function askedAnew(progress: PullProgress): PullProgress {
  if (!progress.isParked) return progress;
  const { waitingFor: _, ...others } = progress;
  return { ...others, isParked: false, round: progress.round + 1 };
}

function looked(progress: PullProgress, look: PullJobLook): PullProgress {
  switch (look.kind) {
    case 'gone':
      return { ...progress, end: progress.end ?? 'gone' };
    case 'finished':
      return { ...progress, image: look.image, end: look.end };
    case 'open':
      return askedAnew({ ...progress, image: look.image });
  }
}

function answered(progress: PullProgress, { next, of, atMs }: Extract<PullNews, { kind: 'next' }>): PullProgress {
  const { waitingFor: _, ...others } = progress;
  switch (next.kind) {
    case 'wave': {
      const chosen = { wave: progress.next, nodes: next.nodes, startedAtMs: atMs };
      return {
        ...others,
        of: next.of,
        ended: next.ended,
        next: progress.next + 1,
        inFlight: [...progress.inFlight, chosen],
        isParked: next.rest === 0,
      };
    }
    case 'idle':
      return { ...others, of: next.of, ended: next.ended, isParked: true };
    case 'blocked': {
      // waves that have ended since it was asked were waited for
      const isStale = JSON.stringify(of.after) !== JSON.stringify(numbersOf(progress));
      if (isStale) return { ...others, round: progress.round + 1 };
      return { ...progress, waitingFor: next.waitingFor, isParked: true };
    }
    case 'finished':
      return { ...others, end: next.end, isNamed: true };
    case 'gone':
      return { ...others, end: progress.end ?? 'gone', isNamed: true };
  }
}

function waveEnded(
  progress: PullProgress,
  { wave, outcome, atMs }: Extract<PullNews, { kind: 'ended' }>,
): PullProgress {
  const ended = progress.inFlight.find((one) => one.wave === wave);
  if (ended === undefined) return progress;
  const failed = outcome.nodes.filter(({ why }) => why !== undefined);
  const names = failed.map(({ node }) => node);
  const seconds = Math.round((atMs - ended.startedAtMs) / 1_000);
  const not = failed.length === 0 ? '' : `; not ${listed(names, shownBytes)}: ${failed[0]?.why}`;
  const line = `wave ${wave}: ${outcome.nodes.length - failed.length} nodes in ${seconds} s${not}`;
  const after = {
    ...withoutWave(progress, wave, line),
    ended: Math.min(progress.ended + outcome.nodes.length, Math.max(progress.of, progress.ended)),
    failed: [...progress.failed, ...names].slice(-mostFailedKept),
  };
  // what was given by hand may lack nodes, which are named again
  return outcome.nodes.length < ended.nodes.length ? { ...after, round: after.round + 1, isParked: false } : after;
}

/** Its nodes are named again, unless they have ended: the question that is pending waits for the wave. */
function lost(progress: PullProgress, wave: number, why: string): PullProgress {
  if (!progress.inFlight.some((one) => one.wave === wave)) return progress;
  const { waitingFor: _, ...others } = withoutWave(progress, wave, `wave ${wave}: ${why}`);
  return { ...others, round: progress.round + 1, isParked: false };
}

function withoutWave(progress: PullProgress, wave: number, line: string): PullProgress {
  const inFlight = progress.inFlight.filter((one) => one.wave !== wave);
  return { ...progress, inFlight, log: [...progress.log, line].slice(-logLines) };
}

/** What should be asked now, and how it differs from what was asked before; undefined when nothing is to be. */
export function wantedQuestion(progress: PullProgress): (WaveQuestion & { readonly key: string }) | undefined {
  const { image, end, isParked, isNamed, next, round } = progress;
  if (isParked || isNamed || (image === '' && end === undefined)) return undefined;
  return { wave: next, after: numbersOf(progress), key: `${next} ${round}` };
}

function numbersOf({ inFlight }: PullProgress): readonly number[] {
  return inFlight.map(({ wave }) => wave);
}

/** Whether the job has ended. Its last nodes may still have to be named, and waves be answered. */
export function isEnding({ end }: PullProgress): boolean {
  return end !== undefined;
}

/** Whether the watcher has answered all that it is asked. */
export function isAnswered(progress: PullProgress): boolean {
  return progress.inFlight.length === 0 && wantedQuestion(progress) === undefined;
}

/** In which phase people find it. */
export function phaseOf({ end, waitingFor }: PullProgress): string {
  if (end === 'gone') return 'Deleted';
  if (end) return end.failed ? 'Failed' : 'Completed';
  return waitingFor?.reason === 'Paused' ? 'Paused' : 'Pulling';
}

/** What people find it to wait for; empty when it waits for nodes that pull. */
export function reasonOfWait({ refused, waitingFor }: PullProgress): string {
  return (refused.command ?? refused.look ?? waitingFor)?.reason ?? '';
}

const shownBytes = 400;

/** All that there is to say, in lines. What has ended waits for nothing, and nothing of it is in flight. */
export function detailsOf(progress: PullProgress): string {
  const { image, of, ended, failed, refused, waitingFor, end, log } = progress;
  const inFlight = end ? [] : progress.inFlight;
  const waits = end ? [] : [refused.command, refused.look, waitingFor];
  return [
    `${phaseOf(progress)}${image ? `: ${image}` : ''}, ${ended} of ${of} nodes have ended`,
    ...waits.flatMap((wait) => (wait ? [waitText(wait)] : [])),
    ...(failed.length > 0 ? [`not pulled on ${listed(failed, shownBytes)}`] : []),
    ...inFlight.slice(0, mostWavesShown).map(({ wave, nodes }) => `wave ${wave} in flight: ${waveText(image, nodes)}`),
    ...(inFlight.length > mostWavesShown ? [`${inFlight.length - mostWavesShown} more waves in flight`] : []),
    ...log,
  ].join('\n\n');
}

function waitText({ reason, since, blockedBy, unblock }: WaitingFor): string {
  const by = blockedBy.length === 0 ? '' : ` (${firstNames(blockedBy).join(', ')})`;
  return `waits since ${since}: ${reason}${by}: ${unblock}`;
}
