/** What a planner promises of each of its plans, whatever it is told and whatever has happened. */
import { windlassAnnotation } from '../../../api/core/well-known.ts';
import { marksOn } from '../../../api/fleet/lifecycle.ts';
import { prefetchShare } from '../../../api/fleet/pre-download.ts';
import { findTagStatus } from '../../../api/node-image/types.ts';
import type { FleetInput } from '../../../plan/fleet/input.ts';
import type { ScalePlan, Situation } from '../../../plan/fleet/kind.ts';
import { question } from '../../../plan/fleet/permit.ts';
import type { FleetDecision } from '../../../plan/fleet/plan.ts';
import { type FleetPod, isOfRevision } from '../../../plan/fleet/pods.ts';
import { type FleetScene, isAtGoal, isInDoubt, type UpdateDemand, volumesOf } from '../../../plan/fleet/scene.ts';
import type { Intention } from '../../../plan/fleet/steps.ts';
import type { Workload } from '../../../plan/fleet/workload.ts';
import { describe, imageOfRevision, isPaused, takenBy, takenUid, withoutImage } from './steps.ts';
import type { PlayedOwner, PlayedPlan, Stage, Subject } from './subject.ts';

type Breaking = Pick<Stage<unknown>, 'broken'>;
type SomePlan = FleetDecision<unknown, Situation>;

/** What every kind promises of a plan, and what this one does. */
export function checkPlan<
  Owner extends PlayedOwner,
  Input extends FleetInput<Owner>,
  Scene extends FleetScene<Owner, Input>,
  Scale extends ScalePlan,
  Demand extends UpdateDemand,
>(
  subject: Subject<Owner, Input, Scene, Scale, Demand>,
  stage: Stage<Owner>,
  plan: PlayedPlan<Owner, Scene, Scale, Demand>,
  world: Input,
): void {
  const { permit } = world;
  const scene = plan.situation?.scene;
  if (scene === undefined) return;
  const { counted } = scene;
  const limits = subject.budgetOf(scene);
  const isWanted = (pod: FleetPod) => subject.isWanted?.(scene, pod) ?? true;
  const serving = counted.filter(({ isAvailable }) => isAvailable);
  // P-7: what has begun counts as down, and is finished
  const isSpent = (pod: FleetPod) => isInDoubt(scene, pod) || volumesOf(scene, pod).spendsBudget;
  const mayServe = serving.filter((pod) => isWanted(pod) && !isSpent(pod));
  const available = new Map(mayServe.map((pod) => [pod.name, pod]));
  const taken = [...plan.upkeep, ...plan.disruption].flatMap((step) => takenBy(step) ?? []);
  const hit = taken.filter((name) => available.has(name));

  const written = [...plan.upkeep, ...plan.disruption].flatMap((step) =>
    'pod' in step && step.kind !== 'createPod' ? [step.pod.name] : [],
  );
  if (new Set(written).size !== written.length) throw stage.broken('a pod is written twice in one pass');
  checkHooks(stage, [...plan.upkeep, ...plan.disruption], scene);
  const left = available.size - hit.length;
  if (hit.length > 0 && left < limits.replicas - limits.maxUnavailable) {
    throw stage.broken(
      `takes ${hit.join()} although ${available.size} pods are available and ${limits.replicas} less ` +
        `${limits.maxUnavailable} have to be`,
    );
  }
  if (plan.disruption.length > 0 && permit === undefined) throw stage.broken('disrupts without a permit');
  if (plan.disruption.length > 0 && isPaused(world.owner)) throw stage.broken('disrupts while it is paused');
  checkImages(stage, plan, world);
  const isSurplus = (pod: FleetPod) => subject.isSurplus(scene, pod);
  checkUpkeep(stage, plan.upkeep, new Map(serving.map((pod) => [pod.name, pod])), isSurplus);
  subject.checkPlan?.(stage, plan, scene);
  checkBatch(stage, plan, scene);
  checkPartition(stage, plan, scene, subject.keptOld?.(scene) ?? plan.situation?.update.demand.keeps ?? 0);
}

/** No pod is disturbed before the images are on the nodes that the set asks for, unless they were once. */
function checkImages(
  stage: Breaking,
  { disruption, situation }: SomePlan,
  { owner: set, nodeImages }: FleetInput<Workload>,
): void {
  const scene = situation?.scene;
  const share = prefetchShare(set);
  if (scene === undefined || share === undefined || nodeImages === undefined || scene.isUndo) return;
  if ((situation?.update.demand.left ?? 0) < 0) return;
  const { current, update } = scene.revisions;
  const image = imageOfRevision(update);
  const { podUpdatePolicy } = scene.strategy;
  const isInPlace = podUpdatePolicy !== 'ReCreate' && withoutImage(current) === withoutImage(update);
  if (!isInPlace || image === imageOfRevision(current)) return;
  if (update.metadata.annotations?.[windlassAnnotation.prefetched] === String(update.revision)) return;
  const begun = new Set(scene.counted.filter(({ state }) => state === 'PreparingUpdate').map(({ name }) => name));
  const fresh = disruption.filter((step) => 'pod' in step && !begun.has(step.pod.name as string));
  if (fresh.length === 0) return;

  const skipped = scene.orders?.skip ?? [];
  const old = scene.counted.filter((pod) => !isOfRevision(pod, update.metadata.name) && !skipped.includes(pod.name));
  const nodes = [...new Set(old.flatMap(({ pod }) => pod.spec.nodeName ?? []))].filter((name) => nodeImages.has(name));
  const [name = '', tag = ''] = image.split(':');
  const ready = nodes.filter((node) => {
    const known = nodeImages.get(node);
    return known !== undefined && findTagStatus(known, name, tag)?.phase === 'Succeeded';
  });
  const wanted = typeof share === 'number' ? share : Math.ceil((Number.parseInt(share, 10) * nodes.length) / 100);
  if (ready.length < Math.min(wanted, nodes.length)) {
    throw stage.broken(`${describe(fresh[0] as Intention)} with ${image} on ${ready.length} of ${nodes.length} nodes`);
  }
}

/** Nobody is updated in place or deleted who still has a mark of the hook. */
function checkHooks(stage: Breaking, steps: readonly Intention[], { counted, strategy }: FleetScene): void {
  const { preDelete, inPlaceUpdate } = strategy.lifecycle ?? {};
  for (const step of steps) {
    const isDeletion = step.kind === 'deletePod' || (step.kind === 'recreatePod' && !step.mark);
    if (step.kind !== 'updatePod' && !isDeletion) continue;
    const pod = counted.find(({ name }) => name === step.pod.name);
    const hook = isDeletion ? preDelete : inPlaceUpdate;
    if (pod === undefined || pod.state === 'Updating') continue;
    if (marksOn(hook, pod.pod).length > 0) throw stage.broken(`${describe(step)} although a hook holds it`);
  }
}

/** Upkeep takes an available pod only if somebody has named it, or if it is too many. */
function checkUpkeep(
  stage: Breaking,
  upkeep: readonly Intention[],
  available: ReadonlyMap<string, FleetPod>,
  isSurplus: (pod: FleetPod) => boolean,
): void {
  for (const step of upkeep) {
    const pod = available.get(takenBy(step) ?? '');
    if (pod === undefined || pod.isSpecified) continue;
    const isDelete = step.kind === 'deletePod' || (step.kind === 'writePod' && step.why === 'prepareDelete');
    if (!isDelete || !isSurplus(pod)) throw stage.broken(`upkeep takes ${pod.name}: ${describe(step)}`);
  }
}

function checkBatch(stage: Breaking, { disruption, situation }: SomePlan, scene: FleetScene): void {
  const isBack = (situation?.update.demand.left ?? 0) < 0;
  const { name: revision } = (isBack ? scene.other : scene.target).metadata;
  const { pods } = scene.input.permit ?? question;
  const stranger = disruption.find((step) => pods.get(takenUid(step) ?? '') !== revision);
  if (stranger)
    throw stage.broken(`disrupts a pod that the permit does not name for ${revision}: ${describe(stranger)}`);
}

function checkPartition(stage: Breaking, { disruption, situation }: SomePlan, scene: FleetScene, keeps: number): void {
  if (disruption.length === 0 || (situation?.update.demand.left ?? 0) <= 0) return;
  const old = scene.counted.filter((pod) => !isAtGoal(scene, pod) && pod.state !== 'PreparingDelete');
  const updated = disruption.filter((step) => old.some(({ name }) => 'pod' in step && name === step.pod.name));
  if (old.length - updated.length < keeps) {
    throw stage.broken(`leaves ${old.length - updated.length} old pods, the partition is ${keeps}`);
  }
}
