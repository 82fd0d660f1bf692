import { type PerKind, partsOf } from '../../api/per-kind.ts';
import { cloneSetWorkload } from '../cloneset.ts';
import { daemonSetWorkload } from '../daemon-set.ts';
import { statefulSetWorkload } from '../stateful-set.ts';
import type { RolloutKind } from './kind.ts';
import { sidecarSetRollout } from './sidecar-set.ts';
import { workloadRollout } from './workload.ts';

/** How the roll-outs of each kind are watched and changed. */
const rolloutsOfKinds: PerKind<RolloutKind> = {
  CloneSet: workloadRollout(cloneSetWorkload),
  ContainerRecreateRequest: 'none',
  PodProbeMarker: 'none',
  NodePodProbe: 'none',
  ImageListPullJob: 'none',
  ImagePullJob: 'none',
  NodeImage: 'none',
  SidecarSet: sidecarSetRollout,
  StatefulSet: workloadRollout(statefulSetWorkload),
  DaemonSet: workloadRollout(daemonSetWorkload),
};

/** Every kind whose changes are rolled out. */
export const rolloutKinds: readonly RolloutKind[] = partsOf(rolloutsOfKinds);
