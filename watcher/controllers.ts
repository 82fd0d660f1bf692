import type { ControllerOf } from './controller.ts';
import { installationRecord } from './installation-record.ts';
import { cloneSetController } from './kinds/cloneset/controller.ts';
import { recreateRequests } from './kinds/container-recreate-request/controller.ts';
import { imageListPullJobRunner } from './kinds/image-list-pull-job/controller.ts';
import { imagePullJobRunner } from './kinds/image-pull-job/controller.ts';
import { nodeImageKeeper } from './kinds/node-image/controller.ts';
import { containerLaunches } from './kinds/pod/container-launch-priority.ts';
import { sidecarTerminations } from './kinds/pod/job-sidecar-termination.ts';
import { readinessGates } from './kinds/pod/readiness-gates.ts';
import { podProbes } from './kinds/pod-probe-marker/controller.ts';

/** Everything that the watcher looks after. A line here gives a kind its controller. */
export const controllers: readonly ControllerOf[] = [
  recreateRequests,
  readinessGates,
  cloneSetController,
  podProbes,
  containerLaunches,
  sidecarTerminations,
  nodeImageKeeper,
  imagePullJobRunner,
  imageListPullJobRunner,
  installationRecord,
];
