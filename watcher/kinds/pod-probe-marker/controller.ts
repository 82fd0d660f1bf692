/** The controller of PodProbeMarkers: it writes them to the nodes, and reports the progress. */
import { sameJson } from '../../../api/base/json.ts';
import { isVirtual, type Node } from '../../../api/core/node.ts';
import type { Pod } from '../../../api/core/pod.ts';
import { kubeResource } from '../../../api/core/well-known.ts';
import { type NodePodProbe, nodePodProbe } from '../../../api/node-pod-probe/types.ts';
import { type PodProbeMarker, podProbeMarker, selectionOf } from '../../../api/pod-probe-marker/types.ts';
import type { Cache, Change } from '../../../kube/cache.ts';
import type { Controller, ControllerContext } from '../../controller.ts';
import { NodeProbeMemory } from '../node-pod-probe/memory.ts';
import {
  markerIndexes,
  nodeProbeIndexes,
  passOverPod,
  podsReportedAnew,
  probedPodIndexes,
} from '../node-pod-probe/pass.ts';
import { removeFinalizer } from './finalizer.ts';
import { keyOf, type MarkerPassDependencies, markerNamed, passOverMarker, passOverNodeOfMarkers } from './pass.ts';

/** Ensures that the selected pods are probed, and writes the results to them. */
export function podProbes(context: ControllerContext): Controller {
  const { config, kube, log, now, isLeading, cache, queue, daemonTrouble } = context;
  const markers = cache<PodProbeMarker>(podProbeMarker, markerIndexes);
  if (!config.featureGates.PodProbeMarkerGate) return finalizersOnly(context, markers);
  const nodeProbes = cache<NodePodProbe>(nodePodProbe, nodeProbeIndexes);
  const pods = cache<Pod>(kubeResource.pods, probedPodIndexes);
  const nodes = cache<Node>(kubeResource.nodes);
  const nodePasses = queue('node-pod-probes', (nodeName) => passOverNodeOfMarkers(nodeName, world));
  const podPasses = queue('probe-results', (podUid) => passOverPod(podUid, world));
  const markerPasses = queue('pod-probe-markers', (key) => passOverMarker(key, world));
  const world: MarkerPassDependencies = {
    ...{ pods, nodes, markers, nodeProbes, kube, log, now, daemonTrouble },
    serverless: config.featureGates.EnablePodProbeMarkerOnServerless,
    memory: new NodeProbeMemory(),
    spreads: new Map(),
    releases: new Map(),
    nodesInPass: new Set(),
    want: {
      node: (nodeName) => nodePasses.add(nodeName),
      pod: (podUid) => podPasses.add(podUid),
      marker: (key) => markerPasses.add(key),
    },
  };

  markers.onChange((change) => {
    if (isLeading()) markerChanged(change, world);
  });
  nodeProbes.onChange((change) => {
    if (isLeading()) nodeProbeChanged(change, world);
  });
  pods.onChange((change) => {
    if (!change.after) world.memory.forgetPod(change.before?.metadata.uid ?? '');
    if (isLeading()) podChanged(change, world);
  });
  nodes.onChange((change) => {
    if (isLeading()) nodeChanged(change, world);
  });
  return {
    begin() {
      world.spreads.clear();
      world.releases.clear();
      world.memory.forgetAll();
    },
    wantAll: () => wantAll(world),
  };
}

/** With the gate off, a marker being deleted must not hang: nothing else removes its finalizer (FG-4). */
function finalizersOnly({ kube, queue, isLeading }: ControllerContext, markers: Cache<PodProbeMarker>): Controller {
  const passes = queue('pod-probe-markers', async (key) => {
    const marker = markerNamed(key, markers);
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

function wantAll({ nodes, nodeProbes, markers, pods, serverless, want }: MarkerPassDependencies): void {
  for (const { metadata } of [...nodes.all(), ...nodeProbes.all()]) want.node(metadata.name);
  for (const marker of markers.all()) want.marker(keyOf(marker));
  for (const { status } of nodeProbes.all()) for (const { uid } of status?.podProbeStatuses ?? []) want.pod(uid);
  if (!serverless) return;
  for (const node of nodes.all()) {
    if (!isVirtual(node)) continue;
    for (const pod of pods.byIndex('probedOnNode', node.metadata.name)) want.pod(pod.metadata.uid);
  }
}

function markerChanged({ before, after }: Change<PodProbeMarker>, { nodeProbes, want }: MarkerPassDependencies): void {
  const marker = after ?? before;
  if (!marker) return;
  want.marker(keyOf(marker));
  // A marker whose finalizer was removed by another client still has work on nodes.
  if (!after) for (const { metadata } of nodeProbes.byIndex('marker', keyOf(marker))) want.node(metadata.name);
}

function nodeProbeChanged({ before, after }: Change<NodePodProbe>, { markers, want }: MarkerPassDependencies): void {
  const isGoing = (key: string) => markerNamed(key, markers)?.metadata.deletionTimestamp !== undefined;
  const name = (after ?? before)?.metadata.name ?? '';
  if (!before || !after || !sameJson(before.spec, after.spec)) want.node(name);
  if (!before || !after) for (const marker of markers.all()) want.marker(keyOf(marker));
  else for (const key of nodeProbeIndexes.marker(before)) if (isGoing(key)) want.marker(key);
  for (const podUid of podsReportedAnew(before, after)) want.pod(podUid);
}

function podChanged({ before, after }: Change<Pod>, { markers, want }: MarkerPassDependencies): void {
  if (before && after && probeFacts(before) === probeFacts(after)) return;
  for (const pod of [before, after]) {
    if (!pod) continue;
    const { namespace = '', labels, uid } = pod.metadata;
    const nodeName = pod.spec.nodeName ?? '';
    const selecting = markers.byIndex('namespace', namespace).filter((marker) => selectionOf(marker)(labels));
    for (const marker of selecting) want.marker(keyOf(marker));
    if (selecting.length === 0) continue;
    if (nodeName !== '') want.node(nodeName);
    want.pod(uid);
  }
}

function nodeChanged({ before, after }: Change<Node>, { markers, want }: MarkerPassDependencies): void {
  if (before && after && nodeFacts(before) === nodeFacts(after)) return;
  want.node((after ?? before)?.metadata.name ?? '');
  if (!before || !after) for (const marker of markers.all()) want.marker(keyOf(marker));
}

/** The fields of a pod that decide whether and how it is probed, and those that results are compared with. */
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
