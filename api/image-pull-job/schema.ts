import { Type } from 'typebox';
import { longestReference } from '../core/image-reference.ts';
import { group } from '../core/well-known.ts';
import { sandboxConfig } from '../node-image/schema.ts';
import { counter, type KindDefinition } from '../schema/kind.ts';
import { conditions, int32, int64, intOrPercent, labelSelector, time, waitingFor } from '../schema/shared.ts';

// v1alpha1 and v1beta1 are the same. What OpenKruise lets pass, an unknown imagePullPolicy or a negative time, passes.

const { properties: selectorFields } = labelSelector();

/** All of the spec but the image or images: what a list job hands to its jobs. */
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
            description: 'Nodes by name; names that do not exist are left out. Excludes labels.',
          }),
        ),
        ...selectorFields,
      },
      { description: 'Which nodes, by name or by label. Absent or empty: all.', 'x-kubernetes-map-type': 'atomic' },
    ),
  ),
  podSelector: Type.Optional(
    labelSelector({ description: 'The nodes on which such pods of the namespace run. Excludes `selector`.' }),
  ),
  parallelism: Type.Optional(
    intOrPercent({ description: 'How many nodes pull at once; 0 pulls on no further node. Absent: 1.' }),
  ),
  pullPolicy: Type.Optional(
    Type.Object(
      {
        timeoutSeconds: Type.Optional(int32({ default: 600, description: 'How long one attempt may take.' })),
        backoffLimit: Type.Optional(
          int32({ default: 3, description: 'How often a failed attempt is repeated; negative: 3.' }),
        ),
      },
      { default: {}, description: 'How a node pulls.' },
    ),
  ),
  completionPolicy: Type.Object(
    {
      type: Type.Optional(
        Type.String({
          default: 'Always',
          description: '`Always`: the job ends when every node has ended. `Never`: it goes on, for new nodes, too.',
        }),
      ),
      activeDeadlineSeconds: Type.Optional(
        int64({ description: 'The job ends so long after it began, done or not. Absent: no deadline.' }),
      ),
      ttlSecondsAfterFinished: Type.Optional(
        int32({ description: 'The job is deleted so long after its end. Absent: it stays.' }),
      ),
    },
    { default: {}, description: 'When the job ends.' },
  ),
  sandboxConfig: Type.Optional(sandboxConfig()),
} as const;

const imagePullPolicy = {
  description: '`IfNotPresent`: a node that has the image does not pull. `Always`: the registry is asked.',
} as const;

/** What the user asks for. */
export const imagePullJobSpecSchema = Type.Object(
  {
    image: Type.String({ maxLength: longestReference.whole, description: 'The image, by tag or by digest.' }),
    ...pullTemplateFields,
    imagePullPolicy: Type.Optional(Type.String({ ...imagePullPolicy, default: 'IfNotPresent' })),
  },
  { description: 'Which image, and on which nodes.' },
);

/** How far it has come. */
export const imagePullJobStatusSchema = Type.Object(
  {
    startTime: Type.Optional(time({ description: 'When the job was first looked at.' })),
    completionTime: Type.Optional(time({ description: 'When it ended; never for type Never.' })),
    desired: int32({ default: 0, description: 'How many nodes are meant.' }),
    active: int32({ default: 0, description: 'How many of them have been told to pull and have not ended.' }),
    succeeded: int32({ default: 0, description: 'How many have the image.' }),
    failed: int32({ default: 0, description: 'How many could not pull it.' }),
    message: Type.Optional(Type.String({ description: 'How it stands, for people.' })),
    failedNodes: Type.Optional(
      Type.Array(Type.String(), { 'x-kubernetes-list-type': 'atomic', description: 'The nodes that failed, sorted.' }),
    ),
    conditions: Type.Optional(
      conditions(
        '`Complete` or `Failed` at the end; `Paused`, `Retrying` and `Aborted` are what an operator has commanded.',
      ),
    ),
    waitingFor: Type.Optional(waitingFor()),
    observedGeneration: Type.Optional(
      int64({ minimum: 0, description: 'The generation that this status speaks of. Written together with all of it.' }),
    ),
  },
  { description: 'How far it has come.' },
);

/** The whole kind: names, versions, columns. */
export const imagePullJobKind: KindDefinition = {
  group: group.apps,
  kind: 'ImagePullJob',
  plural: 'imagepulljobs',
  shortNames: [],
  scope: 'Namespaced',
  description: 'Pulls one image on many nodes, so many nodes at a time, before it is needed.',
  columns: [
    counter('TOTAL', 'desired', 'How many nodes are meant.'),
    counter('ACTIVE', 'active', 'How many pull.'),
    counter('SUCCEED', 'succeeded', 'How many have the image.'),
    counter('FAILED', 'failed', 'How many could not pull it.'),
    { name: 'AGE', type: 'date', jsonPath: '.metadata.creationTimestamp' },
    { name: 'MESSAGE', type: 'string', jsonPath: '.status.message', description: 'How it stands.' },
  ],
  versions: [
    { name: 'v1alpha1', storage: false, spec: imagePullJobSpecSchema, status: imagePullJobStatusSchema },
    { name: 'v1beta1', storage: true, spec: imagePullJobSpecSchema, status: imagePullJobStatusSchema },
  ],
};

/** What the user of a list asks for: the spec of a job with images instead of an image. */
export const imageListPullJobSpecSchema = Type.Object(
  {
    images: Type.Array(Type.String({ maxLength: longestReference.whole }), {
      'x-kubernetes-list-type': 'atomic',
      description: 'The images, 1 to 255, each once. Each becomes an ImagePullJob.',
    }),
    ...pullTemplateFields,
    imagePullPolicy: Type.Optional(Type.String(imagePullPolicy)),
  },
  { description: 'Which images, and on which nodes.' },
);

/** How far the list has come. */
export const imageListPullJobStatusSchema = Type.Object(
  {
    startTime: Type.Optional(time({ description: 'When the list was first looked at.' })),
    completionTime: Type.Optional(time({ description: 'When it ended; never for type Never.' })),
    desired: int32({ default: 0, description: 'How many images there are.' }),
    active: int32({ default: 0, description: 'How many of their jobs have nodes that pull.' }),
    completed: int32({ default: 0, description: 'How many of their jobs have ended on every node.' }),
    succeeded: int32({ default: 0, description: 'How many of their jobs have succeeded on every node.' }),
    failedImageStatuses: Type.Optional(
      Type.Array(
        Type.Object({
          imagePullJob: Type.Optional(Type.String()),
          name: Type.Optional(Type.String()),
          message: Type.Optional(Type.String()),
        }),
        {
          'x-kubernetes-list-type': 'atomic',
          description: 'Images that failed on a node, and whose job tells on which.',
        },
      ),
    ),
    conditions: Type.Optional(conditions('`Complete` or `Failed` at the end.')),
    waitingFor: Type.Optional(waitingFor()),
    observedGeneration: Type.Optional(int64({ minimum: 0, description: 'The generation that this status speaks of.' })),
  },
  { description: 'How far it has come.' },
);

/** The whole kind: names, versions, columns. */
export const imageListPullJobKind: KindDefinition = {
  group: group.apps,
  kind: 'ImageListPullJob',
  plural: 'imagelistpulljobs',
  shortNames: [],
  scope: 'Namespaced',
  description: 'Pulls many images on many nodes: an ImagePullJob for each image.',
  columns: [
    counter('TOTAL', 'desired', 'How many images there are.'),
    counter('SUCCEEDED', 'succeeded', 'How many are on every node.'),
    counter('COMPLETED', 'completed', 'How many have ended on every node.'),
    { name: 'AGE', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
  versions: [
    { name: 'v1alpha1', storage: false, spec: imageListPullJobSpecSchema, status: imageListPullJobStatusSchema },
    { name: 'v1beta1', storage: true, spec: imageListPullJobSpecSchema, status: imageListPullJobStatusSchema },
  ],
};
