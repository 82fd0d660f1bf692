import type { KubeObject } from '../../api/core/meta.ts';
import type { WaitingFor } from '../../api/engine/waiting-for.ts';
import type { ControllerRevision } from '../../api/fleet/revision.ts';
import type { RollOutOrders } from '../../api/fleet/roll-out-orders.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { NamedKind } from '../kind-words.ts';

/** An object whose changes are rolled out, as far as the commands read it. */
export interface RolledOut extends KubeObject {
  readonly spec: object;
  readonly status?: {
    readonly observedGeneration?: number;
    readonly updateRevision?: string;
    readonly waitingFor?: WaitingFor;
    readonly rollOut?: RollOutOrders;
  };
}

/** How far a roll-out is, in one line. */
export interface Progress {
  readonly line: string;
  readonly isDone: boolean;
}

/** What the verbs of `kubectl kruise rollout` need of a kind. It is only ever given objects that were read as its own. */
export interface RolloutKind<Owner extends RolledOut = RolledOut> extends NamedKind {
  /**
   * Reads the progress off an object (KK-7, KK-8, KK-10). Throws CommandFailed for a roll-out that cannot end, or that
   * does not exist because people update the pods.
   */
  progress(owner: Owner, means: { readonly kube: KubeClient; readonly nowMs: number }): Promise<Progress>;
  /** The fields above the pause field: `['updateStrategy', 'rollingUpdate']` of the spec. */
  readonly pausedIn: readonly string[];
  /** What a kind with pods of its own has besides. Absent: history, undo and restart are refused. */
  readonly workload?: {
    /** The ControllerRevisions of the owner, oldest first. */
    revisions(owner: Owner, kube: KubeClient): Promise<readonly ControllerRevision[]>;
    /** The error of an undo without an earlier revision (KK-4). */
    readonly noPrevious: string;
  };
}

/** The status describes the spec of this generation. */
export function isObserved({ metadata, status }: RolledOut): boolean {
  return (status?.observedGeneration ?? 0) >= (metadata.generation ?? 0);
}
