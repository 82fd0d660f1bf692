import { type TSchemaOptions, Type } from 'typebox';

// Lifecycle hooks of pods, the same in every workload that has them.

function hook(options: TSchemaOptions) {
  return Type.Object(
    {
      labelsHandler: Type.Optional(
        Type.Record(Type.String(), Type.String(), {
          description: 'Labels of the hook, with the values that count.',
        }),
      ),
      finalizersHandler: Type.Optional(Type.Array(Type.String(), { description: 'Finalizers of the hook.' })),
      markPodNotReady: Type.Optional(
        Type.Boolean({
          description:
            'The pod is unready while the hook holds it, by the readiness gate `KruisePodReady`. No effect on `preNormal`.',
        }),
      ),
    },
    options,
  );
}

/** Where a pod may be held, and by which labels and finalizers. */
export const lifecycleSchema = Type.Object(
  {
    preNormal: Type.Optional(
      hook({ description: 'A new pod is not available before it has all labels and finalizers of the hook.' }),
    ),
    inPlaceUpdate: Type.Optional(
      hook({
        description:
          'An update in place does not begin while the pod has any label or finalizer of the hook. After the update the pod ' +
          'is not available before it has all of them again.',
      }),
    ),
    preDelete: Type.Optional(
      hook({
        description:
          'The workload does not delete a pod that has any label or finalizer of the hook. Deletions by others do not wait.',
      }),
    ),
  },
  { description: 'Hooks by which another controller holds pods at these points, by labels and finalizers.' },
);
