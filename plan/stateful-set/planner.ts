/** The planner of StatefulSets: what is specific to them. */
import { countOf } from '../../api/base/int-or-percent.ts';
import { preDownloadSettings } from '../../api/fleet/pre-download.ts';
import { ordinalIn } from '../../api/stateful-set/ordinals.ts';
import {
  type StatefulSet,
  statefulSetDefault,
  statefulSetEvent,
  statefulSets,
  statefulSetWaits,
} from '../../api/stateful-set/types.ts';
import type { FleetInput } from '../fleet/input.ts';
import type { FleetPlanner } from '../fleet/kind.ts';
import { workloadPlanner } from '../fleet/planner.ts';
import type { UpdateStrategy } from '../fleet/scene.ts';
import { claimOwners, isClaimOf } from './claims.ts';
import { statefulSetRevisions } from './revisions.ts';
import { planScale, type StatefulSetScale } from './scale.ts';
import { replicasOf, type StatefulSetScene, statefulSetScene } from './scene.ts';
import { statefulSetStatus } from './status.ts';
import { type StatefulSetDemand, updateDemand, updateLine } from './update.ts';
import { statefulSetRules } from './waits.ts';

export const statefulSetPlanner: FleetPlanner<
  StatefulSet,
  FleetInput<StatefulSet>,
  StatefulSetScene,
  StatefulSetScale,
  StatefulSetDemand
> = {
  resource: statefulSets,
  revisions: statefulSetRevisions,
  texts: statefulSetWaits,
  rules: statefulSetRules,
  membership: ({ owner }) => {
    const fits = (pod: { readonly metadata: { readonly name: string } }) =>
      ordinalIn(pod.metadata.name, owner.metadata.name) !== undefined;
    return {
      selector: owner.spec.selector,
      minReadySeconds: Math.max(owner.spec.updateStrategy?.rollingUpdate?.minReadySeconds ?? 0, 0),
      countsTerminating: true,
      adopts: fits, // AS-11
      fits,
    };
  },
  ownsClaim: isClaimOf,
  strategy: ({ owner }) => updateStrategy(owner),
  replicas: ({ owner }) => replicasOf(owner),
  scene: statefulSetScene,
  scale: planScale,
  demand: updateDemand,
  line: updateLine,
  emptyStatus: { replicas: 0, readyReplicas: 0, availableReplicas: 0, currentReplicas: 0, updatedReplicas: 0 },
  status: statefulSetStatus,
  // AS-80. Those of pods that are too many are changed before their deletion.
  upkeep: ({ scene, update: { stop } }) => [
    ...claimOwners(scene, scene.replicaPods),
    ...(stop.kind === 'claimDiffers'
      ? [{ kind: 'event', event: statefulSetEvent.claimDiffers(stop.claim) } as const]
      : []),
  ],
};

/** The same, in the form that watcher and command line use. */
export const statefulSetWorkloads = workloadPlanner(statefulSetPlanner);

function updateStrategy(owner: StatefulSet): UpdateStrategy {
  const { type, rollingUpdate = {} } = owner.spec.updateStrategy ?? {};
  return {
    isOnDelete: type === 'OnDelete',
    isPaused: rollingUpdate.paused ?? false,
    podUpdatePolicy: rollingUpdate.podUpdatePolicy ?? statefulSetDefault.podUpdatePolicy,
    graceSeconds: rollingUpdate.inPlaceUpdateStrategy?.gracePeriodSeconds ?? 0,
    lifecycle: owner.spec.lifecycle,
    preDownload: { ...preDownloadSettings(owner, replicasOf(owner)), isOneBatch: isOneBatch(owner) },
  };
}

/** AS-100: all pods may go at once, so that images pulled ahead would help none of them. */
function isOneBatch(owner: StatefulSet): boolean {
  const { partition = 0, maxUnavailable = statefulSetDefault.maxUnavailable } =
    owner.spec.updateStrategy?.rollingUpdate ?? {};
  const replicas = replicasOf(owner);
  return partition <= 0 && (countOf(maxUnavailable, replicas, 'down') ?? 0) >= replicas;
}
