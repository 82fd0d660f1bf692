/**
 * What the planner of CloneSets sees: plain values, which `plan.ts` makes into steps. Nothing here or there knows the API
 * server, Temporal or a clock.
 */
import type { CloneSet } from '../../../api/cloneset/types.ts';
import type { KubeObject } from '../../../api/core/meta.ts';
import type { Pod } from '../../../api/core/pod.ts';
import type { EngineTrouble } from '../../../api/engine/engine-trouble.ts';
import type { FeatureGates } from '../../../api/feature-gates.ts';
import type { ControllerRevision } from '../../../api/fleet/revision.ts';
import type { ImagePullJob } from '../../../api/image-pull-job/types.ts';
import type { NodeImage } from '../../../api/node-image/types.ts';
import type { FleetFailures } from '../fleet/input.ts';
import type { Permit, Undo } from '../fleet/permit.ts';

/** A claim of a pod for a volume, as far as it is read. */
export type VolumeClaim = Pick<KubeObject, 'metadata'>;

/** Everything that a pass decides on. */
export interface CloneSetWorld {
  readonly set: CloneSet;
  /** Every pod that the set controls: finished ones, those being deleted, those that its selector no longer chooses. */
  readonly pods: readonly Pod[];
  /** Every claim that the set controls. */
  readonly claims: readonly VolumeClaim[];
  /** UIDs of claims whose pod was deleted and which have to go with it. Absent: none. */
  readonly owedClaims?: ReadonlySet<string>;
  /** Every revision of the namespace that may be the set's; those of others are told apart here. */
  readonly revisions: readonly ControllerRevision[];
  /** Labels of nodes by name, for the spreading of pods. May be empty when the template does not spread them. */
  readonly nodes: ReadonlyMap<string, Readonly<Record<string, string>>>;
  /** Every job that the set controls and that pulls images ahead. Absent: none. */
  readonly pullJobs?: readonly ImagePullJob[];
  /**
   * The images of the nodes on which somebody pulls, by node, undefined for a node that nobody can ask yet; for sets whose
   * roll-outs wait for images. Absent: nobody knows, so nothing waits.
   */
  readonly nodeImages?: ReadonlyMap<string, NodeImage | undefined>;
  readonly gates: FeatureGates;
  /** Whether the API server resizes pods through a subresource of theirs. */
  readonly hasResizeSubresource: boolean;
  /** For all sets, whatever they say themselves: pods held before their deletion are replaced at once. */
  readonly excludePreparingDelete: boolean;
  readonly nowMs: number;
  /** The leave to disrupt, handed in by the roll-out. Everything else is done without one. */
  readonly permit?: Permit;
  /**
   * The update revision `from` is taken back: its pods, and new ones, are to be of `to` instead. Absent: what the orders in
   * the annotation of the set say of it.
   */
  readonly undo?: Undo;
  /**
   * Since when an update has waited for its permit. Between two permits, and before the first one, there is a moment
   * without, which is not told. Absent: for long, as far as known.
   */
  readonly withoutPermitSinceMs?: number;
  /** Why Temporal does not go on with the roll-out of the set. Absent: it does, as far as is known. */
  readonly engine?: EngineTrouble;
  /** What went wrong when the last plan was carried out. Absent: nothing. */
  readonly failures?: FleetFailures;
  /** Updates that a budget refused a moment ago, and who refused them. */
  readonly refusals?: readonly { readonly pod: string; readonly by: string }[];
  /** How many updates are begun in this pass at most, whatever the budget has room for. Absent: no matter how many. */
  readonly mostStarts?: number;
  /** Whether no new pod may have this name, although no pod of the set has it: it is another's, or was one's just now. */
  readonly isSpent: (podName: string) => boolean;
  /** No more names than these are such. Absent: none. */
  readonly spentNames?: number;
}
