import { type TSchemaOptions, Type } from 'typebox';

// The hooks in the life of a pod, the same in every workload that has them.

function hook(options: TSchemaOptions) {
  return Type.Object(
    {
      labelsHandler: Type.Optional(
        Type.Record(Type.String(), Type.String(), {
          description: 'Labels that are marks while they have exactly these values.',
        }),
      ),
      finalizersHandler: Type.Optional(Type.Array(Type.String(), { description: 'Finalizers that are marks.' })),
      markPodNotReady: Type.Optional(
        Type.Boolean({
          description:
            'The pod is also unready while it is held, through its readiness gate `KruisePodReady`. No effect on `preNormal`.',
        }),
      ),
    },
    options,
  );
}

/** Where a pod may be held, and by which marks. */
export const lifecycleSchema = Type.Object(
  {
    preNormal: Type.Optional(hook({ description: 'A new pod is not available before all marks are on it.' })),
    inPlaceUpdate: Type.Optional(
      hook({
        description:
          'An update in place does not begin before all marks are off the pod, and the pod is not available after it before ' +
          'all of them are on it again.',
      }),
    ),
    preDelete: Type.Optional(
      hook({
        description:
          'The workload does not delete a pod before all marks are off it. Deletions by others do not wait for them.',
      }),
    ),
  },
  { description: 'Lets a controller of yours hold pods at these points, by labels and finalizers.' },
);
