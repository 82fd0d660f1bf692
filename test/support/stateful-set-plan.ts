/** What the planner makes of a StatefulSet that goes from its first to its second revision, and what its steps are about. */
import type { Pod } from '../../api/core/pod.ts';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import type { StatefulSet } from '../../api/stateful-set/types.ts';
import type { FleetInput } from '../../plan/fleet/input.ts';
import { statefulSetWorkloads } from '../../plan/stateful-set/planner.ts';
import { fresh, now, old } from './stateful-set-world.ts';

/** A status in which the first revision is the current one. */
const status = {
  ...{ replicas: 0, readyReplicas: 0, availableReplicas: 0, currentReplicas: 0, updatedReplicas: 0 },
  currentRevision: old.metadata.name,
};

export function plan(owner: StatefulSet, of: readonly Pod[], more: Partial<FleetInput<StatefulSet>> = {}) {
  return statefulSetWorkloads.plan({
    owner: { ...owner, status },
    ...{ pods: of, claims: [], revisions: [old, fresh], gates: parseFeatureGates() },
    ...{ hasResizeSubresource: true, nowMs: Date.parse(now), isSpent: () => false },
    ...more,
  });
}

export type Plan = ReturnType<typeof plan>;
export const created = ({ upkeep }: Plan) => upkeep.flatMap((step) => (step.kind === 'createPod' ? [step.name] : []));
export const deleted = ({ upkeep }: Plan) =>
  upkeep.flatMap((step) => (step.kind === 'deletePod' ? [step.pod.name] : []));
export const begun = ({ disruption }: Plan) => disruption.flatMap((step) => ('pod' in step ? [step.pod.name] : []));
export const reason = ({ status }: Plan) => status?.waitingFor?.reason;
export const ordered = { podManagementPolicy: 'OrderedReady' } as const;
export const specified = { 'apps.kruise.io/specified-delete': 'true' };
