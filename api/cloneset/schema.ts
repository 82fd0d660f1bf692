import { type TSchemaOptions, Type } from 'typebox';
import { group } from '../core/well-known.ts';
import { lifecycleSchema } from '../fleet/lifecycle-schema.ts';
import type { KindDefinition } from '../schema/kind.ts';
import { int32, int64, intOrPercent, labelSelector, maxInt32, openObject, time, waitingFor } from '../schema/shared.ts';

// The schema of v1beta1, which is the stored version and the shape of everything inside, and what v1alpha1 has instead.
// Values are limited only where admission has always refused the rest, since objects that are there already have to go on
// being valid; what a schema cannot see is in `validateCloneSet`.

const minInt32 = -(2 ** 31);

/** An `int32` of which OpenKruise's admission has never asked more. */
function anyInt32(options: TSchemaOptions) {
  return int32({ minimum: minInt32, maximum: maxInt32, ...options });
}

const priorityStrategy = Type.Object(
  {
    weightPriority: Type.Optional(
      Type.Array(
        Type.Object({
          weight: anyInt32({ description: '0 to 100.' }),
          matchSelector: labelSelector({ description: 'The pods that get the weight.' }),
        }),
        {
          'x-kubernetes-list-type': 'atomic',
          description: 'Pods with the largest sum of weights first. Excludes `orderPriority`.',
        },
      ),
    ),
    orderPriority: Type.Optional(
      Type.Array(Type.Object({ orderedKey: Type.String({ description: 'A label key.' }) }), {
        'x-kubernetes-list-type': 'atomic',
        description:
          'Pods with none of these labels first, then those with the first one and so on; of pods with the same label, ' +
          'the one whose value ends in the larger number first.',
      }),
    ),
  },
  { description: 'Which pods are updated first.' },
);

const gracePeriodSeconds = Type.Optional(
  anyInt32({
    description:
      'The pod is unready for so long before its containers change in place. Absent, 0 or less: they change at once.',
  }),
);

const inPlaceUpdateStrategy = Type.Object(
  {
    gracePeriodSeconds,
    imagePreDownloadParallelism: Type.Optional(
      intOrPercent({ description: 'On how many nodes at once new images are pulled ahead. Absent: 1. 0: on none.' }),
    ),
    imagePreDownloadTimeoutSeconds: Type.Optional(
      anyInt32({ description: 'How long pulling an image ahead may take on one node. Absent: 300.' }),
    ),
    imagePreDownloadMinUpdatedReadyPods: Type.Optional(
      anyInt32({ description: 'Images are pulled ahead once so many updated pods are ready. Absent: 0.' }),
    ),
  },
  { description: 'How pods are updated in place.' },
);

/** What both versions say about the pace and the order of an update. */
const pace = {
  partition: Type.Optional(
    intOrPercent({
      description: 'How many pods, or which share of replicas (rounded up), stay at older revisions. Absent: 0.',
    }),
  ),
  maxUnavailable: Type.Optional(
    intOrPercent({
      description:
        'How many pods may be unavailable for the sake of the update. A share is rounded up without `maxSurge`, else ' +
        'down. Absent: 20%.',
    }),
  ),
  maxSurge: Type.Optional(
    intOrPercent({
      description:
        'How many pods there may be above `replicas` during the update. A share is rounded up. Absent: 0, which ' +
        '`InPlaceOnly` demands.',
    }),
  ),
  paused: Type.Optional(
    Type.Boolean({ description: 'No further pod is updated. Scaling goes on, and so does what has begun.' }),
  ),
  priorityStrategy: Type.Optional(priorityStrategy),
  scatterStrategy: Type.Optional(
    Type.Array(Type.Object({ key: Type.String(), value: Type.String() }), {
      'x-kubernetes-list-type': 'atomic',
      description: 'Pods with such a label are spread over the whole update, the last of them comes at its end.',
    }),
  ),
  inPlaceUpdateStrategy: Type.Optional(inPlaceUpdateStrategy),
};

const podUpdatePolicy = Type.Union(
  [Type.Literal('ReCreate'), Type.Literal('InPlaceIfPossible'), Type.Literal('InPlaceOnly')],
  {
    description:
      '`ReCreate`: pods are replaced. `InPlaceIfPossible`: containers change in the running pod where that can be, else ' +
      'the pod is replaced. `InPlaceOnly`: pods are never replaced for an update. Absent: `ReCreate`.',
  },
);

const updateStrategy = Type.Object(
  {
    type: Type.Optional(
      Type.Union([Type.Literal('RollingUpdate'), Type.Literal('OnDelete')], {
        description: '`OnDelete`: pods are only updated when somebody deletes them. Absent: `RollingUpdate`.',
      }),
    ),
    rollingUpdate: Type.Optional(
      Type.Object(
        { podUpdatePolicy: Type.Optional(podUpdatePolicy), ...pace },
        { description: 'How fast, in which order and by which means pods are updated.' },
      ),
    ),
  },
  { description: 'How pods get a new template.' },
);

const scaleLimits = {
  podsToDelete: Type.Optional(
    Type.Array(Type.String(), {
      description:
        'Names of pods to remove: for good when `replicas` is lowered as well, else they are replaced. Names of pods that ' +
        'are gone are taken off the list.',
    }),
  ),
  maxUnavailable: Type.Optional(
    intOrPercent({
      description:
        'No further pod is created while so many, or this share of replicas (rounded up), are unavailable. Absent: there ' +
        'is no such limit.',
    }),
  ),
};

const scaleStrategy = Type.Object(
  {
    ...scaleLimits,
    enablePVCReuse: Type.Optional(
      Type.Boolean({
        default: false,
        description: 'Volume claims of a pod that vanishes are kept for its replacement instead of being deleted.',
      }),
    ),
    excludePreparingDelete: Type.Optional(
      Type.Boolean({ description: 'Pods that a hook holds before their deletion are replaced at once.' }),
    ),
  },
  { description: 'How pods are added and removed.' },
);

/** What both versions have in common, beside `scaleStrategy` and `updateStrategy`. */
const base = {
  replicas: Type.Optional(int32({ minimum: 0, maximum: maxInt32, description: 'How many pods there are. Absent: 1.' })),
  selector: labelSelector({
    description: 'Which pods are of this set. It matches the labels of the template and cannot be changed.',
  }),
  template: openObject({
    description: 'Metadata and spec of the pods. Nothing else makes a revision, so nothing else is rolled out.',
  }),
  volumeClaimTemplates: Type.Optional(
    Type.Array(openObject(), {
      description: 'Volume claims that each pod gets of its own. A change is for pods to come.',
    }),
  ),
};

const tail = {
  revisionHistoryLimit: Type.Optional(
    anyInt32({ description: 'How many revisions that nobody uses are kept to go back to. Absent: 10.' }),
  ),
  minReadySeconds: Type.Optional(
    anyInt32({ description: 'A pod is available after it has been ready for so long. Absent: 0.' }),
  ),
  lifecycle: Type.Optional(lifecycleSchema),
  progressDeadlineSeconds: Type.Optional(
    anyInt32({
      description:
        'The condition `Progressing` says so when an update takes longer; the update goes on. Absent or 2147483647: there ' +
        'is no deadline and no such condition.',
    }),
  ),
};

const specOptions = { description: 'Which pods there are to be, and how they change.' };

/** What the user asks for. */
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
                'Volume claims of a pod that vanishes are deleted. Absent or false: they are kept for its replacement.',
            }),
          ),
        },
        { description: 'How pods are added and removed.' },
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
        { description: 'How pods get a new template.' },
      ),
    ),
    ...tail,
  },
  specOptions,
);

const condition = Type.Object({
  type: Type.String(),
  status: Type.String({ description: '`True`, `False` or `Unknown`.' }),
  lastUpdateTime: Type.Optional(time({ description: 'When status or reason last changed.' })),
  lastTransitionTime: Type.Optional(time({ description: 'When status last changed.' })),
  reason: Type.Optional(Type.String({ description: 'Why, in one CamelCase word.' })),
  message: Type.Optional(Type.String()),
});

/** How far it has come. */
export const statusSchema = Type.Object(
  {
    observedGeneration: Type.Optional(
      int64({ description: 'The generation that this status speaks of. Written together with all of it.' }),
    ),
    replicas: int32({ description: 'How many pods there are, those that are held before their deletion included.' }),
    readyReplicas: int32({ description: 'How many of them are ready.' }),
    availableReplicas: int32({
      description: 'How many are ready for `minReadySeconds` and not held by a hook.',
    }),
    updatedReplicas: int32({ description: 'How many are, or are being brought, at the update revision.' }),
    updatedReadyReplicas: int32({ description: 'How many of those are ready.' }),
    updatedAvailableReplicas: Type.Optional(int32({ description: 'How many of those are available.' })),
    expectedUpdatedReplicas: Type.Optional(
      int32({ description: '`replicas` less the partition: the update is done when `updatedReplicas` reaches it.' }),
    ),
    updateRevision: Type.Optional(Type.String({ description: 'The revision of the present template.' })),
    currentRevision: Type.Optional(Type.String({ description: 'The last revision that all pods have reached.' })),
    collisionCount: Type.Optional(int32({ description: 'How often the name of a revision was taken already.' })),
    labelSelector: Type.Optional(
      Type.String({ description: 'The selector as text, for autoscalers and other clients of the scale subresource.' }),
    ),
    conditions: Type.Optional(
      Type.Array(condition, {
        'x-kubernetes-list-type': 'atomic',
        description: '`Progressing` while there is a deadline; `FailedScale` and `FailedUpdate` while a pass fails.',
      }),
    ),
    waitingFor: Type.Optional(waitingFor()),
  },
  { description: 'How far it has come.' },
);

/** The whole kind: names, versions, columns. */
export const cloneSetKind: KindDefinition = {
  group: group.apps,
  kind: 'CloneSet',
  plural: 'clonesets',
  shortNames: ['clone'],
  scope: 'Namespaced',
  description:
    'Pods that can stand in for each other, updated in place or by replacement, as many at a time as their budget allows.',
  columns: [
    column('DESIRED', 'integer', '.spec.replicas', 'How many pods there are to be.'),
    column('UPDATED', 'integer', '.status.updatedReplicas', 'How many pods are at the update revision.'),
    column('UPDATED_READY', 'integer', '.status.updatedReadyReplicas', 'How many of those are ready.'),
    column('UPDATED_AVAILABLE', 'integer', '.status.updatedAvailableReplicas', 'How many of those are available.'),
    column('READY', 'integer', '.status.readyReplicas', 'How many pods are ready.'),
    column('TOTAL', 'integer', '.status.replicas', 'How many pods there are.'),
    { name: 'AGE', type: 'date', jsonPath: '.metadata.creationTimestamp' },
    wide('CONTAINERS', '.spec.template.spec.containers[*].name', 'The containers of the template.'),
    wide('IMAGES', '.spec.template.spec.containers[*].image', 'Their images.'),
    wide('SELECTOR', '.status.labelSelector', 'Which pods are of this set.'),
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

function wide(name: string, jsonPath: string, description: string) {
  return { ...column(name, 'string', jsonPath, description), priority: 1 };
}
