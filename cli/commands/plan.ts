// `kubectl kruise plan`: what applying these manifests would do, pod by pod, computed by the code that would do it.

import { isJsonObject, type JsonObject } from '../../api/base/json.ts';
import { type PerKind, partsOf } from '../../api/per-kind.ts';
import { isCloneSet, type PlanOptions, planCloneSet } from '../cloneset-plan.ts';
import { CommandFailed } from '../failure.ts';
import type { ManifestObject } from '../manifests.ts';
import type { SetPlan } from '../set-plan.ts';
import { isSidecarSet, planSidecarSetManifest } from '../sidecar-set-plan.ts';

export interface PlanAnswer {
  readonly plans: readonly SetPlan[];
  /** One for each manifest that would be rejected, or could not be read. */
  readonly failures: readonly string[];
  readonly notes: readonly string[];
}

/** How objects of a kind are planned. */
interface Planner {
  readonly kind: string;
  readonly isOfKind: (object: JsonObject) => boolean;
  readonly plan: (manifest: JsonObject, options: PlanOptions) => Promise<SetPlan>;
}

/** The planner of each kind. */
const plannersOfKinds: PerKind<Planner> = {
  CloneSet: { kind: 'CloneSet', isOfKind: isCloneSet, plan: planCloneSet },
  ContainerRecreateRequest: 'none',
  PodProbeMarker: 'none',
  NodePodProbe: 'none',
  ImageListPullJob: 'none',
  ImagePullJob: 'none',
  NodeImage: 'none',
  SidecarSet: { kind: 'SidecarSet', isOfKind: isSidecarSet, plan: planSidecarSetManifest },
  StatefulSet: 'none',
};

const planners = partsOf(plannersOfKinds);

/** Plans each object of a kind that has a planner. A failure does not keep the others from being planned. */
export async function planManifests(objects: readonly ManifestObject[], options: PlanOptions): Promise<PlanAnswer> {
  const asked = objects.map(({ object }) => ({ object, planner: planners.find(({ isOfKind }) => isOfKind(object)) }));
  const kinds = planners.map(({ kind }) => kind);
  if (asked.every(({ planner }) => planner === undefined)) {
    throw new CommandFailed(`no ${kinds.join(' or ')} among the objects given`);
  }

  const planned = kinds.map((kind) => `${kind}s`).join(' and ');
  const plans: SetPlan[] = [];
  const failures: string[] = [];
  const notes: string[] = [];
  for (const { object, planner } of asked) {
    if (planner === undefined) {
      notes.push(`skipped ${nameOf(object)}: only ${planned} are planned`);
      continue;
    }
    try {
      plans.push(await planner.plan(object, options));
    } catch (error) {
      if (!(error instanceof CommandFailed)) throw error;
      failures.push(error.message);
    }
  }
  return { plans, failures, notes };
}

function nameOf(object: JsonObject): string {
  const metadata = isJsonObject(object.metadata) ? object.metadata : {};
  return `${String(object.kind)} "${String(metadata.name ?? '')}"`;
}
