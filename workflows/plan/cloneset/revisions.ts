/** Which revisions a CloneSet has now: the one that its template stands for, the one it comes from, those to forget. */
import { type CloneSet, cloneSetDefault } from '../../../api/cloneset/types.ts';
import { labelMatcher } from '../../../api/core/label-selector.ts';
import {
  type ControllerRevision,
  currentRevisionOf,
  decideUpdateRevision,
  type NewRevision,
  type RevisionOwner,
  revisionsOf,
  revisionsToPrune,
} from '../../../api/fleet/revision.ts';
import type { Intention } from '../fleet/steps.ts';
import { asSeen, type FleetPod } from './fleet.ts';
import type { CloneSetWorld } from './input.ts';
import { ownerApiVersion } from './pods.ts';
import type { Scene } from './scene.ts';

/** The revisions that the rest of a pass works with. */
export interface Revisions {
  /** All that count, oldest first (CS-84). */
  readonly all: readonly ControllerRevision[];
  /** What the template stands for. */
  readonly update: ControllerRevision;
  /** What all pods were of last, as far as it is still there (CS-85). */
  readonly current: ControllerRevision;
  /** What has to be written for that. */
  readonly steps: readonly Intention[];
}

/** The revisions as they are, or the one that has to be created before anything else can be decided. */
export function chooseRevisions({ set, revisions }: Pick<CloneSetWorld, 'set' | 'revisions'>):
  | {
      readonly kind: 'create';
      readonly revision: NewRevision;
      /** Those that there are. */
      readonly known: readonly ControllerRevision[];
    }
  | ({ readonly kind: 'found' } & Revisions) {
  const isSelected = labelMatcher(set.spec.selector) ?? (() => false);
  const known = revisionsOf(set.metadata.uid, revisions, isSelected);
  const decision = decideUpdateRevision(ownerOf(set), known, set.status?.collisionCount ?? 0);
  if (decision.kind === 'create') return { ...decision, known };

  const { revision: update } = decision;
  const name = update.metadata.name;
  const all = [...known.filter(({ metadata }) => metadata.name !== name), update];
  const current = currentRevisionOf(set.status?.currentRevision, all, update);
  const steps: readonly Intention[] =
    decision.kind === 'renumber' ? [{ kind: 'patchRevision', revision: asSeen(update), patch: decision.patch }] : [];
  return { kind: 'found', all, update, current, steps };
}

/** What an undo returns to: where the pods come from or, once all are updated, what was wanted before. */
export function previousRevision({ all, update, current }: Revisions): ControllerRevision | undefined {
  if (current.metadata.name !== update.metadata.name) return current;
  return all.filter(({ metadata }) => metadata.name !== update.metadata.name).at(-1);
}

/** CS-86: the revisions that nobody needs any more. */
export function forgottenRevisions(
  { set, target }: Pick<Scene, 'set' | 'target'>,
  { all, update, current }: Revisions,
  counted: readonly FleetPod[],
): readonly Intention[] {
  const forgotten = revisionsToPrune({
    revisions: all,
    inUse: [update.metadata.name, current.metadata.name, target.metadata.name],
    podLabels: counted.map(({ revision }) => revision),
    limit: set.spec.revisionHistoryLimit ?? cloneSetDefault.revisionHistoryLimit,
  });
  return forgotten.map((revision) => ({ kind: 'deleteRevision', revision: asSeen(revision) }));
}

/** What the set's revisions are made from (CS-80). */
export function ownerOf({ metadata, spec }: CloneSet): RevisionOwner {
  return {
    apiVersion: ownerApiVersion,
    kind: 'CloneSet',
    namespace: metadata.namespace ?? '',
    name: metadata.name,
    uid: metadata.uid,
    annotations: metadata.annotations,
    template: spec.template,
    volumeClaimTemplates: spec.volumeClaimTemplates,
  };
}
