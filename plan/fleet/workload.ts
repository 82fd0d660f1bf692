import type { JsonObject } from '../../api/base/json.ts';
import type { LabelSelector } from '../../api/core/label-selector.ts';
import type { KubeObject } from '../../api/core/meta.ts';
import type { PodTemplate } from '../../api/core/pod-template.ts';
import type { WaitingFor } from '../../api/engine/waiting-for.ts';
import type { RollOutOrders } from '../../api/fleet/roll-out-orders.ts';

/** A workload that keeps pods of a template and selects them by labels: what all kinds have in common. */
export interface Workload extends KubeObject {
  readonly spec: {
    readonly selector: LabelSelector;
    readonly template: PodTemplate;
    readonly revisionHistoryLimit?: number;
    readonly volumeClaimTemplates?: readonly JsonObject[];
    readonly updateStrategy?: { readonly type?: string; readonly rollingUpdate?: { readonly paused?: boolean } };
  };
  readonly status?: {
    readonly collisionCount?: number;
    readonly currentRevision?: string;
    readonly updateRevision?: string;
    readonly observedGeneration?: number;
    readonly replicas?: number;
    readonly availableReplicas?: number;
    readonly updatedReplicas?: number;
    readonly updatedReadyReplicas?: number;
    readonly updatedAvailableReplicas?: number;
    /** How many pods are to be updated. Absent: all. */
    readonly expectedUpdatedReplicas?: number;
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      readonly reason?: string;
      readonly message?: string;
    }[];
    readonly waitingFor?: WaitingFor;
    readonly rollOut?: RollOutOrders;
  } & object;
}

/** The workload is being deleted. */
export function isGoing({ metadata }: KubeObject): boolean {
  return metadata.deletionTimestamp !== undefined;
}
