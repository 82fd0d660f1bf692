// How `kubectl kruise plan` plans one CloneSet.

import { type JsonObject, mergePatch, objectOr } from '../api/base/json.ts';
import { convertCloneSet } from '../api/cloneset/convert.ts';
import { defaultCloneSet } from '../api/cloneset/defaults.ts';
import { type CloneSet, cloneSets, cloneSetsV1alpha1, cloneSetVersion } from '../api/cloneset/types.ts';
import { cloneSetWarnings, validateCloneSet, validateCloneSetUpdate } from '../api/cloneset/validate.ts';
import { apiVersionOf } from '../api/core/meta.ts';
import type { FeatureGates } from '../api/feature-gates.ts';
import { previewSet } from '../plan/cloneset/preview.ts';
import { applyPatch } from './apply.ts';
import { cloneSetLook } from './cloneset-look.ts';
import type { Cluster } from './cluster.ts';
import { attempt, CommandFailed } from './failure.ts';
import { type SetPlan, setPlan } from './set-plan.ts';
import { findObject, refuse, tryOut } from './try-out.ts';
import { lookAround } from './workload-look.ts';

export interface PlanOptions {
  readonly cluster: Cluster;
  readonly gates: FeatureGates;
  /** The namespace given by `-n`: an object of another namespace is then an error. */
  readonly givenNamespace: string | undefined;
  readonly now: () => number;
}

/** Whether the object is a CloneSet in a supported version. */
export function isCloneSet(object: JsonObject): boolean {
  return object.kind === cloneSets.kind && cloneSetVersion(object) !== undefined;
}

/** What applying the manifest of a CloneSet would do. Throws CommandFailed where it would be rejected. */
export async function planCloneSet(manifest: JsonObject, options: PlanOptions): Promise<SetPlan> {
  const { cluster, gates, givenNamespace, now } = options;
  const { kube } = cluster;
  const { name, namespace: own } = objectOr(manifest.metadata);
  if (typeof name !== 'string' || name === '') throw new CommandFailed('a CloneSet has no metadata.name');
  if (givenNamespace !== undefined && typeof own === 'string' && own !== givenNamespace) {
    throw new CommandFailed(
      `the namespace from the provided object "${own}" does not match the namespace "${givenNamespace}". ` +
        `You must pass '--namespace=${own}' to perform this operation.`,
    );
  }
  const namespace = typeof own === 'string' && own !== '' ? own : cluster.namespace;
  const resource = cloneSetVersion(manifest) === 'v1alpha1' ? cloneSetsV1alpha1 : cloneSets;
  const ref = { namespace, name };
  const id = `CloneSet "${namespace}/${name}"`;

  const live = await attempt(`Cannot read ${id}`, () => findObject(kube, resource, ref));
  const wanted = { ...manifest, metadata: { ...objectOr(manifest.metadata), namespace } };
  const patch = live && applyPatch(live, wanted);
  const applied = live && patch ? mergePatch(live, patch) : wanted;
  const defaulted = defaultCloneSet(applied, gates, live);

  // The API server's answer comes first, because that is what the user would see.
  const tried = await tryOut(kube, { id, resource, ref, wanted, patch });
  const after = defaultCloneSet(tried.object ?? defaulted, gates, live);
  refuse(id, live === undefined ? validateCloneSet(after) : validateCloneSetUpdate(live, after));
  const converted = convertCloneSet(after, apiVersionOf(cloneSets));
  const before = live && convertCloneSet(live, apiVersionOf(cloneSets))?.object;
  if (converted === undefined)
    throw new CommandFailed(`${id}: apiVersion "${String(manifest.apiVersion)}" is not supported`);
  const set = asCloneSet(converted.object, before, ref);
  const { input, notes } = await lookAround(cloneSetLook, set, { kube, gates, nowMs: now() });
  const preview = previewSet(input);
  if (preview === undefined) throw new CommandFailed(`${id}: spec.selector is invalid`);
  return setPlan({
    set,
    before,
    preview,
    notes: [...tried.notes, ...converted.warnings, ...cloneSetWarnings(after, live), ...notes],
  });
}

/** A CloneSet that does not exist yet has no UID, and so owns no pods. */
function asCloneSet(
  object: JsonObject,
  before: JsonObject | undefined,
  ref: { readonly namespace: string; readonly name: string },
): CloneSet {
  const { uid, resourceVersion, creationTimestamp, ...metadata } = objectOr(object.metadata);
  const own = before === undefined ? {} : { uid, resourceVersion, creationTimestamp };
  const nobody = { uid: '', resourceVersion: '', creationTimestamp: '' };
  return {
    ...object,
    metadata: { ...metadata, ...ref, ...nobody, ...own },
    status: before?.status,
  } as unknown as CloneSet;
}
