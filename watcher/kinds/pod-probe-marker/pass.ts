import { sameJson } from '../../../api/base/json.ts';
import { timestamp } from '../../../api/base/time.ts';
import { isVirtual } from '../../../api/core/node.ts';
import type { Pod } from '../../../api/core/pod.ts';
import type { WaitingFor } from '../../../api/engine/waiting-for.ts';
import { type NodePodProbe, parseProbeKey } from '../../../api/node-pod-probe/types.ts';
import { markerWait } from '../../../api/pod-probe-marker/texts.ts';
import {
  isHeld,
  type PodProbeMarker,
  type PodProbeMarkerStatus,
  podProbeMarker,
  selectionOf,
} from '../../../api/pod-probe-marker/types.ts';
import type { Cache } from '../../../kube/cache.ts';
import type { PassResult } from '../../../kube/keyed-queue.ts';
import { unlessMovedOn } from '../../../kube/moved-on.ts';
import { mayBeProbed } from '../../../plan/probes/pod-probes.ts';
import type { ControllerContext } from '../../controller.ts';
import type { NodeProbeMemory } from '../node-pod-probe/memory.ts';
import { type ProbePassDependencies, passOverNode } from '../node-pod-probe/pass.ts';
import { addFinalizer, removeFinalizer } from './finalizer.ts';

/** Nodes that do not have a generation of a marker yet. */
interface Spread {
  readonly generation: number;
  readonly pending: Set<string>;
}

/** Markers are identified by `namespace/name`. */
export interface MarkerPassDependencies extends ProbePassDependencies, Pick<ControllerContext, 'daemonTrouble'> {
  readonly spreads: Map<string, Spread>;
  /** By marker: nodes that need one more pass before the finalizer of a deleted marker is removed. */
  readonly releases: Map<string, Set<string>>;
  readonly nodesInPass: Set<string>;
  /** Requests passes. */
  readonly want: {
    readonly node: (nodeName: string) => void;
    readonly pod: (podUid: string) => void;
    readonly marker: (key: string) => void;
  };
}

/** One pass over one marker. */
export async function passOverMarker(key: string, world: MarkerPassDependencies): Promise<PassResult | undefined> {
  const marker = markerNamed(key, world.markers);
  if (!marker) {
    world.spreads.delete(key);
    world.releases.delete(key);
    return undefined;
  }
  if (marker.metadata.deletionTimestamp !== undefined) return await releaseMarker(marker, world);
  // Nodes get the marker once the cache shows the finalizer; that change triggers the next pass.
  if (!isHeld(marker)) {
    await addFinalizer(marker, world.kube);
    return undefined;
  }
  const matched = matchedPods(marker, world);
  spread(marker, matched, world);
  await writeStatus(marker, matched, world);
  return undefined;
}

/** One pass over one node. Markers that are now on all their nodes get a pass, too. */
export async function passOverNodeOfMarkers(nodeName: string, world: MarkerPassDependencies): Promise<undefined> {
  const { spreads, releases, nodesInPass, memory, want } = world;
  const before = waitsOn(nodeName, memory);
  // markers that are added or released while this pass runs were unknown when it began
  const known = [...[...spreads].map(([key, { pending }]) => [key, pending] as const), ...releases];
  nodesInPass.add(nodeName);
  try {
    await passOverNode(nodeName, world);
  } finally {
    nodesInPass.delete(nodeName);
  }
  for (const [key, pending] of known) if (pending.delete(nodeName) && pending.size === 0) want.marker(key);
  const after = waitsOn(nodeName, memory);
  if (sameJson(before, after)) return;
  for (const { namespace, marker } of [...before, ...after]) want.marker(`${namespace}/${marker}`);
}

/** The probes of markers that are not in the list of this node, and why. */
function waitsOn(
  nodeName: string,
  { lostPorts, leftOut }: NodeProbeMemory,
): readonly { readonly namespace: string; readonly marker: string }[] {
  return [...(lostPorts.get(nodeName) ?? []), ...(leftOut.get(nodeName) ?? [])];
}

/** Once per generation: all nodes that have or need its probes, and all pods with results. */
function spread(
  marker: PodProbeMarker,
  matched: readonly Pod[],
  { spreads, nodeProbes, want }: MarkerPassDependencies,
): void {
  const key = keyOf(marker);
  const generation = marker.metadata.generation ?? 0;
  if (spreads.get(key)?.generation === generation) return;
  const ofPods = matched.map(({ spec }) => spec.nodeName ?? '');
  const ofLists = nodeProbes.byIndex('marker', key).map(({ metadata }) => metadata.name);
  const pending = new Set([...ofPods, ...ofLists]);
  spreads.set(key, { generation, pending });
  for (const nodeName of pending) want.node(nodeName);
  for (const pod of matched) want.pod(pod.metadata.uid);
}

async function writeStatus(
  marker: PodProbeMarker,
  matched: readonly Pod[],
  world: MarkerPassDependencies,
): Promise<void> {
  const { namespace = '', name, uid, resourceVersion, generation = 0 } = marker.metadata;
  const isSpread = world.spreads.get(keyOf(marker))?.pending.size === 0;
  const observed = isSpread ? generation : marker.status?.observedGeneration;
  const waitingFor = waitOf(marker, matched, isSpread, world);
  const wanted: PodProbeMarkerStatus = {
    ...(observed === undefined ? {} : { observedGeneration: observed }),
    matchedPods: matched.length,
    ...(waitingFor && { waitingFor }),
  };
  if (sameJson(wanted, marker.status ?? {})) return;
  const body = { metadata: { uid, resourceVersion }, status: { ...wanted, waitingFor: waitingFor ?? null } };
  const options = { subresource: 'status' } as const;
  await unlessMovedOn(world.kube.patch(podProbeMarker, { namespace, name }, 'merge', body, options));
}

/**
 * In this order: nodes without a list, ports that containers lack, probes for which a list has no room, pods without a
 * result whose daemon does not answer.
 */
function waitOf(
  marker: PodProbeMarker,
  matched: readonly Pod[],
  isSpread: boolean,
  { memory, nodeProbes, nodes, now, daemonTrouble }: MarkerPassDependencies,
): WaitingFor | undefined {
  const before = marker.status?.waitingFor;
  const at = timestamp(now());
  const isOnVirtualNode = (name: string) => {
    const node = nodes.byName('', name);
    return node !== undefined && isVirtual(node);
  };
  const unlisted = matched
    .map(({ spec }) => spec.nodeName ?? '')
    .filter((name) => !isOnVirtualNode(name) && !nodeProbes.byName('', name));
  if (unlisted.length > 0) return markerWait('NodeNotReady', named('node', unlisted), at, before);
  // What their lists lack is known once they have been looked at: a new leader must not take back what another has found.
  if (!isSpread && before !== undefined && before.reason !== 'NodeNotReady') return before;
  const { name, namespace } = marker.metadata;
  const ofMarker = (one: { readonly namespace: string; readonly marker: string }) =>
    one.marker === name && one.namespace === namespace;
  const lost = [...memory.lostPorts.values()].flat().filter(ofMarker);
  if (lost.length > 0) return markerWait('PortNotFound', podsOf(lost), at, before);
  const leftOut = [...memory.leftOut.values()].flat().filter(ofMarker);
  const reason = leftOut.find((one) => one.reason === 'TooManyProbes')?.reason ?? leftOut[0]?.reason;
  if (reason !== undefined) {
    const inTheWay = leftOut.filter((one) => one.reason === reason);
    return markerWait(reason, podsOf(inTheWay), at, before);
  }
  const unanswered = nodesWithoutResults(marker, matched, nodeProbes);
  const troubles = unanswered.flatMap((node) => daemonTrouble(node) ?? []);
  if (troubles.length === 0) return undefined;
  const blockedBy = named(
    'node',
    troubles.flatMap((trouble) => trouble.blockedBy).map((node) => node.replace(/^node\//, '')),
  );
  return markerWait('EngineNoDaemon', blockedBy, at, before, troubles.length === 1 ? troubles[0]?.unblock : undefined);
}

/** The nodes on which a probe of the marker has no result yet. */
function nodesWithoutResults(
  marker: PodProbeMarker,
  matched: readonly Pod[],
  nodeProbes: Pick<Cache<NodePodProbe>, 'byName'>,
): readonly string[] {
  const { name, namespace } = marker.metadata;
  return [...new Set(matched.map(({ spec }) => spec.nodeName ?? ''))].filter((node) => {
    const { spec, status } = nodeProbes.byName('', node) ?? {};
    const results = new Map(status?.podProbeStatuses?.map(({ uid, probeStates = [] }) => [uid, probeStates]));
    return spec?.podProbes?.some(
      ({ uid, namespace: of, probes = [] }) =>
        of === namespace &&
        probes.some(
          (probe) =>
            parseProbeKey(probe.name)?.marker === name &&
            !results.get(uid)?.some((result) => result.name === probe.name && result.state !== ''),
        ),
    );
  });
}

/**
 * PPM-8, PPM-8a: the finalizer is removed when no node has work of the marker any more. A pass that was running when
 * the deletion became known may still add work, so each of these nodes has one more pass before.
 */
async function releaseMarker(
  marker: PodProbeMarker,
  { releases, spreads, nodesInPass, memory, nodeProbes, kube, want }: MarkerPassDependencies,
): Promise<PassResult | undefined> {
  const key = keyOf(marker);
  const pending = releases.get(key) ?? new Set([...nodesInPass, ...memory.unsure]);
  if (!releases.has(key)) {
    releases.set(key, pending);
    for (const nodeName of pending) want.node(nodeName);
  }
  const left = nodeProbes.byIndex('marker', key);
  if (left.length === 0 && pending.size === 0) {
    spreads.delete(key);
    await removeFinalizer(marker, kube);
    return undefined;
  }
  for (const { metadata } of left) want.node(metadata.name);
  return { againInMs: 1_000 };
}

/** PPM-2: selected, active, initialized, and on an existing node, possibly a virtual one. */
function matchedPods(marker: PodProbeMarker, { pods, nodes }: MarkerPassDependencies): readonly Pod[] {
  const isSelected = selectionOf(marker);
  return pods
    .byIndex('probedInNamespace', marker.metadata.namespace ?? '')
    .filter((pod) => mayBeProbed(pod) && isSelected(pod.metadata.labels))
    .filter(({ spec }) => nodes.byName('', spec.nodeName ?? '') !== undefined);
}

function named(kind: string, names: readonly string[]): readonly string[] {
  return [...new Set(names)].toSorted((left, right) => left.localeCompare(right)).map((name) => `${kind}/${name}`);
}

function podsOf(entries: readonly { readonly pod: string }[]): readonly string[] {
  return named(
    'pod',
    entries.map(({ pod }) => pod),
  );
}

export function keyOf({ metadata }: Pick<PodProbeMarker, 'metadata'>): string {
  return `${metadata.namespace ?? ''}/${metadata.name}`;
}

/** The marker of this key. */
export function markerNamed(key: string, markers: Pick<Cache<PodProbeMarker>, 'byName'>): PodProbeMarker | undefined {
  const [namespace = '', name = ''] = key.split('/');
  return markers.byName(namespace, name);
}
