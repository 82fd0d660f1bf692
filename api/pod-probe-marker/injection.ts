// Changes of new pods that concern probes: annotations for providers of virtual nodes, and removed liveness probes.
// Pods are open JSON.

import { isJsonObject, type Json, type JsonObject, listOr, objectOr } from '../base/json.ts';
import { compareGoStrings, type GoValue, goJson } from '../base/json-go.ts';
import { asGoStruct } from '../core/core-types.ts';
import { group } from '../core/well-known.ts';
import { mayWriteCondition } from './reserved.ts';
import { type PodProbeMarker, selectionOf, serverlessAnnotation } from './types.ts';

/** `true` on a pod whose liveness probes are to be replaced. */
export const enhancedLivenessAnnotation = 'apps.kruise.io/using-enhanced-liveness';

/** Containers of such a pod: its annotations have room for about as many probes. */
export const mostProbedContainers = 1_000;

/** The original liveness probes of the pod, as a JSON list. */
const livenessContextAnnotation = 'apps.kruise.io/container-probe-context';

/**
 * The pod with the probes of its markers in annotations (PPS-1): those that write a condition, for containers that keep
 * running, each condition and each probe name of a container once. The same pod where there are none.
 */
export function withServerlessProbes(pod: JsonObject, markersOfNamespace: readonly PodProbeMarker[]): JsonObject {
  const labels = objectOr(objectOr(pod.metadata).labels) as Readonly<Record<string, string>>;
  const selecting = inOrder(markersOfNamespace).filter(
    (marker) => marker.metadata.deletionTimestamp === undefined && selectionOf(marker)(labels),
  );
  if (selecting.length === 0) return pod;
  const containers = lastingContainers(objectOr(pod.spec));
  const conditions = new Set<string>();
  const taken = new Set<string>();
  const markers = new Set<string>();
  const probes: GoValue[] = [];
  for (const marker of selecting) {
    for (const { name, containerName, podConditionType, probe } of marker.spec.probes) {
      const place = `${containerName}/${name}`;
      const isFree = mayWriteCondition(podConditionType) && !conditions.has(podConditionType) && !taken.has(place);
      if (!isFree || !containers.has(containerName)) continue;
      conditions.add(podConditionType);
      taken.add(place);
      markers.add(marker.metadata.name);
      probes.push({ name, containerName, probe: asGoStruct('Probe', probe as JsonObject), podConditionType });
    }
  }
  if (probes.length === 0) return pod;
  return withAnnotations(pod, {
    [serverlessAnnotation.probes]: goJson(probes),
    [serverlessAnnotation.markers]: [...markers].join(','),
  });
}

function inOrder(markers: readonly PodProbeMarker[]): readonly PodProbeMarker[] {
  return markers.toSorted((left, right) => compareGoStrings(left.metadata.name, right.metadata.name));
}

/** Regular containers, and init containers that keep running (native sidecars). */
function lastingContainers(spec: JsonObject): ReadonlySet<unknown> {
  const names = new Set<unknown>();
  for (const container of listOr(spec.containers)) names.add(objectOr(container).name);
  for (const container of listOr(spec.initContainers)) {
    if (objectOr(container).restartPolicy === 'Always') names.add(objectOr(container).name);
  }
  return names;
}

/**
 * Whether the liveness probes of this pod are to be removed: one of our workloads owns it, and its annotation requests
 * it.
 */
export function wantsEnhancedLiveness({ metadata }: JsonObject): boolean {
  const { ownerReferences, annotations } = objectOr(metadata);
  const owner = listOr(ownerReferences)
    .map(objectOr)
    .find(({ controller }) => controller === true);
  const isOurs = typeof owner?.apiVersion === 'string' && owner.apiVersion.startsWith(`${group.apps}/`);
  return isOurs && objectOr(annotations)[enhancedLivenessAnnotation] === 'true';
}

/** The pod with its liveness probes moved to an annotation. The same pod where there are none. */
export function withoutLivenessProbes(pod: JsonObject): JsonObject {
  const spec = objectOr(pod.spec);
  const containers = listOr(spec.containers);
  const taken = containers.map(objectOr).filter(({ livenessProbe }) => isJsonObject(livenessProbe));
  if (taken.length === 0) return pod;
  const context = taken.map(({ name, livenessProbe }) => ({
    name: name ?? '',
    livenessProbe: asGoStruct('Probe', objectOr(livenessProbe)),
  }));
  const stripped = { ...pod, spec: { ...spec, containers: containers.map(withoutLiveness) } };
  return withAnnotations(stripped, { [livenessContextAnnotation]: goJson(context) });
}

function withoutLiveness(container: Json): Json {
  if (!isJsonObject(container)) return container;
  const { livenessProbe: _, ...rest } = container;
  return rest;
}

function withAnnotations(pod: JsonObject, annotations: JsonObject): JsonObject {
  const metadata = objectOr(pod.metadata);
  return { ...pod, metadata: { ...metadata, annotations: { ...objectOr(metadata.annotations), ...annotations } } };
}
