/**
 * Stops that bring the environment of a container up to date (ND-27, ND-28): their preconditions, and how they are
 * done.
 */

import { entryOf, isJsonList, isJsonObject, type Json } from '../../api/base/json.ts';
import type { EventText } from '../../api/core/event.ts';
import type { ContainerPort, LifecycleHandler, Pod } from '../../api/core/pod.ts';
import { type PodRef, qualifiedName } from '../../api/core/refs.ts';
import { eventComponent } from '../../api/core/well-known.ts';
import { plainHash } from '../../api/in-place/containers-meta.ts';
import { type EnvReference, envReferences } from '../../api/in-place/env-hash.ts';
import { stateOf } from '../../api/in-place/state.ts';
import { isObserved, staleContainers } from '../../plan/fleet/in-place/completion.ts';
import type { Clock } from './attempt.ts';
import type { PodView } from './await.ts';
import type { NodeActivities } from './contract.ts';
import { invalid, superseded, unreachable } from './refusals.ts';
import { containerHashOf, newestByName, type RuntimeContainer, stopAnnotation } from './runtime.ts';
import type { StopOrder } from './stop.ts';

/**
 * The kubelet starts the next instance with the labels and annotations that it knows by then. It watches the pods of
 * this node like this daemon: a change that the daemon has known for this long is known to the kubelet, too.
 */
const kubeletSeesMs = 1_000;

/**
 * The kubelet's back-off after a broken watch (client-go's reflector): 0.8 s, then doubling up to 30 s, each up to
 * doubled at random. So its pause is at most about twice as long as the API server was away.
 */
const kubeletPause = { firstMs: 800, mostMs: 60_000, perOutage: 2 } as const;

/** Kubernetes' default. */
const defaultGraceSeconds = 30;

/**
 * How long one attempt waits for the kubelet to start a container from its new image, and how often it checks. A pull
 * may take longer; then the next attempt continues to wait.
 */
const startPatience = { wholeMs: 4_000, pollMs: 250 } as const;

type RefreshInput = Parameters<NodeActivities['node.v1.refreshContainer']>[0];

/** What the wait for the kubelet depends on. */
interface KubeletMeans {
  readonly clock: Pick<Clock, 'sleep'>;
  /** All instances of the pod in the runtime. */
  readonly listContainers: () => Promise<readonly RuntimeContainer[]>;
}

interface RefreshMeans {
  readonly nodeName: string;
  readonly pods: Pick<PodView, 'pod' | 'lastOutage'>;
  readonly clock: Pick<Clock, 'sleep'>;
  readonly readPod: (pod: PodRef) => Promise<Pod | undefined>;
}

/**
 * Waits until the kubelet works on the current pod, and returns that pod. Fails as `Unreachable` while this node's own
 * watch lags behind, and when the environment changes again meanwhile.
 */
export async function letKubeletSee(means: RefreshMeans & KubeletMeans, input: RefreshInput): Promise<Pod> {
  const live = await checkStale(means, input);
  const seen = means.pods.pod(input.pod.uid);
  if (seen === undefined || !showsSame(live, seen, input.container)) {
    throw unreachable(attemptOf(input), 'the node has not seen the change of the pod yet');
  }
  const leftMs = isTold(live) ? 0 : kubeletAwayMs(means.pods.lastOutage());
  if (leftMs > 0) {
    const seconds = Math.ceil(leftMs / 1_000);
    const why = `the API server was unreachable; waiting ${seconds} s longer for the kubelet to see the change of the pod`;
    throw unreachable(attemptOf(input), why);
  }
  await means.clock.sleep(kubeletSeesMs);
  // The API server may have been away without this daemon noticing it.
  const seenByKubelet = await checkStillStale(means, input, live);
  if (!isObserved(seenByKubelet)) {
    throw unreachable(attemptOf(input), 'the kubelet has not seen the change of the pod yet');
  }
  if (isTold(seenByKubelet)) await untilKubeletActs(means, input, seenByKubelet);
  return seenByKubelet;
}

/**
 * A kubelet reports a generation as soon as it has received it, even while it still works on the previous state of the
 * pod: a container that is stopped then starts with the old environment. It works on one state of a pod at a time, so
 * it has left the previous state once it has started a container from its new image.
 */
async function untilKubeletActs(means: KubeletMeans, input: RefreshInput, pod: Pod): Promise<void> {
  for (let waitedMs = 0; !hasStartedNewImage(pod, await means.listContainers()); waitedMs += startPatience.pollMs) {
    if (waitedMs >= startPatience.wholeMs) {
      throw unreachable(attemptOf(input), 'the kubelet has not started a container from its new image yet');
    }
    await means.clock.sleep(startPatience.pollMs);
  }
}

/**
 * Also true where that cannot be known: no image has changed, or the runtime does not record what a container was
 * started from.
 */
function hasStartedNewImage(pod: Pod, containers: readonly RuntimeContainer[]): boolean {
  const state = stateOf(pod);
  const changed = state.kind === 'value' ? Object.keys(state.value.lastContainerStatuses ?? {}) : [];
  const newest = newestByName(containers);
  const wanted = pod.spec.containers.filter(({ name }) => changed.includes(name));
  return (
    wanted.length === 0 ||
    wanted.some((container) => {
      const instance = newest.get(container.name);
      const hash = instance && containerHashOf(instance);
      return hash === 0 || hash === plainHash(container);
    })
  );
}

/**
 * Whether the kubelet's observed generation is conclusive: labels and annotations were written together with images,
 * which increments the generation of the pod.
 */
function isTold(pod: Pod): boolean {
  const state = stateOf(pod);
  if (state.kind !== 'value' || pod.status?.observedGeneration === undefined) return false;
  return state.value.updateImages && state.value.batches.length === 1;
}

/**
 * How long the kubelet may still be without the API server after an outage. Until it is connected, nothing shows
 * whether it has seen a change of labels and annotations alone: it would start the old environment once more, and the
 * container would be stopped a second time.
 */
function kubeletAwayMs(outage: ReturnType<PodView['lastOutage']>): number {
  if (outage === undefined) return 0;
  const { firstMs, mostMs, perOutage } = kubeletPause;
  return Math.min(perOutage * (outage.lastedMs + firstMs), mostMs) - outage.endedMs;
}

/** How the kubelet would stop this instance, from the annotations that it wrote on it. */
export function refreshOrder(input: RefreshInput, { annotations }: RuntimeContainer): StopOrder {
  const { namespace, name } = input.pod;
  const preStop = handlerOf(annotations[stopAnnotation.preStop]);
  const seconds = secondsOf(annotations[stopAnnotation.deletionGrace]) ?? secondsOf(annotations[stopAnnotation.grace]);
  return {
    graceSeconds: seconds ?? defaultGraceSeconds,
    ...(preStop && { preStop: { handler: preStop, ports: portsOf(annotations[stopAnnotation.ports]) } }),
    killing: refreshEvent(input),
    component: eventComponent.daemonContainerMeta,
    about: { kind: 'Pod', namespace, name },
  };
}

/** The Event on the pod before preStop and stop; it names the container, because an ID is of no use to people. */
function refreshEvent({ runtime, container }: RefreshInput): EventText {
  const message = `Stopping containerID ${runtime}://${container} by container meta restarter`;
  return { type: 'Normal', reason: 'Killing', message };
}

/** Reads the pod, in which this very instance has an old environment. Fails when that is not (or no longer) true. */
async function checkStale(means: RefreshMeans, input: RefreshInput): Promise<Pod> {
  const attempted = attemptOf(input);
  const pod = await means.readPod(input.pod);
  if (pod === undefined) throw superseded(attempted, 'the pod is gone');
  if (pod.spec.nodeName !== means.nodeName) throw invalid(attempted, 'the pod is on another node');
  const containerID = `${input.runtime}://${input.containerId}`;
  const isStale = staleContainers(pod).some(
    (stale) => stale.name === input.container && stale.containerID === containerID,
  );
  if (!isStale) throw superseded(attempted, 'its environment no longer needs a refresh');
  return pod;
}

/** As {@link checkStale}; fails as `Unreachable` when the container would be started with something else than before. */
export async function checkStillStale(means: RefreshMeans, input: RefreshInput, before: Pod): Promise<Pod> {
  const pod = await checkStale(means, input);
  if (!showsSame(pod, before, input.container)) {
    throw unreachable(attemptOf(input), 'its environment has changed again; waiting for the kubelet to see that');
  }
  return pod;
}

function showsSame(live: Pod, seen: Pod, name: string): boolean {
  const container = live.spec.containers.find((candidate) => candidate.name === name);
  const valueIn = ({ metadata }: Pod, { from, key }: EnvReference) => entryOf(metadata[from], key);
  return envReferences(container ?? {}).every((reference) => valueIn(live, reference) === valueIn(seen, reference));
}

function attemptOf({ pod, container }: RefreshInput): string {
  return `Cannot stop container "${container}" of pod "${qualifiedName(pod)}"`;
}

function secondsOf(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,12}$/.test(text) ? Number(text) : undefined;
}

function handlerOf(text: string | undefined): LifecycleHandler | undefined {
  const value = parsed(text);
  // the kubelet's own JSON of its own type; unknown content is rejected when it is run
  return isJsonObject(value) ? (value as LifecycleHandler) : undefined;
}

function portsOf(text: string | undefined): readonly ContainerPort[] {
  const value = parsed(text);
  if (!isJsonList(value)) return [];
  return value.flatMap((port) => {
    if (!isJsonObject(port) || typeof port.containerPort !== 'number') return [];
    const { name, containerPort } = port;
    return [{ containerPort, ...(typeof name === 'string' && { name }) }];
  });
}

function parsed(text: string | undefined): Json | undefined {
  try {
    return text === undefined ? undefined : (JSON.parse(text) as Json);
  } catch {
    return undefined;
  }
}
