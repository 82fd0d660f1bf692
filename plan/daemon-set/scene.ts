/** The desired state of a DaemonSet's pods, for creating, deleting and updating: which nodes there are, and which pods are on them. */
import { countOf, type IntOrPercent, isNegative } from '../../api/base/int-or-percent.ts';
import { compareGoStrings } from '../../api/base/json-go.ts';
import { perObject } from '../../api/base/per-object.ts';
import { labelMatcher } from '../../api/core/label-selector.ts';
import { isFinished, nodeOf } from '../../api/core/pod.ts';
import type { DaemonSet } from '../../api/daemon-set/types.ts';
import {
  type DaemonSetRollingUpdate,
  daemonSetDefault,
  daemonSetMark,
  terminationComplete,
} from '../../api/daemon-set/types.ts';
import { first, inOrder } from '../fleet/order.ts';
import type { FleetPod } from '../fleet/pods.ts';
import { type FleetScene, type ImagesAhead, isAtGoal, isInDoubt } from '../fleet/scene.ts';
import { isDrained } from '../fleet/update.ts';
import { type Eligibility, eligibilityIn } from './eligible.ts';
import { imagesAhead } from './images-ahead.ts';
import type { DaemonSetInput } from './input.ts';

/** A node that runs a pod of the DaemonSet, should run one, or has one. */
export interface Place {
  readonly node: string;
  readonly eligibility: Eligibility;
  /** Whether `rollingUpdate.selector` selects it. */
  readonly isSelected: boolean;
  /** A pod without a controller is about to be adopted there. */
  readonly isAdopting: boolean;
  /** The first of them is the one of the node (AD §3): those that are on the node, then the older ones. */
  readonly pods: readonly FleetPod[];
  /** Of these, the ones that are not being deleted, by revision. A pod that is to be replaced is old, whatever it has. */
  readonly fresh: readonly FleetPod[];
  readonly old: readonly FleetPod[];
}

/** Everything that the parts of a pass share. */
export interface DaemonSetScene extends FleetScene<DaemonSet, DaemonSetInput> {
  readonly rollingUpdate: DaemonSetRollingUpdate;
  readonly ahead: ImagesAhead;
  /** In ascending order of their names. */
  readonly places: readonly Place[];
  /** Pods that are waiting for a node that does not exist. */
  readonly lost: readonly FleetPod[];
  /** How many nodes stay old (AD-31). */
  readonly partition: number;
  /** How many nodes may be without an available pod because of the update. 0: new pods start beside old ones. */
  readonly maxUnavailable: number;
  /** How many nodes may have a new pod beside an old one. */
  readonly maxSurge: number;
  /** How many pods a pass creates, deletes, or begins to update (AD-40). */
  readonly burst: number;
}

/** Adds what only a DaemonSet has. */
export function daemonSetScene(scene: FleetScene<DaemonSet, DaemonSetInput>): DaemonSetScene {
  const { owner, input, replicas, isUndo } = scene;
  const rollingUpdate = owner.spec.updateStrategy?.rollingUpdate ?? {};
  const isReplaced = isReplacedIn(owner);
  const counted = scene.counted.filter((pod) => !isReplaced(pod)).map((pod) => withGeneration(scene, pod));
  const byNode = Map.groupBy(counted, ({ pod }) => nodeOf(pod) ?? '');
  const adopting = new Set((scene.adoptable ?? []).map((pod) => nodeOf(pod)));
  const eligibilities = eligibilitiesOf(input);
  const { selector } = rollingUpdate;
  const selects = selector === undefined ? () => true : (labelMatcher(selector) ?? (() => false));
  const budgets = budgetsOf(rollingUpdate, replicas);
  const places = input.nodes.flatMap(({ metadata: { name, labels } }): readonly Place[] => {
    const eligibility = eligibilities.get(name) ?? 'no';
    const pods = byNode.get(name) ?? [];
    if (eligibility !== 'runs' && pods.length === 0) return [];
    return [
      {
        ...{ node: name, eligibility, isAdopting: adopting.has(name) },
        isSelected: selects(labels),
        ...sorted(scene, pods, isSurging(budgets)),
      },
    ];
  });
  const nodes = new Set(input.nodes.map(({ metadata }) => metadata.name));
  const isLost = ({ pod }: FleetPod) =>
    !pod.spec.nodeName && !nodes.has(nodeOf(pod) ?? '') && nodeOf(pod) !== undefined;
  return {
    ...scene,
    ...{ counted, rollingUpdate, ahead: imagesAhead(scene), ...budgets },
    places: places.toSorted((left, right) => compareGoStrings(left.node, right.node)),
    lost: counted.filter(isLost),
    // AD-23: of the nodes that there are now
    partition: isUndo ? 0 : partitionOf(rollingUpdate, replicas),
    burst: burstOf(owner.spec.burstReplicas, replicas),
  };
}

/** AD-20: pods that are being deleted count until they are gone, unless an annotation says that they do until their containers have ended. */
function isReplacedIn({ metadata: { annotations } }: DaemonSet): (pod: FleetPod) => boolean {
  if (annotations?.[daemonSetMark.podReplacementPolicy] !== terminationComplete) return () => false;
  return ({ pod, isTerminating }) => isTerminating && isFinished(pod);
}

/** AD §4: of a DaemonSet with a number for its template, pods with the same number are of the newest revision. */
function withGeneration({ owner, revisions }: FleetScene, pod: FleetPod): FleetPod {
  const generation = owner.metadata.annotations?.[daemonSetMark.templateGeneration];
  const isSame =
    generation !== undefined && pod.pod.metadata.labels?.[daemonSetMark.podTemplateGeneration] === generation;
  return isSame ? { ...pod, revision: revisions.update.metadata.name } : pod;
}

/** While surging, only an update makes a pod one that is to be replaced; its goal may have changed back since. */
function sorted(
  scene: FleetScene,
  pods: readonly FleetPod[],
  isSurged: boolean,
): Pick<Place, 'pods' | 'fresh' | 'old'> {
  const ofNode = pods.toSorted(byPlace);
  const present = ofNode.filter(({ isTerminating }) => !isTerminating);
  const isFresh = (pod: FleetPod) => isAtGoal(scene, pod) && (isSurged || !pod.isSpecified);
  return { pods: ofNode, fresh: present.filter(isFresh), old: present.filter((pod) => !isFresh(pod)) };
}

const byPlace = inOrder<FleetPod>(
  first(({ pod }) => Boolean(pod.spec.nodeName)),
  (left, right) => createdAtMs(left) - createdAtMs(right),
  (left, right) => compareGoStrings(left.name, right.name),
);

function createdAtMs({ pod }: FleetPod): number {
  return Date.parse(pod.metadata.creationTimestamp) || 0;
}

/** Several parts of a pass ask for them. */
const eligibilitiesOf = perObject(({ owner, nodes }: DaemonSetInput): ReadonlyMap<string, Eligibility> => {
  const eligibilityOf = eligibilityIn(owner.spec.template);
  return new Map(nodes.map((node) => [node.metadata.name, eligibilityOf(node)]));
});

/** How many nodes should run a pod. */
export function desiredNumber(input: DaemonSetInput): number {
  return [...eligibilitiesOf(input).values()].filter((eligibility) => eligibility === 'runs').length;
}

/** How many of these nodes stay old (AD-31). */
export function partitionOf({ partition }: Pick<DaemonSetRollingUpdate, 'partition'> = {}, desired: number): number {
  return atLeast(0, countOf(partition ?? daemonSetDefault.partition, desired, 'down'));
}

/** AD §2, AD-30: one that is absent is 0 where the other one is given; of two that are 0, maxUnavailable is 1. */
export function budgetsOf(
  { maxUnavailable, maxSurge }: Pick<DaemonSetRollingUpdate, 'maxUnavailable' | 'maxSurge'>,
  desired: number,
): Pick<DaemonSetScene, 'maxUnavailable' | 'maxSurge'> {
  const surge = atLeast(0, countOf(maxSurge ?? daemonSetDefault.maxSurge, desired, 'up'));
  // of a stored object with both, surging is the one that takes nothing out of service
  if (surge > 0) return { maxUnavailable: 0, maxSurge: surge };
  const unavailable = maxUnavailable ?? daemonSetDefault.maxUnavailable;
  return { maxUnavailable: atLeast(1, countOf(unavailable, desired, 'up')), maxSurge: 0 };
}

/** AD-40. */
function burstOf(burst: IntOrPercent = daemonSetDefault.burstReplicas, desired: number): number {
  const count = isNegative(burst) ? undefined : countOf(burst, desired, 'down');
  return atLeast(1, count ?? daemonSetDefault.burstReplicas);
}

function atLeast(least: number, count: number | undefined): number {
  return Math.max(count ?? least, least);
}

/** Whether new pods start beside old ones. */
export function isSurging({ maxSurge }: Pick<DaemonSetScene, 'maxSurge'>): boolean {
  return maxSurge > 0;
}

/** Whether a hook holds the pod before its deletion. */
export function isLeaving({ state }: FleetPod): boolean {
  return state === 'PreparingDelete';
}

/** Whether its update has been granted, and nothing else shows that yet. */
export function isGranted(scene: DaemonSetScene, pod: FleetPod): boolean {
  return pod.isSpecified || isDrained(pod) || isInDoubt(scene, pod);
}
