import { Type } from 'typebox';
import { group } from '../core/well-known.ts';
import { lifecycleSchema } from '../fleet/lifecycle-schema.ts';
import { anyInt32, gracePeriodSeconds, podUpdatePolicy, priorityStrategy } from '../fleet/update-schema.ts';
import { type KindDefinition, templateColumns } from '../schema/kind.ts';
import {
  int32,
  int64,
  intOrPercent,
  labelSelector,
  maxInt32,
  openObject,
  rollOutOrders,
  time,
  waitingFor,
} from '../schema/shared.ts';

// The schema of v1beta1, which is the stored version and the only one used internally, and the differences of v1alpha1.
// Values are limited only where admission has always rejected others, since stored objects must stay valid; checks that
// a schema cannot express are in `validateCloneSet`.

const inPlaceUpdateStrategy = Type.Object(
  {
    gracePeriodSeconds,
    imagePreDownloadParallelism: Type.Optional(
      intOrPercent({
        description:
          'The maximum number or percentage of nodes that pre-download new images at the same time. Absent: 1. 0: images are not pre-downloaded.',
      }),
    ),
    imagePreDownloadTimeoutSeconds: Type.Optional(
      anyInt32({ description: 'How long the pre-download of an image may take on one node. Absent: 300.' }),
    ),
    imagePreDownloadMinUpdatedReadyPods: Type.Optional(
      anyInt32({ description: 'Images are pre-downloaded once this many updated pods are ready. Absent: 0.' }),
    ),
  },
  { description: 'How pods are updated in place.' },
);

/** The fields for pace and order of an update, the same in both versions. */
const pace = {
  partition: Type.Optional(
    intOrPercent({
      description:
        'The number of pods, or the percentage of `replicas` (rounded up), that stays at older revisions. Absent: 0.',
    }),
  ),
  maxUnavailable: Type.Optional(
    intOrPercent({
      description:
        'The maximum number or percentage of pods that may be unavailable because of the update. A percentage is rounded ' +
        'up without `maxSurge`, otherwise down. Absent: 20%.',
    }),
  ),
  maxSurge: Type.Optional(
    intOrPercent({
      description:
        'The maximum number or percentage of pods above `replicas` during the update. A percentage is rounded up. ' +
        'Absent: 0. `InPlaceOnly` requires 0.',
    }),
  ),
  paused: Type.Optional(
    Type.Boolean({
      description: 'No further pod is updated. Scaling continues, and updates of pods that have begun are completed.',
    }),
  ),
  priorityStrategy: Type.Optional(priorityStrategy),
  scatterStrategy: Type.Optional(
    Type.Array(Type.Object({ key: Type.String(), value: Type.String() }), {
      'x-kubernetes-list-type': 'atomic',
      description:
        'Pods with one of these labels are spread over the whole update. The last of them is updated at its end.',
    }),
  ),
  inPlaceUpdateStrategy: Type.Optional(inPlaceUpdateStrategy),
};

const updateStrategy = Type.Object(
  {
    type: Type.Optional(
      Type.Union([Type.Literal('RollingUpdate'), Type.Literal('OnDelete')], {
        description: '`OnDelete`: a pod is updated only when somebody deletes it. Absent: `RollingUpdate`.',
      }),
    ),
    rollingUpdate: Type.Optional(
      Type.Object(
        { podUpdatePolicy: Type.Optional(podUpdatePolicy), ...pace },
        { description: 'The pace, the order and the method of the update.' },
      ),
    ),
  },
  { description: 'How pods are updated to a new template.' },
);

const scaleLimits = {
  podsToDelete: Type.Optional(
    Type.Array(Type.String(), {
      description:
        'Names of pods to delete. They are replaced unless `replicas` is lowered as well. Names of pods that no longer ' +
        'exist are removed from the list.',
    }),
  ),
  maxUnavailable: Type.Optional(
    intOrPercent({
      description:
        'No further pod is created while this number of pods, or this percentage of `replicas` (rounded up), is ' +
        'unavailable. Absent: no limit.',
    }),
  ),
};

const scaleStrategy = Type.Object(
  {
    ...scaleLimits,
    enablePVCReuse: Type.Optional(
      Type.Boolean({
        default: false,
        description: 'PVCs of a pod that somebody else deletes are kept for its replacement instead of being deleted.',
      }),
    ),
    excludePreparingDelete: Type.Optional(
      Type.Boolean({ description: 'Pods that the `preDelete` hook holds are replaced at once.' }),
    ),
  },
  { description: 'How pods are created and deleted when the CloneSet scales.' },
);

/** What both versions have in common, besides `scaleStrategy` and `updateStrategy`. */
const base = {
  replicas: Type.Optional(
    int32({ minimum: 0, maximum: maxInt32, description: 'The desired number of pods. Absent: 1.' }),
  ),
  selector: labelSelector({
    description: 'Selects the pods of this CloneSet. It must match the labels of the template and is immutable.',
  }),
  template: openObject({
    description: 'Metadata and spec of the pods. Only a change of the template creates a revision and is rolled out.',
  }),
  volumeClaimTemplates: Type.Optional(
    Type.Array(openObject(), {
      description: 'Templates of the PVCs that each pod gets. A change applies only to pods that are created later.',
    }),
  ),
};

const tail = {
  revisionHistoryLimit: Type.Optional(
    anyInt32({ description: 'The number of unused revisions that are kept for rollbacks. Absent: 10.' }),
  ),
  minReadySeconds: Type.Optional(
    anyInt32({ description: 'How long a pod must be ready before it is available. Absent: 0.' }),
  ),
  lifecycle: Type.Optional(lifecycleSchema),
  progressDeadlineSeconds: Type.Optional(
    anyInt32({
      description:
        'How long an update may take before the condition `Progressing` reports it. The update continues. Absent or ' +
        '2147483647: there is no deadline and no such condition.',
    }),
  ),
};

const specOptions = { description: 'The desired pods, and how they are updated.' };

/** The desired state. */
export const specSchema = Type.Object(
  {
    ...base,
    scaleStrategy: Type.Optional(scaleStrategy),
    updateStrategy: Type.Optional(updateStrategy),
    ...tail,
  },
  specOptions,
);

/** The same in v1alpha1, which has the fields of `rollingUpdate` directly in `updateStrategy`. */
export const specSchemaV1alpha1 = Type.Object(
  {
    ...base,
    scaleStrategy: Type.Optional(
      Type.Object(
        {
          ...scaleLimits,
          disablePVCReuse: Type.Optional(
            Type.Boolean({
              description:
                'PVCs of a pod that somebody else deletes are deleted. Absent or false: they are kept for its replacement.',
            }),
          ),
        },
        { description: 'How pods are created and deleted when the CloneSet scales.' },
      ),
    ),
    updateStrategy: Type.Optional(
      Type.Object(
        {
          type: Type.Optional(
            Type.String({
              description:
                '`ReCreate`, `InPlaceIfPossible` or `InPlaceOnly` as `podUpdatePolicy` in v1beta1, or `OnDelete`. Absent: ' +
                '`ReCreate`.',
            }),
          ),
          ...pace,
        },
        { description: 'How pods are updated to a new template.' },
      ),
    ),
    ...tail,
  },
  specOptions,
);

const condition = Type.Object({
  type: Type.String(),
  status: Type.String({ description: '`True`, `False` or `Unknown`.' }),
  lastUpdateTime: Type.Optional(time({ description: 'When the status or the reason last changed.' })),
  lastTransitionTime: Type.Optional(time({ description: 'When the status last changed.' })),
  reason: Type.Optional(Type.String({ description: 'The reason in CamelCase.' })),
  message: Type.Optional(Type.String()),
});

/** The observed state. */
export const statusSchema = Type.Object(
  {
    observedGeneration: Type.Optional(
      int64({ description: 'The generation that this status describes. Written together with all other fields.' }),
    ),
    replicas: int32({ description: 'The number of pods, including those that the `preDelete` hook holds.' }),
    readyReplicas: int32({ description: 'The number of ready pods.' }),
    availableReplicas: int32({
      description: 'The number of pods that have been ready for `minReadySeconds` and are not held by a hook.',
    }),
    updatedReplicas: int32({
      description: 'The number of pods that are at the update revision or are being updated to it.',
    }),
    updatedReadyReplicas: int32({ description: 'The number of updated pods that are ready.' }),
    updatedAvailableReplicas: Type.Optional(int32({ description: 'The number of updated pods that are available.' })),
    expectedUpdatedReplicas: Type.Optional(
      int32({ description: '`replicas` minus `partition`. The update is complete when `updatedReplicas` reaches it.' }),
    ),
    updateRevision: Type.Optional(Type.String({ description: 'The revision of the current template.' })),
    currentRevision: Type.Optional(Type.String({ description: 'The last revision that all pods have reached.' })),
    collisionCount: Type.Optional(
      int32({ description: 'How many times the name of a new revision was already in use.' }),
    ),
    labelSelector: Type.Optional(
      Type.String({
        description: 'The selector as a string, for autoscalers and other clients of the scale subresource.',
      }),
    ),
    conditions: Type.Optional(
      Type.Array(condition, {
        'x-kubernetes-list-type': 'atomic',
        description:
          '`Progressing` if there is a deadline. `FailedScale` and `FailedUpdate` while scaling or updating fails.',
      }),
    ),
    waitingFor: Type.Optional(waitingFor()),
    rollOut: Type.Optional(rollOutOrders()),
  },
  { description: 'The observed state of the CloneSet.' },
);

/** The kind: names, versions, columns. */
export const cloneSetKind: KindDefinition = {
  group: group.apps,
  kind: 'CloneSet',
  plural: 'clonesets',
  shortNames: ['clone'],
  scope: 'Namespaced',
  description:
    'Manages identical pods and updates them in place or by recreation, as many at a time as their budget allows.',
  columns: [
    column('DESIRED', 'integer', '.spec.replicas', 'The desired number of pods.'),
    column('UPDATED', 'integer', '.status.updatedReplicas', 'The number of pods at the update revision.'),
    column('UPDATED_READY', 'integer', '.status.updatedReadyReplicas', 'The number of updated pods that are ready.'),
    column(
      'UPDATED_AVAILABLE',
      'integer',
      '.status.updatedAvailableReplicas',
      'The number of updated pods that are available.',
    ),
    column('READY', 'integer', '.status.readyReplicas', 'The number of ready pods.'),
    column('TOTAL', 'integer', '.status.replicas', 'The number of pods.'),
    { name: 'AGE', type: 'date', jsonPath: '.metadata.creationTimestamp' },
    ...templateColumns,
    { ...column('SELECTOR', 'string', '.status.labelSelector', 'The selector of the pods.'), priority: 1 },
  ],
  scale: {
    specReplicasPath: '.spec.replicas',
    statusReplicasPath: '.status.replicas',
    labelSelectorPath: '.status.labelSelector',
  },
  versions: [
    { name: 'v1alpha1', storage: false, spec: specSchemaV1alpha1, status: statusSchema },
    { name: 'v1beta1', storage: true, spec: specSchema, status: statusSchema },
  ],
};

function column(name: string, type: 'integer' | 'string', jsonPath: string, description: string) {
  return { name, type, jsonPath, description };
}
