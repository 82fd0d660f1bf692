import type { Pod } from '../../api/core/pod.ts';
import type { PodRef } from '../../api/core/refs.ts';
import type { Clock } from './attempt.ts';
import type { AwaitResult, NodeActivities, NodeProgress } from './contract.ts';
import { whyOf } from './refusals.ts';
import {
  type ContainerRuntime,
  CriError,
  findRuntime,
  newestByName,
  type Runtimes,
  restartCountOf,
} from './runtime.ts';

/** The pods of this node, as the API server shows them. */
export interface PodView {
  /** False until all pods are known; an absent pod means nothing before. */
  synced(): boolean;
  pod(uid: string): Pod | undefined;
  /** When the API server was away last, for how long, and how long ago that ended: 0 while it is away. */
  lastOutage(): { readonly lastedMs: number; readonly endedMs: number } | undefined;
  /** Calls back on every change of this pod, until the function that it returns is called. */
  watch(uid: string, listener: () => void): () => void;
  /** Asks the API server whether the pod of this UID is there no more; fails when it does not answer. */
  isGone(pod: PodRef): Promise<boolean>;
}

export interface LookMeans {
  readonly runtimes: Runtimes;
  readonly pods: PodView;
  readonly clock: Pick<Clock, 'nowMs'>;
}

export type AwaitInput = Parameters<NodeActivities['node.v1.awaitContainer']>[0];

/** The end of a wait, or what is missing and when to look again even if nothing has changed. */
export type ReadyLook =
  | AwaitResult
  | { readonly kind: 'waiting'; readonly progress: NodeProgress; readonly againMs: number };

/** How often to look without any news, and how often while the runtime or the API server does not answer. */
const lookAgainMs = 3_000;
const tryAgainMs = 1_000;

/**
 * Looks whether the newest instance is another one than before, ready, and has run for long enough (CRR-33).
 *
 * Instances are told apart by ID alone. The only times that are compared are the runtime's start time and the clock of
 * the same node, so clocks that differ between nodes cannot hold up a request (CRR-55).
 */
export async function lookForReady(means: LookMeans, input: AwaitInput): Promise<ReadyLook> {
  if (await isPodGone(means.pods, input.pod)) return { kind: 'podGone' };
  try {
    const found = await findRuntime(means.runtimes, input.runtime, input.pod.uid);
    if (found.kind === 'absent') return waiting(input, 'RuntimeUnreachable', found.message, { againMs: tryAgainMs });
    return await lookAtNewest(found.runtime, means, input);
  } catch (error) {
    if (!(error instanceof CriError)) throw error;
    const message = `${error.call} of ${input.runtime}: ${error.message}`;
    return waiting(input, 'RuntimeUnreachable', message, { againMs: tryAgainMs });
  }
}

async function lookAtNewest(runtime: ContainerRuntime, means: LookMeans, input: AwaitInput): Promise<ReadyLook> {
  const { pod, container, notContainerId, minStartedSeconds } = input;
  const newest = newestByName(await runtime.listContainers({ podUid: pod.uid })).get(container);
  if (newest === undefined || newest.id === notContainerId) {
    return waiting(input, 'ContainerNotFound', 'the kubelet has not created a new instance yet');
  }
  const containerId = newest.id;
  if (newest.state !== 'running') {
    return waiting(input, 'ContainerNotRunning', `the new instance is ${newest.state}`, { containerId });
  }

  const statuses = means.pods.pod(pod.uid)?.status?.containerStatuses ?? [];
  const reported = statuses.find((status) => status.name === container);
  if (reported?.containerID !== `${input.runtime}://${containerId}`) {
    return waiting(input, 'ContainerNotReady', "the pod's status does not show the new instance yet", { containerId });
  }
  if (!reported.ready) {
    return waiting(input, 'ContainerNotReady', 'the new instance is not ready', { containerId });
  }

  // CRR-33: strictly longer. A container that runs has run for longer than nothing.
  if (minStartedSeconds > 0) {
    const status = await runtime.containerStatus(containerId);
    if (status === undefined) return waiting(input, 'ContainerNotFound', 'the new instance was removed');
    const ranMs = means.clock.nowMs() - Number((status.startedAtNs + 999_999n) / 1_000_000n);
    const missingMs = minStartedSeconds * 1_000 + 1 - ranMs;
    if (missingMs > 0) {
      const message = `the new instance has to run for more than ${minStartedSeconds}s`;
      return waiting(input, 'MinStartedSeconds', message, { containerId, againMs: missingMs });
    }
  }
  return { kind: 'ready', containerId, restartCount: restartCountOf(newest) };
}

async function isPodGone(pods: PodView, ref: PodRef): Promise<boolean> {
  const pod = pods.pod(ref.uid);
  if (pod !== undefined) return pod.metadata.deletionTimestamp !== undefined; // CRR-11
  if (!pods.synced()) return false;
  try {
    // A watch can lag behind, so what it does not show is asked for.
    return await pods.isGone(ref);
  } catch {
    return false; // Nobody knows for now; the next look asks again.
  }
}

function waiting(
  input: AwaitInput,
  reason: NodeProgress['reason'],
  message: string,
  more: { readonly containerId?: string; readonly againMs?: number } = {},
): ReadyLook {
  const { againMs = lookAgainMs, ...instance } = more;
  return {
    kind: 'waiting',
    progress: { reason, container: input.container, ...instance, message: whyOf(message) },
    againMs,
  };
}
