// `kubectl kruise plan`: what applying these manifests would do, pod by pod, computed by the code that would do it.

import { enumerated } from '../../api/base/enumerated.ts';
import { isJsonObject, type JsonObject } from '../../api/base/json.ts';
import { group } from '../../api/core/well-known.ts';
import { type PerKind, partsOf } from '../../api/per-kind.ts';
import { sidecarSets, sidecarSetsV1alpha1 } from '../../api/sidecar-set/types.ts';
import type { FleetInput } from '../../plan/fleet/input.ts';
import type { Workload } from '../../plan/fleet/workload.ts';
import { cloneSetWorkload } from '../cloneset.ts';
import { daemonSetWorkload } from '../daemon-set.ts';
import { CommandFailed } from '../failure.ts';
import type { NamedKind } from '../kind-words.ts';
import type { ManifestObject } from '../manifests.ts';
import type { SetPlan } from '../set-plan.ts';
import { planSidecarSetManifest } from '../sidecar-set-plan.ts';
import { statefulSetWorkload } from '../stateful-set.ts';
import { versionOf, type WorkloadKind } from '../workload.ts';
import { type PlanOptions, planWorkload } from '../workload-plan.ts';

export interface PlanAnswer {
  readonly plans: readonly SetPlan[];
  /** One for each manifest that would be rejected, or could not be read. */
  readonly failures: readonly string[];
  readonly notes: readonly string[];
}

/** How objects of a kind are planned. */
interface Planner extends Pick<NamedKind, 'versions'> {
  readonly plan: (manifest: JsonObject, options: PlanOptions) => Promise<SetPlan>;
}

/** The planner of each kind. */
const plannersOfKinds: PerKind<Planner> = {
  CloneSet: workload(cloneSetWorkload),
  ContainerRecreateRequest: 'none',
  PodProbeMarker: 'none',
  NodePodProbe: 'none',
  ImageListPullJob: 'none',
  ImagePullJob: 'none',
  NodeImage: 'none',
  SidecarSet: { versions: [sidecarSets, sidecarSetsV1alpha1], plan: planSidecarSetManifest },
  StatefulSet: workload(statefulSetWorkload),
  DaemonSet: workload(daemonSetWorkload),
};

const planners = partsOf(plannersOfKinds);
const kinds = planners.map(({ versions: [{ kind }] }) => kind);

/** The kinds that are planned, for people. Kubernetes has a StatefulSet as well. */
export const plannedKinds: string = `${enumerated(
  kinds.map((kind) => `${kind}s`),
  'and',
)} of ${group.apps}`;

function workload<Owner extends Workload, Input extends FleetInput<Owner>>(kind: WorkloadKind<Owner, Input>): Planner {
  return { versions: kind.versions, plan: (manifest, options) => planWorkload(kind, manifest, options) };
}

/** Plans each object of a kind that has a planner. A failure does not keep the others from being planned. */
export async function planManifests(objects: readonly ManifestObject[], options: PlanOptions): Promise<PlanAnswer> {
  const asked = objects.map(({ object }) => ({
    object,
    planner: planners.find((planner) => versionOf(planner, object)),
  }));
  if (asked.every(({ planner }) => planner === undefined)) {
    throw new CommandFailed(`no ${enumerated(kinds, 'or')} of ${group.apps} among the objects given`);
  }

  const plans: SetPlan[] = [];
  const failures: string[] = [];
  const notes: string[] = [];
  for (const { object, planner } of asked) {
    if (planner === undefined) {
      notes.push(`skipped ${nameOf(object)}: only ${plannedKinds} are planned`);
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
  return `${String(object.kind)} "${String(metadata.name ?? '')}" of ${String(object.apiVersion)}`;
}
