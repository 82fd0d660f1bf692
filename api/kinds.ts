import { cloneSetKind } from './cloneset/schema.ts';
import { containerRecreateRequestKind } from './container-recreate-request/schema.ts';
import { daemonSetKind } from './daemon-set/schema.ts';
import { imageListPullJobKind, imagePullJobKind } from './image-pull-job/schema.ts';
import { nodeImageKind } from './node-image/schema.ts';
import { nodePodProbeKind } from './node-pod-probe/schema.ts';
import { podProbeMarkerKind } from './pod-probe-marker/schema.ts';
import type { KindDefinition } from './schema/kind.ts';
import { sidecarSetKind } from './sidecar-set/schema.ts';
import { statefulSetKind } from './stateful-set/schema.ts';

/**
 * Windlass's own kinds by name. A line here gives a kind its CustomResourceDefinition and its reference page, and makes
 * the compiler require its part in each layer (see `PerKind`).
 */
export const kinds = {
  ContainerRecreateRequest: containerRecreateRequestKind,
  CloneSet: cloneSetKind,
  PodProbeMarker: podProbeMarkerKind,
  NodePodProbe: nodePodProbeKind,
  ImageListPullJob: imageListPullJobKind,
  ImagePullJob: imagePullJobKind,
  NodeImage: nodeImageKind,
  SidecarSet: sidecarSetKind,
  StatefulSet: statefulSetKind,
  DaemonSet: daemonSetKind,
} as const satisfies Readonly<Record<string, KindDefinition>>;

export type KindName = keyof typeof kinds;

/** The definitions of all kinds. */
export const kindDefinitions: readonly KindDefinition[] = Object.values(kinds);
