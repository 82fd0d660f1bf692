import { formatSelector, labelMatcher } from '../../api/core/label-selector.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { type ControllerRevision, revisionsOf } from '../../api/fleet/revision.ts';
import { ordersOf } from '../../api/fleet/roll-out-orders.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { FleetInput } from '../../plan/fleet/input.ts';
import { ordersFor } from '../../plan/fleet/roll-out-orders.ts';
import type { Workload } from '../../plan/fleet/workload.ts';
import { attempt, CommandFailed } from '../failure.ts';
import { listAll } from '../reads.ts';
import { podCountsOf, type WorkloadKind } from '../workload.ts';
import { isObserved, type Progress, type RolloutKind } from './kind.ts';

/** The roll-outs of a kind that keeps pods. */
export function workloadRollout<Owner extends Workload, Input extends FleetInput<Owner>>(
  kind: WorkloadKind<Owner, Input>,
): RolloutKind<Owner> {
  return {
    versions: kind.versions,
    shortNames: kind.shortNames,
    ...(kind.namesake && { namesake: kind.namesake }),
    progress: async (owner) => progressOf(kind, owner),
    pausedIn: ['updateStrategy', 'rollingUpdate'],
    workload: { revisions: workloadRevisions, noPrevious: kind.rollOut.noPrevious },
  };
}

/** The ControllerRevisions of a workload, oldest first (CS-84). */
async function workloadRevisions(
  { metadata, spec }: Pick<Workload, 'metadata' | 'spec'>,
  kube: KubeClient,
): Promise<readonly ControllerRevision[]> {
  const { namespace = '', uid } = metadata;
  const labelSelector = formatSelector(spec.selector);
  const found = await attempt(`Cannot list controllerrevisions in namespace "${namespace}"`, () =>
    listAll<ControllerRevision>(kube, kubeResource.controllerRevisions, { namespace, labelSelector }),
  );
  return revisionsOf(uid, found, labelMatcher(spec.selector) ?? (() => false));
}

/** KK-7, KK-8, KK-10: the texts of the last lines are those that scripts look for. */
function progressOf<Owner extends Workload, Input extends FleetInput<Owner>>(
  kind: WorkloadKind<Owner, Input>,
  owner: Owner,
): Progress {
  const { title, ...rollOut } = kind.rollOut;
  const { metadata, spec, status } = owner;
  if (spec.updateStrategy?.type === 'OnDelete') {
    throw new CommandFailed('rollout status is only available for RollingUpdate strategy type');
  }
  const waiting = (line: string): Progress => ({ line, isDone: false });
  if (status === undefined || !isObserved(owner)) return waiting(`Waiting for ${title} spec update to be observed...`);
  if (status.conditions?.some(({ reason }) => reason === 'ProgressDeadlineExceeded')) {
    throw new CommandFailed(`${kind.versions[0].kind.toLowerCase()} "${metadata.name}" exceeded its progress deadline`);
  }

  const wanted = Math.max(rollOut.wanted(owner), 0);
  const { updated, updatedAvailable, available, revision = '' } = podCountsOf(kind, owner);
  const undo = ordersFor(ordersOf(owner), revision)?.undo;
  if (undo) {
    return waiting(
      updated > 0
        ? `Waiting for the undo to finish: ${updated} out of ${kind.replicas(owner)} pods have yet to go back to ${undo.to}...`
        : `undo complete: all pods have gone back to ${undo.to}...`,
    );
  }
  if (updated < wanted) {
    return waiting(
      `Waiting for partitioned roll out to finish: ${updated} out of ${wanted} new pods have been updated...`,
    );
  }
  if (updatedAvailable < wanted) return waiting(`Waiting for ${wanted - updatedAvailable} pods to be ready...`);
  const left = rollOut.waitsFor?.(owner, wanted);
  if (left !== undefined) return waiting(left);
  const line = `${title} rolling update complete ${available} pods at revision ${status.updateRevision ?? ''}...`;
  return { line: rollOut.lastLine?.(owner) ?? line, isDone: true };
}
