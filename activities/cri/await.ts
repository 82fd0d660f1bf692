import type { Pod } from '../../api/core/pod.ts';
import type { PodRef } from '../../api/core/refs.ts';
import { containerTrouble } from '../../plan/pod-trouble.ts';
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

/** The pods of this node, from the API server. */
export interface PodView {
  /** False until all pods are known; before that an absent pod means nothing. */
  synced(): boolean;
  pod(uid: string): Pod | undefined;
  /** The last outage of the API server: how long it lasted, and how long ago it ended (0 while it lasts). */
  lastOutage(): { readonly lastedMs: number; readonly endedMs: number } | undefined;
  /** Calls the listener on every change of this pod, until the returned function is called. */
  watch(uid: string, listener: () => void): () => void;
  /** Asks the API server whether the pod of this UID is gone; fails when it does not answer. */
  isGone(pod: PodRef): Promise<boolean>;
}

export interface LookMeans {
  readonly runtimes: Runtimes;
  readonly pods: PodView;
  readonly clock: Pick<Clock, 'nowMs'>;
}

export type AwaitInput = Parameters<NodeActivities['node.v1.awaitContainer']>[0];

/** The end of a wait, or what is missing and when to check again without a change. */
export type ReadyLook =
  | AwaitResult
  | {
      readonly kind: 'waiting';
      readonly progress: NodeProgress;
      /** Why the kubelet does not start it; empty: it runs, and has for a while. Absent: nothing is known. */
      readonly trouble?: string;
      readonly againMs: number;
    };

/** How often to check without a change, and how often while the runtime or the API server does not answer. */
const lookAgainMs = 3_000;
const tryAgainMs = 1_000;

/** A container that has run for so long is not about to crash at once: what the kubelet said before is over. */
const steadyMs = 30_000;

/**
 * Checks whether the newest instance differs from the previous one, is ready, and has run for long enough (CRR-33).
 *
 * Instances are compared by ID alone. The only times that are compared are the runtime's start time and the clock of
 * the same node, so clock differences between nodes cannot delay a request (CRR-55).
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
  const shown = means.pods.pod(pod.uid);
  const said = shown && containerTrouble(shown, container);
  const trouble = said === undefined ? {} : { trouble: said };
  if (newest === undefined || newest.id === notContainerId) {
    return waiting(input, 'ContainerNotFound', 'the kubelet has not created a new instance yet', trouble);
  }
  const containerId = newest.id;
  if (newest.state !== 'running') {
    return waiting(input, 'ContainerNotRunning', `the new instance is ${newest.state}`, { containerId, ...trouble });
  }

  const statuses = shown?.status?.containerStatuses ?? [];
  const reported = statuses.find((status) => status.name === container);
  if (reported?.containerID !== `${input.runtime}://${containerId}`) {
    return waiting(input, 'ContainerNotReady', "the pod's status does not show the new instance yet", { containerId });
  }
  if (!reported.ready) {
    const isSteady = input.trouble ? await hasRun(runtime, containerId, steadyMs, means) : false;
    const steady = isSteady ? { trouble: '' } : {};
    return waiting(input, 'ContainerNotReady', 'the new instance is not ready', { containerId, ...steady });
  }

  // CRR-33: strictly longer. A running container has run for longer than 0 seconds.
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

async function hasRun(
  runtime: ContainerRuntime,
  containerId: string,
  ms: number,
  { clock }: Pick<LookMeans, 'clock'>,
): Promise<boolean> {
  const status = await runtime.containerStatus(containerId);
  return status !== undefined && clock.nowMs() - Number(status.startedAtNs / 1_000_000n) >= ms;
}

async function isPodGone(pods: PodView, ref: PodRef): Promise<boolean> {
  const pod = pods.pod(ref.uid);
  if (pod !== undefined) return pod.metadata.deletionTimestamp !== undefined; // CRR-11
  if (!pods.synced()) return false;
  try {
    // A watch can lag behind, so a pod that it does not show is read from the API server.
    return await pods.isGone(ref);
  } catch {
    return false; // Unknown for now; the next check asks again.
  }
}

function waiting(
  input: AwaitInput,
  reason: NodeProgress['reason'],
  message: string,
  more: { readonly containerId?: string; readonly againMs?: number; readonly trouble?: string } = {},
): ReadyLook {
  const { againMs = lookAgainMs, trouble, ...instance } = more;
  return {
    kind: 'waiting',
    progress: { reason, container: input.container, ...instance, message: whyOf(trouble || message) },
    ...(trouble !== undefined && { trouble }),
    againMs,
  };
}
