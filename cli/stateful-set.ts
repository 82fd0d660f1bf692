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
  validate: validateStatefulSet,
  validateUpdate: validateStatefulSetUpdate,
  warnings: (after, _, gates) => statefulSetWarnings(after, gates),
  conditions: { failedScale: statefulSetCondition.failedCreate, failedUpdate: statefulSetCondition.failedUpdate },
  rollOut: {
    title: 'Advanced StatefulSet',
    wanted: (owner) => replicasOf(owner) - (owner.spec.updateStrategy?.rollingUpdate?.partition ?? 0),
    noPrevious: 'no latest revision to roll back to',
  },
};
