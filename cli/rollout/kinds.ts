import { type PerKind, partsOf } from '../../api/per-kind.ts';
import { cloneSetRollout } from './cloneset.ts';
import type { RolloutKind } from './kind.ts';
import { sidecarSetRollout } from './sidecar-set.ts';

/** How the roll-outs of each kind are watched and changed. */
const rolloutsOfKinds: PerKind<RolloutKind> = {
  CloneSet: cloneSetRollout,
  ContainerRecreateRequest: 'none',
  PodProbeMarker: 'none',
  NodePodProbe: 'none',
  ImageListPullJob: 'none',
  ImagePullJob: 'none',
  NodeImage: 'none',
  SidecarSet: sidecarSetRollout,
  StatefulSet: 'none',
};

/** Every kind whose changes are rolled out. */
export const rolloutKinds: readonly RolloutKind[] = partsOf(rolloutsOfKinds);
