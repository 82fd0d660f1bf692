// Lets the controllers of pods recreate them, as a careful operator would: by the Eviction API, so that disruption budgets
// hold, one pod at a time, and the next one when the replacement is ready. Nothing is kept here: who stops the command
// leaves evicted pods to their controllers, and can repeat it.

import type { OwnerReference } from '../api/core/meta.ts';
import { isActive, type Pod } from '../api/core/pod.ts';
import { kubeResource } from '../api/core/well-known.ts';
import { type KubeClient, pathOf } from '../kube/client.ts';
import { isGone, KubeError } from '../kube/failures.ts';
import { CommandFailed, describeFailure } from './failure.ts';
import { everything } from './missed-pods.ts';

/** A pod and the controller that recreates it. */
export interface PodToRecreate {
  readonly pod: Pod;
  readonly owner: OwnerReference;
}

/** How the recreation of a pod has ended. */
export type Recreation =
  | { readonly kind: 'recreated'; readonly replacement: string }
  /** It was gone before its turn. */
  | { readonly kind: 'gone' }
  | { readonly kind: 'failed'; readonly why: string };

export interface RecreationMeans {
  readonly kube: Pick<KubeClient, 'list' | 'request'>;
  readonly now: () => number;
  readonly pause: (ms: number) => Promise<void>;
  /** Selects the pods and their replacements. */
  readonly labelSelector: string;
  /** For each pod: until its replacement is ready. */
  readonly timeoutMs: number;
  /** Whether a replacement lacks what it should have. */
  readonly isStillMissed: (pod: Pod) => boolean;
  /** Reports what is done and waited for, a line each. */
  readonly report: (line: string) => void;
}

const lookEveryMs = 2_000;

/** Whether the pod is ready to serve. */
export function isPodReady({ status }: Pod): boolean {
  return status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') === true;
}

/** Recreates one pod: waits for the others of its controller, evicts it, and waits for its replacement. */
export async function recreatePod({ pod, owner }: PodToRecreate, means: RecreationMeans): Promise<Recreation> {
  const { now, report, timeoutMs } = means;
  const name = nameOf(pod);
  const wait = waiting(name, { ...means, deadlineMs: now() + timeoutMs });
  try {
    const before = await wait(async () => {
      const siblings = await podsOf(owner, pod, means);
      const present = siblings.find(({ metadata }) => metadata.uid === pod.metadata.uid);
      if (present === undefined || !isActive(present)) return { done: undefined };
      const unready = siblings.find((one) => one !== present && isActive(one) && !isPodReady(one));
      // A pod that is not ready itself makes nothing worse by going.
      if (unready !== undefined && isPodReady(present)) return { blockedBy: `pod ${nameOf(unready)} is not ready` };
      return { done: new Set(siblings.map(({ metadata }) => metadata.uid)) };
    });
    if (before === undefined) return { kind: 'gone' };

    const isEvicted = await wait(async () => {
      const answer = await evict(pod, means.kube, { dryRun: false });
      return answer.kind === 'held' ? { blockedBy: answer.why } : { done: answer.kind === 'evicted' };
    });
    if (!isEvicted) return { kind: 'gone' };
    report(`${name}: evicted`);

    const replacement = await wait(async () => {
      const fresh = (await podsOf(owner, pod, means)).filter((one) => isActive(one) && !before.has(one.metadata.uid));
      const lacking = fresh.find(means.isStillMissed);
      if (lacking !== undefined)
        throw new CommandFailed(`its replacement ${nameOf(lacking)} lacks the containers, too`);
      const ready = fresh.find(isPodReady);
      return ready === undefined ? { blockedBy: 'its replacement is not ready' } : { done: ready };
    });
    report(`${name}: replaced by ${replacement.metadata.name}`);
    return { kind: 'recreated', replacement: replacement.metadata.name };
  } catch (error) {
    if (error instanceof CommandFailed || error instanceof KubeError)
      return { kind: 'failed', why: describeFailure(error) };
    throw error;
  }
}

type Look<T> = { readonly done: T } | { readonly blockedBy: string };

/** Looks again and again until something is done. Reports each new thing that it waits for. */
function waiting(
  name: string,
  { now, pause, report, deadlineMs }: RecreationMeans & { readonly deadlineMs: number },
): <T>(look: () => Promise<Look<T>>) => Promise<T> {
  let reported = '';
  return async (look) => {
    for (;;) {
      const seen = await look();
      if ('done' in seen) return seen.done;
      if (now() >= deadlineMs) throw new CommandFailed(`given up: ${seen.blockedBy}`);
      if (seen.blockedBy !== reported) report(`${name}: waits: ${seen.blockedBy}`);
      reported = seen.blockedBy;
      await pause(lookEveryMs);
    }
  };
}

/** The pods of this controller, in the namespace of this pod. */
async function podsOf(owner: OwnerReference, { metadata }: Pod, { kube, labelSelector }: RecreationMeans) {
  const place = metadata.namespace === undefined ? {} : { namespace: metadata.namespace };
  const pods = await everything<Pod>(kube, kubeResource.pods, { ...place, labelSelector });
  return pods.filter((pod) => controllerOf(pod)?.uid === owner.uid);
}

/** The controller of a pod. */
export function controllerOf({ metadata }: Pod): OwnerReference | undefined {
  return metadata.ownerReferences?.find(({ controller }) => controller === true);
}

/** The answer to an eviction. `held`: a budget, or the load of the API server, does not allow it now. */
export type Eviction =
  | { readonly kind: 'evicted' }
  | { readonly kind: 'gone' }
  | { readonly kind: 'held'; readonly why: string };

/** Evicts this pod and no other of its name. */
export async function evict(
  { metadata: { namespace, name, uid } }: Pod,
  kube: Pick<KubeClient, 'request'>,
  { dryRun }: { readonly dryRun: boolean },
): Promise<Eviction> {
  const place = { name, ...(namespace !== undefined && { namespace }) };
  const body = {
    apiVersion: 'policy/v1',
    kind: 'Eviction',
    metadata: place,
    deleteOptions: { preconditions: { uid }, ...(dryRun && { dryRun: ['All'] }) },
  };
  try {
    await kube.request('POST', pathOf(kubeResource.pods, place, 'eviction'), { body });
    return { kind: 'evicted' };
  } catch (error) {
    if (isGone(error)) return { kind: 'gone' };
    if (!(error instanceof KubeError) || error.status !== 429) throw error;
    const budget = error.causes.map(({ message }) => message).find((message) => message !== undefined);
    return { kind: 'held', why: budget ?? error.message };
  }
}

/** `namespace/name` */
export function nameOf({ metadata }: Pod): string {
  return `${metadata.namespace ?? ''}/${metadata.name}`;
}
