/** What a SidecarSet is decided on by, and what may be done for it. */

import type { JsonObject } from '../../api/base/json.ts';
import type { FailureType } from '../../api/core/failure.ts';
import type { Pod } from '../../api/core/pod.ts';
import type { EngineTrouble } from '../../api/engine/engine-trouble.ts';
import type { ControllerRevision } from '../../api/fleet/revision.ts';
import type { ImagePullJob } from '../../api/image-pull-job/types.ts';
import type { NodeImage } from '../../api/node-image/types.ts';
import type { SidecarSet, SidecarSetStatus } from '../../api/sidecar-set/types.ts';
import type { Wait } from '../decision.ts';
import type { PodWrite } from '../fleet/in-place/update.ts';
import type { HeldOrders } from '../fleet/input.ts';
import type { FleetPlan, Permit } from '../fleet/permit.ts';
import type { AsSeen } from '../fleet/pods.ts';
import type { RefusedUpdates } from '../fleet/refused-updates.ts';
import type { Intention } from '../fleet/steps.ts';
import type { SwapStep } from '../sidecar-swap/model.ts';

/** What a pass decides about the swaps of a SidecarSet. */
export interface SwapPlan {
  /** The hash that they lead to. */
  readonly target: string;
  /** The pods whose operation has to run. */
  readonly wanted: readonly Pod[];
  /** What is written of it besides updates. */
  readonly steps: readonly SidecarSetStep[];
  /** What the steps wait for that were handed in and are not written; by the UID of the pod. */
  readonly waits: ReadonlyMap<string, Wait>;
  /** The steps that were handed in and that nobody wants. */
  readonly nothing: ReadonlyMap<string, string>;
}

/** A SidecarSet with everything that belongs to it: from the caches of the watcher, or from the API server. */
export interface SidecarSetInput {
  readonly owner: SidecarSet;
  /** The pods that it manages (SCS-6). */
  readonly pods: readonly Pod[];
  /** Its revisions, oldest first. */
  readonly history: readonly ControllerRevision[];
  /** Where its revisions are stored. */
  readonly revisionNamespace: string;
  readonly nowMs: number;
  /** The permit to disrupt, submitted by the roll-out. Everything else is done without one. */
  readonly permit?: Permit;
  /** Since when an update has waited for its permit. Absent: for long, as far as known. */
  readonly withoutPermitSinceMs?: number;
  /** Why Temporal does not continue the roll-out. Absent: it does, as far as is known. */
  readonly engine?: EngineTrouble;
  /** The orders with what operators hold and does not stand in the owner yet. Absent: they are those of the owner. */
  readonly held?: HeldOrders;
  /** The steps of swaps that are due, by the UID of the pod: their operations have handed them in. Absent: none. */
  readonly swaps?: ReadonlyMap<string, SwapStep>;
  /** By the UID of a pod: the SidecarSet that is swapped before it there. Absent: none is. */
  readonly inFront?: ReadonlyMap<string, string>;
  /**
   * By name: the nodes of its pods that pull images, with their NodeImages; undefined for one that has none yet. Absent: the
   * SidecarSet waits for no images, or nothing is pre-downloaded in this cluster.
   */
  readonly nodeImages?: ReadonlyMap<string, NodeImage | undefined>;
  /** The ImagePullJobs that it controls. Absent: none. */
  readonly pullJobs?: readonly ImagePullJob[];
  /** What failed when the last plans were carried out. Absent: nothing. */
  readonly failures?: SidecarSetFailures;
  /** Updates that the API server has refused, or that no write can make. Absent: none. */
  readonly refused?: RefusedUpdates;
  /** UIDs of the pods of which an update got no answer, so that it may still be made: they count as disrupted. Absent: none. */
  readonly inDoubt?: ReadonlySet<string>;
  /** The names of SidecarSets with containers of the same names for the same pods. Absent: none. */
  readonly conflicts?: readonly string[];
}

/** Updates that got no answer and are still wanted. */
export interface SidecarSetFailures {
  /** UIDs of the pods. */
  readonly pods: ReadonlySet<string>;
  /** Of the pod that has failed the longest. */
  readonly message: string;
  /** Absent: unknown. */
  readonly type?: FailureType;
  /** The longest time until the next retry. */
  readonly retriedWithinMs: number;
}

/** One thing to do for a SidecarSet. */
export type SidecarSetStep =
  /** Stores the present content as a revision; a name that other content has is a collision (SCS-207). */
  | { readonly kind: 'registerContent'; readonly number: number }
  | Extract<Intention, { readonly kind: 'patchRevision' | 'deleteRevision' | 'deletePullJob' | 'event' }>
  /** Has an image pulled that the roll-out waits for. */
  | { readonly kind: 'createPullJob'; readonly job: JsonObject }
  | { readonly kind: 'writeStatus'; readonly status: SidecarSetStatus }
  /** A merge patch of the SidecarSet itself. */
  | { readonly kind: 'writeOwner'; readonly patch: JsonObject }
  /** The condition of a pod that cannot be updated. */
  | { readonly kind: 'writeCondition'; readonly pod: AsSeen; readonly write: PodWrite }
  /** Gives the pod the images of this revision. `isFree`: only while it is not ready, as it costs no budget then. */
  | { readonly kind: 'updateSidecars'; readonly pod: AsSeen; readonly revision: string; readonly isFree: boolean }
  /** Writes the first step of the swap of a pod, to this revision: its operation waits for that. */
  | { readonly kind: 'swapSidecars'; readonly pod: AsSeen; readonly step: 'begin'; readonly revision: string }
  /** The same of a later one. */
  | { readonly kind: 'swapSidecars'; readonly pod: AsSeen; readonly step: Exclude<SwapStep, 'begin'> }
  /** Tries the update of a pod to this revision in a dry run. */
  | { readonly kind: 'tryUpdate'; readonly pod: AsSeen; readonly revision: string; readonly isSwap: boolean };

/** The decisions about a SidecarSet. */
export interface SidecarSetPlan extends FleetPlan<SidecarSetStep> {
  /** Absent: nothing was decided on. */
  readonly swaps?: SwapPlan;
  /** An update waits for its permit and for nothing else. */
  readonly lacksPermit?: boolean;
}
