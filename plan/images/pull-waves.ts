/**
 * The waves of an ImagePullJob. A wave is a few nodes by name: what the history of the job says about them, and what the
 * watcher is permitted to tell to pull. How many of them pull at once is decided by the job's parallelism over all waves,
 * not by the size of a wave.
 */
import { jsonBytes } from '../../api/base/json-bytes.ts';
import { endIn } from '../../api/core/conditions.ts';
import type { WaitingFor } from '../../api/engine/waiting-for.ts';
import { type ImagePullJob, isFinished } from '../../api/image-pull-job/types.ts';
import { fitting, listed, shortened, summaryBytes } from '../text-size.ts';
import { type NodeStanding, roomOf } from './image-pull-job.ts';

/** The most nodes of one wave, and the most bytes of their outcomes as JSON, so that each takes 8 KiB at most. */
export const mostInWave = 40;
export const waveBytes = 7 * 1024;

/** So many waves of a job are in flight at once. */
export const mostWavesInFlight = 25;

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

/** The question which nodes go next. */
export interface WaveQuestion {
  /** The number of the wave, from 1 in each history. */
  readonly wave: number;
  /** The waves in flight: none is chosen before all of them are handed in, so that no node is in two waves. */
  readonly after: readonly number[];
}

/** What the question which nodes go next has come to. */
export type NextNodes =
  /**
   * These nodes go next, or have begun without being named. Of `of` nodes `ended` have ended, and `rest` are left for
   * later waves.
   */
  | {
      readonly kind: 'wave';
      readonly nodes: readonly string[];
      readonly of: number;
      readonly ended: number;
      readonly rest: number;
    }
  /** Every node is in a wave. The watcher signals `changed` when there is another. */
  | { readonly kind: 'idle'; readonly of: number; readonly ended: number }
  /** No further node goes because of this. The watcher signals `changed` when it is over. */
  | { readonly kind: 'blocked'; readonly waitingFor: WaitingFor }
  | { readonly kind: 'finished'; readonly end: PullEnd }
  | { readonly kind: 'gone' };

/** A wave that is handed in. */
export interface Wave {
  readonly wave: number;
  readonly nodes: readonly string[];
}

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

/** What has become of the nodes of a wave. */
export interface WaveOutcome {
  readonly nodes: readonly NodeOutcome[];
}

/** The nodes of a job, as far as waves are concerned. */
export interface WaveScene {
  readonly nodes: readonly NodeStanding[];
  /** Whether a wave in flight names the node. */
  readonly isNamed: (node: string) => boolean;
  /** Nodes that have the job and were named by no wave. */
  readonly unnamed: ReadonlySet<string>;
  /** Whether anything besides parallelism and operators keeps nodes from getting the job. */
  readonly mayTell: boolean;
}

/**
 * The next wave: first the nodes that have begun without being named, then further ones in the order of their names. It is
 * empty while no further node may begin.
 */
export function nextWave(
  job: ImagePullJob,
  scene: WaveScene,
): { readonly nodes: readonly string[]; readonly rest: number } {
  const { nodes, isNamed, unnamed, mayTell } = scene;
  const begun = nodes.filter(({ node }) => unnamed.has(node));
  const mayGo = !isFinished(job);
  const open = mayGo ? nodes.filter(({ node, state }) => state === 'unasked' && !isNamed(node)) : [];
  const next = open.filter(({ held }) => held === undefined);
  const promised = nodes.filter(
    ({ node, state, held }) => state === 'unasked' && held === undefined && isNamed(node),
  ).length;
  const hasRoom = mayGo && mayTell && next.length > 0 && roomOf(job, nodes) - promised > 0;
  const left = begun.length + open.length;
  if (begun.length === 0 && !hasRoom) return { nodes: [], rest: left };

  const isSteered = mayGo && mayTell && roomOf(job, []) > 0;
  const chosen = [...begun, ...(isSteered ? next : [])].slice(0, mostInWave).map(({ node }) => node);
  const wave = withinWave(chosen);
  return { nodes: wave, rest: left - wave.length };
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

/** What is asked, for people. */
export function questionText(image: string, wave: number): string {
  return shortened(`choose the next nodes: ${shortened(image, summaryBytes / 2)}, wave ${wave}`, summaryBytes);
}

/** The first of these names, for people. */
export function firstNames(names: readonly string[]): readonly string[] {
  return fitting(names.slice(0, mostShown), shownBytes);
}

const mostShown = 5;
const shownBytes = 1_000;
