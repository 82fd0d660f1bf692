/** What a planner of a fleet looks at and what it decides, as far as that is the same for every kind. */

import type { FailureType } from '../../../api/core/failure.ts';
import type { KubeObject } from '../../../api/core/meta.ts';
import type { Pod } from '../../../api/core/pod.ts';
import { isControlledBy } from '../../../api/core/refs.ts';
import type { EngineTrouble } from '../../../api/engine/engine-trouble.ts';
import type { FeatureGates } from '../../../api/feature-gates.ts';
import type { RollOutFacts } from '../../../api/fleet/operation.ts';
import type { ControllerRevision } from '../../../api/fleet/revision.ts';
import type { ImagePullJob } from '../../../api/image-pull-job/types.ts';
import type { NodeImage } from '../../../api/node-image/types.ts';
import type { FleetPlan, Permit, Undo } from './permit.ts';
import type { Intention } from './steps.ts';

/** What went wrong when the last plan was carried out. */
export interface FleetFailures {
  readonly scale?: string;
  /** Absent: unknown. */
  readonly scaleType?: FailureType;
  /** Not one of the wanted pods could be created. */
  readonly nothingCreated?: boolean;
  readonly update?: string;
  readonly updateType?: FailureType;
  /** The revision of the template could not be recorded. */
  readonly revision?: string;
  readonly revisionType?: FailureType;
  /** How long it takes at most until it is tried again, if it fails once more. Absent: unknown. */
  readonly retriedWithinMs?: number;
}

/** A PVC of a pod, as far as it is read. */
export type VolumeClaim = Pick<KubeObject, 'metadata'>;

/**
 * What the planner of every kind looks at: a workload with all that belongs to it. `fleetInput` makes it, for the watcher
 * from its caches and for the command line from the API server.
 */
export interface FleetInput<Owner> {
  readonly owner: Owner;
  /** Every pod that the owner controls: finished ones, those being deleted, those that its selector no longer selects. */
  readonly pods: readonly Pod[];
  /** Pods of the namespace without a controller, for kinds that adopt pods. Absent: none is adopted. */
  readonly orphans?: readonly Pod[];
  /** Every PVC that the owner controls. */
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
  /** The permit to disrupt, handed in by the roll-out. Everything else is done without one. */
  readonly permit?: Permit;
  /**
   * The update revision `from` is taken back: its pods, and new ones, are to be of `to` instead. Absent: what the orders in
   * the annotation of the owner say of it.
   */
  readonly undo?: Undo;
  /**
   * Since when an update has waited for its permit. Between two permits, and before the first one, there is a moment
   * without, which is not reported. Absent: for long, as far as known.
   */
  readonly withoutPermitSinceMs?: number;
  /** Why Temporal does not continue the roll-out of the owner. Absent: it does, as far as is known. */
  readonly engine?: EngineTrouble;
  /** What failed when the last plan was carried out. Absent: nothing. */
  readonly failures?: FleetFailures;
  /** Updates that a budget refused a moment ago, and which budget it was. */
  readonly refusals?: readonly { readonly pod: string; readonly by: string }[];
  /** How many updates are begun in this pass at most, whatever the budget has room for. Absent: no limit. */
  readonly mostStarts?: number;
  /** Whether no new pod may have this name, although no pod of the owner has it: it is another's, or was one's just now. */
  readonly isSpent: (podName: string) => boolean;
  /** No more names than these are such. Absent: none. */
  readonly spentNames?: number;
}

/** The objects that may belong to a workload, from caches or from the API server. */
export interface FoundOfFleet
  extends Pick<FleetInput<unknown>, 'pods' | 'orphans' | 'claims' | 'revisions' | 'pullJobs' | 'nodeImages'> {}

/** The input of the planners: of what was found, that which the owner controls. */
export function fleetInput<Owner extends KubeObject>(
  owner: Owner,
  found: FoundOfFleet,
  facts: Omit<FleetInput<Owner>, 'owner' | keyof FoundOfFleet>,
): FleetInput<Owner> {
  const isOwn = (object: VolumeClaim) => isControlledBy(owner, object);
  return {
    ...facts,
    ...found,
    owner,
    pods: found.pods.filter(isOwn),
    claims: found.claims.filter(isOwn),
    ...(found.pullJobs && { pullJobs: found.pullJobs.filter(isOwn) }),
  };
}

/** What the planner of a kind has decided. */
export interface WorkloadPlan<Status> extends FleetPlan<Intention> {
  /** To be written before anything else; absent when the stored one says the same. */
  readonly status?: Status;
  /** Absent: nothing was decided on. */
  readonly rollOut?: RollOutWanted;
  /** An update waits for its permit and for nothing else. */
  readonly lacksPermit?: boolean;
}

/** What the roll-out of a workload has to know, and whether there is one to be. */
export interface RollOutWanted {
  readonly facts: RollOutFacts;
  readonly isWanted: boolean;
}
