import type { ControllerOf } from './controller.ts';
import { cloneSetController } from './kinds/cloneset.ts';
import { containerLaunches } from './kinds/container-launch-priority.ts';
import { recreateRequests } from './kinds/container-recreate-request.ts';
import { imageListPullJobRunner } from './kinds/image-list-pull-job.ts';
import { imagePullJobRunner } from './kinds/image-pull-job.ts';
import { installationRecord } from './kinds/installation-record.ts';
import { sidecarTerminations } from './kinds/job-sidecar-termination.ts';
import { nodeImageKeeper } from './kinds/node-image.ts';
import { podProbes } from './kinds/pod-probe-marker.ts';
import { readinessGates } from './kinds/readiness-gates.ts';

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
