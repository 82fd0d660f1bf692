// How `kubectl kruise plan` plans one SidecarSet.

import { type JsonObject, mergePatch, objectOr } from '../api/base/json.ts';
import { apiVersionOf } from '../api/core/meta.ts';
import { convertSidecarSet } from '../api/sidecar-set/convert.ts';
import { defaultSidecarSet } from '../api/sidecar-set/defaults.ts';
import { typedSpecAsStored } from '../api/sidecar-set/read.ts';
import {
  isNotUpdate,
  type SidecarSet,
  sidecarSets,
  sidecarSetsV1alpha1,
  sidecarSetVersion,
} from '../api/sidecar-set/types.ts';
import { validateSidecarSet } from '../api/sidecar-set/validate.ts';
import type { ClassifiedPod } from '../plan/sidecar-set/classify.ts';
import { planSidecarSet } from '../plan/sidecar-set/planner.ts';
import { nameOf } from '../plan/sidecar-set/scene.ts';
import { decisionOf } from '../plan/sidecar-set/update.ts';
import type { SidecarSetSituation } from '../plan/sidecar-set/waits.ts';
import { sidecarWrite } from '../plan/sidecar-set/write.ts';
import { applyPatch } from './apply.ts';
import { attempt, CommandFailed } from './failure.ts';
import { batchesOf, type PodPlan, type SetPlan, specChanges, summaryOf } from './set-plan.ts';
import { lookAtSidecarSet } from './sidecar-set-look.ts';
import { findObject, refuse, tryOut } from './try-out.ts';
import type { PlanOptions } from './workload-plan.ts';

/** What applying the manifest of a SidecarSet would do to running pods. Throws CommandFailed where it would be rejected. */
export async function planSidecarSetManifest(
  manifest: JsonObject,
  { cluster: { kube }, now }: PlanOptions,
): Promise<SetPlan> {
  const { name } = objectOr(manifest.metadata);
  if (typeof name !== 'string' || name === '') throw new CommandFailed('a SidecarSet has no metadata.name');
  const resource = sidecarSetVersion(manifest) === 'v1alpha1' ? sidecarSetsV1alpha1 : sidecarSets;
  const id = `SidecarSet "${name}"`;
  const ref = { name };
  const live = await attempt(`Cannot read ${id}`, () => findObject(kube, resource, ref));
  const patch = live && applyPatch(live, manifest);
  const applied = live && patch ? mergePatch(live, patch) : manifest;
  // The API server's answer comes first, because that is what the user would see.
  const tried = await tryOut(kube, { id, resource, ref, wanted: manifest, patch });
  const after = defaultSidecarSet(tried.object ?? applied);
  const verdict = validateSidecarSet(after, live);
  refuse(id, verdict.problems);
  const set = asSidecarSet(after, live);
  const before = live && convertSidecarSet(live, apiVersionOf(sidecarSets))?.object;
  const { input, notes } = await attempt(`Cannot list the pods of ${id}`, () =>
    lookAtSidecarSet(set, { kube, nowMs: now() }),
  );
  const { situation } = planSidecarSet(input);
  if (situation === undefined) throw new CommandFailed(`${id} is being deleted`);
  const { scene, update } = situation;
  const pods = podPlans(situation);
  const { latestRevision = '' } = set.status ?? {};
  return {
    kind: 'SidecarSet',
    namespace: '',
    name,
    exists: live !== undefined,
    changes: before === undefined ? [] : specChanges(before, set),
    revision: { from: latestRevision, to: scene.revisions.latest },
    paused: set.spec.updateStrategy?.paused === true,
    batchSize: Math.max(update.demand.budget.most, 1),
    summary: summaryOf(pods),
    batches: batchesOf(pods),
    pods,
    notes: [...pace(situation), ...tried.notes, ...verdict.warnings, ...notes],
  };
}

/** A SidecarSet that does not exist yet has no UID, and manages no pods. */
function asSidecarSet(after: JsonObject, live: JsonObject | undefined): SidecarSet {
  const { object } = convertSidecarSet(after, apiVersionOf(sidecarSets)) ?? { object: after };
  const nobody = { uid: '', resourceVersion: '', creationTimestamp: '' };
  const { uid, resourceVersion, creationTimestamp } = objectOr(live?.metadata);
  const own = live === undefined ? {} : { uid, resourceVersion, creationTimestamp };
  return {
    ...object,
    metadata: { ...objectOr(object.metadata), ...nobody, ...own },
    spec: typedSpecAsStored(objectOr(object.spec)),
    ...(live?.status !== undefined && { status: live.status }),
  } as unknown as SidecarSet;
}

/** The pods in the order of their update, then those that keep what they have. */
function podPlans({ scene, update }: SidecarSetSituation): readonly PodPlan[] {
  if (isNotUpdate(scene.owner.spec.updateStrategy)) {
    const why = 'type NotUpdate: running pods are not updated';
    return scene.pods.map(({ pod }) => ({ pod: nameOf(pod), action: 'kept', reason: 'NotUpdate', why }));
  }
  const { line, kept, budget } = update.demand;
  const atOnce = Math.max(budget.most, 1);
  const inLine = new Set(line);
  const keeps = new Set(kept);
  return [
    ...line.map((found, index) => updatedPod(found, scene, Math.floor(index / atOnce) + 1)),
    ...scene.pods.filter((found) => !inLine.has(found)).map((found) => keptPod(found, keeps.has(found))),
  ];
}

function updatedPod({ pod }: ClassifiedPod, { target, now }: SidecarSetSituation['scene'], batch: number): PodPlan {
  const decision = decisionOf(sidecarWrite(target, pod, now));
  const named = { pod: nameOf(pod) };
  switch (decision.kind) {
    case 'update': {
      const { containers } = decision;
      if (containers.length === 0) {
        return {
          ...named,
          action: 'inPlace',
          batch,
          containers: [],
          reason: 'MetadataChanges',
          why: 'annotations only',
        };
      }
      const why = `containers ${containers.join(', ')}`;
      return { ...named, action: 'inPlace', batch, containers: [containers], reason: 'ContainersChange', why };
    }
    case 'swap': {
      const { containers } = decision;
      const why = `the new images start in ${containers.join(', ')}`;
      return { ...named, action: 'inPlace', batch, containers: [containers], reason: 'SidecarsSwap', why };
    }
    case 'inProgress':
      return { ...named, action: 'kept', reason: 'UnderWay', why: 'an earlier change is finished first' };
    case 'impossible':
      return { ...named, action: 'impossible', reason: 'CannotChange', why: decision.why };
  }
}

function keptPod({ pod, place }: ClassifiedPod, isKept: boolean): PodPlan {
  const named = { pod: nameOf(pod) };
  switch (place.kind) {
    case 'updated':
      return { ...named, action: 'kept', reason: 'Arrived', why: 'it has this content already' };
    case 'notSelected':
      return { ...named, action: 'kept', reason: 'NotSelected', why: 'not selected by updateStrategy, or skipped' };
    case 'notUpgradable': {
      const { path } = place;
      const why = `${path ?? 'more than an image'} differs: only a new pod gets it`;
      return {
        ...named,
        action: 'impossible',
        ...(path !== undefined && { field: path }),
        reason: 'NotUpgradable',
        why,
      };
    }
    case 'inProgress':
      return { ...named, action: 'kept', reason: 'UnderWay', why: 'an earlier change is finished first' };
    case 'waiting':
      return isKept
        ? { ...named, action: 'kept', reason: 'Partition', why: 'kept by the partition' }
        : { ...named, action: 'kept', reason: 'UnderWay', why: 'it waits for its turn' };
  }
}

/** Other settings that decide when pods are updated. */
function pace({ scene, update }: SidecarSetSituation): readonly string[] {
  const { line, budget } = update.demand;
  if (line.length === 0 || isNotUpdate(scene.owner.spec.updateStrategy)) return [];
  return [
    ...(scene.owner.spec.updateStrategy?.paused ? ['paused is true: nothing starts until it is false'] : []),
    ...(budget.most === 0 ? ['maxUnavailable is 0: only pods that are not ready are updated'] : []),
  ];
}
