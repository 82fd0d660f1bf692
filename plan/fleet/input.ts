/** Input and output of the planners of fleets, as far as they are the same for every kind. */

import type { FailureType } from '../../api/core/failure.ts';
import type { KubeObject } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import { isControlledBy } from '../../api/core/refs.ts';
import type { EngineTrouble } from '../../api/engine/engine-trouble.ts';
import type { FeatureGates } from '../../api/feature-gates.ts';
import type { ControllerRevision } from '../../api/fleet/revision.ts';
import type { RollOutOrders } from '../../api/fleet/roll-out-orders.ts';
import type { ImagePullJob } from '../../api/image-pull-job/types.ts';
import type { NodeImage } from '../../api/node-image/types.ts';
import type { FleetPlan, Permit, Undo } from './permit.ts';
import type { RefusedUpdates } from './refused-updates.ts';
import type { Intention } from './steps.ts';

/** Failures of the last plan's steps. */
export interface FleetFailures {
  readonly scale?: string;
  /** Absent: unknown. */
  readonly scaleType?: FailureType;
  /** Which one failed. Absent: unknown. */
  readonly scaleStep?: 'create' | 'delete';
  /** Not one of the wanted pods could be created. */
  readonly nothingCreated?: boolean;
  readonly update?: string;
  readonly updateType?: FailureType;
  /** The revision of the template could not be recorded. */
  readonly revision?: string;
  readonly revisionType?: FailureType;
  /** The longest time until the next retry. Absent: unknown. */
  readonly retriedWithinMs?: number;
}

/** Orders that do not all stand in the object yet. */
export interface HeldOrders {
  readonly orders: RollOutOrders;
  /** Why they could not be written. Absent: that is being tried. */
  readonly because?: string;
}

/** The parts of a pod's PVC that are read. */
export interface VolumeClaim extends Pick<KubeObject, 'metadata'> {
  readonly spec?: {
    readonly accessModes?: readonly string[];
    readonly storageClassName?: string;
    readonly resources?: { readonly requests?: { readonly storage?: string } };
  };
  readonly status?: {
    readonly capacity?: { readonly storage?: string };
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
  };
}

/**
 * The input of the planner of every kind: a workload with everything that belongs to it. `fleetInput` creates it, for
 * the watcher from its caches and for the command line from the API server.
 */
export interface FleetInput<Owner> {
  readonly owner: Owner;
  /** Every pod that the owner controls: finished ones, those being deleted, those that its selector no longer selects. */
  readonly pods: readonly Pod[];
  /** Pods of the namespace without a controller, for kinds that adopt pods. Absent: none is adopted. */
  readonly orphans?: readonly Pod[];
  /** Every PVC that may be one of its pods': the planner decides which are. */
  readonly claims: readonly VolumeClaim[];
  /** UIDs of PVCs whose pod was deleted and which have to be deleted with it. Absent: none. */
  readonly owedClaims?: ReadonlySet<string>;
  /** Its own revisions, and those of its namespace without a controller. */
  readonly revisions: readonly ControllerRevision[];
  /** Every job that the owner controls and that pre-downloads images. Absent: none. */
  readonly pullJobs?: readonly ImagePullJob[];
  /**
   * The images of the nodes on which images can be pulled, by node; undefined for a node whose NodeImage does not exist yet.
   * For workloads whose roll-outs wait for images. Absent: not known, so no roll-out waits.
   */
  readonly nodeImages?: ReadonlyMap<string, NodeImage | undefined>;
  readonly gates: FeatureGates;
  /** Whether the API server resizes pods through the subresource `resize`. */
  readonly hasResizeSubresource: boolean;
  readonly nowMs: number;
  /** The permit to disrupt, submitted by the roll-out. Everything else is done without one. */
  readonly permit?: Permit;
  /**
   * The update revision `from` is undone: its pods, and new ones, are to have revision `to` instead. Absent: the orders
   * of the owner apply.
   */
  readonly undo?: Undo;
  /**
   * Since when an update has waited for its permit. A short time without a permit, between two of them and before the
   * first one, is normal and not reported. Absent: for long, as far as known.
   */
  readonly withoutPermitSinceMs?: number;
  /** Why Temporal does not continue the roll-out of the owner. Absent: it does, as far as is known. */
  readonly engine?: EngineTrouble;
  /** The orders with what operators hold and does not stand in the owner yet. Absent: they are those of the owner. */
  readonly held?: HeldOrders;
  /** Why the daemon of the node of a pod does not act. Absent: it does, as far as is known. */
  readonly daemonTrouble?: (pod: Pod) => EngineTrouble | undefined;
  /** What failed when the last plan was carried out. Absent: nothing. */
  readonly failures?: FleetFailures;
  /** Updates that a budget has just refused, and which budget. */
  readonly refusals?: readonly { readonly pod: string; readonly by: string }[];
  /** Updates that the API server has refused. Absent: none. */
  readonly refused?: RefusedUpdates;
  /** UIDs of the pods of which an update got no answer, so that it may still be made: they count as disrupted. Absent: none. */
  readonly inDoubt?: ReadonlySet<string>;
  /**
   * UIDs of PVCs of which a change, and of pods of which a deletion, got no answer, with the time until which it may still be made.
   * Absent: none.
   */
  readonly unanswered?: ReadonlyMap<string, number>;
  /** The maximum number of updates to begin in this pass, regardless of the budget. Absent: no limit. */
  readonly mostStarts?: number;
  /**
   * Whether no new pod may have this name, although no pod of the owner has it: it belongs to another pod, or did until
   * a moment ago.
   */
  readonly isSpent: (podName: string) => boolean;
  /** The maximum number of such names. Absent: none. */
  readonly spentNames?: number;
}

/** The objects that may belong to a workload, from caches or from the API server. */
export interface FoundOfFleet
  extends Pick<FleetInput<unknown>, 'pods' | 'orphans' | 'claims' | 'revisions' | 'pullJobs' | 'nodeImages'> {}

/** The input of the planners: of the found objects those that the owner controls, and PVCs that may be its pods'. */
export function fleetInput<Owner extends KubeObject>(
  owner: Owner,
  found: FoundOfFleet,
  facts: Omit<FleetInput<Owner>, 'owner' | keyof FoundOfFleet>,
): FleetInput<Owner> {
  const isOwn = (object: Pick<KubeObject, 'metadata'>) => isControlledBy(owner, object);
  return {
    ...facts,
    ...found,
    owner,
    pods: found.pods.filter(isOwn),
    ...(found.pullJobs && { pullJobs: found.pullJobs.filter(isOwn) }),
  };
}

/** The decisions of the planner of a kind. */
export interface WorkloadPlan<Status> extends FleetPlan<Intention> {
  /** To be written before anything else; absent when it is unchanged. */
  readonly status?: Status;
  /** An update waits for its permit and for nothing else. */
  readonly lacksPermit?: boolean;
}
