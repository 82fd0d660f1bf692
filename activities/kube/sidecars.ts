import { jsonBytes } from '../../api/base/json-bytes.ts';
import { timestamp } from '../../api/base/time.ts';
import { type ContainerRecreateRequest, crr } from '../../api/container-recreate-request/types.ts';
import type { EventText } from '../../api/core/event.ts';
import { isVirtual, type Node } from '../../api/core/node.ts';
import type { Pod } from '../../api/core/pod.ts';
import { type PodRef, qualifiedName } from '../../api/core/refs.ts';
import { eventComponent, kubeResource, sidecarTerminatedCondition } from '../../api/core/well-known.ts';
import {
  isTerminationRequest,
  missingMarkEvent,
  noMainEvent,
  sidecarsOf,
  sidecarTerminated,
  type TerminationStatus,
  terminatingEvent,
  terminationMark,
  terminationRequest,
  terminationRequestName,
  terminationStatusOf,
} from '../../api/job-sidecar-termination.ts';
import type { KubeClient } from '../../kube/client.ts';
import { tellEvent } from '../../kube/events.ts';
import { isAlreadyExists, isGone, toFailure } from '../../kube/failures.ts';
import { unlessGone } from '../../kube/moved-on.ts';
import { despiteConflicts } from '../../kube/retry-on-conflict.ts';
import {
  nextTermination,
  phaseToWrite,
  type SidecarDecision,
  type SidecarStep,
  type SidecarWorld,
} from '../../plan/terminate-sidecars.ts';
import { fitting, shortened, waitWithin } from '../../plan/text-size.ts';
import { type ReceivedCommand, tellOfCommand } from './operator-events.ts';

/** The maximum size of each part of a look in bytes, so that it fits into a history event. */
const mostBytes = { names: 900, wait: 800, by: 300 } as const;

/** The state of the termination of a pod's sidecars, and the next steps. */
export interface SidecarLook {
  readonly decision: SidecarDecision;
  readonly status: TerminationStatus;
  /** The names of all sidecars of the pod, ended ones included. Absent: the pod is gone, or has too many to name. */
  readonly sidecars?: readonly string[] | undefined;
}

/** The cluster worker's activities that terminate the sidecars of one pod. */
export interface SidecarActivities {
  /** Reads pod, node and request. */
  lookAtSidecars(input: { readonly pod: PodRef }): Promise<SidecarLook>;
  /** Does this step if it is still due according to a fresh look; otherwise nothing. */
  endSidecars(input: { readonly pod: PodRef; readonly step: SidecarStep }): Promise<void>;
  /** Writes on the pod what the termination of its sidecars waits for, and the commands of operators. */
  reportSidecars(input: { readonly pod: PodRef; readonly status: TerminationStatus }): Promise<void>;
  /**
   * Writes an Event about the pod that names who sent the command. One Event per key. `of`: the operation; absent: the
   * termination of its sidecars.
   */
  announceOnPod(input: ReceivedCommand & { readonly pod: PodRef; readonly of?: 'swap' | 'refresh' }): Promise<void>;
}

/** Dependencies of these activities. */
export interface SidecarMeans {
  readonly kube: Pick<KubeClient, 'get' | 'patch' | 'create' | 'delete'>;
  readonly now: () => Date;
}

/** Every activity may run twice, and acts only on the pod of the given UID. */
export function sidecarActivities(means: SidecarMeans): SidecarActivities {
  return {
    lookAtSidecars: ({ pod }) => lookAtSidecars(pod, means),
    endSidecars: ({ pod, step }) => endSidecars(pod, step, means),
    reportSidecars: ({ pod, status }) => reportSidecars(pod, status, means),
    async announceOnPod({ pod: ref, of, ...heard }) {
      const by =
        of === undefined ? component : { swap: eventComponent.sidecarSet, refresh: eventComponent.recreate }[of];
      const shown = { component: by, atMs: means.now().getTime() };
      await tellOfCommand(means.kube, { resource: kubeResource.pods, ref }, heard, shown);
    },
  };
}

async function lookAtSidecars(pod: PodRef, means: SidecarMeans): Promise<SidecarLook> {
  try {
    const world = await worldOf(pod, means);
    const names = world.pod && sidecarsOf(world.pod).map(({ name }) => name);
    return {
      decision: cut(nextTermination(world)),
      status: world.pod ? cutStatus(terminationStatusOf(world.pod)) : {},
      ...(names && jsonBytes(names) <= mostBytes.names && { sidecars: names }),
    };
  } catch (error) {
    throw toFailure(error, `Cannot read the sidecars of pod "${qualifiedName(pod)}"`);
  }
}

async function endSidecars(pod: PodRef, step: SidecarStep, means: SidecarMeans): Promise<void> {
  try {
    await despiteConflicts(async () => {
      const world = await worldOf(pod, means);
      const decision = nextTermination(world);
      const isDue = 'step' in decision && decision.step.kind === step.kind;
      if (isDue && world.pod) await carryOut(decision.step, world.pod, world, means);
    });
  } catch (error) {
    throw toFailure(error, `Cannot end sidecars of pod "${qualifiedName(pod)}"`);
  }
}

async function reportSidecars(pod: PodRef, status: TerminationStatus, means: SidecarMeans): Promise<void> {
  const { kube } = means;
  const text = Object.keys(status).length === 0 ? null : JSON.stringify(status);
  try {
    const live = await unlessGone<Pod>(kube.get(kubeResource.pods, pod));
    const before = live?.metadata.annotations?.[terminationMark.status] ?? null;
    if (live?.metadata.uid !== pod.uid || before === text) return;
    const { uid, resourceVersion } = live.metadata;
    const body = { metadata: { uid, resourceVersion, annotations: { [terminationMark.status]: text } } };
    await kube.patch(kubeResource.pods, pod, 'merge', body, { subresource: 'status' });
    const warning = status.waitingFor && missingMarkEvent(status.waitingFor);
    if (warning) await say(live, warning, 'missing-mark', means);
  } catch (error) {
    if (isGone(error)) return;
    throw toFailure(error, `Cannot write the state of the sidecar termination of pod "${qualifiedName(pod)}"`);
  }
}

async function worldOf(ref: PodRef, { kube }: SidecarMeans): Promise<SidecarWorld> {
  const name = terminationRequestName(ref.uid);
  const [pod, request] = await Promise.all([
    unlessGone<Pod>(kube.get(kubeResource.pods, ref)),
    unlessGone<ContainerRecreateRequest>(kube.get(crr, { namespace: ref.namespace, name })),
  ]);
  if (pod?.metadata.uid !== ref.uid) return {};
  const nodeName = pod.spec.nodeName ?? '';
  const node = nodeName === '' ? undefined : await unlessGone<Node>(kube.get(kubeResource.nodes, { name: nodeName }));
  const isOurs = request !== undefined && isTerminationRequest(request);
  return {
    pod,
    ...(node && { node: isVirtual(node) ? 'virtual' : 'real' }),
    ...(isOurs && { request }),
  };
}

async function carryOut(step: SidecarStep, pod: Pod, { request }: SidecarWorld, means: SidecarMeans): Promise<void> {
  switch (step.kind) {
    // The Event is written first: after the act the step is no longer due, and a crash in between would lose the Event.
    case 'swapImages':
      await say(pod, terminatingEvent(step.containers, 'in-place update'), 'swap', means);
      return await swapImages(pod, step.containers, means);
    case 'requestStop':
      // one Event per instance that is stopped
      await say(pod, terminatingEvent(step.containers, 'crr'), `stop-${restartsOf(pod, step.containers)}`, means);
      if (sidecarsOf(pod).length === pod.spec.containers.length) await say(pod, noMainEvent, 'no-main', means);
      return await requestStop(pod, step.containers, means);
    case 'finishPod':
      return await finishPod(pod, means);
    case 'withdrawRequest':
      if (request) await withdraw(request, means);
  }
}

/** JST-11 */
async function swapImages(
  { metadata, spec }: Pod,
  containers: readonly string[],
  { kube }: SidecarMeans,
): Promise<void> {
  const images = new Map(sidecarsOf({ spec } as Pod).map(({ name, quickExitImage }) => [name, quickExitImage]));
  const changes = spec.containers.flatMap(({ name }, index) => {
    if (!containers.includes(name)) return [];
    const path = `/spec/containers/${index}`;
    return [
      { op: 'test', path: `${path}/name`, value: name },
      { op: 'replace', path: `${path}/image`, value: images.get(name) },
    ];
  });
  const { namespace = '', name, uid, resourceVersion } = metadata;
  const unchanged = [
    { op: 'test', path: '/metadata/uid', value: uid },
    { op: 'test', path: '/metadata/resourceVersion', value: resourceVersion },
  ];
  await kube.patch(kubeResource.pods, { namespace, name }, 'json', [...unchanged, ...changes]);
}

/** JST-12 */
async function requestStop({ metadata }: Pod, containers: readonly string[], { kube }: SidecarMeans): Promise<void> {
  try {
    await kube.create(crr, terminationRequest(metadata, containers));
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
  }
}

/**
 * JST-20: condition and phase in one write, conditional on the pod as it was read. The kubelet syncs a pod when its
 * annotations change, and stops what still runs (JST-21). If only the status changes it does not, and resets the phase
 * for as long as the sidecar runs.
 */
async function finishPod(pod: Pod, { kube, now }: SidecarMeans): Promise<void> {
  const { namespace = '', name, uid, resourceVersion } = pod.metadata;
  const at = timestamp(now().getTime());
  const others = pod.status?.conditions?.filter(({ type }) => type !== sidecarTerminatedCondition) ?? [];
  const conditions = [...others, sidecarTerminated(at)];
  const annotations = { [terminationMark.finished]: at };
  const body = { metadata: { uid, resourceVersion, annotations }, status: { conditions, phase: phaseToWrite(pod) } };
  await kube.patch(kubeResource.pods, { namespace, name }, 'merge', body, { subresource: 'status' });
}

async function withdraw({ metadata }: ContainerRecreateRequest, { kube }: SidecarMeans): Promise<void> {
  const { namespace = '', name, uid } = metadata;
  await unlessGone(kube.delete(crr, { namespace, name }, { preconditions: { uid } }));
}

async function say(pod: Pod, text: EventText, key: string, { kube, now }: SidecarMeans): Promise<void> {
  const once = `${pod.metadata.uid}.${key}`;
  await tellEvent(kube, { about: pod, component, ...text, atMs: now().getTime(), key: once, insist: true });
}

const component = eventComponent.sidecarTerminator;

function restartsOf({ status }: Pod, containers: readonly string[]): number {
  const counts = status?.containerStatuses?.filter(({ name }) => containers.includes(name)) ?? [];
  return counts.reduce((sum, { restartCount }) => sum + restartCount, 0);
}

function cut(decision: SidecarDecision): SidecarDecision {
  const short = 'waitingFor' in decision ? { waitingFor: waitWithin(decision.waitingFor, mostBytes.wait) } : {};
  if (!('step' in decision)) return { ...decision, ...short };
  const { step } = decision;
  return { ...decision, ...short, step: { ...step, containers: fitting(step.containers, mostBytes.names) } };
}

/** Anybody who may change the pod may have written this annotation. */
function cutStatus({ waitingFor, skipped, abortedBy }: TerminationStatus): TerminationStatus {
  return {
    ...(waitingFor && { waitingFor: waitWithin(waitingFor, mostBytes.wait) }),
    ...(skipped && { skipped: fitting(skipped, mostBytes.names) }),
    ...(abortedBy !== undefined && { abortedBy: shortened(abortedBy, mostBytes.by) }),
  };
}
