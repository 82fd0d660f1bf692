import { Type } from 'typebox';
import { crrLabel, group } from '../core/well-known.ts';
import type { KindDefinition } from '../schema/kind.ts';
import {
  cel,
  conditions,
  int32,
  int64,
  intOrString,
  listKeyedBy,
  maxInt32,
  time,
  waitingFor,
} from '../schema/shared.ts';

// The schema of v1beta1, which is the stored version and the only one used internally. v1alpha1 has no snapshot in the
// status and no limits on values: there admission validates instead.

const containerName = { maxLength: 63, minLength: 1 } as const;

const handler = Type.Object(
  {
    exec: Type.Optional(
      Type.Object({
        command: Type.Optional(Type.Array(Type.String(), { 'x-kubernetes-list-type': 'atomic' })),
      }),
    ),
    httpGet: Type.Optional(
      Type.Object({
        path: Type.Optional(Type.String()),
        port: intOrString(),
        host: Type.Optional(Type.String()),
        scheme: Type.Optional(Type.String()),
        httpHeaders: Type.Optional(
          Type.Array(Type.Object({ name: Type.String(), value: Type.String() }), {
            'x-kubernetes-list-type': 'atomic',
          }),
        ),
      }),
    ),
    tcpSocket: Type.Optional(Type.Object({ port: intOrString(), host: Type.Optional(Type.String()) })),
    sleep: Type.Optional(Type.Object({ seconds: int64() })),
  },
  { description: "Set by admission from the container's `lifecycle.preStop`. Do not set it." },
);

const port = Type.Object({
  name: Type.Optional(Type.String()),
  containerPort: int32(),
  hostPort: Type.Optional(int32()),
  hostIP: Type.Optional(Type.String()),
  protocol: Type.Optional(Type.String()),
});

const container = Type.Object({
  name: Type.String({
    ...containerName,
    description: 'A container of the pod that has been started at least once. Init containers cannot be restarted.',
  }),
  preStop: Type.Optional(handler),
  ports: Type.Optional(
    Type.Array(port, {
      'x-kubernetes-list-type': 'atomic',
      description: 'Set by admission if preStop is `httpGet`, to resolve named ports. Do not set it.',
    }),
  ),
  statusContext: Type.Optional(
    Type.Object(
      {
        containerID: Type.String({ maxLength: 512, description: '`<runtime>://<id>`' }),
        restartCount: int32(),
      },
      { description: 'The instance that ran when the request was created. Set by admission. Do not set it.' },
    ),
  ),
});

const strategy = Type.Object(
  {
    failurePolicy: Type.Optional(
      Type.Union([Type.Literal('Fail'), Type.Literal('Ignore')], {
        default: 'Fail',
        description:
          'What happens when a container cannot be stopped. `Fail`: the request ends, and the other containers are not ' +
          'restarted. `Ignore`: the request continues with the next container.',
      }),
    ),
    orderedRecreate: Type.Optional(
      Type.Boolean({
        description:
          'The next container is stopped only when the previous one is ready again. Otherwise containers are still stopped ' +
          'one after another, but their restarts overlap.',
      }),
    ),
    forceRecreate: Type.Optional(
      Type.Boolean({ description: 'Stops a container even if it has been replaced since the request was created.' }),
    ),
    terminationGracePeriodSeconds: Type.Optional(
      int64({
        minimum: 0,
        description: "The grace period of preStop and SIGTERM together. Absent: the pod's own, set by admission.",
      }),
    ),
    unreadyGracePeriodSeconds: Type.Optional(
      int64({
        minimum: 0,
        description:
          'Makes the pod unready and waits this long before the first container is stopped. `0` makes it unready without ' +
          'waiting. Absent: the pod is not made unready.',
      }),
    ),
    minStartedSeconds: Type.Optional(
      int32({
        minimum: 0,
        maximum: maxInt32,
        description: 'A new container counts as restarted when it has run for longer than this. Absent: 0.',
      }),
    ),
  },
  { default: {}, description: 'How the containers are restarted.' },
);

function unchanged(...fields: readonly string[]): readonly string[] {
  return fields.map(
    (at) => `has(self.${at}) == has(oldSelf.${at}) && (!has(self.${at}) || self.${at} == oldSelf.${at})`,
  );
}

/**
 * The fields that may be set once after creation: the watcher adds what admission leaves out when it cannot
 * authenticate its clients. Admission checks the rest, such as the order of the containers and who writes.
 */
const isFill = [
  'self.podName == oldSelf.podName',
  'self.containers.size() == oldSelf.containers.size()',
  'oldSelf.containers.all(c, !has(c.statusContext))',
  'self.containers.all(c, has(c.statusContext))',
  ...unchanged('activeDeadlineSeconds', 'ttlSecondsAfterFinished'),
  'has(self.strategy) && has(oldSelf.strategy)',
  ...unchanged(
    'strategy.failurePolicy',
    'strategy.orderedRecreate',
    'strategy.forceRecreate',
    'strategy.unreadyGracePeriodSeconds',
    'strategy.minStartedSeconds',
  ),
].join(' && ');

/** The desired state, with the fields that admission adds. */
export const specSchema = Type.Object(
  {
    podName: Type.String({
      maxLength: 253,
      minLength: 1,
      description: 'The name of a pod in the namespace of the request.',
    }),
    containers: Type.Array(container, {
      ...listKeyedBy('name'),
      maxItems: 256,
      minItems: 1,
      description: 'The containers to restart, in this order.',
    }),
    strategy: Type.Optional(strategy),
    activeDeadlineSeconds: Type.Optional(
      int64({
        minimum: 0,
        description:
          'The request ends this long after its creation, completed or not. Time in the queue counts. At least 3. Absent: ' +
          'no deadline.',
      }),
    ),
    ttlSecondsAfterFinished: Type.Optional(
      int32({
        minimum: 0,
        maximum: maxInt32,
        description: 'The request is deleted this long after its completion. Absent: it is not deleted.',
      }),
    ),
  },
  {
    ...cel({ rule: `self == oldSelf || (${isFill})`, message: 'spec is immutable', reason: 'FieldValueForbidden' }),
    description: 'The containers to restart, and how. Immutable after creation.',
  },
);

const recreateState = Type.Object({
  name: Type.String(containerName),
  phase: Type.Union(
    [Type.Literal('Pending'), Type.Literal('Recreating'), Type.Literal('Succeeded'), Type.Literal('Failed')],
    {
      description:
        '`Pending`: not stopped yet. `Recreating`: stopped or replaced, and the new instance is not ready yet. `Succeeded`: ' +
        'the new instance is ready. `Failed`: the container could not be stopped. When the request ends, the first two stay ' +
        'as they are: the condition says how it ended.',
    },
  ),
  message: Type.Optional(Type.String({ maxLength: 32768 })),
  isKilled: Type.Optional(Type.Boolean({ description: 'The previous instance no longer runs.' })),
  targetContainerID: Type.Optional(
    Type.String({ maxLength: 512, description: 'The instance that this request stops. Written before it is stopped.' }),
  ),
});

const snapshot = Type.Object({
  name: Type.String(containerName),
  ready: Type.Boolean(),
  restartCount: int32(),
  containerID: Type.Optional(Type.String({ maxLength: 512 })),
});

/** The observed state. */
export const statusSchema = Type.Object(
  {
    phase: Type.Union(
      [
        Type.Literal(''),
        Type.Literal('Pending'),
        Type.Literal('Recreating'),
        Type.Literal('Succeeded'),
        Type.Literal('Failed'),
        Type.Literal('Completed'),
      ],
      {
        ...cel({
          rule: "oldSelf != 'Completed' || self == 'Completed'",
          message: 'a completed request stays completed',
        }),
        default: '',
        description:
          'Empty until the request is first processed. `Pending`: another request of the pod is first. `Recreating`. ' +
          '`Completed`: the request has ended; the condition `Complete` or `Failed` says how.',
      },
    ),
    completionTime: Type.Optional(time({ description: 'When the phase became `Completed`.' })),
    message: Type.Optional(
      Type.String({ maxLength: 32768, description: 'Why the request ended. Empty if it ended normally.' }),
    ),
    containerRecreateStates: Type.Optional(
      Type.Array(recreateState, {
        ...listKeyedBy('name'),
        maxItems: 256,
        description: 'The progress of each container, in the order of the spec.',
      }),
    ),
    containerStatusSnapshot: Type.Optional(
      Type.Array(snapshot, {
        ...listKeyedBy('name'),
        maxItems: 256,
        description: 'The last status of the new containers that the kubelet reported.',
      }),
    ),
    conditions: Type.Optional(
      conditions('`Complete` or `Failed` at the end, and `PreRecreateGrace` from the beginning of the drain.'),
    ),
    waitingFor: Type.Optional(waitingFor()),
    observedGeneration: Type.Optional(
      int64({ minimum: 0, description: 'The generation that this status describes. Written last.' }),
    ),
  },
  { description: 'The observed state of the request.' },
);

/** The kind: names, versions, columns. */
export const containerRecreateRequestKind: KindDefinition = {
  group: group.apps,
  kind: 'ContainerRecreateRequest',
  plural: 'containerrecreaterequests',
  shortNames: ['crr'],
  scope: 'Namespaced',
  description: 'Restarts containers of one pod in place. A request is carried out once.',
  columns: [
    { name: 'PHASE', type: 'string', jsonPath: '.status.phase', description: 'The progress of the request.' },
    { name: 'POD', type: 'string', jsonPath: '.spec.podName', description: 'The pod whose containers are restarted.' },
    {
      name: 'NODE',
      type: 'string',
      jsonPath: `.metadata.labels.${crrLabel.nodeName.replaceAll('.', '\\.')}`,
      description: 'The node of the pod.',
    },
    { name: 'AGE', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
  versions: [
    {
      name: 'v1alpha1',
      storage: false,
      spec: specSchema,
      status: statusSchema,
      // The snapshot is an annotation there, and admission rejects invalid values instead of the schema.
      without: ['status.containerStatusSnapshot'],
      limitsValues: false,
    },
    { name: 'v1beta1', storage: true, spec: specSchema, status: statusSchema },
  ],
};
