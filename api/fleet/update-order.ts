import type { LabelSelector } from '../core/label-selector.ts';

/** Terms of each list that defines the update order. Each pod is compared with each of them. */
export const mostTerms = 256;

/** The order in which a workload updates its pods: by priority, then scattered over the values of labels. */
export interface UpdateOrder {
  readonly priorityStrategy?: {
    readonly weightPriority?: readonly { readonly weight: number; readonly matchSelector: LabelSelector }[];
    readonly orderPriority?: readonly { readonly orderedKey: string }[];
  };
  readonly scatterStrategy?: readonly { readonly key: string; readonly value: string }[];
}
