import { Type } from 'typebox';
import { group } from '../core/well-known.ts';
import { counter, type KindDefinition } from '../schema/kind.ts';
import { int32, int64, time, waitingFor } from '../schema/shared.ts';

// v1alpha1 and v1beta1 are the same here. `pullSecrets[].mode` is in both, so that a client of the older version does not
// lose it.

/** Labels and annotations that a pull passes to the runtime. */
export function sandboxConfig() {
  return Type.Object(
    {
      labels: Type.Optional(Type.Record(Type.String(), Type.String())),
      annotations: Type.Optional(Type.Record(Type.String(), Type.String())),
    },
    { description: 'Labels and annotations of the sandbox config that the pull passes to the container runtime.' },
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
      int32({ description: 'How many times a failed attempt is retried. Absent or negative: 3.' }),
    ),
    ttlSecondsAfterFinished: Type.Optional(
      int32({ description: 'The tag is removed from the spec this long after its pull has ended. Required.' }),
    ),
    activeDeadlineSeconds: Type.Optional(
      int64({ description: 'The pull fails this long after its start. Absent: no deadline.' }),
    ),
  },
  { description: 'Timeout, retries and deadline of the pull, and how long the tag is kept.' },
);

const tag = Type.Object({
  tag: Type.String({ maxLength: 256, description: 'A tag, or a digest such as `sha256:…`.' }),
  createdAt: Type.Optional(time({ description: 'When the tag was requested. Set by admission if absent.' })),
  version: Type.Optional(int64({ description: 'A higher version requests another pull. Absent: 0.' })),
  imagePullPolicy: Type.Optional(
    Type.String({
      description:
        '`IfNotPresent`: an image that the node has is not pulled. `Always` or absent: the daemon asks the registry.',
    }),
  ),
  pullPolicy: Type.Optional(tagPullPolicy),
  ownerReferences: Type.Optional(
    Type.Array(owner, {
      'x-kubernetes-list-type': 'atomic',
      description: 'The jobs that requested this tag. The tag is removed with the last of them.',
    }),
  ),
});

const pullSecret = Type.Object({
  namespace: Type.Optional(Type.String()),
  name: Type.Optional(Type.String()),
  mode: Type.Optional(
    Type.String({ description: '`batch`: one copy of a Secret for all jobs. Empty: the Secret itself.' }),
  ),
});

const image = Type.Object({
  tags: Type.Optional(
    Type.Array(tag, { 'x-kubernetes-list-type': 'atomic', description: 'The tags to pull, without duplicates.' }),
  ),
  pullSecrets: Type.Optional(
    Type.Array(pullSecret, {
      'x-kubernetes-list-type': 'atomic',
      description: 'Secrets with registry credentials. The daemon reads those of namespace `kruise-daemon-config`.',
    }),
  ),
  sandboxConfig: Type.Optional(sandboxConfig()),
});

/** The desired images of a node. */
export const nodeImageSpecSchema = Type.Object(
  {
    images: Type.Optional(
      Type.Record(Type.String(), image, {
        description:
          'The images by repository, in the familiar form: `nginx`, `foo/bar`, `registry.example.com:5000/app`.',
      }),
    ),
  },
  { description: 'The images to pull on this node.' },
);

const tagStatus = Type.Object({
  tag: Type.String(),
  phase: Type.Union(
    [Type.Literal('Waiting'), Type.Literal('Pulling'), Type.Literal('Succeeded'), Type.Literal('Failed')],
    { description: '`Waiting` in the queue of the node, `Pulling`, `Succeeded` or `Failed`.' },
  ),
  progress: Type.Optional(
    int32({
      description:
        'In percent. 100 when the node has the image, before that the progress that the runtime reports, or 0.',
    }),
  ),
  fetched: Type.Optional(
    Type.String({
      description:
        'The progress of a long pull, if the runtime reports it: `34 of 120 MB in 12 s`. Removed when the pull ends.',
    }),
  ),
  startTime: Type.Optional(time({ description: 'When the pull started.' })),
  completionTime: Type.Optional(time({ description: 'When the pull succeeded or failed.' })),
  version: Type.Optional(int64({ description: 'The version of the tag that this status describes.' })),
  imageID: Type.Optional(Type.String({ description: '`<name>@<ID in the runtime>`' })),
  message: Type.Optional(Type.String({ description: 'Why the pull or its last attempt failed.' })),
});

const imageStatus = Type.Object({
  tags: Type.Optional(Type.Array(tagStatus, { 'x-kubernetes-list-type': 'atomic' })),
});

/** The observed state of the images. */
export const nodeImageStatusSchema = Type.Object(
  {
    desired: int32({ default: 0, description: 'The number of tags in the spec.' }),
    succeeded: int32({ default: 0, description: 'The number of tags that the node has.' }),
    failed: int32({ default: 0, description: 'The number of tags that could not be pulled.' }),
    pulling: int32({ default: 0, description: 'The number of tags that are being pulled.' }),
    waiting: Type.Optional(int32({ description: 'The number of tags that wait in the queue.' })),
    imageStatuses: Type.Optional(
      Type.Record(Type.String(), imageStatus, {
        description: 'The status of the images, by repository as in the spec.',
      }),
    ),
    firstSyncStatus: Type.Optional(
      Type.Object(
        {
          syncAt: Type.Optional(time()),
          status: Type.Optional(Type.String()),
          message: Type.Optional(Type.String()),
        },
        { description: 'Reserved and never written.' },
      ),
    ),
    waitingFor: Type.Optional(waitingFor()),
    observedGeneration: Type.Optional(
      int64({ minimum: 0, description: 'The generation of the spec that was processed last.' }),
    ),
  },
  { description: 'The progress of the pulls on this node.' },
);

/** The kind: names, versions, columns. */
export const nodeImageKind: KindDefinition = {
  group: group.apps,
  kind: 'NodeImage',
  plural: 'nodeimages',
  shortNames: [],
  scope: 'Cluster',
  description: 'The images to pull on one node before they are needed. Its name is the name of the node.',
  columns: [
    counter('DESIRED', 'desired', 'The number of tags in the spec.'),
    counter('PULLING', 'pulling', 'The number of tags that are being pulled.'),
    counter('SUCCEED', 'succeeded', 'The number of tags that the node has.'),
    counter('FAILED', 'failed', 'The number of tags that could not be pulled.'),
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
