import { type CloneSet, cloneSetCondition, cloneSets, cloneSetsV1alpha1 } from '../../api/cloneset/types.ts';
import { ordersOf } from '../../api/fleet/roll-out-orders.ts';
import { limitsOf } from '../../plan/cloneset/counts.ts';
import { replicasOf, rollingUpdateOf } from '../../plan/cloneset/scene.ts';
import { ordersFor } from '../../plan/fleet/roll-out-orders.ts';
import { CommandFailed } from '../failure.ts';
import { isObserved, type Progress, type RolloutKind } from './kind.ts';
import { workloadRevisions } from './workload.ts';

export const cloneSetRollout: RolloutKind<CloneSet> = {
  versions: [cloneSets, cloneSetsV1alpha1],
  shortNames: ['clone'],
  progress: async (owner) => progressOf(owner),
  pausedIn: ['updateStrategy', 'rollingUpdate'],
  workload: { revisions: workloadRevisions, noPrevious: 'no last revision to roll back to' },
};

/** KK-7, KK-10: the texts of the last lines are those that scripts look for. */
function progressOf(owner: CloneSet): Progress {
  const { metadata, spec, status } = owner;
  if (spec.updateStrategy?.type === 'OnDelete') {
    throw new CommandFailed('rollout status is only available for RollingUpdate strategy type');
  }
  const isLate = status?.conditions?.some(
    ({ type, reason }) => type === cloneSetCondition.progressing && reason === 'ProgressDeadlineExceeded',
  );
  const waiting = (line: string): Progress => ({ line, isDone: false });
  if (status === undefined || !isObserved(owner)) return waiting('Waiting for CloneSet spec update to be observed...');
  if (isLate) throw new CommandFailed(`cloneset "${metadata.name}" exceeded its progress deadline`);

  const rollingUpdate = rollingUpdateOf(owner);
  const replicas = replicasOf(owner);
  const { partition } = limitsOf({ replicas, rollingUpdate, scaleMaxUnavailable: undefined });
  const wanted = Math.max(replicas - partition, 0);
  const { updatedReplicas: updated, updatedAvailableReplicas: available = 0 } = status;
  const undo = ordersFor(ordersOf(owner), status.updateRevision ?? '')?.undo;
  if (undo) {
    return waiting(
      updated > 0
        ? `Waiting for the undo to finish: ${updated} out of ${replicas} pods have yet to go back to ${undo.to}...`
        : `undo complete: all pods have gone back to ${undo.to}...`,
    );
  }
  if (updated < wanted) {
    return waiting(
      `Waiting for partitioned roll out to finish: ${updated} out of ${wanted} new pods have been updated...`,
    );
  }
  if (available < wanted) return waiting(`Waiting for ${wanted - available} pods to be ready...`);
  const isInPlace = (rollingUpdate?.podUpdatePolicy ?? 'ReCreate') !== 'ReCreate';
  const line = isInPlace
    ? `partitioned roll out complete: ${updated} new pods have been updated...`
    : `CloneSet rolling update complete ${status.availableReplicas} pods at revision ${status.updateRevision}...`;
  return { line, isDone: true };
}
