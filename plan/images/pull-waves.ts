/**
 * The waves of an ImagePullJob. A wave is a few nodes by name: what the history of the job says about them, and what the
 * watcher is permitted to tell to pull. How many of them pull at once is decided by the job's parallelism over all waves,
 * not by the size of a wave.
 */
import { jsonBytes } from '../../api/base/json-bytes.ts';
import { endIn } from '../../api/core/conditions.ts';
import type { WaitingFor } from '../../api/engine/waiting-for.ts';
import { type ImagePullJob, isFinished, parallelismOf } from '../../api/image-pull-job/types.ts';
import { type AnswerOrder, answerBytes, type BatchItems, mostInAnswer, mostInBatch } from '../permits/in-flight.ts';
import { fitting, listed, shortened, summaryBytes } from '../text-size.ts';
import { type NodeStanding, roomOf } from './image-pull-job.ts';

/** The most bytes of the outcomes of a wave as JSON, so that it takes 8 KiB at most. */
export const waveBytes = 7 * 1024;

/** The bytes of the outcome of a node besides its name: two times, and the least of why it has no image. */
const outcomeBytes = 110;

/** How a job has ended. */
export interface PullEnd {
  readonly failed: boolean;
  /** Of its condition. */
  readonly reason: string;
  readonly message: string;
}

/** The longest message of an end, which may name ten nodes. */
const endMessageBytes = 1_500;

/** The nodes of a wave, by name. */
export type Wave = readonly string[];

export const nodeItems: BatchItems<Wave> = {
  idsOf: (nodes) => nodes,
  without(nodes, names) {
    const left = nodes.filter((node) => !names.has(node));
    return left.length > 0 ? left : undefined;
  },
};

/**
 * Which nodes may go next, or why none may: the answer to `nextNodes`, and part of the result of each wave. Always of the moment at which
 * it is given.
 */
export type NodesAnswer = NodesAnswerKind & NodesTold;

export interface NodesTold {
  /** The image that is pulled. Absent: the job is gone. */
  readonly image?: string;
  /** How many nodes the job selects, and how many of them have ended. Absent: the job is gone. */
  readonly of?: number;
  readonly ended?: number;
  /** Tells which of two answers of one term is the later one. Absent: that is not known. */
  readonly order?: AnswerOrder;
}

export type NodesAnswerKind =
  /** These nodes go next, or have begun without being named. `more`: others may go as well. */
  | { readonly kind: 'nodes'; readonly waves: readonly Wave[]; readonly more: boolean }
  /** Every node is named, or those that pull leave no room for others. */
  | { readonly kind: 'nothing' }
  /** No further node goes because of this. */
  | { readonly kind: 'wait'; readonly waitingFor: WaitingFor }
  /** The job has ended, and every node that was told is named. */
  | { readonly kind: 'done'; readonly end: PullEnd }
  /** The job is being deleted, or gone. */
  | { readonly kind: 'withdrawn' };

/** What has become of one node. */
export interface NodeOutcome {
  readonly node: string;
  /** When it was told to pull, RFC 3339 in UTC. Absent: it was not. */
  readonly at?: string;
  /** From then until it had the image. */
  readonly ms?: number;
  /** Why it has no image. Absent: it has. */
  readonly why?: string;
}

/** Why a node that was not told is given back: it may be named again. */
export function notNow(reason: string): string {
  return `${notNowPrefix}${reason}`;
}

export function isGivenBack({ why }: Pick<NodeOutcome, 'why'>): boolean {
  return why?.startsWith(notNowPrefix) === true;
}

const notNowPrefix = 'not now: ';

/** What has become of the nodes of a wave. */
export interface WaveOutcome {
  readonly nodes: readonly NodeOutcome[];
}

/** What has become of a wave, and which nodes may go next. */
export interface WaveResult extends WaveOutcome {
  readonly next: NodesAnswer;
}

/** The nodes of a job, as far as waves are concerned. */
export interface WaveScene {
  readonly nodes: readonly NodeStanding[];
  /** Whether a wave in flight names the node. */
  readonly isNamed: (node: string) => boolean;
  /** Whether the node is in a wave whose activity does not run: others are named first. Absent: none is. */
  readonly isAside?: (node: string) => boolean;
  /** Nodes that have the job and were named by no wave. */
  readonly unnamed: ReadonlySet<string>;
  /** Whether anything besides parallelism and operators keeps nodes from getting the job. */
  readonly mayTell: boolean;
}

/**
 * The next waves, `most` nodes at most: first the nodes that have begun without being named, then further ones in the order of their
 * names. Further ones are named before there is room for them, so that no room is left unused while they are: as many as may pull at
 * once, but no more than a wave. The last wave is filled up.
 */
export function nextWaves(
  job: ImagePullJob,
  { nodes, isNamed, isAside = () => false, unnamed, mayTell }: WaveScene,
  most = mostInAnswer,
): { readonly waves: readonly Wave[]; readonly more: boolean } {
  const begun = nodes.filter(({ node }) => unnamed.has(node));
  const mayGo = !isFinished(job) && mayTell && roomOf(job, []) > 0;
  const open = mayGo ? nodes.filter(({ state, held }) => state === 'unasked' && held === undefined) : [];
  const free = open.filter(({ node }) => !isNamed(node));
  const next = [...free.filter(({ node }) => !isAside(node)), ...free.filter(({ node }) => isAside(node))];
  const ahead = Math.min(parallelismOf(job), mostInBatch);
  const wanted = Math.max(roomOf(job, nodes), 0) + ahead - (open.length - next.length);
  const filled = Math.ceil((begun.length + wanted) / mostInBatch) * mostInBatch - begun.length;
  const chosen = [...begun, ...(wanted > 0 ? next.slice(0, filled) : [])];
  const waves = inWaves(chosen.slice(0, most).map(({ node }) => node));
  const named = waves.reduce((sum, wave) => sum + wave.length, 0);
  return { waves, more: named < chosen.length };
}

/** As many of the first of these nodes as an answer can hold. */
function inWaves(nodes: readonly string[]): readonly Wave[] {
  const waves: Wave[] = [];
  for (let left = nodes; left.length > 0; ) {
    const wave = withinWave(left.slice(0, mostInBatch));
    waves.push(wave);
    left = left.slice(wave.length);
  }
  return fitting(waves, answerBytes);
}

/** As many of the nodes as a wave and its outcome can hold, and at least one. */
function withinWave(nodes: readonly string[]): readonly string[] {
  let left = waveBytes;
  const end = nodes.findIndex((node) => {
    left -= jsonBytes(node) + outcomeBytes;
    return left < 0;
  });
  return end < 0 ? nodes : nodes.slice(0, Math.max(end, 1));
}

/** The outcomes of a wave, with texts of equal size that fit. */
export function waveOutcome(nodes: readonly NodeOutcome[]): WaveOutcome {
  const failed = nodes.filter(({ why }) => why !== undefined).length;
  const left = waveBytes - jsonBytes(nodes.map(({ why: _, ...other }) => other));
  const whyBytes = Math.max(Math.floor(left / Math.max(failed, 1)) - jsonBytes({ why: '' }), leastWhyBytes);
  return {
    nodes: nodes.map(({ why, ...other }) => ({
      ...other,
      ...(why !== undefined && { why: shortened(why, whyBytes) }),
    })),
  };
}

const leastWhyBytes = 40;

/** How the job has ended; undefined while it is open. */
export function pullEndOf(job: ImagePullJob): PullEnd | undefined {
  if (!isFinished(job)) return undefined;
  const { conditions, message = '', failed = 0 } = job.status ?? {};
  const end = endIn(conditions);
  // a job that OpenKruise has completed has no conditions
  if (end === undefined) return { failed: failed > 0, reason: failed > 0 ? 'NodesFailed' : 'ImagePulled', message };
  return { failed: end.type === 'Failed', reason: end.reason, message: shortened(end.message, endMessageBytes) };
}

/** What happens to the nodes of a wave, for people: `pull nginx:1.27 on node-1, node-2 and 38 more`. */
export function waveText(image: string, nodes: readonly string[]): string {
  const what = `pull ${shortened(image, summaryBytes / 2)} on `;
  return shortened(`${what}${listed(nodes, summaryBytes - jsonBytes(what))}`, summaryBytes);
}

/** The first of these names, for people. */
export function firstNames(names: readonly string[]): readonly string[] {
  return fitting(names.slice(0, mostShown), shownBytes);
}

const mostShown = 5;
const shownBytes = 1_000;
