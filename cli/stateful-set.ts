import type { JsonObject } from '../api/base/json.ts';
import { apiVersionOf } from '../api/core/meta.ts';
import { convertStatefulSet } from '../api/stateful-set/convert.ts';
import { defaultStatefulSet } from '../api/stateful-set/defaults.ts';
import { ordinalIn } from '../api/stateful-set/ordinals.ts';
import {
  type StatefulSet,
  statefulSetCondition,
  statefulSets,
  statefulSetsV1alpha1,
} from '../api/stateful-set/types.ts';
import { statefulSetWarnings, validateStatefulSet, validateStatefulSetUpdate } from '../api/stateful-set/validate.ts';
import { statefulSetWorkloads } from '../plan/stateful-set/planner.ts';
import { ordinalsFor, replicasOf } from '../plan/stateful-set/scene.ts';
import type { WorkloadKind } from './workload.ts';

/** StatefulSets of `apps.kruise.io` on the command line. `statefulset` and `sts` are those of Kubernetes as well. */
export const statefulSetWorkload: WorkloadKind<StatefulSet> = {
  versions: [statefulSets, statefulSetsV1alpha1],
  shortNames: ['asts'],
  namesake: { shortNames: ['sts'] },
  planner: statefulSetWorkloads,
  wantsPod: (owner, podName, gates) => {
    const ordinal = ordinalIn(podName, owner.metadata.name);
    return ordinal !== undefined && ordinalsFor(owner, gates).isWanted(ordinal);
  },
  input: (input) => input,
  replicas: replicasOf,
  convert: convertStatefulSet,
  fillDefaults: defaultStatefulSet,
  validate: (object) => validateStatefulSet(asStored(object)),
  validateUpdate: (before, after) => validateStatefulSetUpdate(asStored(before), asStored(after)),
  warnings: (after, _, gates) => statefulSetWarnings(asStored(after), gates),
  conditions: { failedScale: statefulSetCondition.failedCreate, failedUpdate: statefulSetCondition.failedUpdate },
  rollOut: {
    title: 'Advanced StatefulSet',
    wanted: (owner) => replicasOf(owner) - (owner.spec.updateStrategy?.rollingUpdate?.partition ?? 0),
    waitsFor: volumesLine,
    noPrevious: 'no latest revision to roll back to',
  },
};

/** AS-91: where a change of templates is not rolled out, nothing is waited for. */
function volumesLine({ spec, status }: StatefulSet, wanted: number): string | undefined {
  const { volumeClaims = [], waitingFor } = status ?? {};
  const isExpanding = spec.volumeClaimUpdateStrategy?.type === 'OnPodRollingUpdate' && waitingFor !== undefined;
  const ready = Math.min(wanted, ...volumeClaims.map(({ compatibleReadyReplicas }) => compatibleReadyReplicas));
  if (!isExpanding || ready >= wanted) return undefined;
  return `Waiting for volumes to be expanded: ${ready} out of ${wanted} pods have theirs...`;
}

/** Admission judges StatefulSets as they are stored: one in v1alpha1 has fields of v1beta1 in an annotation. */
function asStored(object: JsonObject): JsonObject {
  return convertStatefulSet(object, apiVersionOf(statefulSets))?.object ?? object;
}
