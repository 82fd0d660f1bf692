/** Labels by which users and workloads mark single pods. */
export const podMark = {
  /** Label: the pod is to be deleted within the budget of its workload. Any value counts, even `false`. */
  specifiedDelete: 'apps.kruise.io/specified-delete',
} as const;
