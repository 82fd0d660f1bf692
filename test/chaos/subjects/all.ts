import { type PerKind, partsOf } from '../../../api/per-kind.ts';
import type { SubjectKind } from '../chaos-subject.ts';
import { imagePulls } from './image-pulls.ts';
import { jobPods } from './job-pods.ts';
import { launches } from './launches.ts';
import { nodeRollOuts } from './node-roll-outs.ts';
import { probedPods } from './probed-pods.ts';
import { recreateRequests } from './recreate-requests.ts';
import { rollOuts, statefulRollOuts } from './roll-outs.ts';
import { sidecarSwaps } from './sidecar-swaps.ts';

/** The work of each kind while things break. */
const subjectsOfKinds: PerKind<SubjectKind> = {
  ContainerRecreateRequest: recreateRequests,
  CloneSet: rollOuts,
  ImagePullJob: imagePulls,
  PodProbeMarker: probedPods,
  // It is what probedPods look at.
  NodePodProbe: 'none',
  // imagePulls create one.
  ImageListPullJob: 'none',
  // It is what imagePulls look at.
  NodeImage: 'none',
  SidecarSet: sidecarSwaps,
  StatefulSet: statefulRollOuts,
  DaemonSet: nodeRollOuts,
};

/** What pods ask for by themselves. */
const subjectsOfPods: readonly SubjectKind[] = [jobPods, launches];

/** Everything that goes through faults. */
export const allSubjects: readonly SubjectKind[] = [...partsOf(subjectsOfKinds), ...subjectsOfPods];
