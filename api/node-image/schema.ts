import { Type } from 'typebox';
import { group } from '../core/well-known.ts';
import { counter, type KindDefinition } from '../schema/kind.ts';
import { int32, int64, time, waitingFor } from '../schema/shared.ts';

// v1alpha1 and v1beta1 are the same here. `pullSecrets[].mode` is in both, so that a client of the older version does not
// lose it.

/** Labels and annotations that a pull hands to the runtime. */
export function sandboxConfig() {
  return Type.Object(
    {
      labels: Type.Optional(Type.Record(Type.String(), Type.String())),
      annotations: Type.Optional(Type.Record(Type.String(), Type.String())),
    },
    { description: 'Labels and annotations that the pull hands to the container runtime, as of a sandbox.' },
  );
}

const owner = Type.Object({
  apiVersion: Type.Optional(Type.String()),
  kind: Type.Optional(Type.String()),
  namespace: Type.Optional(Type.String()),
  name: Type.Optional(Type.String()),
  uid: Type.Optional(Type.String()),
  resourceVersion: Type.Optional(Type.String()),
  fieldPath: Type.Optional(Type.String()),
});

const tagPullPolicy = Type.Object(
  {
    timeoutSeconds: Type.Optional(int32({ description: 'How long one attempt may take. Absent: 600.' })),
    backoffLimit: Type.Optional(
      int32({ description: 'How often a failed attempt is repeated. Absent or negative: 3.' }),
    ),
    ttlSecondsAfterFinished: Type.Optional(
      int32({ description: 'The tag is removed from the spec so long after its pull has ended. Required.' }),
    ),
    activeDeadlineSeconds: Type.Optional(
      int64({ description: 'The pull fails so long after it began. Absent: no deadline.' }),
    ),
  },
  { description: 'How to pull, and how long to remember it.' },
);

const tag = Type.Object({
  tag: Type.String({ maxLength: 256, description: 'A tag, or a digest such as `sha256:…`.' }),
  createdAt: Type.Optional(time({ description: 'When it was wished for. Absent: now, filled in by admission.' })),
  version: Type.Optional(int64({ description: 'A higher one means: pull again. Absent: 0.' })),
  imagePullPolicy: Type.Optional(
    Type.String({
      description:
        '`IfNotPresent`: an image that the node has is not pulled. `Always`, or absent: the registry is asked.',
    }),
  ),
  pullPolicy: Type.Optional(tagPullPolicy),
  ownerReferences: Type.Optional(
    Type.Array(owner, {
      'x-kubernetes-list-type': 'atomic',
      description: 'The jobs that want this tag. When the last of them is gone, so is the tag.',
    }),
  ),
});

const pullSecret = Type.Object({
  namespace: Type.Optional(Type.String()),
  name: Type.Optional(Type.String()),
  mode: Type.Optional(
    Type.String({ description: '`batch`: one copy of a Secret for all jobs. Empty: a Secret as it is.' }),
  ),
});

const image = Type.Object({
  tags: Type.Optional(
    Type.Array(tag, { 'x-kubernetes-list-type': 'atomic', description: 'The tags to have, each once.' }),
  ),
  pullSecrets: Type.Optional(
    Type.Array(pullSecret, {
      'x-kubernetes-list-type': 'atomic',
      description: 'Secrets with registry credentials. The daemon reads those of namespace `kruise-daemon-config`.',
    }),
  ),
  sandboxConfig: Type.Optional(sandboxConfig()),
});

/** The images that a node is to have. */
export const nodeImageSpecSchema = Type.Object(
  {
    images: Type.Optional(
      Type.Record(Type.String(), image, {
        description: 'By repository as people write it: `nginx`, `foo/bar`, `registry.example.com:5000/app`.',
      }),
    ),
  },
  { description: 'The images that this node is to have.' },
);

const tagStatus = Type.Object({
  tag: Type.String(),
  phase: Type.Union(
    [Type.Literal('Waiting'), Type.Literal('Pulling'), Type.Literal('Succeeded'), Type.Literal('Failed')],
    { description: '`Waiting` for its turn, `Pulling`, `Succeeded`, `Failed`.' },
  ),
  progress: Type.Optional(
    int32({ description: 'Percent: 100 when the image is there, before that what the runtime tells, else 0.' }),
  ),
  fetched: Type.Optional(
    Type.String({
      description:
        'How far a pull is that takes long, where the runtime tells: `34 of 120 MB in 12 s`. Goes with its end.',
    }),
  ),
  startTime: Type.Optional(time({ description: 'When its turn came.' })),
  completionTime: Type.Optional(time({ description: 'When it succeeded or failed.' })),
  version: Type.Optional(int64({ description: 'The version of the tag that this speaks of.' })),
  imageID: Type.Optional(Type.String({ description: '`<name>@<ID in the runtime>`' })),
  message: Type.Optional(Type.String({ description: 'Why it failed, or what the last attempt failed of.' })),
});

const imageStatus = Type.Object({
  tags: Type.Optional(Type.Array(tagStatus, { 'x-kubernetes-list-type': 'atomic' })),
});

/** How far the node has come. */
export const nodeImageStatusSchema = Type.Object(
  {
    desired: int32({ default: 0, description: 'How many tags there are in the spec.' }),
    succeeded: int32({ default: 0, description: 'How many of them the node has.' }),
    failed: int32({ default: 0, description: 'How many could not be pulled.' }),
    pulling: int32({ default: 0, description: 'How many are being pulled.' }),
    waiting: Type.Optional(int32({ description: 'How many wait for their turn.' })),
    imageStatuses: Type.Optional(
      Type.Record(Type.String(), imageStatus, { description: 'By repository, as the spec.' }),
    ),
    firstSyncStatus: Type.Optional(
      Type.Object(
        {
          syncAt: Type.Optional(time()),
          status: Type.Optional(Type.String()),
          message: Type.Optional(Type.String()),
        },
        { description: 'Reserved; nobody writes it.' },
      ),
    ),
    waitingFor: Type.Optional(waitingFor()),
    observedGeneration: Type.Optional(
      int64({ minimum: 0, description: 'The generation of the spec that was looked at last.' }),
    ),
  },
  { description: 'How far the node has come.' },
);

/** The whole kind: names, versions, columns. */
export const nodeImageKind: KindDefinition = {
  group: group.apps,
  kind: 'NodeImage',
  plural: 'nodeimages',
  shortNames: [],
  scope: 'Cluster',
  description: 'The images that one node is to have before they are needed. Its name is the name of the node.',
  columns: [
    counter('DESIRED', 'desired', 'How many tags there are in the spec.'),
    counter('PULLING', 'pulling', 'How many are being pulled.'),
    counter('SUCCEED', 'succeeded', 'How many the node has.'),
    counter('FAILED', 'failed', 'How many could not be pulled.'),
    { name: 'AGE', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
  versions: [
    {
      name: 'v1alpha1',
      storage: false,
      spec: nodeImageSpecSchema,
      status: nodeImageStatusSchema,
      limitsValues: false,
    },
    { name: 'v1beta1', storage: true, spec: nodeImageSpecSchema, status: nodeImageStatusSchema },
  ],
};
