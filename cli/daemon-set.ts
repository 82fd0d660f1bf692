import type { Node } from '../api/core/node.ts';
import { convertDaemonSet } from '../api/daemon-set/convert.ts';
import { defaultDaemonSet } from '../api/daemon-set/defaults.ts';
import { type DaemonSet, daemonSets, daemonSetsV1alpha1 } from '../api/daemon-set/types.ts';
import { daemonSetWarnings, validateDaemonSet, validateDaemonSetUpdate } from '../api/daemon-set/validate.ts';
import type { DaemonSetInput } from '../plan/daemon-set/input.ts';
import { daemonSetWorkloads } from '../plan/daemon-set/planner.ts';
import { partitionOf } from '../plan/daemon-set/scene.ts';
import type { WorkloadKind } from './workload.ts';

/** DaemonSets of `apps.kruise.io` on the command line. `daemonset` and `ds` are those of Kubernetes as well. */
export const daemonSetWorkload: WorkloadKind<DaemonSet, DaemonSetInput> = {
  versions: [daemonSets, daemonSetsV1alpha1],
  shortNames: ['daemon', 'ads'],
  namesake: { shortNames: ['ds'] },
  planner: daemonSetWorkloads,
  needsNodes: 'always',
  // what is listed is what was asked for
  input: (input, nodes) => ({ ...input, nodes: nodes as readonly Node[] }),
  replicas: desiredOf,
  convert: convertDaemonSet,
  fillDefaults: (object, _, before) => defaultDaemonSet(object, before),
  validate: validateDaemonSet,
  validateUpdate: validateDaemonSetUpdate,
  warnings: daemonSetWarnings,
  countsOf: ({ metadata, status }) => ({
    ...(status?.updateRevision && { revision: `${metadata.name}-${status.updateRevision}` }),
    updated: status?.updatedNumberScheduled ?? 0,
    updatedAvailable: status?.updatedNumberScheduled ?? 0,
    available: status?.numberAvailable ?? 0,
  }),
  rollOut: {
    title: 'Advanced DaemonSet',
    wanted,
    waitsFor: unavailableLine,
    noPrevious: 'no last revision to roll back to',
  },
};

function desiredOf({ status }: DaemonSet): number {
  return status?.desiredNumberScheduled ?? 0;
}

/** AD-38: the pods of nodes that `selector` leaves out are not updated, and the status says when only they are left. */
function wanted(owner: DaemonSet): number {
  const { updatedNumberScheduled = 0, waitingFor } = owner.status ?? {};
  const desired = desiredOf(owner);
  if (waitingFor?.reason === 'NodeNotSelected') return updatedNumberScheduled;
  return desired - partitionOf(owner.spec.updateStrategy?.rollingUpdate, desired);
}

/** AD §3, KK-10: it is done when the pods of all nodes are available. */
function unavailableLine({ status }: DaemonSet): string | undefined {
  const { desiredNumberScheduled = 0, numberAvailable = 0 } = status ?? {};
  const left = desiredNumberScheduled - numberAvailable;
  return left > 0 ? `Waiting for ${left} pods to be ready...` : undefined;
}
