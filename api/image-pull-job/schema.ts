import { Type } from 'typebox';
import { longestReference } from '../core/image-reference.ts';
import { group } from '../core/well-known.ts';
import { sandboxConfig } from '../node-image/schema.ts';
import { counter, type KindDefinition } from '../schema/kind.ts';
import { conditions, int32, int64, intOrPercent, labelSelector, time, waitingFor } from '../schema/shared.ts';

// v1alpha1 and v1beta1 are the same. Values that OpenKruise accepts, such as an unknown imagePullPolicy or a negative
// time, are accepted.

const { properties: selectorFields } = labelSelector();

/** All fields of the spec except image or images: the part that a list job passes to its jobs. */
const pullTemplateFields = {
  pullSecrets: Type.Optional(
    Type.Array(Type.String(), {
      'x-kubernetes-list-type': 'atomic',
      description: 'Secrets with registry credentials, in the namespace of the job.',
    }),
  ),
  selector: Type.Optional(
    Type.Object(
      {
        names: Type.Optional(
          Type.Array(Type.String(), {
            'x-kubernetes-list-type': 'atomic',
            description: 'Names of nodes. Names that do not exist are ignored. Cannot be combined with labels.',
          }),
        ),
        ...selectorFields,
      },
      {
        description: 'Selects nodes by name or by label. Absent or empty: all nodes.',
        'x-kubernetes-map-type': 'atomic',
      },
    ),
  ),
  podSelector: Type.Optional(
    labelSelector({
      description:
        'Selects the nodes on which pods of the namespace with these labels run. Cannot be combined with `selector`.',
    }),
  ),
  parallelism: Type.Optional(
    intOrPercent({
      description:
        'The maximum number or percentage of nodes that pull at the same time. 0: no further node pulls. Absent: 1.',
    }),
  ),
  pullPolicy: Type.Optional(
    Type.Object(
      {
        timeoutSeconds: Type.Optional(int32({ default: 600, description: 'How long one attempt may take.' })),
        backoffLimit: Type.Optional(
          int32({ default: 3, description: 'How many times a failed attempt is retried. Negative: 3.' }),
        ),
      },
      { default: {}, description: 'Timeout and retries of the pull on a node.' },
    ),
  ),
  completionPolicy: Type.Object(
    {
      type: Type.Optional(
        Type.String({
          default: 'Always',
          description:
            '`Always`: the job ends when the pull on every node has ended. `Never`: the job does not end and includes new nodes.',
        }),
      ),
      activeDeadlineSeconds: Type.Optional(
        int64({ description: 'The job ends this long after its start, completed or not. Absent: no deadline.' }),
      ),
      ttlSecondsAfterFinished: Type.Optional(
        int32({ description: 'The job is deleted this long after its end. Absent: it is not deleted.' }),
      ),
    },
    { default: {}, description: 'When the job ends.' },
  ),
  sandboxConfig: Type.Optional(sandboxConfig()),
} as const;

const imagePullPolicy = {
  description: '`IfNotPresent`: a node that has the image does not pull it. `Always`: every node asks the registry.',
} as const;

/** The desired state. */
export const imagePullJobSpecSchema = Type.Object(
  {
    image: Type.String({ maxLength: longestReference.whole, description: 'The image, by tag or by digest.' }),
    ...pullTemplateFields,
    imagePullPolicy: Type.Optional(Type.String({ ...imagePullPolicy, default: 'IfNotPresent' })),
  },
  { description: 'The image to pull, and the nodes.' },
);

/** The observed state. */
export const imagePullJobStatusSchema = Type.Object(
  {
    startTime: Type.Optional(time({ description: 'When the job was first processed.' })),
    completionTime: Type.Optional(time({ description: 'When the job ended. Absent for type `Never`.' })),
    desired: int32({ default: 0, description: 'The number of selected nodes.' }),
    active: int32({ default: 0, description: 'The number of nodes on which a pull was requested and has not ended.' }),
    succeeded: int32({ default: 0, description: 'The number of nodes that have the image.' }),
    failed: int32({ default: 0, description: 'The number of nodes that could not pull the image.' }),
    message: Type.Optional(Type.String({ description: 'A human-readable summary.' })),
    failedNodes: Type.Optional(
      Type.Array(Type.String(), { 'x-kubernetes-list-type': 'atomic', description: 'The nodes that failed, sorted.' }),
    ),
    conditions: Type.Optional(
      conditions(
        '`Complete` or `Failed` at the end. `Paused`, `Retrying` and `Aborted` after the command of an operator.',
      ),
    ),
    waitingFor: Type.Optional(waitingFor()),
    observedGeneration: Type.Optional(
      int64({
        minimum: 0,
        description: 'The generation that this status describes. Written together with all other fields.',
      }),
    ),
  },
  { description: 'The observed state of the job.' },
);

/** The kind: names, versions, columns. */
export const imagePullJobKind: KindDefinition = {
  group: group.apps,
  kind: 'ImagePullJob',
  plural: 'imagepulljobs',
  shortNames: [],
  scope: 'Namespaced',
  description: 'Pulls one image on many nodes before it is needed, on a limited number of nodes at a time.',
  columns: [
    counter('TOTAL', 'desired', 'The number of selected nodes.'),
    counter('ACTIVE', 'active', 'The number of nodes that pull.'),
    counter('SUCCEED', 'succeeded', 'The number of nodes that have the image.'),
    counter('FAILED', 'failed', 'The number of nodes that could not pull the image.'),
    { name: 'AGE', type: 'date', jsonPath: '.metadata.creationTimestamp' },
    { name: 'MESSAGE', type: 'string', jsonPath: '.status.message', description: 'A human-readable summary.' },
  ],
  versions: [
    { name: 'v1alpha1', storage: false, spec: imagePullJobSpecSchema, status: imagePullJobStatusSchema },
    { name: 'v1beta1', storage: true, spec: imagePullJobSpecSchema, status: imagePullJobStatusSchema },
  ],
};

/** The desired state of a list: the spec of a job with images instead of an image. */
export const imageListPullJobSpecSchema = Type.Object(
  {
    images: Type.Array(Type.String({ maxLength: longestReference.whole }), {
      'x-kubernetes-list-type': 'atomic',
      description: '1 to 255 different images. An ImagePullJob is created for each.',
    }),
    ...pullTemplateFields,
    imagePullPolicy: Type.Optional(Type.String(imagePullPolicy)),
  },
  { description: 'The images to pull, and the nodes.' },
);

/** The observed state of a list. */
export const imageListPullJobStatusSchema = Type.Object(
  {
    startTime: Type.Optional(time({ description: 'When the list was first processed.' })),
    completionTime: Type.Optional(time({ description: 'When the list ended. Absent for type `Never`.' })),
    desired: int32({ default: 0, description: 'The number of images.' }),
    active: int32({ default: 0, description: 'The number of jobs with nodes that pull.' }),
    completed: int32({ default: 0, description: 'The number of jobs that have ended on every node.' }),
    succeeded: int32({ default: 0, description: 'The number of jobs that have succeeded on every node.' }),
    failedImageStatuses: Type.Optional(
      Type.Array(
        Type.Object({
          imagePullJob: Type.Optional(Type.String()),
          name: Type.Optional(Type.String()),
          message: Type.Optional(Type.String()),
        }),
        {
          'x-kubernetes-list-type': 'atomic',
          description: 'Images that failed on a node, each with its job, which lists the nodes.',
        },
      ),
    ),
    conditions: Type.Optional(conditions('`Complete` or `Failed` at the end.')),
    waitingFor: Type.Optional(waitingFor()),
    observedGeneration: Type.Optional(int64({ minimum: 0, description: 'The generation that this status describes.' })),
  },
  { description: 'The observed state of the list.' },
);

/** The kind: names, versions, columns. */
export const imageListPullJobKind: KindDefinition = {
  group: group.apps,
  kind: 'ImageListPullJob',
  plural: 'imagelistpulljobs',
  shortNames: [],
  scope: 'Namespaced',
  description: 'Pulls many images on many nodes: an ImagePullJob for each image.',
  columns: [
    counter('TOTAL', 'desired', 'The number of images.'),
    counter('SUCCEEDED', 'succeeded', 'The number of images that every node has.'),
    counter('COMPLETED', 'completed', 'The number of images whose pull has ended on every node.'),
    { name: 'AGE', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
  versions: [
    { name: 'v1alpha1', storage: false, spec: imageListPullJobSpecSchema, status: imageListPullJobStatusSchema },
    { name: 'v1beta1', storage: true, spec: imageListPullJobSpecSchema, status: imageListPullJobStatusSchema },
  ],
};
