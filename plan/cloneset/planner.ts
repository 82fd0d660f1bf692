/** The planner of CloneSets: what is specific to them. */
import { countOf } from '../../api/base/int-or-percent.ts';
import { type CloneSet, cloneSetDefault, cloneSets, cloneSetWaits } from '../../api/cloneset/types.ts';
import type { FleetPlanner } from '../fleet/kind.ts';
import { planFleet } from '../fleet/plan.ts';
import { workloadPlanner } from '../fleet/planner.ts';
import type { UpdateStrategy } from '../fleet/scene.ts';
import { limitsOf } from './counts.ts';
import type { CloneSetInput } from './input.ts';
import { unusedClaims } from './pods.ts';
import { cloneSetRevisions } from './revisions.ts';
import { type CloneSetScale, planScale, prunedPodsToDelete } from './scale.ts';
import { type CloneSetScene, cloneSetScene, replicasOf, rollingUpdateOf } from './scene.ts';
import { cloneSetStatus, progressDeadlineMs } from './status.ts';
import { type CloneSetDemand, updateDemand, updateLine } from './update.ts';
import { cloneSetRules } from './waits.ts';

export const cloneSetPlanner: FleetPlanner<CloneSet, CloneSetInput, CloneSetScene, CloneSetScale, CloneSetDemand> = {
  resource: cloneSets,
  revisions: cloneSetRevisions,
  texts: cloneSetWaits,
  rules: cloneSetRules,
  membership: ({ owner: { spec } }) => ({
    selector: spec.selector,
    minReadySeconds: spec.minReadySeconds ?? 0,
    named: new Set(spec.scaleStrategy?.podsToDelete ?? []),
  }),
  strategy: ({ owner }) => updateStrategy(owner),
  replicas: ({ owner }) => replicasOf(owner),
  scene: cloneSetScene,
  scale: planScale,
  demand: updateDemand,
  line: updateLine,
  emptyStatus: { replicas: 0, readyReplicas: 0, availableReplicas: 0, updatedReplicas: 0, updatedReadyReplicas: 0 },
  status: cloneSetStatus,
  upkeep: ({ scene }) => unusedClaims(scene.input, scene.counted),
  prunedSpec: prunedPodsToDelete,
  againAtMs({ scene, scale }, status) {
    const deadlineMs = progressDeadlineMs(scene.owner, status);
    // CS-90: a second later, since the deadline has to be over
    return [...scale.awaited.map(({ untilMs }) => untilMs), ...(deadlineMs === undefined ? [] : [deadlineMs + 1000])];
  },
};

/** The same, in the form that watcher and command line use. */
export const cloneSetWorkloads = workloadPlanner(cloneSetPlanner);

/** Decides what to do about a CloneSet now. */
export function planCloneSet(input: CloneSetInput) {
  return planFleet(cloneSetPlanner, input);
}

function updateStrategy(owner: CloneSet): UpdateStrategy {
  const rollingUpdate = rollingUpdateOf(owner);
  const inPlace = rollingUpdate?.inPlaceUpdateStrategy;
  return {
    isOnDelete: owner.spec.updateStrategy?.type === 'OnDelete',
    isPaused: rollingUpdate?.paused ?? false,
    podUpdatePolicy: rollingUpdate?.podUpdatePolicy ?? cloneSetDefault.podUpdatePolicy,
    graceSeconds: inPlace?.gracePeriodSeconds ?? 0,
    lifecycle: owner.spec.lifecycle,
    ...(rollingUpdate && {
      preDownload: {
        parallelism: inPlace?.imagePreDownloadParallelism ?? cloneSetDefault.imagePreDownloadParallelism,
        timeoutSeconds: inPlace?.imagePreDownloadTimeoutSeconds ?? cloneSetDefault.imagePreDownloadTimeoutSeconds,
        minUpdatedReadyPods: inPlace?.imagePreDownloadMinUpdatedReadyPods ?? 0,
        isOneBatch: isOneBatch(owner),
      },
    }),
  };
}

/** CS-101: all pods may go at once, so that pre-downloaded images would help none of them. */
function isOneBatch(owner: CloneSet): boolean {
  const rollingUpdate = rollingUpdateOf(owner);
  const replicas = replicasOf(owner);
  const { partition } = limitsOf({ replicas, rollingUpdate, scaleMaxUnavailable: undefined });
  const maxUnavailable = rollingUpdate?.maxUnavailable ?? cloneSetDefault.maxUnavailable;
  return partition === 0 && (countOf(maxUnavailable, replicas, 'down') ?? 0) >= replicas;
}
