// Whether the containers of a pod are in the state that an in-place update requires, according to the status of the pod
// and the report of the daemon.

import { entryOf } from '../../../api/base/json.ts';
import { perObject } from '../../../api/base/per-object.ts';
import { sameImage } from '../../../api/core/image-reference.ts';
import { type Container, type ContainerStatus, isActive, type Pod } from '../../../api/core/pod.ts';
import { sameResources } from '../../../api/core/resources.ts';
import type { FeatureGates } from '../../../api/feature-gates.ts';
import { inPlaceReadinessGate } from '../../../api/in-place/annotations.ts';
import {
  type ContainerMeta,
  containersMetaOf,
  plainHash,
  wholePlainHash,
} from '../../../api/in-place/containers-meta.ts';
import { expectedEnvHash } from '../../../api/in-place/env-hash.ts';
import { isInGrace } from '../../../api/in-place/grace.ts';
import { type InPlaceState, stateOf } from '../../../api/in-place/state.ts';
import { containersOf } from '../../../api/in-place/work.ts';

// During an update every pass needs the hashes of all containers that are being replaced.
const plainHashOf = perObject<Container, number>(plainHash);
const wholePlainHashOf = perObject(wholePlainHash);
const plainHashesOfRunning = perObject(({ name, image = '' }: ContainerStatus) =>
  shortForms(image).map((text) => ({ text, hash: plainHash({ name, image: text }) })),
);

/** Why the containers of an update are not complete. */
export type Unfinished = {
  readonly reason: 'NotObserved' | 'NotReported' | 'EnvironmentNotRefreshed' | 'NotResized' | 'ImageNotSwapped';
  readonly containers: readonly string[];
};

/**
 * What the patched containers of an update still lack (IPU-35 to IPU-38); undefined when they are complete. Later
 * batches are not considered.
 */
export function unfinishedContainers(pod: Pod, state: InPlaceState, gates: CompletionGates): Unfinished | undefined {
  const meta = containersMetaOf(pod);
  const names = (containers: readonly { readonly name: string }[]) => containers.map(({ name }) => name);

  if (!isObserved(pod)) {
    return { reason: 'NotObserved', containers: state.batches.flatMap(({ containers }) => containers) };
  }
  if (state.updateEnvFromMetadata) {
    const unreported = pod.spec.containers.filter((container) => reported(pod, meta, container) === undefined);
    if (unreported.length > 0) return { reason: 'NotReported', containers: names(unreported) };
    const stale = pod.spec.containers.filter(
      (container) => reported(pod, meta, container)?.envHash !== expectedEnvHash(container, pod.metadata),
    );
    if (stale.length > 0) return { reason: 'EnvironmentNotRefreshed', containers: names(stale) };
  }

  const unresized = gates.InPlaceWorkloadVerticalScaling && state.updateResources && unresizedContainers(pod);
  if (unresized) return unresized;

  if (pod.spec.containers.every((container) => startedFrom(pod, meta, container) === 'spec')) return undefined;
  const unswapped = Object.entries(state.lastContainerStatuses ?? {}).flatMap(([name, last]) =>
    isSwapped(pod, meta, name, last.imageID) ? [] : [name],
  );
  return unswapped.length > 0 ? { reason: 'ImageNotSwapped', containers: unswapped } : undefined;
}

/** One running instance of a container. */
export interface StaleContainer {
  readonly name: string;
  /** `<runtime>://<id>` */
  readonly containerID: string;
}

/**
 * The instances that run with the environment from before a change of the pod's labels or annotations, according to the
 * daemon, and that have to be stopped for it (ND-27, IPU-48): only while an update holds the pod out of service, and
 * none that the kubelet replaces anyway, for its image. One that would not be restarted is left alone.
 */
export function staleContainers(pod: Pod): readonly StaleContainer[] {
  const { metadata, spec, status } = pod;
  const gate = status?.conditions?.find(({ type }) => type === inPlaceReadinessGate);
  if (gate?.status !== 'False' || !isActive(pod)) return [];
  if (spec.restartPolicy !== undefined && spec.restartPolicy !== 'Always') return [];
  const meta = containersMetaOf(pod);
  return spec.containers.flatMap((container) => {
    const entry = reported(pod, meta, container);
    const runs = statusOf(pod, container.name)?.state?.running !== undefined;
    if (!entry?.envHash || !runs || entry.envHash === expectedEnvHash(container, metadata)) return [];
    return isImageDue(pod, meta, container) ? [] : [{ name: entry.name, containerID: entry.containerID }];
  });
}

/** Whether the kubelet has yet to replace the instance because its image has changed. */
function isImageDue(pod: Pod, meta: readonly ContainerMeta[] | undefined, container: Container): boolean {
  const from = startedFrom(pod, meta, container);
  if (from !== 'unknown') return from === 'another';
  const state = stateOf(pod);
  const last = state.kind === 'value' ? entryOf(state.value.lastContainerStatuses, container.name) : undefined;
  return last !== undefined && !isSwapped(pod, meta, container.name, last.imageID);
}

/** The containers that do not have the resources of the spec yet (IPU-36); undefined when all have. */
function unresizedContainers(pod: Pod): Unfinished | undefined {
  const unresized = pod.spec.containers.filter(
    ({ name, resources }) => !sameResources(resources, statusOf(pod, name)?.resources),
  );
  const hasAllStatuses = pod.status?.containerStatuses?.length === pod.spec.containers.length;
  if (unresized.length === 0 && hasAllStatuses) return undefined;
  return { reason: 'NotResized', containers: unresized.map(({ name }) => name) };
}

/**
 * Whether the kubelet has observed the current spec; true where it does not report that. A status from before the
 * change may already look right, although the kubelet is about to do something else.
 */
export function isObserved({ metadata, status }: Pod): boolean {
  return (status?.observedGeneration ?? Number.POSITIVE_INFINITY) >= (metadata.generation ?? 0);
}

type CompletionGates = Pick<FeatureGates, 'InPlaceWorkloadVerticalScaling'>;

/**
 * Whether the last update is complete: no grace period, no later batch, and all containers are in the required state
 * (IPU-39). A pod that was never updated is complete; one with an invalid record is not.
 */
export function isInPlaceComplete(pod: Pod, gates: CompletionGates): boolean {
  const state = stateOf(pod);
  if (isInGrace(pod) || state.kind === 'unreadable') return false;
  if (state.kind === 'absent') return true;
  return containersOf(state.value.next).length === 0 && unfinishedContainers(pod, state.value, gates) === undefined;
}

/** The daemon's entry for a container, if it is about the instance that the status shows. */
function reported(
  pod: Pod,
  meta: readonly ContainerMeta[] | undefined,
  { name }: { readonly name: string },
): ContainerMeta | undefined {
  const status = statusOf(pod, name);
  return meta?.find((entry) => entry.name === name && entry.containerID === status?.containerID);
}

function statusOf(pod: Pod, name: string): ContainerStatus | undefined {
  return pod.status?.containerStatuses?.find((status) => status.name === name);
}

function isSwapped(pod: Pod, meta: readonly ContainerMeta[] | undefined, name: string, lastImageId: string): boolean {
  const status = statusOf(pod, name);
  const container = pod.spec.containers.find((candidate) => candidate.name === name);
  if (status === undefined || container === undefined) return false;

  const from = startedFrom(pod, meta, container);
  if (from !== 'unknown') return from === 'spec';
  if ((status.imageID ?? '') !== lastImageId) return true;
  return container.image !== undefined && status.image !== undefined && sameImage(container.image, status.image);
}

/**
 * What the hash in the daemon's report proves about the instance in the status. An update that overtakes another may
 * find the image of the first one running, whose ID differs from the recorded one, too.
 */
function startedFrom(
  pod: Pod,
  meta: readonly ContainerMeta[] | undefined,
  container: Container,
): 'spec' | 'another' | 'unknown' {
  const hash = reported(pod, meta, container)?.plainHash;
  if (hash === undefined) return 'unknown';
  if (hash === plainHashOf(container) || hash === wholePlainHashOf(container)) return 'spec';

  const { name, image = '' } = container;
  const status = statusOf(pod, name);
  const others = status ? plainHashesOfRunning(status).filter(({ text }) => !sameImage(text, image)) : [];
  return others.some((other) => other.hash === hash) ? 'another' : 'unknown';
}

/** The short forms in which users may have written an image that a runtime reports in full. */
function shortForms(image: string): readonly string[] {
  const untagged = image.replace(/:latest$/, '');
  return [...new Set([image, untagged])].flatMap((text) => [
    text,
    text.replace(/^docker\.io\//, ''),
    text.replace(/^docker\.io\/library\//, ''),
  ]);
}
