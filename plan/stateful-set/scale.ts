/**
 * How a StatefulSet gets to its pods (AS-20 to AS-43, AS-70): what is missing is created from the lowest ordinal up, what is
 * too many is deleted from the highest down.
 *
 * With `OrderedReady` a pass ends at the first pod that is not as it should be, so that there is never more than one creation
 * or deletion under way. With `Parallel` pods have nothing to do with each other, but for `scaleStrategy.maxUnavailable`.
 */
import { objectOr } from '../../api/base/json.ts';
import { isFinished, type Pod } from '../../api/core/pod.ts';
import { isAllHooked } from '../../api/fleet/lifecycle.ts';
import { templateOf } from '../../api/fleet/revision.ts';
import { statefulSetMark } from '../../api/stateful-set/types.ts';
import type { ScalePlan } from '../fleet/kind.ts';
import { newPod } from '../fleet/new-pod.ts';
import { deletion, writes } from '../fleet/pod-writes.ts';
import type { FleetPod } from '../fleet/pods.ts';
import { isAtGoal } from '../fleet/scene.ts';
import type { Intention } from '../fleet/steps.ts';
import {
  type BlockedClaim,
  blockedClaim,
  claimOwners,
  freedClaims,
  goesWithPod,
  losesClaim,
  missingClaims,
} from './claims.ts';
import { budgetOf, type Replica, type StatefulSetScene, spendsBudget, spentBudget } from './scene.ts';

/** What keeps the pod of an ordinal from being created. */
export interface HeldCreation {
  readonly podName: string;
  readonly claim: BlockedClaim;
}

export interface StatefulSetScale extends ScalePlan {
  /** With `OrderedReady`: the pod that has to be available before anything else is done (AS-34, AS-40). */
  readonly inTheWay: FleetPod | undefined;
  /** Pods that cannot be created yet (AS-31). */
  readonly held: readonly HeldCreation[];
  /** With `Parallel`: so many pods are unavailable that no further one is created (AS-35). */
  readonly isLimited: boolean;
}

/** The most creations in a pass: changes of status and spec come in between when thousands are missing. */
const mostCreations = 64;

/** What to create and to delete now. */
export function planScale(scene: StatefulSetScene): StatefulSetScale {
  const { replicas, replicaPods, condemned, adopted } = scene;
  const kept = keepReplicas(scene);
  const isAtRest = kept.inTheWay === undefined && kept.steps.length + kept.held.length + adopted.size === 0;
  const isOpen = !scene.isOrdered || isAtRest;
  // AS-81: the owners of PVCs come before the first deletion. A PVC that is to be kept is so at once.
  const owners = claimOwners(
    scene,
    condemned.filter(({ ordinal }) => isOpen || !goesWithPod(scene, ordinal)),
  );
  const removed = isOpen && owners.length === 0 ? removeCondemned(scene) : nothing;
  const mayDelete = isOpen && !(scene.isOrdered && condemned.length > 0);
  const isBusy = kept.steps.length + removed.steps.length > 0;
  const named = deleteNamed(scene, mayDelete ? scene.replicaPods : isBusy ? [] : begunDeletion(scene), kept.steps);
  const missing = replicas - replicaPods.length;
  return {
    steps: [...kept.steps, ...owners, ...removed.steps, ...named.steps],
    events: [],
    missing,
    surplus: condemned.length,
    isSettled: missing === 0 && condemned.length === 0 && !replicaPods.some(({ pod }) => pod.isTerminating),
    spared: named.spared,
    inTheWay: kept.inTheWay ?? removed.inTheWay,
    held: kept.held,
    isLimited: kept.isLimited,
  };
}

interface Part {
  readonly steps: readonly Intention[];
  readonly inTheWay?: FleetPod | undefined;
}

const nothing: Part = { steps: [] };

/** AS-30 to AS-39: the wanted pods, in ascending order. */
function keepReplicas(scene: StatefulSetScene): Part & Pick<StatefulSetScale, 'held' | 'isLimited'> {
  const { replicaPods, ordinals, adopted, isOrdered, owner, replicas } = scene;
  const limit = owner.spec.scaleStrategy?.maxUnavailable;
  const steps: Intention[] = [];
  const held: HeldCreation[] = [];
  let room = isOrdered || limit === undefined ? Number.POSITIVE_INFINITY : budgetOf(limit, replicas);
  let creations = 0;
  let newOld = 0;
  let next = 0;

  /** Whether the pod lets the walk go on. */
  const keep = (replica: Replica) => {
    const { pod } = replica;
    // AS-36: what has ended is deleted whatever the budget, or it would never be replaced.
    if (isFinished(pod.pod) && !pod.isTerminating)
      steps.push(...(losesClaim(scene, replica) ? [] : deletion(scene, pod)));
    else if (pod.pod.status?.phase === 'Pending' && !pod.isTerminating) steps.push(...missingClaims(scene, replica));
    if (pod.isAvailable) steps.push(...identity(scene, pod));
    else room--;
    return pod.isAvailable || !isOrdered;
  };
  const create = (ordinal: number) => {
    const isOld = isOldAt(scene, ordinal, newOld);
    if (isOld) newOld++;
    const claim = blockedClaim(scene, ordinal);
    const freed = freedClaims(scene, ordinal);
    if (claim) {
      held.push({ podName: `${owner.metadata.name}-${ordinal}`, claim });
      return;
    }
    steps.push(...(freed.length > 0 ? freed : [creation(scene, ordinal, isOld)]));
    creations++;
  };
  const result = (inTheWay?: FleetPod) => ({
    ...{ steps, held, inTheWay },
    isLimited: room <= 0 && replicaPods.length < replicas,
  });

  for (const ordinal of ordinals.wanted()) {
    const replica = replicaPods[next];
    if (replica?.ordinal === ordinal) {
      next++;
      if (!keep(replica)) return result(replica.pod);
      continue;
    }
    if (room <= 0 || creations >= mostCreations) break;
    if (!adopted.has(ordinal)) create(ordinal);
    if (isOrdered) return result();
    room--;
  }
  for (const replica of replicaPods.slice(next)) keep(replica);
  return result();
}

/** AS-15: the label with the name is restored, and that with the ordinal with it. */
function identity({ owner, input }: StatefulSetScene, pod: FleetPod): readonly Intention[] {
  const { name, labels = {} } = pod.pod.metadata;
  if (labels[statefulSetMark.podName] === name) return [];
  const ordinal = name.slice(owner.metadata.name.length + 1);
  return writes(pod, 'refresh', { labels: identityLabels(name, ordinal, input.gates) });
}

function identityLabels(name: string, ordinal: string, gates: { readonly PodIndexLabel: boolean }) {
  const { podName, podIndex } = statefulSetMark;
  return { [podName]: name, ...(gates.PodIndexLabel && { [podIndex]: ordinal }) };
}

/** AS-10, AS-21, AS-51. */
function creation(scene: StatefulSetScene, ordinal: number, isOld: boolean): Intention {
  const { resource, owner, scheme, strategy, input, now } = scene;
  const name = `${owner.metadata.name}-${ordinal}`;
  const revision = isOld ? scene.other : scene.target;
  const { preNormal } = strategy.lifecycle ?? {};
  const template = objectOr(templateOf(revision)?.metadata) as unknown as Pod['metadata'];
  const isNormal = preNormal === undefined || isAllHooked(preNormal, { metadata: template }); // LC-10
  return newPod({
    ...{ resource, owner, scheme, name, now, suffix: String(ordinal), labels: {}, controlsClaims: false },
    ...{ claims: input.claims, gates: input.gates },
    revision,
    ...(isNormal && { state: 'Normal' }),
    podLabels: identityLabels(name, String(ordinal), input.gates),
    spec: { hostname: name, ...(owner.spec.serviceName && { subdomain: owner.spec.serviceName }) },
  });
}

/** AS-51: whether a new pod at this ordinal gets the old revision. `newOld`: so many new pods below it do. */
function isOldAt(scene: StatefulSetScene, ordinal: number, newOld: number): boolean {
  const { partition, strategy, ordinals, rollingUpdate, replicaPods } = scene;
  if (strategy.isOnDelete || scene.isUndo) return false;
  if (rollingUpdate.unorderedUpdate === undefined) return ordinals.below(ordinal) < partition;
  return replicaPods.filter(({ pod }) => !isAtGoal(scene, pod)).length + newOld < partition;
}

/** AS-40, AS-41. */
function removeCondemned(scene: StatefulSetScene): Part {
  const { condemned, isOrdered } = scene;
  if (!isOrdered) {
    const free = condemned.filter((replica) => !replica.pod.isTerminating && !losesClaim(scene, replica));
    return { steps: free.flatMap(({ pod }) => deletion(scene, pod)) };
  }
  const [highest] = condemned;
  if (highest === undefined || losesClaim(scene, highest)) return nothing;
  const { pod } = highest;
  if (pod.isTerminating) return { steps: [], inTheWay: pod };
  // what has ended never becomes available (AS-30)
  const isOver = isFinished(pod.pod) || pod.state === 'PreparingDelete' || pod === firstUnhealthy(scene);
  const isBlocked = !pod.isAvailable && !isOver;
  return isBlocked ? { steps: [], inTheWay: pod } : { steps: deletion(scene, pod) };
}

/** AS-40: the unhealthy pod of the lowest ordinal. */
function firstUnhealthy({ replicaPods, condemned }: StatefulSetScene): FleetPod | undefined {
  const all: readonly Replica[] = [...replicaPods, ...condemned.toReversed()];
  return all.toSorted((left, right) => left.ordinal - right.ordinal).find(({ pod }) => !pod.isReady)?.pod;
}

/**
 * In order, where everything waits for a pod: the one whose deletion has begun, as everything waits for that then (LC-30, LC-41), or
 * that is broken and to be taken back because a person asks for it (AS-34). One at a time, as all deletions in order.
 */
function begunDeletion(scene: StatefulSetScene): readonly Replica[] {
  const { replicaPods, condemned } = scene;
  if ([...replicaPods, ...condemned].some(({ pod }) => pod.isTerminating)) return [];
  const isBroken = (pod: FleetPod) => scene.isUndo && !pod.isAvailable && !isAtGoal(scene, pod);
  return replicaPods.filter(({ pod }) => pod.isSpecified && (isHeldByHook(pod) || isBroken(pod))).slice(-1);
}

function isHeldByHook({ state }: FleetPod): boolean {
  return state === 'PreparingDelete' || state === 'PreparingUpdate';
}

/**
 * AS-70: pods that are labelled to be deleted, from the highest ordinal down. A pod that is to be recreated for an update
 * carries this label as well.
 */
function deleteNamed(
  scene: StatefulSetScene,
  replicaPods: readonly Replica[],
  busy: readonly Intention[],
): { readonly steps: readonly Intention[]; readonly spared: readonly FleetPod[] } {
  const { strategy, maxUnavailable } = scene;
  if (strategy.isOnDelete || strategy.isPaused) return { steps: [], spared: [] }; // AS-56, AS-57
  const taken = new Set(busy.flatMap((step) => ('pod' in step && 'uid' in step.pod ? [step.pod.uid] : [])));
  const steps: Intention[] = [];
  const spared: FleetPod[] = [];
  let away = spentBudget(scene);
  for (const replica of replicaPods.toReversed()) {
    const { pod } = replica;
    if (!pod.isSpecified || pod.isTerminating || taken.has(pod.pod.metadata.uid)) continue;
    if (losesClaim(scene, replica)) continue;
    const isAway = spendsBudget(scene, pod);
    if (!isAway && away >= maxUnavailable) {
      spared.push(pod);
      continue;
    }
    if (!isAway) away++;
    steps.push(...deletion(scene, pod));
  }
  return { steps, spared };
}
