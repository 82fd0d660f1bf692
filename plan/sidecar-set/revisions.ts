/** The stored contents of a SidecarSet: which one is to be stored or renamed, and which are surplus (SCS-205 to SCS-209a). */
import { type JsonObject, objectOr } from '../../api/base/json.ts';
import { type ControllerRevision, unfinishedPatch } from '../../api/fleet/revision.ts';
import {
  decideSidecarRevision,
  newSidecarRevision,
  sidecarRevisions,
  surplusRevisions,
} from '../../api/sidecar-set/revision.ts';
import { asSeen } from '../fleet/pods.ts';
import type { SidecarSetInput, SidecarSetStep } from './input.ts';
import { recordedRevision } from './pods.ts';

export interface RevisionPlan {
  /** The name of the revision of the present content, unless it is taken. */
  readonly latest: string;
  /** With the present content, oldest first. */
  readonly history: readonly ControllerRevision[];
  /** Stores the present content. */
  readonly register: readonly SidecarSetStep[];
  /** Deletes what is surplus. */
  readonly forget: readonly SidecarSetStep[];
}

/** `kept`: names of revisions that are needed besides. */
export function planRevisions(
  { owner, pods, history, revisionNamespace }: SidecarSetInput,
  kept: readonly string[],
): RevisionPlan {
  const { latest, after, register } = registration(owner, history, revisionNamespace);
  const onPods = new Set([...kept, ...pods.flatMap((pod) => recordedRevision(pod, owner.metadata.name) ?? [])]);
  const surplus = surplusRevisions(owner, after, { latest, onPods });
  const forget = surplus.map((revision) => ({ kind: 'deleteRevision', revision: asSeen(revision) }) as const);
  return { latest, history: after, register: [...replacedMarks(owner, history, latest), ...register], forget };
}

/** Marks the revision that the status still names as that of the content: another replaces it. */
function replacedMarks(
  { status }: SidecarSetInput['owner'],
  history: readonly ControllerRevision[],
  latest: string,
): readonly SidecarSetStep[] {
  const { latestRevision, matchedPods = 0, updatedPods = 0, updatedReadyPods = 0 } = status ?? {};
  const replaced = history.find(({ metadata }) => metadata.name === latestRevision);
  if (replaced === undefined || latestRevision === latest || matchedPods === 0) return [];
  const isRolledOut = updatedPods >= matchedPods && updatedReadyPods > 0;
  const patch = unfinishedPatch(replaced, isRolledOut ? undefined : `${updatedReadyPods} of ${matchedPods} pods`);
  return patch ? [{ kind: 'patchRevision', revision: asSeen(replaced), patch }] : [];
}

function registration(owner: SidecarSetInput['owner'], history: readonly ControllerRevision[], namespace: string) {
  const decision = decideSidecarRevision(owner, history);
  if (decision.kind === 'create') {
    const { number } = decision;
    const before = owner.status?.collisionCount ?? 0;
    const { metadata, ...revision } = newSidecarRevision(owner, namespace, number, { collisions: before, before });
    const identity = { uid: '', resourceVersion: '', creationTimestamp: '' };
    const stored: ControllerRevision = { ...revision, metadata: { ...metadata, ...identity } };
    const register = [{ kind: 'registerContent', number }] as const;
    return { latest: metadata.name, after: [...history, stored], register };
  }
  const { revision, patch } = decision;
  const latest = revision.metadata.name;
  if (patch === undefined) return { latest, after: history, register: [] };
  const after = sidecarRevisions(
    owner,
    history.map((one) => (one === revision ? patched(one, patch) : one)),
  );
  return { latest, after, register: [{ kind: 'patchRevision', revision: asSeen(revision), patch } as const] };
}

/** The revision with another number, or another custom version. */
function patched(revision: ControllerRevision, patch: JsonObject): ControllerRevision {
  const { metadata } = revision;
  const labels = objectOr(objectOr(patch.metadata).labels) as Readonly<Record<string, string>>;
  const number = typeof patch.revision === 'number' ? patch.revision : revision.revision;
  return { ...revision, revision: number, metadata: { ...metadata, labels: { ...metadata.labels, ...labels } } };
}
