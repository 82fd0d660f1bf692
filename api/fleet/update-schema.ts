import { type TObject, type TSchemaOptions, Type } from 'typebox';
import { int32, labelSelector, maxInt32 } from '../schema/shared.ts';

// Parts of the schemas of workloads that say how their pods are updated.

const minInt32 = -(2 ** 31);

/** An `int32` without further limits, as in OpenKruise's admission. */
export function anyInt32(options: TSchemaOptions) {
  return int32({ minimum: minInt32, maximum: maxInt32, ...options });
}

/** An order of pods by their labels. */
export const priorityStrategy = Type.Object(
  {
    weightPriority: Type.Optional(
      Type.Array(
        Type.Object({
          weight: anyInt32({ description: 'From 0 to 100.' }),
          matchSelector: labelSelector({ description: 'Selects the pods that get the weight.' }),
        }),
        {
          'x-kubernetes-list-type': 'atomic',
          description:
            'Pods with the largest sum of weights are updated first. Cannot be combined with `orderPriority`.',
        },
      ),
    ),
    orderPriority: Type.Optional(
      Type.Array(Type.Object({ orderedKey: Type.String({ description: 'A label key.' }) }), {
        'x-kubernetes-list-type': 'atomic',
        description:
          'Pods without any of these labels are updated first, then pods with the first label, and so on. Of pods with the ' +
          'same label, the pod whose value ends in the larger number is updated first.',
      }),
    ),
  },
  { description: 'The order in which pods are updated.' },
);

export const gracePeriodSeconds = Type.Optional(
  anyInt32({
    description:
      'How long the pod is unready before its containers are updated in place. Absent, 0 or less: they are updated at once.',
  }),
);

/** The update strategy of a kind with this `rollingUpdate`, which can leave its pods to the user. */
export function updateStrategy<RollingUpdate extends TObject>(rollingUpdate: RollingUpdate) {
  return Type.Object(
    {
      type: Type.Optional(
        Type.Union([Type.Literal('RollingUpdate'), Type.Literal('OnDelete')], {
          description: '`OnDelete`: a pod is updated only when somebody deletes it. Absent: `RollingUpdate`.',
        }),
      ),
      rollingUpdate: Type.Optional(rollingUpdate),
    },
    { description: 'How pods are updated to a new template.' },
  );
}

/** All policies. Of a CloneSet in v1alpha1 they are types of its update strategy. */
export const podUpdatePolicies = ['ReCreate', 'InPlaceIfPossible', 'InPlaceOnly'] as const;

export const podUpdatePolicy = Type.Union(
  [Type.Literal('ReCreate'), Type.Literal('InPlaceIfPossible'), Type.Literal('InPlaceOnly')],
  {
    description:
      '`ReCreate`: pods are recreated. `InPlaceIfPossible`: containers are updated in the running pod where possible, ' +
      'otherwise the pod is recreated. `InPlaceOnly`: pods are never recreated for an update. Absent: `ReCreate`.',
  },
);
