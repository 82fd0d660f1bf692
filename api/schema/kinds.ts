import { cloneSetKind } from './cloneset.ts';
import { containerRecreateRequestKind } from './container-recreate-request.ts';
import { imageListPullJobKind, imagePullJobKind } from './image-pull-job.ts';
import type { KindDefinition } from './kind.ts';
import { nodeImageKind } from './node-image.ts';
import { nodePodProbeKind } from './node-pod-probe.ts';
import { podProbeMarkerKind } from './pod-probe-marker.ts';

/** Every kind of Windlass's own. A line here gives a kind its CustomResourceDefinition and its reference page. */
export const kinds: readonly KindDefinition[] = [
  containerRecreateRequestKind,
  cloneSetKind,
  podProbeMarkerKind,
  nodePodProbeKind,
  imageListPullJobKind,
  imagePullJobKind,
  nodeImageKind,
];
