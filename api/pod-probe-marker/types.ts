// PodProbeMarker: probes containers of pods, and shows the results on these pods.
//
// Each field has one writer.
//
//   metadata.finalizers node-pod-probe-cleanup   the watcher
//   spec                                         the user
//   status                                       the watcher
//   on the pod: the condition podConditionType   the watcher (on virtual nodes the provider)
//   on the pod: marks of markerPolicy            the watcher
//   on the pod: annotations for providers        admission, at creation

import { type LabelSelector, labelMatcher } from '../core/label-selector.ts';
import type { KubeObject, ObjectMeta, Resource } from '../core/meta.ts';
import { group } from '../core/well-known.ts';
import type { Parsed } from '../schema/static.ts';
import type { specSchema, statusSchema } from './schema.ts';

/** Which pods of its namespace are probed, how, and what is written on them. */
export interface PodProbeMarker extends KubeObject {
  readonly metadata: ObjectMeta;
  readonly spec: PodProbeMarkerSpec;
  /** Absent until the controller has seen the object. */
  readonly status?: PodProbeMarkerStatus;
}

export type PodProbeMarkerSpec = Parsed<typeof specSchema>;
export type PodProbeMarkerStatus = Parsed<typeof statusSchema>;
export type MarkerProbe = PodProbeMarkerSpec['probes'][number];
export type MarkerPolicy = NonNullable<MarkerProbe['markerPolicy']>[number];

/** The resource. */
export const podProbeMarker = {
  group: group.apps,
  version: 'v1alpha1',
  plural: 'podprobemarkers',
  kind: 'PodProbeMarker',
  namespaced: true,
} as const satisfies Resource;

/** Set while nodes may have work of this marker; removed when none has. */
export const nodePodProbeFinalizer = 'kruise.io/node-pod-probe-cleanup';

/**
 * Whether the marker has its finalizer, so that it cannot be deleted before it is removed from all nodes: it is written
 * to nodes only then (PPM-9).
 */
export function isHeld({ metadata }: PodProbeMarker): boolean {
  return metadata.finalizers?.includes(nodePodProbeFinalizer) ?? false;
}

/** Annotations on pods, written at their creation for providers of virtual nodes. */
export const serverlessAnnotation = {
  /** JSON list of probes. */
  probes: 'kruise.io/podprobe',
  /** Names of their markers, sorted and separated by commas. */
  markers: 'kruise.io/podprobemarker-list',
} as const;

/** The marker's selector as a predicate; an empty or malformed selector selects nothing (PPM-1). */
export function selectionOf(marker: PodProbeMarker): (labels: Readonly<Record<string, string>> | undefined) => boolean {
  const selector: LabelSelector = marker.spec.selector;
  const isEmpty =
    Object.keys(selector.matchLabels ?? {}).length === 0 && (selector.matchExpressions ?? []).length === 0;
  const matches = isEmpty ? undefined : labelMatcher(selector);
  return matches ?? (() => false);
}
