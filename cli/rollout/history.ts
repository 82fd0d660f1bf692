// `kubectl kruise rollout history` and `undo`: the templates that a workload has had.

import type { PodTemplate } from '../../api/core/pod-template.ts';
import {
  type ControllerRevision,
  doubtAbout,
  newRevision,
  sameRevision,
  templateOf,
} from '../../api/fleet/revision.ts';
import type { KubeClient } from '../../kube/client.ts';
import { CommandFailed } from '../failure.ts';
import { renderTable } from '../output/table.ts';
import type { RolledOut } from './kind.ts';
import type { Target } from './objects.ts';

/** Where `kubectl` keeps the reason that a user gave for a change. */
const changeCause = 'kubernetes.io/change-cause';

/** KK-3: the revisions as a table. */
export function historyText(revisions: readonly ControllerRevision[]): string {
  if (revisions.length === 0) return 'No rollout history found.';
  const rows = revisions
    .toSorted((left, right) => left.revision - right.revision)
    .map(({ revision, metadata }) => [String(revision), metadata.annotations?.[changeCause] || '<none>']);
  return renderTable(['REVISION', 'CHANGE-CAUSE'], rows);
}

/** KK-3: the revision with this number. */
export function revisionNumbered(revisions: readonly ControllerRevision[], number: number): ControllerRevision {
  const found = revisions.find(({ revision }) => revision === number);
  if (found === undefined) throw new CommandFailed('unable to find the specified revision');
  return found;
}

/** The revisions of a workload; other kinds have none that people know. */
export async function revisionsFor(
  target: Target,
  object: RolledOut,
  { kube, refusal }: { readonly kube: KubeClient; readonly refusal: string },
): Promise<readonly ControllerRevision[]> {
  const { workload, versions } = target.kind;
  if (workload === undefined) throw new CommandFailed(`${refusal} for ${versions[0].kind}`);
  return await workload.revisions(object, kube);
}

/** What an undo does: nothing where the template is that of the revision already. */
export type Undo =
  | { readonly kind: 'skipped' }
  | {
      readonly kind: 'restore';
      readonly template: PodTemplate;
      /** Its number and name, for people. */
      readonly revision: string;
      /** What speaks against it. */
      readonly doubt?: string;
    };

/** KK-4: the template to return to; 0 is the revision before the newest. */
export function undoOf(
  target: Target,
  object: RolledOut & { readonly spec: { readonly template: PodTemplate } },
  { revisions, toRevision }: { readonly revisions: readonly ControllerRevision[]; readonly toRevision: number },
): Undo {
  const ascending = revisions.toSorted((left, right) => left.revision - right.revision);
  if (toRevision === 0 && ascending.length < 2) throw new CommandFailed(target.kind.workload?.noPrevious ?? '');
  const wanted = toRevision === 0 ? ascending.at(-2) : ascending.find(({ revision }) => revision === toRevision);
  const template = wanted && templateOf(wanted);
  if (wanted === undefined || template === undefined) {
    throw new CommandFailed(`unable to find specified revision ${toRevision} in history`);
  }
  const { uid, name, namespace = '' } = object.metadata;
  const [{ group, version, kind }] = target.kind.versions;
  const owner = { apiVersion: `${group}/${version}`, kind, namespace, name, uid, template: object.spec.template };
  if (sameRevision(newRevision(owner, 0), wanted)) return { kind: 'skipped' };
  const doubt = doubtAbout(wanted);
  const revision = `${wanted.revision} (${wanted.metadata.name})`;
  return { kind: 'restore', template, revision, ...(doubt !== undefined && { doubt }) };
}

/** KK-5: the template is replaced as a whole, so that it becomes what it was, and only on the object as it was read. */
export function restorePatch({ metadata }: RolledOut, template: PodTemplate): readonly object[] {
  return [
    { op: 'replace', path: '/metadata/resourceVersion', value: metadata.resourceVersion },
    { op: 'replace', path: '/spec/template', value: template },
  ];
}
