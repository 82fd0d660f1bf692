import { type PerKind, partsOf } from '../api/per-kind.ts';
import type { ControllerOf } from './controller.ts';
import { installationRecord } from './installation-record.ts';
import { cloneSetController } from './kinds/cloneset/controller.ts';
import { recreateRequests } from './kinds/container-recreate-request/controller.ts';
import { daemonSetController } from './kinds/daemon-set/controller.ts';
import { imageListPullJobRunner } from './kinds/image-list-pull-job/controller.ts';
import { imagePullJobRunner } from './kinds/image-pull-job/controller.ts';
import { nodeImageKeeper } from './kinds/node-image/controller.ts';
import { containerLaunches } from './kinds/pod/container-launch-priority/controller.ts';
import { sidecarTerminations } from './kinds/pod/job-sidecar-termination/controller.ts';
import { readinessGates } from './kinds/pod/readiness-gates.ts';
import { podProbes } from './kinds/pod-probe-marker/controller.ts';
import { sidecarSetController } from './kinds/sidecar-set/controller.ts';
import { missedPodReports } from './kinds/sidecar-set/missed-status.ts';
import { statefulSetController } from './kinds/stateful-set/controller.ts';

/** The controller of each kind. */
const controllersOfKinds: PerKind<ControllerOf> = {
  ContainerRecreateRequest: recreateRequests,
  CloneSet: cloneSetController,
  PodProbeMarker: podProbes,
  // Written by the controller of PodProbeMarker.
  NodePodProbe: 'none',
  NodeImage: nodeImageKeeper,
  ImagePullJob: imagePullJobRunner,
  ImageListPullJob: imageListPullJobRunner,
  SidecarSet: sidecarSetController,
  StatefulSet: statefulSetController,
  DaemonSet: daemonSetController,
};

/** Features that pods request by labels, annotations and environment variables. */
const controllersOfPods: readonly ControllerOf[] = [readinessGates, containerLaunches, sidecarTerminations];

/** Every controller of the watcher. */
export const controllers: readonly ControllerOf[] = [
  ...partsOf(controllersOfKinds),
  ...controllersOfPods,
  missedPodReports,
  installationRecord,
];
