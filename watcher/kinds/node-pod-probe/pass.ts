/**
 * The controller of nodes' probes: each node has a NodePodProbe, whose work list contains all probes that markers
 * request for its pods. The results that its daemon reports there are written to the pods. A pass is over one node, one
 * pod, or (in `pod-probe-marker/`, whose controller also triggers the passes here) one marker.
 */

import { sameJson } from '../../../api/base/json.ts';
import { failureTypeOf, isTooLarge } from '../../../api/core/failure.ts';
import { isVirtual, type Node } from '../../../api/core/node.ts';
import { isActive, type Pod } from '../../../api/core/pod.ts';
import { kubeResource } from '../../../api/core/well-known.ts';
import {
  type ContainerProbeState,
  type NodePodProbe,
  nodePodProbe,
  type PodProbeStatus,
  parseProbeKey,
} from '../../../api/node-pod-probe/types.ts';
import { isHeld, type PodProbeMarker } from '../../../api/pod-probe-marker/types.ts';
import type { Cache } from '../../../kube/cache.ts';
import { unlessGone, unlessMovedOn } from '../../../kube/moved-on.ts';
import { despiteConflicts } from '../../../kube/retry-on-conflict.ts';
import {
  type ContainerPorts,
  markersOf,
  marksLeft,
  marksOf,
  needsPorts,
  type PodMarks,
  type ProbedPod,
  serverlessMarksOf,
  withConditions,
  workListOf,
} from '../../../plan/probes/pod-probes.ts';
import { fittingWork, listRoom } from '../../../plan/probes/probe-room.ts';
import type { ControllerContext } from '../../controller.ts';
import type { PodStatusWriter } from '../container-recreate-request/pod-readiness.ts';
import type { NodeProbeMemory } from './memory.ts';

/** The caches on which all decisions about probes are based. */
export interface ProbeCaches {
  readonly pods: Cache<Pod>;
  readonly nodes: Cache<Node>;
  readonly markers: Cache<PodProbeMarker>;
  readonly nodeProbes: Cache<NodePodProbe>;
}

export type ProbePassDependencies = ProbeCaches &
  Pick<ControllerContext, 'kube' | 'log' | 'now'> & {
    /** Whether pods of virtual nodes are probed, too. */
    readonly serverless: boolean;
    readonly memory: NodeProbeMemory;
  };

/** Index functions of pods: those that may need probes, by node and by namespace. */
export const probedPodIndexes = {
  probedOnNode: ({ spec }: Pod): readonly string[] => (spec.nodeName ? [spec.nodeName] : []),
  probedInNamespace: ({ metadata, spec }: Pod): readonly string[] => (spec.nodeName ? [metadata.namespace ?? ''] : []),
};

/** Index functions of markers. */
export const markerIndexes = {
  namespace: ({ metadata }: PodProbeMarker): readonly string[] => [metadata.namespace ?? ''],
};

/** Index functions of NodePodProbes: the markers whose probes they contain, as `namespace/name`. */
export const nodeProbeIndexes = {
  marker: ({ spec }: NodePodProbe): readonly string[] => [
    ...new Set(
      (spec.podProbes ?? []).flatMap(({ namespace, probes = [] }) =>
        probes.map(({ name }) => `${namespace}/${parseProbeKey(name)?.marker ?? ''}`),
      ),
    ),
  ],
};

/**
 * Maintains the NodePodProbe of one node: that it exists while the node exists (NPP-1), and that its work list contains
 * the probes that markers request (PPM-3 to PPM-8, NPP-10, NPP-11). Returns only when the cache shows its write, so
 * that a later reader of the cache sees all the work of the node (PPM-8a).
 */
export async function passOverNode(nodeName: string, world: ProbePassDependencies): Promise<void> {
  const { memory } = world;
  const node = world.nodes.byName('', nodeName);
  const list = world.nodeProbes.byName('', nodeName);
  const isServed = node !== undefined && node.metadata.deletionTimestamp === undefined && !isVirtual(node);
  if (!isServed) {
    memory.forgetNode(nodeName);
    if (list) await unlessMovedOn(world.kube.delete(nodePodProbe, nameOf(list), uidOf(list)));
    return;
  }
  if (!list) {
    if (isReady(node)) await createList(nodeName, world);
    return;
  }

  const probed = await Promise.all(
    world.pods.byIndex('probedOnNode', nodeName).map(async (pod) => {
      const ofNamespace = world.markers.byIndex('namespace', pod.metadata.namespace ?? '');
      const markers = markersOf(pod, ofNamespace.filter(isHeld));
      const ports = needsPorts(markers) ? await memory.portsOf(pod, world.kube) : emptyPorts;
      return { pod, markers, ...(ports && { ports }) };
    }),
  );
  for (;;) {
    const room = memory.rooms.get(nodeName) ?? listRoom;
    try {
      return await writeList(list, probed, world);
    } catch (error) {
      // One marker must not block the others: with less room, the ones that request most are cut.
      if (!isTooLarge(error) || room < leastRoom) throw error;
      memory.rooms.set(nodeName, room / 2);
    }
  }
}

/** A list as small as this is rejected for another reason than its size. */
const leastRoom = 16 * 1024;

/** How long the cache may take to show a write. */
const seenWithinMs = 10_000;

/** The daemon writes the status of the same object: after a conflict the list is read, and decided on again. */
async function writeList(
  cached: NodePodProbe,
  probed: readonly ProbedPod[],
  { kube, nodeProbes, memory }: ProbePassDependencies,
): Promise<void> {
  const ref = nameOf(cached);
  let known = memory.unsure.has(ref.name) ? undefined : cached;
  await unlessGone(
    despiteConflicts(async () => {
      const list = known ?? (await kube.get<NodePodProbe>(nodePodProbe, ref));
      const { uid, resourceVersion } = list.metadata;
      if (uid !== cached.metadata.uid) return;
      const present = list.spec.podProbes ?? [];
      const { podProbes: wanted, lostPorts } = workListOf(probed, present);
      const { podProbes, leftOut } = fittingWork(wanted, present, memory.rooms.get(ref.name));
      memory.lostPorts.set(ref.name, lostPorts);
      if (leftOut.length > 0) memory.leftOut.set(ref.name, leftOut);
      else memory.leftOut.delete(ref.name);
      let shown = resourceVersion;
      if (!sameJson(podProbes, present)) {
        known = undefined;
        memory.unsure.add(ref.name);
        const body = { metadata: { uid, resourceVersion }, spec: { podProbes } };
        shown = (await kube.patch<NodePodProbe>(nodePodProbe, ref, 'merge', body)).metadata.resourceVersion;
      }
      if (memory.unsure.has(ref.name)) await nodeProbes.seen(uid, shown, AbortSignal.timeout(seenWithinMs));
      memory.unsure.delete(ref.name);
    }),
  );
}

const emptyPorts: ContainerPorts = new Map();

function isReady({ status }: Node): boolean {
  return status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') ?? false;
}

async function createList(name: string, { kube, nodeProbes }: ProbePassDependencies): Promise<void> {
  try {
    await kube.create(nodePodProbe, { metadata: { name }, spec: {} });
  } catch (error) {
    // Created a moment ago; the cache does not show it yet.
    if (failureTypeOf(error) !== 'Conflict' && nodeProbes.byName('', name) === undefined) throw error;
  }
}

/** Writes the results of its probes to one pod (NPP-10 to NPP-17, PPS-3 to PPS-5). */
export async function passOverPod(podUid: string, world: ProbePassDependencies): Promise<undefined> {
  const { memory } = world;
  const pod = world.pods.byUid(podUid);
  if (!pod || !isActive(pod) || !pod.spec.nodeName) return;
  const wanted = wantedMarks(pod, pod.spec.nodeName, world);
  if (wanted === undefined) return;
  if (wanted.contested.length > 0) {
    const fields = { pod: pod.metadata.name, namespace: pod.metadata.namespace, conditions: wanted.contested };
    world.log.warn(fields, 'Several probes set one pod condition: the first of them sets it');
  }
  const left = marksLeft(pod, { ...wanted, annotations: {} });
  if (left === undefined && !memory.mayLackAnnotations(podUid, wanted)) return;
  await writeMarks(pod, wanted, world.kube);
  memory.annotated(podUid, wanted);
}

function wantedMarks(pod: Pod, nodeName: string, world: ProbePassDependencies): PodMarks | undefined {
  const node = world.nodes.byName('', nodeName);
  const ofNamespace = world.markers.byIndex('namespace', pod.metadata.namespace ?? '');
  if (node && isVirtual(node)) {
    if (!world.serverless || ofNamespace.length === 0) return undefined;
    return serverlessMarksOf(pod, markersOf(pod, ofNamespace));
  }
  const states = statesOf(world.nodeProbes.byName('', nodeName), pod.metadata.uid);
  return states.length === 0 ? undefined : marksOf(states, ofNamespace);
}

function statesOf(list: NodePodProbe | undefined, podUid: string): readonly ContainerProbeState[] {
  return list?.status?.podProbeStatuses?.find(({ uid }) => uid === podUid)?.probeStates ?? [];
}

/** The UIDs of the pods whose results differ. */
export function podsReportedAnew(before: NodePodProbe | undefined, after: NodePodProbe | undefined): readonly string[] {
  const known = new Map((before?.status?.podProbeStatuses ?? []).map((entry) => [entry.uid, entry]));
  return (after?.status?.podProbeStatuses ?? [])
    .filter((entry) => !saysTheSame(known.get(entry.uid), entry))
    .map(({ uid }) => uid);
}

function saysTheSame(before: PodProbeStatus | undefined, after: PodProbeStatus): boolean {
  const said = (states: readonly ContainerProbeState[] = []) =>
    states.map(({ name, state, message }) => ({ name, state, message: message ?? '' }));
  return before !== undefined && sameJson(said(before.probeStates), said(after.probeStates));
}

/**
 * One write for all conditions, labels and annotations of a pod, decided on the live pod; the kubelet writes
 * conditions, too (NPP-15).
 */
async function writeMarks(pod: Pod, wanted: PodMarks, kube: PodStatusWriter): Promise<void> {
  const ref = { namespace: pod.metadata.namespace ?? '', name: pod.metadata.name };
  await unlessGone(
    despiteConflicts(async () => {
      const live = await kube.get<Pod>(kubeResource.pods, ref);
      if (live.metadata.uid !== pod.metadata.uid || !isActive(live)) return;
      const left = marksLeft(live, wanted);
      if (left === undefined) return;
      const { uid, resourceVersion } = live.metadata;
      const body = {
        metadata: { uid, resourceVersion, labels: left.labels, annotations: left.annotations },
        ...(left.conditions.length > 0 && { status: { conditions: withConditions(live, left.conditions) } }),
      };
      await kube.patch(kubeResource.pods, ref, 'merge', body, { subresource: 'status' });
    }),
  );
}

function nameOf({ metadata }: NodePodProbe): { readonly name: string } {
  return { name: metadata.name };
}

function uidOf({ metadata }: NodePodProbe) {
  return { preconditions: { uid: metadata.uid } };
}
