/** What a planner of a fleet looks at and what it decides, as far as that is the same for every kind. */

import type { FailureType } from '../../../api/core/failure.ts';
import type { KubeObject } from '../../../api/core/meta.ts';
import type { Pod } from '../../../api/core/pod.ts';
import type { EngineTrouble } from '../../../api/engine/engine-trouble.ts';
import type { FeatureGates } from '../../../api/feature-gates.ts';
import type { RollOutFacts } from '../../../api/fleet/operation.ts';
import type { ControllerRevision } from '../../../api/fleet/revision.ts';
import type { ImagePullJob } from '../../../api/image-pull-job/types.ts';
import type { FleetPlan, Permit } from './permit.ts';
import type { Intention } from './steps.ts';

/** What went wrong when the last plan was carried out. */
export interface FleetFailures {
  readonly scale?: string;
  /** Absent: nobody knows. */
  readonly scaleType?: FailureType;
  /** Not one of the wanted pods could be created. */
  readonly nothingCreated?: boolean;
  readonly update?: string;
  readonly updateType?: FailureType;
  /** The revision of the template could not be recorded. */
  readonly revision?: string;
  readonly revisionType?: FailureType;
  /** How long it takes at most until it is tried again, if it fails once more. Absent: nobody knows. */
  readonly retriedWithinMs?: number;
}

/** What every kind looks at: a workload with all that it controls, from the caches. */
export interface FleetInput<Owner> {
  readonly owner: Owner;
  readonly pods: readonly Pod[];
  readonly claims: readonly KubeObject[];
  /** UIDs of PVCs whose pod was deleted and which have to go with it. */
  readonly owedClaims?: ReadonlySet<string>;
  /** Its own, and those of its namespace that nobody controls. */
  readonly revisions: readonly ControllerRevision[];
  readonly pullJobs: readonly ImagePullJob[];
  readonly gates: FeatureGates;
  /** Whether the API server resizes pods through a subresource of theirs. */
  readonly hasResizeSubresource: boolean;
  readonly nowMs: number;
  readonly engine?: EngineTrouble;
  /** Whether no new pod may have this name. */
  readonly isSpent: (podName: string) => boolean;
  readonly spentNames: number;
  readonly failures?: FleetFailures;
  /** How many updates are begun in this pass at most. Absent: no matter how many. */
  readonly mostStarts?: number;
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

/** When and under which permit is planned. */
export interface PlanContext {
  readonly nowMs: number;
  readonly permit?: Permit;
  /** Since when an update has waited for its permit. */
  readonly withoutPermitSinceMs: number;
}
