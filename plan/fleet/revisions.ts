/** Which revisions a workload has now: the one of its template, the one its pods come from, those to delete. */

import { labelMatcher } from '../../api/core/label-selector.ts';
import {
  type ControllerRevision,
  currentRevisionOf,
  decideUpdateRevision,
  type NewRevision,
  type RevisionScheme,
  revisionsOf,
  revisionsToPrune,
  unfinishedPatch,
} from '../../api/fleet/revision.ts';
import { asSeen, type FleetPod } from './pods.ts';
import type { Intention } from './steps.ts';
import type { Workload } from './workload.ts';

/** The revisions for the rest of a pass. */
export interface Revisions {
  /** All revisions of the workload, oldest first (CS-84). */
  readonly all: readonly ControllerRevision[];
  /** The revision of the template. */
  readonly update: ControllerRevision;
  /** The last revision that all pods had, if it still exists (CS-85). */
  readonly current: ControllerRevision;
  /** The writes that this requires. */
  readonly steps: readonly Intention[];
}

/** The revisions, or the one that has to be created before anything else can be decided. */
export function chooseRevisions<Owner extends Workload>(
  scheme: RevisionScheme<Owner>,
  { owner, revisions }: { readonly owner: Owner; readonly revisions: readonly ControllerRevision[] },
):
  | {
      readonly kind: 'create';
      readonly revision: NewRevision;
      /** Those that there are. */
      readonly known: readonly ControllerRevision[];
      /** The writes before that. */
      readonly steps: readonly Intention[];
    }
  | ({ readonly kind: 'found' } & Revisions) {
  const { metadata, spec, status } = owner;
  const isSelected = labelMatcher(spec.selector) ?? (() => false);
  const known = revisionsOf(metadata.uid, revisions, isSelected);
  const decision = decideUpdateRevision(scheme.ownerOf(owner), known, status?.collisionCount ?? 0);
  if (decision.kind === 'create') return { ...decision, known, steps: replacedMarks(status, known) };

  const { revision: update } = decision;
  const all = [...known.filter(({ metadata: { name } }) => name !== update.metadata.name), update];
  const current = scheme.keepsCurrent
    ? currentRevisionOf(status?.currentRevision, all, update)
    : (beforeUpdate({ all, update }) ?? update);
  const steps: readonly Intention[] =
    decision.kind === 'renumber' ? [{ kind: 'patchRevision', revision: asSeen(update), patch: decision.patch }] : [];
  const others = all.filter((revision) => revision !== update);
  return { kind: 'found', all, update, current, steps: [...steps, ...replacedMarks(status, others)] };
}

/** Marks the revision that the status still names as that of the template, if it is one of these: another replaces it. */
function replacedMarks(status: Workload['status'], others: readonly ControllerRevision[]): readonly Intention[] {
  const replaced = others.find(({ metadata }) => metadata.name === status?.updateRevision);
  if (replaced === undefined || !status?.replicas) return [];
  const { currentRevision, updateRevision, replicas, updatedReadyReplicas = 0 } = status;
  const isRolledOut = currentRevision === updateRevision && updatedReadyReplicas > 0;
  const patch = unfinishedPatch(replaced, isRolledOut ? undefined : `${updatedReadyReplicas} of ${replicas} pods`);
  return patch ? [{ kind: 'patchRevision', revision: asSeen(replaced), patch }] : [];
}

/**
 * The revision that an undo returns to: that of the old pods or, once all are updated, the previous update revision.
 */
export function previousRevision({ all, update, current }: Revisions): ControllerRevision | undefined {
  return current.metadata.name === update.metadata.name ? beforeUpdate({ all, update }) : current;
}

function beforeUpdate({ all, update }: Pick<Revisions, 'all' | 'update'>): ControllerRevision | undefined {
  return all.filter(({ metadata }) => metadata.name !== update.metadata.name).at(-1);
}

/** CS-86: the revisions that are no longer needed. `limit` unused ones are kept. */
export function forgottenRevisions(
  { all, update, current }: Revisions,
  uses: {
    readonly target: ControllerRevision;
    readonly counted: readonly FleetPod[];
    readonly limit: number;
    /** Whether the current revision counts like any other: no status names it. Absent: it stays. */
    readonly forgetsCurrent?: boolean;
  },
): readonly Intention[] {
  const forgotten = revisionsToPrune({
    revisions: all,
    inUse: [
      ...[update.metadata.name, uses.target.metadata.name],
      ...(uses.forgetsCurrent ? [] : [current.metadata.name]),
    ],
    podLabels: uses.counted.map(({ revision }) => revision),
    limit: uses.limit,
  });
  return forgotten.map((revision) => ({ kind: 'deleteRevision', revision: asSeen(revision) }));
}
