import { Type } from 'typebox';
import { group } from '../core/well-known.ts';
import { workloadCondition } from '../fleet/condition-schema.ts';
import { lifecycleSchema } from '../fleet/lifecycle-schema.ts';
import { anyInt32, updateStrategy } from '../fleet/update-schema.ts';
import { counter, type KindDefinition, templateColumns } from '../schema/kind.ts';
import { int32, int64, intOrPercent, labelSelector, openObject, rollOutOrders, waitingFor } from '../schema/shared.ts';

// The schema of v1beta1, which is the stored version and the only one used internally, and the differences of v1alpha1.
// Like OpenKruise's schema it checks types only: what values are accepted is decided by admission.

const rollingUpdate = Type.Object(
  {
    rollingUpdateType: Type.Optional(
      Type.Union([Type.Literal('Standard'), Type.Literal('InPlaceIfPossible')], {
        description:
          '`Standard`: pods are recreated. `InPlaceIfPossible`: containers are updated in the running pod where possible, ' +
          'otherwise the pod is recreated. Absent: `Standard`.',
      }),
    ),
    maxUnavailable: Type.Optional(
      intOrPercent({
        description:
          'The maximum number or percentage of nodes (rounded up) whose pod may be unavailable because of the update. ' +
          'Absent: 1 without `maxSurge`, otherwise 0. One of the two must be 0, and the other one more.',
      }),
    ),
    maxSurge: Type.Optional(
      intOrPercent({
        description:
          'The maximum number or percentage of nodes (rounded up) that may have a new pod beside the old one until the new ' +
          'one is available. Absent: 0. `InPlaceIfPossible` requires 0.',
      }),
    ),
    selector: Type.Optional(labelSelector({ description: 'Selects the nodes whose pods are updated. Absent: all.' })),
    partition: Type.Optional(
      intOrPercent({
        description:
          'The number or percentage of nodes (rounded down) whose pod stays at the old revision, those whose names come first. ' +
          'Absent: 0.',
      }),
    ),
    paused: Type.Optional(
      Type.Boolean({
        description:
          'No further pod is updated. Nodes still get the pods that they lack, and updates that have begun are completed.',
      }),
    ),
  },
  { description: 'The pace, the order and the method of the update.' },
);

/** The desired state. */
export const specSchema = Type.Object(
  {
    selector: labelSelector({
      description: 'Selects the pods of this DaemonSet. It must match the labels of the template and is immutable.',
    }),
    template: openObject({
      description:
        'Metadata and spec of the pods; its node selector, affinity and tolerations say which nodes have one. Only a change of ' +
        'the template creates a revision and is rolled out.',
    }),
    minReadySeconds: Type.Optional(
      anyInt32({ description: 'How long a pod must be ready before it is available. Absent: 0.' }),
    ),
    burstReplicas: Type.Optional(
      intOrPercent({
        description:
          'The maximum number, or percentage of nodes (rounded down, at least 1), of pods that are created, deleted or begin ' +
          'their update at the same time. Absent: 250.',
      }),
    ),
    revisionHistoryLimit: Type.Optional(
      anyInt32({ description: 'The number of unused revisions that are kept for rollbacks. Absent: 10.' }),
    ),
    updateStrategy: Type.Optional(updateStrategy(rollingUpdate)),
    lifecycle: Type.Optional(lifecycleSchema),
    scaleStrategy: Type.Optional(
      Type.Object(
        {
          partitionedScaling: Type.Optional(
            Type.Boolean({
              description:
                'With a partition, new pods are created on as many nodes only as are not held back by it. Absent: false.',
            }),
          ),
        },
        { description: 'How pods are created.' },
      ),
    ),
  },
  { description: 'The desired pods, and how they are updated.' },
);

const counts = {
  observedGeneration: Type.Optional(int64({ description: 'The generation that this status describes.' })),
  desiredNumberScheduled: int32({ description: 'The number of nodes that should run a pod.' }),
  currentNumberScheduled: int32({ description: 'The number of these that have a pod.' }),
  numberMisscheduled: int32({ description: 'The number of nodes that have a pod and should not.' }),
  numberReady: int32({ description: 'The number of nodes that should run a pod and have a ready one.' }),
  numberAvailable: Type.Optional(
    int32({ description: 'The number of nodes whose pod has been ready for `minReadySeconds`.' }),
  ),
  numberUnavailable: Type.Optional(int32({ description: '`desiredNumberScheduled` minus `numberAvailable`.' })),
  updatedNumberScheduled: int32({ description: 'The number of nodes whose pod is at the update revision.' }),
};

const revision = Type.Optional(Type.String({ description: 'The hash of the revision of the current template.' }));

const others = {
  collisionCount: Type.Optional(
    int32({ description: 'How many times the name of a new revision was already in use.' }),
  ),
  conditions: Type.Optional(
    Type.Array(workloadCondition, { 'x-kubernetes-list-type': 'atomic', description: 'Not written.' }),
  ),
  waitingFor: Type.Optional(waitingFor()),
  rollOut: Type.Optional(rollOutOrders()),
};

const statusOptions = { description: 'The observed state of the DaemonSet.' };

/** The observed state. */
export const statusSchema = Type.Object({ ...counts, updateRevision: revision, ...others }, statusOptions);

/** The same in v1alpha1, which has another name for the revision. */
export const statusSchemaV1alpha1 = Type.Object({ ...counts, daemonSetHash: revision, ...others }, statusOptions);

/** The kind: names, versions, columns. It cannot be scaled. */
export const daemonSetKind: KindDefinition = {
  group: group.apps,
  kind: 'DaemonSet',
  plural: 'daemonsets',
  shortNames: ['daemon', 'ads'],
  scope: 'Namespaced',
  description: 'Manages one pod on each node that fits, and updates them in place or by recreation, node after node.',
  columns: [
    counter('DESIRED', 'desiredNumberScheduled', 'The number of nodes that should run a pod.'),
    counter('CURRENT', 'currentNumberScheduled', 'The number of these that have a pod.'),
    counter('READY', 'numberReady', 'The number of nodes with a ready pod.'),
    counter('UP-TO-DATE', 'updatedNumberScheduled', 'The number of nodes whose pod is at the update revision.'),
    counter('AVAILABLE', 'numberAvailable', 'The number of nodes with an available pod.'),
    { name: 'AGE', type: 'date', jsonPath: '.metadata.creationTimestamp' },
    ...templateColumns,
  ],
  versions: [
    {
      ...{ name: 'v1alpha1', storage: false, spec: specSchema, status: statusSchemaV1alpha1, limitsValues: false },
      without: ['spec.scaleStrategy'],
    },
    { name: 'v1beta1', storage: true, spec: specSchema, status: statusSchema, limitsValues: false },
  ],
};
