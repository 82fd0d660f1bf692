import { Type } from 'typebox';
import { group } from '../core/well-known.ts';
import { workloadCondition } from '../fleet/condition-schema.ts';
import { lifecycleSchema } from '../fleet/lifecycle-schema.ts';
import {
  anyInt32,
  gracePeriodSeconds,
  podUpdatePolicy,
  priorityStrategy,
  updateStrategy,
} from '../fleet/update-schema.ts';
import { counter, type KindDefinition, templateColumns } from '../schema/kind.ts';
import { int32, int64, intOrPercent, labelSelector, openObject, rollOutOrders, waitingFor } from '../schema/shared.ts';

// The schema of v1beta1, which is the stored version and the only one used internally; v1alpha1 lacks some of its fields.
// Like OpenKruise's schema it checks types only: what values are accepted is decided by admission.

const unorderedUpdate = Type.Object(
  { priorityStrategy: Type.Optional(priorityStrategy) },
  { description: 'Pods are updated by priority and not by ordinal. Requires `podManagementPolicy: Parallel`.' },
);

const rollingUpdate = Type.Object(
  {
    partition: Type.Optional(
      anyInt32({
        description: 'The number of pods that stay at the old revision, from the lowest ordinal. Absent: 0.',
      }),
    ),
    maxUnavailable: Type.Optional(
      intOrPercent({
        description:
          'The maximum number or percentage of pods (rounded down, at least 1) that may be unavailable because of the ' +
          'update. Absent: 1. `OrderedReady` requires 1.',
      }),
    ),
    podUpdatePolicy: Type.Optional(podUpdatePolicy),
    paused: Type.Optional(
      Type.Boolean({
        description:
          'No further pod is updated, and none that is labelled for deletion is deleted. Scaling continues, and updates ' +
          'that have begun are completed.',
      }),
    ),
    unorderedUpdate: Type.Optional(unorderedUpdate),
    inPlaceUpdateStrategy: Type.Optional(
      Type.Object({ gracePeriodSeconds }, { description: 'How pods are updated in place.' }),
    ),
    minReadySeconds: Type.Optional(
      anyInt32({ description: 'How long a pod must be ready before it is available, at most 300. Absent: 0.' }),
    ),
  },
  { description: 'The pace, the order and the method of the update.' },
);

const retention = Type.Union([Type.Literal('Retain'), Type.Literal('Delete')], {
  description: '`Retain`: the PVCs are kept. `Delete`: they are deleted with their owner. Absent: `Retain`.',
});

/** The desired state. */
export const specSchema = Type.Object(
  {
    replicas: Type.Optional(anyInt32({ description: 'The desired number of pods. Absent: 1.' })),
    selector: labelSelector({
      description: 'Selects the pods of this StatefulSet. It must match the labels of the template and is immutable.',
    }),
    template: openObject({
      description: 'Metadata and spec of the pods. Only a change of the template creates a revision and is rolled out.',
    }),
    volumeClaimTemplates: Type.Optional(
      Type.Array(openObject(), {
        description: 'Templates of the PVCs that each pod gets, named `<template>-<StatefulSet>-<ordinal>`.',
      }),
    ),
    serviceName: Type.Optional(
      Type.String({ description: 'The headless Service that gives the pods their DNS names. Immutable.' }),
    ),
    podManagementPolicy: Type.Optional(
      Type.Union([Type.Literal('OrderedReady'), Type.Literal('Parallel')], {
        description:
          '`OrderedReady`: one pod at a time, in the order of the ordinals, each once those before it are available. ' +
          '`Parallel`: all at once. Immutable. Absent: `OrderedReady`.',
      }),
    ),
    updateStrategy: Type.Optional(updateStrategy(rollingUpdate)),
    revisionHistoryLimit: Type.Optional(
      anyInt32({ description: 'The number of unused revisions that are kept for rollbacks. Absent: 10.' }),
    ),
    reserveOrdinals: Type.Optional(
      Type.Array(Type.Union([Type.Integer(), Type.String()]), {
        'x-kubernetes-list-type': 'atomic',
        description: 'Ordinals that no pod has: numbers, and ranges such as `"3-7"`. Further ones take their place.',
      }),
    ),
    lifecycle: Type.Optional(lifecycleSchema),
    scaleStrategy: Type.Optional(
      Type.Object(
        {
          maxUnavailable: Type.Optional(
            intOrPercent({
              description:
                'No further pod is created while this number of pods, or this percentage of `replicas` (rounded down, at ' +
                'least 1), is unavailable. Absent: no limit. `OrderedReady` requires 1.',
            }),
          ),
        },
        { description: 'How pods are created when the StatefulSet scales out.' },
      ),
    ),
    persistentVolumeClaimRetentionPolicy: Type.Optional(
      Type.Object(
        { whenDeleted: Type.Optional(retention), whenScaled: Type.Optional(retention) },
        { description: 'What happens to PVCs when the StatefulSet is deleted, and when it is scaled in.' },
      ),
    ),
    ordinals: Type.Optional(
      Type.Object(
        { start: Type.Optional(anyInt32({ description: 'The first ordinal. Absent: 0.' })) },
        { description: 'How ordinals are assigned. Requires feature gate `StatefulSetStartOrdinal`.' },
      ),
    ),
    volumeClaimUpdateStrategy: Type.Optional(
      Type.Object(
        {
          type: Type.Optional(
            Type.String({
              description:
                '`OnPodRollingUpdate`: PVCs are expanded with the update of their pod. `OnDelete`: changed templates apply ' +
                'only to PVCs that are created later. Absent: `OnDelete`.',
            }),
          ),
        },
        { description: 'How PVCs are updated. Requires feature gate `StatefulSetAutoResizePVCGate`.' },
      ),
    ),
  },
  { description: 'The desired pods, and how they are updated.' },
);

const volumeClaim = Type.Object({
  volumeClaimName: Type.String({ description: 'The name of the template.' }),
  compatibleReplicas: int32({ description: 'The number of pods whose PVC satisfies the template.' }),
  compatibleReadyReplicas: int32({ description: 'The number of these whose PVC has its requested capacity.' }),
});

/** The observed state. */
export const statusSchema = Type.Object(
  {
    observedGeneration: Type.Optional(int64({ description: 'The generation that this status describes.' })),
    replicas: int32({ description: 'The number of pods, including those that are being deleted.' }),
    readyReplicas: int32({ description: 'The number of ready pods.' }),
    availableReplicas: int32({
      description: 'The number of pods that have been ready for `minReadySeconds` and are not held by a hook.',
    }),
    currentReplicas: int32({ description: 'The number of pods at the current revision.' }),
    updatedReplicas: int32({ description: 'The number of pods at the update revision.' }),
    updatedReadyReplicas: Type.Optional(int32({ description: 'The number of updated pods that are ready.' })),
    updatedAvailableReplicas: Type.Optional(int32({ description: 'The number of updated pods that are available.' })),
    currentRevision: Type.Optional(Type.String({ description: 'The last revision that all pods have reached.' })),
    updateRevision: Type.Optional(Type.String({ description: 'The revision of the current template.' })),
    collisionCount: Type.Optional(
      int32({ description: 'How many times the name of a new revision was already in use.' }),
    ),
    labelSelector: Type.Optional(
      Type.String({
        description: 'The selector as a string, for autoscalers and other clients of the scale subresource.',
      }),
    ),
    volumeClaims: Type.Optional(
      Type.Array(volumeClaim, {
        description: 'How many PVCs satisfy each template.',
        'x-kubernetes-list-type': 'atomic',
      }),
    ),
    conditions: Type.Optional(
      Type.Array(workloadCondition, {
        'x-kubernetes-list-type': 'atomic',
        description: '`FailedCreatePod` and `FailedUpdatePod` while creating or updating a pod fails.',
      }),
    ),
    waitingFor: Type.Optional(waitingFor()),
    rollOut: Type.Optional(rollOutOrders()),
  },
  { description: 'The observed state of the StatefulSet.' },
);

/** The kind: names, versions, columns. */
export const statefulSetKind: KindDefinition = {
  group: group.apps,
  kind: 'StatefulSet',
  plural: 'statefulsets',
  shortNames: ['sts', 'asts'],
  scope: 'Namespaced',
  description:
    'Manages pods with stable names and volumes, and updates them in place or by recreation, in order or not.',
  columns: [
    {
      ...{ name: 'DESIRED', type: 'integer', jsonPath: '.spec.replicas' },
      description: 'The desired number of pods.',
    },
    counter('CURRENT', 'replicas', 'The number of pods.'),
    counter('UPDATED', 'updatedReplicas', 'The number of pods at the update revision.'),
    counter('READY', 'readyReplicas', 'The number of ready pods.'),
    { name: 'AGE', type: 'date', jsonPath: '.metadata.creationTimestamp' },
    ...templateColumns,
  ],
  scale: {
    specReplicasPath: '.spec.replicas',
    statusReplicasPath: '.status.replicas',
    labelSelectorPath: '.status.labelSelector',
  },
  versions: [
    {
      ...{ name: 'v1alpha1', storage: false, spec: specSchema, status: statusSchema, limitsValues: false },
      without: [
        'spec.reserveOrdinals',
        'spec.scaleStrategy',
        'spec.lifecycle',
        'spec.ordinals',
        'spec.persistentVolumeClaimRetentionPolicy',
        'spec.volumeClaimUpdateStrategy',
        'status.updatedReadyReplicas',
        'status.updatedAvailableReplicas',
        'status.volumeClaims',
      ],
    },
    { name: 'v1beta1', storage: true, spec: specSchema, status: statusSchema, limitsValues: false },
  ],
};
