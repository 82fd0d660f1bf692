import { cloneSetKind } from './cloneset/schema.ts';
import { containerRecreateRequestKind } from './container-recreate-request/schema.ts';
import { imageListPullJobKind, imagePullJobKind } from './image-pull-job/schema.ts';
import { nodeImageKind } from './node-image/schema.ts';
import { nodePodProbeKind } from './node-pod-probe/schema.ts';
import { podProbeMarkerKind } from './pod-probe-marker/schema.ts';
import type { KindDefinition } from './schema/kind.ts';

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
