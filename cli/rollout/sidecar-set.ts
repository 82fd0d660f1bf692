import { isNotUpdate, type SidecarSet, sidecarSets, sidecarSetsV1alpha1 } from '../../api/sidecar-set/types.ts';
import { planSidecarSet } from '../../plan/sidecar-set/planner.ts';
import { CommandFailed } from '../failure.ts';
import { lookAtSidecarSet } from '../sidecar-set-look.ts';
import { isObserved, type RolloutKind } from './kind.ts';

export const sidecarSetRollout: RolloutKind<SidecarSet> = {
  versions: [sidecarSets, sidecarSetsV1alpha1],
  shortNames: [],
  pausedIn: ['updateStrategy'],
  async progress(owner, { kube, nowMs }) {
    if (isNotUpdate(owner.spec.updateStrategy)) {
      throw new CommandFailed('rollout status is only available for RollingUpdate strategy type');
    }
    const { status } = owner;
    if (status === undefined || !isObserved(owner)) {
      return { line: 'Waiting for SidecarSet spec update to be observed...', isDone: false };
    }
    // Which pods the partition, the selector and fields that running pods cannot take leave out is not in the status.
    const { input } = await lookAtSidecarSet(owner, { kube, nowMs });
    const { situation } = planSidecarSet(input);
    const pods = situation?.scene.pods ?? [];
    const updated = pods.filter(({ place }) => place.kind === 'updated');
    const underWay = pods.filter(({ place }) => place.kind === 'inProgress').length;
    const left = (situation?.update.demand.line.length ?? 0) + underWay;
    if (situation?.scene.isUndo) {
      const { revision } = situation.scene.target;
      const line =
        left > 0
          ? `Waiting for the undo to finish: ${left} out of ${updated.length + left} pods have yet to go back to ${revision}...`
          : `undo complete: all pods have gone back to ${revision}...`;
      return { line, isDone: false };
    }
    if (left > 0) {
      const wanted = updated.length + left;
      const line = `Waiting for partitioned roll out to finish: ${updated.length} out of ${wanted} pods have been updated...`;
      return { line, isDone: false };
    }
    const unready = updated.filter(({ isConsistent, isSidecarReady }) => !isConsistent || !isSidecarReady).length;
    if (unready > 0) return { line: `Waiting for ${unready} pods to be ready...`, isDone: false };
    const line = `SidecarSet rolling update complete ${updated.length} pods at revision ${status.latestRevision}...`;
    return { line, isDone: true };
  },
};
