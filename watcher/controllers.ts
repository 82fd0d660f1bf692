import type { ControllerOf } from './controller.ts';
import { cloneSetController } from './kinds/cloneset.ts';
import { containerLaunches } from './kinds/container-launch-priority.ts';
import { recreateRequests } from './kinds/container-recreate-request.ts';
import { sidecarTerminations } from './kinds/job-sidecar-termination.ts';
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
];
