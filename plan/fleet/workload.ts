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
  };
  readonly status?: {
    readonly collisionCount?: number;
    readonly currentRevision?: string;
    readonly updateRevision?: string;
    readonly replicas?: number;
    readonly updatedReadyReplicas?: number;
    readonly waitingFor?: WaitingFor;
    readonly rollOut?: RollOutOrders;
  } & object;
}

/** The workload is being deleted. */
export function isGoing({ metadata }: KubeObject): boolean {
  return metadata.deletionTimestamp !== undefined;
}
