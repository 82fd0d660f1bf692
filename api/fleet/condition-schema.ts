import { Type } from 'typebox';
import { time } from '../schema/shared.ts';

/** A condition in the status of a workload, as Kubernetes' own workloads have them. */
export const workloadCondition = Type.Object({
  type: Type.String(),
  status: Type.String({ description: '`True`, `False` or `Unknown`.' }),
  lastTransitionTime: Type.Optional(time({ description: 'When the status last changed.' })),
  reason: Type.Optional(Type.String({ description: 'The reason in CamelCase.' })),
  message: Type.Optional(Type.String()),
});
