// How `kubectl kruise plan` plans one workload.

import { type JsonObject, mergePatch, objectOr } from '../api/base/json.ts';
import { apiVersionOf } from '../api/core/meta.ts';
import type { FeatureGates } from '../api/feature-gates.ts';
import type { FleetInput } from '../plan/fleet/input.ts';
import type { Workload } from '../plan/fleet/workload.ts';
import { applyPatch } from './apply.ts';
import type { Cluster } from './cluster.ts';
import { attempt, CommandFailed } from './failure.ts';
import { type SetPlan, setPlan } from './set-plan.ts';
import { findObject, refuse, tryOut } from './try-out.ts';
import { versionOf, type WorkloadKind } from './workload.ts';
import { lookAround } from './workload-look.ts';

export interface PlanOptions {
  readonly cluster: Cluster;
  readonly gates: FeatureGates;
  /** The namespace given by `-n`: an object of another namespace is then an error. */
  readonly givenNamespace: string | undefined;
  readonly now: () => number;
}

/** What applying the manifest of a workload would do. Throws CommandFailed where it would be rejected. */
export async function planWorkload<Owner extends Workload, Input extends FleetInput<Owner>>(
  kind: WorkloadKind<Owner, Input>,
  manifest: JsonObject,
  options: PlanOptions,
): Promise<SetPlan> {
  const { cluster, gates, givenNamespace, now } = options;
  const { kube } = cluster;
  const [stored] = kind.versions;
  const { name, namespace: own } = objectOr(manifest.metadata);
  if (typeof name !== 'string' || name === '') throw new CommandFailed(`a ${stored.kind} has no metadata.name`);
  if (givenNamespace !== undefined && typeof own === 'string' && own !== givenNamespace) {
    throw new CommandFailed(
      `the namespace from the provided object "${own}" does not match the namespace "${givenNamespace}". ` +
        `You must pass '--namespace=${own}' to perform this operation.`,
    );
  }
  const namespace = typeof own === 'string' && own !== '' ? own : cluster.namespace;
  const resource = versionOf(kind, manifest) ?? stored;
  const ref = { namespace, name };
  const id = `${stored.kind} "${namespace}/${name}"`;

  const live = await attempt(`Cannot read ${id}`, () => findObject(kube, resource, ref));
  const wanted = { ...manifest, metadata: { ...objectOr(manifest.metadata), namespace } };
  const patch = live && applyPatch(live, wanted);
  const applied = live && patch ? mergePatch(live, patch) : wanted;
  const defaulted = kind.fillDefaults(applied, gates, live);

  // The API server's answer comes first, because that is what the user would see.
  const tried = await tryOut(kube, { id, resource, ref, wanted, patch });
  const after = kind.fillDefaults(tried.object ?? defaulted, gates, live);
  refuse(id, live === undefined ? kind.validate(after) : kind.validateUpdate(live, after));
  const converted = kind.convert(after, apiVersionOf(stored));
  const before = live && kind.convert(live, apiVersionOf(stored))?.object;
  if (converted === undefined)
    throw new CommandFailed(`${id}: apiVersion "${String(manifest.apiVersion)}" is not supported`);
  const owner = asOwner(converted.object, before, ref) as unknown as Owner;
  const { input, notes } = await lookAround(kind, owner, { kube, gates, nowMs: now() });
  const play = kind.planner.play(input);
  if (play === undefined) throw new CommandFailed(`${id}: spec.selector is invalid`);
  return setPlan({
    ...{ kind: stored.kind, owner, before, play, strategy: kind.planner.strategy(input) },
    notes: [...tried.notes, ...converted.warnings, ...(kind.warnings?.(after, live, gates) ?? []), ...notes],
  });
}

/** A workload that does not exist yet has no UID, and so owns no pods. */
function asOwner(
  object: JsonObject,
  before: JsonObject | undefined,
  ref: { readonly namespace: string; readonly name: string },
): JsonObject {
  const { uid, resourceVersion, creationTimestamp, ...metadata } = objectOr(object.metadata);
  const own = before === undefined ? {} : { uid, resourceVersion, creationTimestamp };
  const nobody = { uid: '', resourceVersion: '', creationTimestamp: '' };
  return { ...object, metadata: { ...metadata, ...ref, ...nobody, ...own }, status: before?.status };
}
