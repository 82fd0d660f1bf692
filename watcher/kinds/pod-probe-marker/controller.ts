/** What the watcher does for PodProbeMarkers: it has the nodes told of them, and says how far that has come. */
import { sameJson } from '../../../api/base/json.ts';
import { timestamp } from '../../../api/base/time.ts';
import { isVirtual, type Node } from '../../../api/core/node.ts';
import type { Pod } from '../../../api/core/pod.ts';
import { kubeResource } from '../../../api/core/well-known.ts';
import type { WaitingFor } from '../../../api/engine/waiting-for.ts';
import { type NodePodProbe, nodePodProbe } from '../../../api/node-pod-probe/types.ts';
import { markerWait } from '../../../api/pod-probe-marker/texts.ts';
import {
  isHeld,
  nodePodProbeFinalizer,
  type PodProbeMarker,
  type PodProbeMarkerStatus,
  podProbeMarker,
  selectionOf,
} from '../../../api/pod-probe-marker/types.ts';
import { unlessMovedOn } from '../../../kube/moved-on.ts';
import { mayBeProbed } from '../../../workflows/plan/probes/pod-probes.ts';
import type { Controller, ControllerContext } from '../../controller.ts';
import {
  markerIndexes,
  NodeProbeMemory,
  nodeProbeIndexes,
  type ProbeWorld,
  passOverNode,
  passOverPod,
  podsReportedAnew,
  probedPodIndexes,
} from '../node-pod-probe/controller.ts';

/** Nodes that have yet to be told of a generation of a marker. */
interface Spread {
  readonly generation: number;
  readonly pending: Set<string>;
}

/** Has the pods that markers select probed, and shows the results on them. */
export function podProbes(context: ControllerContext): Controller {
  const { config, kube, log, now, isLeading, cache, queue } = context;
  const markers = cache<PodProbeMarker>(podProbeMarker, markerIndexes);
  if (!config.featureGates.PodProbeMarkerGate) return finalizersOnly(context, markers);
  const nodeProbes = cache<NodePodProbe>(nodePodProbe, nodeProbeIndexes);
  const pods = cache<Pod>(kubeResource.pods, probedPodIndexes);
  const nodes = cache<Node>(kubeResource.nodes);
  const serverless = config.featureGates.EnablePodProbeMarkerOnServerless;
  const world: ProbeWorld = { pods, nodes, markers, nodeProbes, kube, log, now, serverless };
  const memory = new NodeProbeMemory();
  const spreads = new Map<string, Spread>();
  /** Nodes that have yet to be told that a marker goes; by marker. */
  const releases = new Map<string, Set<string>>();
  const nodesInPass = new Set<string>();

  const nodePasses = queue('node-pod-probes', async (nodeName) => {
    const before = waitsOn(nodeName);
    // what comes to be spread or released while this pass runs was not known when it began
    const known = [...[...spreads].map(([key, { pending }]) => [key, pending] as const), ...releases];
    nodesInPass.add(nodeName);
    try {
      await passOverNode(nodeName, world, memory);
    } finally {
      nodesInPass.delete(nodeName);
    }
    for (const [key, pending] of known) if (pending.delete(nodeName) && pending.size === 0) markerPasses.add(key);
    const after = waitsOn(nodeName);
    if (!sameJson(before, after)) {
      for (const { namespace, marker } of [...before, ...after]) markerPasses.add(`${namespace}/${marker}`);
    }
    return undefined;
  });
  const podPasses = queue('probe-results', async (podUid) => {
    await passOverPod(podUid, world, memory);
    return undefined;
  });
  const markerPasses = queue('pod-probe-markers', async (key) => {
    const marker = markers.byName(...namesIn(key));
    if (!marker) {
      spreads.delete(key);
      releases.delete(key);
      return undefined;
    }
    if (marker.metadata.deletionTimestamp !== undefined) return await releaseMarker(marker);
    // Nodes are told once the cache shows the finalizer, and that brings the next pass.
    if (!isHeld(marker)) {
      await addFinalizer(marker, kube);
      return undefined;
    }
    const matched = matchedPods(marker, world);
    spread(marker, matched);
    await writeStatus(marker, matched);
    return undefined;
  });

  /** Once for each generation: all nodes that have, or are to have, probes of it, and all pods with results. */
  function spread(marker: PodProbeMarker, matched: readonly Pod[]): void {
    const key = keyOf(marker);
    const generation = marker.metadata.generation ?? 0;
    if (spreads.get(key)?.generation === generation) return;
    const ofPods = matched.map(({ spec }) => spec.nodeName ?? '');
    const ofLists = nodeProbes.byIndex('marker', key).map(({ metadata }) => metadata.name);
    const pending = new Set([...ofPods, ...ofLists]);
    spreads.set(key, { generation, pending });
    for (const nodeName of pending) nodePasses.add(nodeName);
    for (const pod of matched) podPasses.add(pod.metadata.uid);
  }

  async function writeStatus(marker: PodProbeMarker, matched: readonly Pod[]): Promise<void> {
    const generation = marker.metadata.generation ?? 0;
    const isSpread = spreads.get(keyOf(marker))?.pending.size === 0;
    const observed = isSpread ? generation : marker.status?.observedGeneration;
    const waitingFor = waitOf(marker, matched);
    const wanted: PodProbeMarkerStatus = {
      ...(observed === undefined ? {} : { observedGeneration: observed }),
      matchedPods: matched.length,
      ...(waitingFor && { waitingFor }),
    };
    if (sameJson(wanted, marker.status ?? {})) return;
    const { uid, resourceVersion } = marker.metadata;
    const body = { metadata: { uid, resourceVersion }, status: { ...wanted, waitingFor: waitingFor ?? null } };
    await unlessMovedOn(kube.patch(podProbeMarker, nameOf(marker), 'merge', body, { subresource: 'status' }));
  }

  /** What of markers is not on the list of this node, and why. */
  function waitsOn(nodeName: string): readonly { readonly namespace: string; readonly marker: string }[] {
    return [...(memory.lostPorts.get(nodeName) ?? []), ...(memory.leftOut.get(nodeName) ?? [])];
  }

  function waitOf(marker: PodProbeMarker, matched: readonly Pod[]): WaitingFor | undefined {
    const before = marker.status?.waitingFor;
    const at = timestamp(now());
    const unlisted = matched
      .map(({ spec }) => spec.nodeName ?? '')
      .filter((name) => !isVirtual(nodes.byName('', name) ?? noNode) && !nodeProbes.byName('', name));
    if (unlisted.length > 0) return markerWait('NodeNotReady', named('node', unlisted), at, before);
    const { name, namespace } = marker.metadata;
    const ofMarker = (one: { readonly namespace: string; readonly marker: string }) =>
      one.marker === name && one.namespace === namespace;
    const lost = [...memory.lostPorts.values()].flat().filter(ofMarker);
    if (lost.length > 0) return markerWait('PortNotFound', podsOf(lost), at, before);
    const leftOut = [...memory.leftOut.values()].flat().filter(ofMarker);
    const reason = leftOut.find((one) => one.reason === 'TooManyProbes')?.reason ?? leftOut[0]?.reason;
    if (reason === undefined) return undefined;
    const inTheWay = leftOut.filter((one) => one.reason === reason);
    return markerWait(reason, podsOf(inTheWay), at, before);
  }

  /**
   * PPM-8, PPM-8a: the finalizer goes when no node has work of the marker any more. A pass that was under way when the
   * deletion became known may still put some there, so each of these nodes is looked at once more before.
   */
  async function releaseMarker(marker: PodProbeMarker): Promise<{ readonly againInMs: number } | undefined> {
    const key = keyOf(marker);
    const pending = releases.get(key) ?? new Set([...nodesInPass, ...memory.unsure]);
    if (!releases.has(key)) {
      releases.set(key, pending);
      for (const nodeName of pending) nodePasses.add(nodeName);
    }
    const left = nodeProbes.byIndex('marker', key);
    if (left.length === 0 && pending.size === 0) {
      spreads.delete(key);
      await removeFinalizer(marker, kube);
      return undefined;
    }
    for (const { metadata } of left) nodePasses.add(metadata.name);
    return { againInMs: 1_000 };
  }

  markers.onChange(({ before, after }) => {
    const marker = after ?? before;
    if (!marker || !isLeading()) return;
    markerPasses.add(keyOf(marker));
    // A marker that lost its finalizer to somebody else still has work on nodes.
    if (!after) for (const { metadata } of nodeProbes.byIndex('marker', keyOf(marker))) nodePasses.add(metadata.name);
  });
  nodeProbes.onChange(({ before, after }) => {
    if (!isLeading()) return;
    const name = (after ?? before)?.metadata.name ?? '';
    if (!before || !after || !sameJson(before.spec, after.spec)) nodePasses.add(name);
    if (!before || !after) for (const marker of markers.all()) markerPasses.add(keyOf(marker));
    else for (const key of nodeProbeIndexes.marker(before)) if (isGoing(key)) markerPasses.add(key);
    for (const podUid of podsReportedAnew(before, after)) podPasses.add(podUid);
  });
  pods.onChange(({ before, after }) => {
    if (!after) memory.forgetPod(before?.metadata.uid ?? '');
    if (!isLeading() || (before && after && probeFacts(before) === probeFacts(after))) return;
    for (const pod of [before, after]) if (pod) podChanged(pod);
  });
  nodes.onChange(({ before, after }) => {
    if (!isLeading() || (before && after && nodeFacts(before) === nodeFacts(after))) return;
    nodePasses.add((after ?? before)?.metadata.name ?? '');
    if (!before || !after) for (const marker of markers.all()) markerPasses.add(keyOf(marker));
  });

  function podChanged(pod: Pod): void {
    const { namespace = '', labels, uid } = pod.metadata;
    const nodeName = pod.spec.nodeName ?? '';
    const selecting = markers.byIndex('namespace', namespace).filter((marker) => selectionOf(marker)(labels));
    for (const marker of selecting) markerPasses.add(keyOf(marker));
    if (selecting.length === 0) return;
    if (nodeName !== '') nodePasses.add(nodeName);
    podPasses.add(uid);
  }

  function isGoing(key: string): boolean {
    return markers.byName(...namesIn(key))?.metadata.deletionTimestamp !== undefined;
  }

  return {
    begin() {
      spreads.clear();
      releases.clear();
      memory.forgetAll();
    },
    wantAll() {
      for (const { metadata } of [...nodes.all(), ...nodeProbes.all()]) nodePasses.add(metadata.name);
      for (const marker of markers.all()) markerPasses.add(keyOf(marker));
      for (const { status } of nodeProbes.all())
        for (const { uid } of status?.podProbeStatuses ?? []) podPasses.add(uid);
      if (!serverless) return;
      for (const node of nodes.all()) {
        if (!isVirtual(node)) continue;
        for (const pod of pods.byIndex('probedOnNode', node.metadata.name)) podPasses.add(pod.metadata.uid);
      }
    },
  };
}

/** Without the feature a marker that goes must not hang, as nobody else may take its finalizer off (FG-4). */
function finalizersOnly(
  { kube, queue, isLeading }: ControllerContext,
  markers: ReturnType<ControllerContext['cache']>,
): Controller {
  const passes = queue('pod-probe-markers', async (key) => {
    const marker = markers.byName(...namesIn(key)) as PodProbeMarker | undefined;
    if (marker?.metadata.deletionTimestamp !== undefined) await removeFinalizer(marker, kube);
    return undefined;
  });
  const wantAll = () => {
    for (const marker of markers.all()) passes.add(keyOf(marker));
  };
  markers.onChange(({ after }) => {
    if (after && isLeading()) passes.add(keyOf(after));
  });
  return { wantAll };
}

/** PPM-2: selected, active, initialized, and on a node that there is, be it virtual. */
function matchedPods(marker: PodProbeMarker, { pods, nodes }: ProbeWorld): readonly Pod[] {
  const isSelected = selectionOf(marker);
  return pods
    .byIndex('probedInNamespace', marker.metadata.namespace ?? '')
    .filter((pod) => mayBeProbed(pod) && isSelected(pod.metadata.labels))
    .filter(({ spec }) => nodes.byName('', spec.nodeName ?? '') !== undefined);
}

/** PPM-9. */
async function addFinalizer(marker: PodProbeMarker, kube: ControllerContext['kube']): Promise<void> {
  await setFinalizers(marker, [...(marker.metadata.finalizers ?? []), nodePodProbeFinalizer], kube);
}

async function removeFinalizer(marker: PodProbeMarker, kube: ControllerContext['kube']): Promise<void> {
  const { finalizers = [] } = marker.metadata;
  const others = finalizers.filter((finalizer) => finalizer !== nodePodProbeFinalizer);
  if (others.length < finalizers.length) await setFinalizers(marker, others, kube);
}

async function setFinalizers(marker: PodProbeMarker, finalizers: readonly string[], kube: ControllerContext['kube']) {
  const { uid, resourceVersion } = marker.metadata;
  await unlessMovedOn(
    kube.patch(podProbeMarker, nameOf(marker), 'merge', { metadata: { uid, resourceVersion, finalizers } }),
  );
}

/** What of a pod decides whether and how it is probed, and what of it the results are compared with. */
function probeFacts({ metadata, spec, status }: Pod): string {
  const conditions = status?.conditions?.filter(({ type }) => !kubeletConditions.includes(type)) ?? [];
  const facts = [metadata.deletionTimestamp, metadata.labels, spec.nodeName, status?.podIP, status?.phase];
  return JSON.stringify([...facts, conditions.map(({ type, status: is }) => `${type}=${is}`)]);
}

const kubeletConditions: readonly string[] = ['Ready', 'ContainersReady', 'PodScheduled'];

function nodeFacts({ metadata, status }: Node): string {
  const ready = status?.conditions?.find(({ type }) => type === 'Ready')?.status;
  return JSON.stringify([metadata.uid, metadata.deletionTimestamp, metadata.labels?.type, ready]);
}

const noNode: Node = {
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name: '', uid: '', resourceVersion: '', creationTimestamp: '' },
};

function named(kind: string, names: readonly string[]): readonly string[] {
  return [...new Set(names)].toSorted((left, right) => left.localeCompare(right)).map((name) => `${kind}/${name}`);
}

function podsOf(entries: readonly { readonly pod: string }[]): readonly string[] {
  return named(
    'pod',
    entries.map(({ pod }) => pod),
  );
}

function keyOf({ metadata }: Pick<PodProbeMarker, 'metadata'>): string {
  return `${metadata.namespace ?? ''}/${metadata.name}`;
}

function namesIn(key: string): [namespace: string, name: string] {
  const [namespace = '', name = ''] = key.split('/');
  return [namespace, name];
}

function nameOf({ metadata }: PodProbeMarker): { readonly namespace: string; readonly name: string } {
  return { namespace: metadata.namespace ?? '', name: metadata.name };
}
