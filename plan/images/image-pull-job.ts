// One image on many nodes: which nodes are selected, which ones get it next, and the status of the job.

import { compareGoStrings } from '../../api/base/json-go.ts';
import { timestamp } from '../../api/base/time.ts';
import { endCondition, withCondition } from '../../api/core/conditions.ts';
import type { FamiliarImage } from '../../api/core/familiar-image.ts';
import { longestReference } from '../../api/core/image-reference.ts';
import { isSelected } from '../../api/core/label-selector.ts';
import { getsNodeImage, isOfOtherSystem, type Node, readySince } from '../../api/core/node.ts';
import type { Pod } from '../../api/core/pod.ts';
import { isActive } from '../../api/core/pod.ts';
import type { EngineTrouble } from '../../api/engine/engine-trouble.ts';
import type { WaitingFor } from '../../api/engine/waiting-for.ts';
import {
  type PullJobFailedReason,
  pullJobCondition,
  pullJobMessage,
  pullJobWait,
  pullJobWaits,
} from '../../api/image-pull-job/texts.ts';
import {
  endsByItself,
  type ImagePullJob,
  type ImagePullJobStatus,
  parallelismOf,
  steeringOf,
} from '../../api/image-pull-job/types.ts';
import type { PullWaitReason } from '../../api/node-image/texts.ts';
import {
  currentTagStatus,
  findTag,
  imageEntry,
  type NodeImage,
  outcomeOf,
  type PullSecretRef,
} from '../../api/node-image/types.ts';
import { shortened } from '../text-size.ts';
import { waitingSince } from '../waiting-since.ts';
import { type EndedJudge, isOwnedBy, lacksSecret, takesWish } from './node-image.ts';

/**
 * The nodes that a job selects now (IPJ-1 to IPJ-5), by name. A node with another operating system than Linux has no
 * daemon.
 */
export function meantNodes(
  job: ImagePullJob,
  world: {
    readonly nodeImages: Iterable<NodeImage>;
    readonly byName: (name: string) => NodeImage | undefined;
    /** Of the namespace of the job; called only for a job with a podSelector. */
    readonly pods: () => Iterable<Pod>;
  },
): readonly NodeImage[] {
  const names = namesMeant(job, world.pods);
  const chosen =
    names === undefined
      ? [...world.nodeImages].filter(({ metadata }) => isSelected(job.spec.selector ?? {}, metadata.labels))
      : names.flatMap((name) => world.byName(name) ?? []);
  return chosen
    .filter((nodeImage) => nodeImage.metadata.deletionTimestamp === undefined && !isOfOtherSystem(nodeImage))
    .toSorted((left, right) => compareGoStrings(left.metadata.name, right.metadata.name));
}

/** The ready nodes that a job selects, and that have no NodeImage yet (NI-1), by name: the job has to wait for them. */
export function nodesWithoutNodeImage(
  job: ImagePullJob,
  world: {
    readonly nodes: Iterable<Node>;
    readonly hasNodeImage: (node: string) => boolean;
    readonly pods: () => Iterable<Pod>;
  },
): readonly string[] {
  const coming = [...world.nodes].filter(
    (node) => getsNodeImage(node) && readySince(node) !== undefined && !world.hasNodeImage(node.metadata.name),
  );
  if (coming.length === 0) return [];
  const names = namesMeant(job, world.pods);
  return coming
    .filter(({ metadata }) => names?.includes(metadata.name) ?? isSelected(job.spec.selector ?? {}, metadata.labels))
    .map(({ metadata }) => metadata.name)
    .toSorted(compareGoStrings);
}

/** The names of the nodes that a job selects by pods or by name; undefined: it selects by labels. */
function namesMeant({ spec, metadata }: ImagePullJob, pods: () => Iterable<Pod>): readonly string[] | undefined {
  const { podSelector, selector } = spec;
  if (podSelector === undefined) return selector?.names;
  const names = new Set<string>();
  for (const pod of pods()) {
    const { nodeName } = pod.spec;
    if (!nodeName || pod.metadata.namespace !== metadata.namespace || !isActive(pod)) continue;
    if (isSelected(podSelector, pod.metadata.labels)) names.add(nodeName);
  }
  return [...names];
}

/** The state of one node for a job. */
export interface NodeStanding {
  readonly node: string;
  /** `unasked`: its NodeImage does not contain the job. */
  readonly state: 'unasked' | 'active' | 'succeeded' | 'failed';
  /** One of the job's secrets is missing in its NodeImage. */
  readonly lacksSecret: boolean;
  /** Why it cannot get the job yet: its NodeImage is full for the job's namespace, or has not been created. */
  readonly held?: 'full' | 'noNodeImage';
  /** What the node waits for. */
  readonly waiting?: string;
  /** When its NodeImage got the job, and when its pull ended: to the second, by the clocks of watcher and node. */
  readonly toldAt?: string;
  readonly endedAt?: string;
  /** Why the pull, or its last attempt, failed. */
  readonly why?: string;
}

/** The state of each of the nodes for the job, by name. */
export function standings(
  job: ImagePullJob,
  image: FamiliarImage,
  nodes: readonly NodeImage[],
  secrets: readonly PullSecretRef[],
  isEnded?: EndedJudge,
): readonly NodeStanding[] {
  return nodes.map((nodeImage) => {
    const { name: node } = nodeImage.metadata;
    const tag = findTag(nodeImage, image.name, image.tag);
    if (tag === undefined || !isOwnedBy(tag, job.metadata.uid)) {
      const isFull = !takesWish(nodeImage, job.metadata.namespace ?? '', isEnded);
      return { node, state: 'unasked', lacksSecret: false, ...(isFull && { held: 'full' }) };
    }
    const tagStatus = currentTagStatus(nodeImage, { name: image.name, tag });
    const outcome = outcomeOf(tagStatus);
    const state = outcome === undefined ? 'active' : outcome === 'Succeeded' ? 'succeeded' : 'failed';
    const waiting = nodeImage.status?.waitingFor?.reason;
    const { completionTime: endedAt, message: why } = tagStatus ?? {};
    return {
      node,
      state,
      lacksSecret: lacksSecret(imageEntry(nodeImage.spec, image.name), secrets),
      ...(waiting !== undefined && { waiting }),
      ...(tag.createdAt !== undefined && { toldAt: tag.createdAt }),
      ...(outcome !== undefined && endedAt !== undefined && { endedAt }),
      ...(why !== undefined && { why }),
    };
  });
}

/**
 * The nodes that get the job now: in order of their names, never more at the same time than parallelism allows
 * (IPJ-10). A full node is skipped until it has room, and one whose turn has not come until then.
 */
export function nodesToTell(
  job: ImagePullJob,
  nodes: readonly NodeStanding[],
  hasTurn: (node: string) => boolean = () => true,
): readonly string[] {
  if (steeringOf(job).abortedBy !== undefined) return [];
  // adding a late secret begins no pull, so it is not limited
  const incomplete = nodes.filter(({ state, lacksSecret: lacks }) => state === 'active' && lacks);
  const room = roomOf(job, nodes);
  const next = nodes.filter(({ node, state, held }) => state === 'unasked' && held === undefined && hasTurn(node));
  return [...incomplete, ...next.slice(0, Math.max(0, room))].map(({ node }) => node);
}

/** How many nodes more may pull at the same time. */
export function roomOf(job: ImagePullJob, nodes: readonly NodeStanding[]): number {
  const { paused, abortedBy } = steeringOf(job);
  return paused || abortedBy !== undefined ? 0 : parallelismOf(job) - countOf(nodes, 'active');
}

/** The nodes that an operator's `retry` applies to. */
export function nodesToRetry(job: ImagePullJob, nodes: readonly NodeStanding[]): readonly string[] {
  if (!steeringOf(job).retrying) return [];
  return nodes.filter(({ state }) => state === 'failed').map(({ node }) => node);
}

function countOf(nodes: readonly NodeStanding[], state: NodeStanding['state']): number {
  return nodes.filter((node) => node.state === state).length;
}

/** The new status of a job, and when to look at it again. */
export interface JobReport {
  readonly status: ImagePullJobStatus;
  readonly againInMs?: number;
}

/** Other facts that determine the status of a job. */
export interface JobContext {
  readonly nowMs: number;
  /** Why Temporal does not continue the operation of the job. Absent: it does, as far as is known. */
  readonly engine?: EngineTrouble;
  /** Why the copies of its pull secrets cannot be written. */
  readonly secretTrouble?: string;
  /** The field that is too large for nodes. */
  readonly tooLarge?: string;
}

/** How often nodes are tried again that cannot get the job yet. */
const heldAgainMs = 15_000;

/** The status of a job that is not complete: the state of its nodes, and whether that, or the time, completes it. */
export function jobStatus(job: ImagePullJob, nodes: readonly NodeStanding[], context: JobContext): JobReport {
  const { nowMs } = context;
  const now = timestamp(nowMs);
  const before = job.status;
  const startTime = before?.startTime ?? now;
  const [active, succeeded, failed] = (['active', 'succeeded', 'failed'] as const).map((state) =>
    countOf(nodes, state),
  );
  const counts = { desired: nodes.length, active: active ?? 0, succeeded: succeeded ?? 0, failed: failed ?? 0 };
  const failedNodes = nodes.filter(({ state }) => state === 'failed').map(({ node }) => node);
  const shared = { startTime, observedGeneration: job.metadata.generation ?? 0 };
  const conditions = before?.conditions ?? [];
  const { abortedBy } = steeringOf(job);

  if (abortedBy !== undefined) {
    const having = nodes.filter(({ state }) => state === 'succeeded').map(({ node }) => node);
    return { status: finished('Aborted', pullJobMessage.aborted(abortedBy, listed(having))) };
  }
  const isDone = counts.desired === counts.succeeded + counts.failed;
  if (endsByItself(job) && isDone) {
    return { status: finished(counts.failed > 0 ? 'NodesFailed' : undefined, pullJobMessage.completed) };
  }
  const leftMs = deadlineLeftMs(job, startTime, nowMs);
  if (leftMs !== undefined && leftMs <= 0) {
    const late = nodes.filter(({ state }) => state !== 'succeeded').map(({ node }) => node);
    return {
      status: {
        ...finished('DeadlineExceeded', pullJobMessage.deadlineExceeded),
        active: 0,
        failed: late.length,
        ...(late.length > 0 && { failedNodes: late }),
      },
    };
  }

  const waitingFor = waitOf(job, nodes, context);
  const dueInMs = [
    ...(leftMs === undefined ? [] : [Math.max(leftMs, 1_000)]),
    ...(nodes.some(({ held }) => held !== undefined) ? [heldAgainMs] : []),
  ];
  const percent = counts.desired === 0 ? 0 : (100 * (counts.succeeded + counts.failed)) / counts.desired;
  return {
    status: {
      ...shared,
      ...counts,
      ...(failedNodes.length > 0 && { failedNodes }),
      message: counts.desired === 0 ? pullJobMessage.noProgress : pullJobMessage.progress(percent),
      ...(conditions.length > 0 && { conditions }),
      ...(waitingFor && { waitingFor: waitingSince(before?.waitingFor, waitingFor, now) }),
    },
    ...(dueInMs.length > 0 && { againInMs: Math.min(...dueInMs) }),
  };

  function finished(failure: PullJobFailedReason | undefined, message: string): ImagePullJobStatus {
    const about = `image "${shortened(job.spec.image, longestReference.whole)}" is on ${counts.succeeded} of ${counts.desired} nodes`;
    const end =
      failure === undefined
        ? ({ type: endCondition.complete, status: 'True', reason: 'ImagePulled', message: capitalized(about) } as const)
        : ({
            type: endCondition.failed,
            status: 'True',
            reason: failure,
            message: `${capitalized(about)}${failedNodes.length > 0 ? `; it could not be pulled on ${listed(failedNodes)}` : ''}`,
          } as const);
    return {
      ...shared,
      ...counts,
      completionTime: now,
      ...(failedNodes.length > 0 && { failedNodes }),
      message,
      conditions: withCondition(conditions, end, now),
    };
  }
}

function capitalized(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}

/** IPJ-21; undefined when there is no deadline. */
function deadlineLeftMs(job: ImagePullJob, startTime: string, nowMs: number): number | undefined {
  const { activeDeadlineSeconds } = job.spec.completionPolicy;
  if (!endsByItself(job) || activeDeadlineSeconds === undefined) return undefined;
  return Date.parse(startTime) + activeDeadlineSeconds * 1_000 - nowMs;
}

/** The number of names in messages. */
const mostNames = 10;

function listed(nodes: readonly string[]): string {
  if (nodes.length === 0) return 'no node';
  const more = nodes.length > mostNames ? ` and ${nodes.length - mostNames} more` : '';
  return `${nodes.slice(0, mostNames).join(', ')}${more}`;
}

function waitOf(job: ImagePullJob, nodes: readonly NodeStanding[], context: JobContext): WaitingFor | undefined {
  const since = timestamp(context.nowMs);
  const active = nodes.filter(({ state }) => state === 'active');
  const refused = refusedWait(context);
  if (refused) return refused;
  const { engine } = context;
  // commands need the operation of the job, pulls do not: while it is stuck no command has an effect, whether or not
  // nodes are active
  if (engine && (active.length > 0 || engine.reason !== 'EngineSilent')) {
    return pullJobWait(engine.reason, { ...engine, since });
  }
  const everyActive = (...reasons: readonly PullWaitReason[]) =>
    active.length > 0 && active.every(({ waiting }) => reasons.some((reason) => waiting === reason));
  const nodesOfActive = active.map(({ node }) => `node/${node}`);
  if (everyActive('NodeSilent')) return pullJobWait('NodeSilent', { blockedBy: nodesOfActive, since });
  if (everyActive('NodeSilent', 'EngineNoDaemon')) {
    return pullJobWait('EngineNoDaemon', { blockedBy: nodesOfActive, since });
  }
  if (everyActive('EngineStuck')) return pullJobWait('EngineStuck', { blockedBy: named(active), since });
  if (active.length > 0) return pullJobWait('Pulling', { blockedBy: named(active), since });
  return furtherWait(job, nodes, since);
}

/** What keeps every further node from getting the job; undefined when nothing does, or only those that pull now. */
export function heldBackBy(
  job: ImagePullJob,
  nodes: readonly NodeStanding[],
  context: JobContext,
): WaitingFor | undefined {
  const wait = refusedWait(context) ?? furtherWait(job, nodes, timestamp(context.nowMs));
  const hasOthers = nodes.some(({ state, held }) => state === 'unasked' && held === undefined);
  const isOfSome = wait?.reason === 'NodesFull' || wait?.reason === 'NoNodeImages';
  return isOfSome && hasOthers ? undefined : wait;
}

function refusedWait({ nowMs, tooLarge, secretTrouble }: JobContext): WaitingFor | undefined {
  const since = timestamp(nowMs);
  if (tooLarge !== undefined) {
    return pullJobWait('TooLarge', { blockedBy: [], since, unblock: `${pullJobWaits.TooLarge}; ${tooLarge}` });
  }
  if (secretTrouble === undefined) return undefined;
  return pullJobWait('SecretRefused', { blockedBy: [], since, unblock: secretTrouble });
}

function furtherWait(job: ImagePullJob, nodes: readonly NodeStanding[], since: string): WaitingFor | undefined {
  const unasked = nodes.filter(({ state }) => state === 'unasked');
  const full = unasked.filter(({ held }) => held === 'full');
  const coming = unasked.filter(({ held }) => held === 'noNodeImage');
  if (steeringOf(job).paused) return pullJobWait('Paused', { blockedBy: ['operator'], since });
  if (unasked.length > 0 && parallelismOf(job) === 0) {
    return pullJobWait('NoParallelism', { blockedBy: named(unasked), since });
  }
  if (full.length > 0) return pullJobWait('NodesFull', { blockedBy: named(full), since });
  if (coming.length > 0) {
    return pullJobWait('NoNodeImages', { blockedBy: coming.map(({ node }) => `node/${node}`), since });
  }
  if (nodes.length === 0) return pullJobWait('NoNodes', { blockedBy: [], since });
  return undefined;
}

function named(nodes: readonly NodeStanding[]): readonly string[] {
  return nodes.map(({ node }) => `nodeimage/${node}`);
}

/** The conditions after the nodes were updated for a retry. */
export function retryTold(conditions: ImagePullJobStatus['conditions'], nodes: number, nowMs: number) {
  return withCondition(
    conditions,
    {
      type: pullJobCondition.retrying,
      status: 'False',
      reason: 'NodesTold',
      message: nodes === 0 ? 'No node had failed' : `${nodes} nodes pull again`,
    },
    timestamp(nowMs),
  );
}
