import { convertCloneSet } from '../api/cloneset/convert.ts';
import { cloneSets } from '../api/cloneset/types.ts';
import { convertRecreateRequest } from '../api/container-recreate-request/convert.ts';
import { crr } from '../api/container-recreate-request/types.ts';
import { convertDaemonSet } from '../api/daemon-set/convert.ts';
import { daemonSets } from '../api/daemon-set/types.ts';
import { imageListPullJobs, imagePullJobs } from '../api/image-pull-job/types.ts';
import { relabelled } from '../api/node-image/convert.ts';
import { nodeImages } from '../api/node-image/types.ts';
import { type PerKind, partsOf } from '../api/per-kind.ts';
import { convertSidecarSet } from '../api/sidecar-set/convert.ts';
import { sidecarSets } from '../api/sidecar-set/types.ts';
import { convertStatefulSet } from '../api/stateful-set/convert.ts';
import { statefulSets } from '../api/stateful-set/types.ts';
import type { Conversion } from './convert.ts';

/** The conversion of each kind with more than one version. */
export const conversionsOfKinds: PerKind<Conversion> = {
  ContainerRecreateRequest: { resource: crr, convert: convertRecreateRequest },
  CloneSet: { resource: cloneSets, convert: convertCloneSet },
  ImageListPullJob: { resource: imageListPullJobs, convert: relabelled },
  ImagePullJob: { resource: imagePullJobs, convert: relabelled },
  NodeImage: { resource: nodeImages, convert: relabelled },
  SidecarSet: { resource: sidecarSets, convert: convertSidecarSet },
  StatefulSet: { resource: statefulSets, convert: convertStatefulSet },
  DaemonSet: { resource: daemonSets, convert: convertDaemonSet },
  // These have a single version.
  PodProbeMarker: 'none',
  NodePodProbe: 'none',
};

/** All conversions. The CRDs of these kinds name the path `/convert`. */
export const conversions: readonly Conversion[] = partsOf(conversionsOfKinds);
