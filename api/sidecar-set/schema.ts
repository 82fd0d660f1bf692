import { type TSchemaOptions, Type } from 'typebox';
import { group } from '../core/well-known.ts';
import { counter, type KindDefinition } from '../schema/kind.ts';
import {
  int32,
  int64,
  intOrPercent,
  labelSelector,
  maxInt32,
  openObject,
  rollOutOrders,
  waitingFor,
} from '../schema/shared.ts';

// The schema of v1beta1, which is the stored version and the only one used internally, and the differences of v1alpha1.
// The schema limits no more values than OpenKruise's, since stored objects must stay valid; admission checks the rest.

/** A container in the core API's format with further fields: core fields are checked by a dry run of a pod. */
function sidecarContainer(description: string) {
  return Type.Object(
    {
      podInjectPolicy: Type.Optional(
        Type.String({
          description:
            '`BeforeAppContainer` or `AfterAppContainer`: the place among the containers of the pod. ' +
            'Absent: `BeforeAppContainer` for `containers`, `AfterAppContainer` for `initContainers`.',
        }),
      ),
      upgradeStrategy: Type.Optional(
        Type.Object(
          {
            upgradeType: Type.Optional(
              Type.String({
                description:
                  '`ColdUpgrade`, or `HotUpgrade`: the pod gets two containers, one of which is idle. It cannot be ' +
                  'changed. Absent: `ColdUpgrade`.',
              }),
            ),
            hotUpgradeEmptyImage: Type.Optional(
              Type.String({ description: 'The image of the idle container. Required with `HotUpgrade`.' }),
            ),
          },
          { description: 'How the container is updated in running pods.' },
        ),
      ),
      shareVolumePolicy: Type.Optional(
        sharePolicy(
          '`enabled`: the container gets the volume mounts of the containers of the pod. Absent: `disabled`.',
        ),
      ),
      shareVolumeDevicePolicy: Type.Optional(
        sharePolicy(
          '`enabled`: the container gets the volume devices of the containers of the pod. Absent: `disabled`.',
        ),
      ),
      transferEnv: Type.Optional(
        Type.Array(transferEnv, {
          'x-kubernetes-list-type': 'atomic',
          description: 'Environment variables that are copied from containers of the pod.',
        }),
      ),
      resourcesPolicy: Type.Optional(resourcesPolicy),
    },
    { description, 'x-kubernetes-preserve-unknown-fields': true },
  );
}

function sharePolicy(description: string) {
  return Type.Object({ type: Type.Optional(Type.String({ description })) });
}

const transferEnv = Type.Object({
  sourceContainerName: Type.Optional(Type.String({ description: 'The container of the pod to copy from.' })),
  sourceContainerNameFrom: Type.Optional(
    Type.Object(
      {
        fieldRef: Type.Optional(
          Type.Object({
            apiVersion: Type.Optional(Type.String({ description: 'Absent: `v1`.' })),
            fieldPath: Type.String({ description: "`metadata.labels['key']` or `metadata.annotations['key']`." }),
          }),
        ),
      },
      {
        description:
          'A label or an annotation of the pod with the name of the container. Used before `sourceContainerName`.',
      },
    ),
  ),
  envName: Type.Optional(Type.String({ description: 'The variable to copy.' })),
  envNames: Type.Optional(
    Type.Array(Type.String(), { 'x-kubernetes-list-type': 'atomic', description: 'Further variables to copy.' }),
  ),
});

function expressions(description: string) {
  return Type.Object(
    {
      cpu: Type.Optional(Type.String({ description: 'An expression with the variable `cpu`. Absent: unset.' })),
      memory: Type.Optional(Type.String({ description: 'An expression with the variable `memory`. Absent: unset.' })),
    },
    { description },
  );
}

const resourcesPolicy = Type.Object(
  {
    targetContainersMode: Type.Union([Type.Literal('sum'), Type.Literal('max')], {
      description: 'How the resources of the target containers are aggregated.',
    }),
    targetContainersNameRegex: Type.Optional(
      Type.String({
        default: '.*',
        description:
          'A regular expression for the names of the target containers, which need not match the whole name.',
      }),
    ),
    resourcesExpr: Type.Optional(
      Type.Object(
        {
          limits: Type.Optional(expressions('The limits of the sidecar.')),
          requests: Type.Optional(expressions('The requests of the sidecar.')),
        },
        { description: 'The resources of the sidecar, from those of the target containers. At least one of the two.' },
      ),
    ),
  },
  {
    description: 'Computes the resources of the sidecar when the pod is created. Cannot be combined with `resources`.',
  },
);

/** An `int32` without further limits, as in OpenKruise's admission. */
function anyInt32(options: TSchemaOptions) {
  return int32({ minimum: -(2 ** 31), maximum: maxInt32, ...options });
}

const priorityStrategy = Type.Object(
  {
    orderPriority: Type.Optional(
      Type.Array(Type.Object({ orderedKey: Type.String({ description: 'A label key.' }) }), {
        'x-kubernetes-list-type': 'atomic',
        description: 'Pods are updated in the order of these labels. Cannot be combined with `weightPriority`.',
      }),
    ),
    weightPriority: Type.Optional(
      Type.Array(
        Type.Object({
          weight: anyInt32({ description: 'From 0 to 100.' }),
          matchSelector: labelSelector({ description: 'Selects the pods that get the weight.' }),
        }),
        { 'x-kubernetes-list-type': 'atomic', description: 'Pods with the largest sum of weights are updated first.' },
      ),
    ),
  },
  { description: 'The order in which pods are updated.' },
);

const updateStrategy = Type.Object(
  {
    type: Type.Optional(
      Type.String({
        description: '`RollingUpdate`, or `NotUpdate`: running pods are not updated. Absent: `RollingUpdate`.',
      }),
    ),
    paused: Type.Optional(Type.Boolean({ description: 'No running pod is updated. Absent: false.' })),
    selector: Type.Optional(
      labelSelector({ description: 'Only these pods are updated. Cannot be combined with `partition`. Absent: all.' }),
    ),
    partition: Type.Optional(
      intOrPercent({ description: 'The number or percentage of pods that stays at older revisions. Absent: 0.' }),
    ),
    maxUnavailable: Type.Optional(
      intOrPercent({
        description:
          'The maximum number or percentage of pods that may be unavailable because of the update. Absent: 1.',
      }),
    ),
    priorityStrategy: Type.Optional(priorityStrategy),
    scatterStrategy: Type.Optional(
      Type.Array(Type.Object({ key: Type.String(), value: Type.String() }), {
        'x-kubernetes-list-type': 'atomic',
        description: 'Pods with one of these labels are spread over the whole update.',
      }),
    ),
  },
  { description: 'How running pods are updated. Updates of running pods are not carried out yet.' },
);

const injectionStrategy = Type.Object(
  {
    paused: Type.Optional(Type.Boolean({ description: 'Nothing is injected into new pods. Absent: false.' })),
    revision: Type.Optional(
      Type.Object(
        {
          revisionName: Type.Optional(
            Type.String({ description: 'The name of the ControllerRevision. Used before `customVersion`.' }),
          ),
          customVersion: Type.Optional(
            Type.String({ description: 'The custom version of the ControllerRevision; the newest one counts.' }),
          ),
          policy: Type.Optional(
            Type.Union([Type.Literal('Always'), Type.Literal('Partial')], {
              default: 'Always',
              description:
                '`Always`: every new pod gets the stored revision. `Partial`: only pods that `updateStrategy` keeps at ' +
                'older revisions.',
            }),
          ),
        },
        { description: 'The stored revision that new pods get. Absent: the current content.' },
      ),
    ),
  },
  { description: 'What is injected into new pods.' },
);

const patchPodMetadata = Type.Array(
  Type.Object({
    annotations: Type.Optional(Type.Record(Type.String(), Type.String(), { description: 'The annotations.' })),
    patchPolicy: Type.Optional(
      Type.String({
        description:
          '`Retain`: an annotation of the pod is kept. `Overwrite`: it is replaced. `MergePatchJson`: the value is ' +
          'merged into it as JSON. Absent: `Retain`.',
      }),
    ),
  }),
  { 'x-kubernetes-list-type': 'atomic', description: 'Annotations that pods get.' },
);

const selector = Type.Optional(labelSelector({ description: 'Selects the pods. Required, and not empty.' }));

const namespace = Type.Optional(
  Type.String({ description: 'Limits the SidecarSet to one namespace. v1beta1 has it as `namespaceSelector`.' }),
);

const fields = {
  namespaceSelector: Type.Optional(
    labelSelector({ description: 'Selects the namespaces by their labels. Not empty. Absent: all namespaces.' }),
  ),
  initContainers: Type.Optional(
    Type.Array(sidecarContainer('An init container, or with `restartPolicy: Always` a native sidecar.'), {
      'x-kubernetes-list-type': 'atomic',
      description: 'Init containers that new pods get.',
    }),
  ),
  containers: Type.Optional(
    Type.Array(sidecarContainer('A sidecar.'), {
      'x-kubernetes-list-type': 'atomic',
      description: 'Containers that new pods get.',
    }),
  ),
  volumes: Type.Optional(
    Type.Array(openObject({ description: 'A volume.' }), {
      'x-kubernetes-list-type': 'atomic',
      description: 'Volumes of these containers. A pod gets those that its sidecars mount.',
    }),
  ),
  imagePullSecrets: Type.Optional(
    Type.Array(Type.Object({ name: Type.Optional(Type.String({ default: '' })) }), {
      'x-kubernetes-list-type': 'atomic',
      description: 'Pull secrets that pods get. They must exist in the namespace of the pod.',
    }),
  ),
  updateStrategy: Type.Optional(updateStrategy),
  injectionStrategy: Type.Optional(injectionStrategy),
  revisionHistoryLimit: Type.Optional(
    anyInt32({ description: 'The number of ControllerRevisions that are kept, at least 1. Absent: 10.' }),
  ),
  patchPodMetadata: Type.Optional(patchPodMetadata),
};

export const specSchema = Type.Object(
  {
    selector,
    ...fields,
    customVersion: Type.Optional(
      Type.String({ description: 'A name for the current content, for `injectionStrategy.revision.customVersion`.' }),
    ),
  },
  { description: 'What is injected into which pods.' },
);

const specSchemaV1alpha1 = Type.Object(
  { selector, namespace, ...fields },
  { description: 'What is injected into which pods.' },
);

export const statusSchema = Type.Object(
  {
    observedGeneration: Type.Optional(int64({ description: 'The generation that the other fields are about.' })),
    matchedPods: int32({ description: 'The number of pods with these sidecars.' }),
    updatedPods: int32({ description: 'The number of these pods with the current content.' }),
    readyPods: int32({ description: 'The number of these pods that are ready.' }),
    updatedReadyPods: Type.Optional(int32({ description: 'The number of updated pods that are ready.' })),
    missedPods: Type.Optional(
      int32({
        description:
          'The number of pods that are selected but lack these sidecars, which `matchedPods` does not count. Not in ' +
          'OpenKruise. Absent: none.',
      }),
    ),
    missedPodNames: Type.Optional(
      Type.Array(Type.String(), {
        'x-kubernetes-list-type': 'atomic',
        maxItems: 10,
        description: 'The first ten of these pods, as `namespace/name`.',
      }),
    ),
    latestRevision: Type.Optional(Type.String({ description: 'The ControllerRevision of the current content.' })),
    collisionCount: Type.Optional(
      int32({ description: 'How many times the name of a new revision was already in use.' }),
    ),
    waitingFor: Type.Optional(waitingFor()),
    rollOut: Type.Optional(rollOutOrders()),
  },
  { description: 'The observed state of the SidecarSet.' },
);

/** The kind: names, versions, columns. */
export const sidecarSetKind: KindDefinition = {
  group: group.apps,
  kind: 'SidecarSet',
  plural: 'sidecarsets',
  shortNames: [],
  scope: 'Cluster',
  description: 'Adds containers to new pods of any workload.',
  columns: [
    counter('MATCHED', 'matchedPods', 'The number of pods with these sidecars.'),
    counter('UPDATED', 'updatedPods', 'The number of these pods with the current content.'),
    counter('READY', 'readyPods', 'The number of these pods that are ready.'),
    { name: 'AGE', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
  versions: [
    { name: 'v1alpha1', storage: false, spec: specSchemaV1alpha1, status: statusSchema },
    { name: 'v1beta1', storage: true, spec: specSchema, status: statusSchema },
  ],
};
