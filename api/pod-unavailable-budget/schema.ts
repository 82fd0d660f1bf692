import { Type } from 'typebox';
import { group } from '../core/well-known.ts';
import { counter, type KindDefinition } from '../schema/kind.ts';
import { int32, int64, intOrPercent, labelSelector, maxInt32, time } from '../schema/shared.ts';

// The schema of v1beta1, which is the stored version and the only one used internally, and the differences of v1alpha1. As
// in OpenKruise it limits the values of the fields that only v1beta1 has; the rest is in `validate.ts`.

const targetRef = Type.Object(
  {
    apiVersion: Type.Optional(Type.String({ description: 'Of the workload; its version has no meaning.' })),
    kind: Type.Optional(Type.String({ description: 'Of the workload.' })),
    name: Type.Optional(Type.String({ description: 'Of the workload, in the namespace of the PodUnavailableBudget.' })),
  },
  {
    description:
      'The workload whose pods are protected; all three fields must be set. Exactly one of `selector` and `targetRef` must ' +
      'be set, and both are immutable.',
  },
);

const operation = Type.Union([
  Type.Literal('DELETE'),
  Type.Literal('UPDATE'),
  Type.Literal('EVICT'),
  Type.Literal('RESIZE'),
]);

/** The desired state. */
export const specSchema = Type.Object(
  {
    selector: Type.Optional(
      labelSelector({ description: 'Selects the pods of the namespace that are protected. Must not be empty.' }),
    ),
    targetRef: Type.Optional(targetRef),
    maxUnavailable: Type.Optional(
      intOrPercent({
        description:
          'The maximum number or percentage (rounded up) of the expected pods that may be unavailable. Exactly one of ' +
          '`maxUnavailable` and `minAvailable` must be set.',
      }),
    ),
    minAvailable: Type.Optional(
      intOrPercent({
        description: 'The minimum number of available pods, or percentage (rounded up) of the expected pods.',
      }),
    ),
    protectOperations: Type.Optional(
      Type.Array(operation, {
        'x-kubernetes-list-type': 'atomic',
        description:
          'The operations that take from the budget. Absent or empty: `DELETE`, `UPDATE` and `EVICT`. In v1alpha1 the ' +
          'annotation `kruise.io/pub-protect-operations`.',
      }),
    ),
    protectTotalReplicas: Type.Optional(
      int32({
        ...{ minimum: 1, maximum: maxInt32 },
        description:
          'The number of expected pods. Absent: the replicas of their workloads. In v1alpha1 the annotation ' +
          '`pub.kruise.io/protect-total-replicas`.',
      }),
    ),
    ignoredPodSelector: Type.Optional(
      labelSelector({
        description: 'Selects pods that are never protected. Must not be empty. Absent: none. Not in v1alpha1.',
      }),
    ),
  },
  { description: 'Which pods are protected, from what, and how many may be unavailable.' },
);

const takenPods = (what: string) =>
  Type.Optional(Type.Record(Type.String(), time(), { description: `Pods, with the time when ${what} was admitted.` }));

/** The observed state. */
export const statusSchema = Type.Object(
  {
    observedGeneration: Type.Optional(int64({ description: 'The generation that this status describes.' })),
    disruptedPods: takenPods('their deletion, eviction or resize'),
    unavailablePods: takenPods('their update'),
    unavailableAllowed: int32({ description: 'The number of pods that may still be made unavailable.' }),
    currentAvailable: int32({ description: 'The number of available pods.' }),
    desiredAvailable: int32({ description: 'The minimum number of available pods. 0: no pod is protected.' }),
    totalReplicas: int32({ description: 'The number of expected pods; -1: the workload has no replicas.' }),
  },
  { description: 'The pods that are counted, and what is left of the budget.' },
);

/** The kind: names, versions, columns. */
export const podUnavailableBudgetKind: KindDefinition = {
  group: group.policy,
  kind: 'PodUnavailableBudget',
  plural: 'podunavailablebudgets',
  shortNames: ['pub'],
  scope: 'Namespaced',
  description: 'Limits how many pods of an application may be made unavailable at the same time, by whom and how ever.',
  columns: [
    counter('Allowed', 'unavailableAllowed', 'The number of pods that may still be made unavailable.'),
    counter('Current', 'currentAvailable', 'The number of available pods.'),
    counter('Desired', 'desiredAvailable', 'The minimum number of available pods.'),
    counter('Total', 'totalReplicas', 'The number of expected pods.'),
  ],
  versions: [
    {
      ...{ name: 'v1alpha1', storage: false, spec: specSchema, status: statusSchema },
      without: ['spec.protectOperations', 'spec.protectTotalReplicas', 'spec.ignoredPodSelector'],
    },
    { name: 'v1beta1', storage: true, spec: specSchema, status: statusSchema },
  ],
};
