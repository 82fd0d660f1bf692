/**
 * The steps that the planner of a workload may request. They are plain values and the same for every kind; the watcher
 * carries them out (`watcher/fleet/writer.ts`).
 */

import type { JsonObject } from '../../api/base/json.ts';
import type { EventText } from '../../api/core/event.ts';
import type { NewRevision } from '../../api/fleet/revision.ts';
import type { PodWrite } from './in-place/update.ts';
import type { AsSeen } from './pods.ts';

/** One step for a workload in the cluster. */
export type Intention =
  | { readonly kind: 'createRevision'; readonly revision: NewRevision }
  | { readonly kind: 'patchRevision'; readonly revision: AsSeen; readonly patch: JsonObject }
  | { readonly kind: 'deleteRevision'; readonly revision: AsSeen }
  /** The PVCs first; an existing one is used. */
  | {
      readonly kind: 'createPod';
      readonly name: string;
      readonly claims: readonly JsonObject[];
      readonly pod: JsonObject;
    }
  /** The pod, then its PVCs. */
  | { readonly kind: 'deletePod'; readonly pod: AsSeen; readonly claims: readonly AsSeen[] }
  | {
      readonly kind: 'writePod';
      readonly pod: AsSeen;
      readonly why: WriteReason;
      readonly writes: readonly PodWrite[];
      /** Of a pod that is held before its update: its new revision. */
      readonly revision?: string;
    }
  /** A strategic merge patch that makes the workload its controller; not once the workload is being deleted. */
  | { readonly kind: 'adoptPod'; readonly pod: AsSeen; readonly patch: JsonObject }
  /** The drain first, until Services have seen it; then the writes. */
  | {
      readonly kind: 'updatePod';
      readonly pod: AsSeen;
      readonly revision: string;
      readonly drain?: PodWrite;
      readonly writes: readonly PodWrite[];
      /** Absent: `writes` is all, and one write. */
      readonly trial?: UpdateTrial;
    }
  /** Deletes the pod, or marks it for its deletion, which is upkeep then; it is recreated as upkeep in either case. */
  | {
      readonly kind: 'recreatePod';
      readonly pod: AsSeen;
      readonly revision: string;
      /** Of a pod that is marked. Absent: it is deleted. */
      readonly mark?: { readonly write: PodWrite; readonly trial: UpdateTrial };
    }
  | ({ readonly kind: 'tryUpdate' } & UpdateTrial)
  /** A PVC that a pod lacks; an existing one is used. */
  | { readonly kind: 'createClaim'; readonly name: string; readonly body: JsonObject; readonly podName: string }
  /** `ofDeletedPod`: whatever has been written to it since it was read. */
  | { readonly kind: 'deleteClaim'; readonly claim: AsSeen; readonly ofDeletedPod?: true }
  /** A strategic merge patch. */
  | { readonly kind: 'writeClaim'; readonly claim: AsSeen; readonly patch: JsonObject }
  /** A merge patch of a PVC of this pod, before the update of the pod. */
  | { readonly kind: 'resizeClaim'; readonly pod: AsSeen; readonly claim: AsSeen; readonly patch: JsonObject }
  /** The jobs, each of which may exist already; then a merge patch of the revision, if there is anything to record. */
  | {
      readonly kind: 'preDownload';
      readonly jobs: readonly JsonObject[];
      readonly revision: AsSeen;
      readonly marks?: JsonObject;
    }
  | { readonly kind: 'deletePullJob'; readonly job: AsSeen }
  /** A merge patch of the workload itself. */
  | { readonly kind: 'writeOwner'; readonly patch: JsonObject }
  | { readonly kind: 'event'; readonly event: EventText };

/** What a dry run of an update tries: all that is going to be written, whatever is written first and waited for in between. */
export interface UpdateTrial {
  readonly pod: AsSeen;
  readonly revision: string;
  readonly writes: readonly PodWrite[];
  /** The pod is deleted as well. */
  readonly deletes?: true;
}

export type WriteReason =
  /** It no longer matches the selector. */
  | 'release'
  /** Its state, readiness or labels are updated after a change. */
  | 'refresh'
  /** It is not to be deleted after all. */
  | 'keep'
  /** It is held before its deletion. */
  | 'prepareDelete'
  /** It is held before its update. */
  | 'prepareUpdate';
