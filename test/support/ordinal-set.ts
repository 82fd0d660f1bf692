/**
 * A workload kind that differs from CloneSet in every way, for tests of the fleet engine: a pod for each node of its
 * spec, named by the ordinal of the node. A pod that is being deleted keeps its place until it is gone, and a pod of
 * the right name without a controller is adopted. Updates begin at the highest ordinal; those below the partition stay
 * old.
 */

import { cloneSetEvent, cloneSetWaits } from '../../api/cloneset/types.ts';
import type { LabelSelector } from '../../api/core/label-selector.ts';
import { apiVersionOf, type Resource } from '../../api/core/meta.ts';
import type { PodTemplate } from '../../api/core/pod-template.ts';
import type { Lifecycle } from '../../api/fleet/lifecycle.ts';
import { type RevisionScheme, revisionMark } from '../../api/fleet/revision.ts';
import type { Rule } from '../../plan/decision.ts';
import type { FleetInput } from '../../plan/fleet/input.ts';
import type { FleetPlanner, FleetSituation, ScalePlan } from '../../plan/fleet/kind.ts';
import { newPod } from '../../plan/fleet/new-pod.ts';
import { workloadPlanner } from '../../plan/fleet/planner.ts';
import { asSeen, type FleetPod, isOfRevision } from '../../plan/fleet/pods.ts';
import { type FleetScene, isAtGoal, skippedPods, type UpdateDemand } from '../../plan/fleet/scene.ts';
import { underWayFirst } from '../../plan/fleet/update.ts';
import * as waits from '../../plan/fleet/waits.ts';
import type { Workload } from '../../plan/fleet/workload.ts';
import { waitingSince } from '../../plan/waiting-since.ts';
import type { ControllerOf } from '../../watcher/controller.ts';
import { FleetController } from '../../watcher/fleet/controller.ts';

export interface OrdinalSet extends Workload {
  readonly spec: {
    readonly selector: LabelSelector;
    readonly template: PodTemplate;
    /** Names of nodes; the pod of ordinal n runs on the n-th. */
    readonly nodes: readonly string[];
    /** Pods below this ordinal stay at the current revision. Absent: 0. */
    readonly partition?: number;
    /** Absent: 1. */
    readonly maxUnavailable?: number;
    readonly lifecycle?: Lifecycle;
  };
  readonly status?: Workload['status'] & {
    readonly replicas: number;
    readonly readyReplicas: number;
    readonly updatedReplicas: number;
    readonly updateRevision: string;
  };
}

export const ordinalSets: Resource = {
  group: 'apps.kruise.io',
  version: 'v1',
  plural: 'ordinalsets',
  kind: 'OrdinalSet',
  namespaced: true,
};

type Scene = FleetScene<OrdinalSet>;

export const ordinalSetRevisions: RevisionScheme<OrdinalSet> = {
  ownerOf: ({ metadata: { name, uid, namespace = '' }, spec }) => ({
    ...{ apiVersion: apiVersionOf(ordinalSets), kind: ordinalSets.kind, namespace, name, uid },
    template: spec.template,
  }),
  podLabels: (revision) => ({ [revisionMark.podRevision]: revision }),
  keepsCurrent: true,
  recreatesForClaims: () => false,
};

const rules: readonly Rule<FleetSituation>[] = [
  waits.paused,
  waits.aborted,
  waits.pausedByOperator,
  waits.cannotCreate,
  waits.cannotDelete,
  waits.cannotUpdate,
  waits.inPlaceImpossible,
  waits.notScheduled,
  waits.draining,
  waits.containersNotSwapped,
  waits.budgetSpent,
  waits.notReady,
  waits.noPermit,
  waits.skipped,
  waits.undone,
  waits.partitionReached,
];

const planner: FleetPlanner<OrdinalSet> = {
  resource: ordinalSets,
  revisions: ordinalSetRevisions,
  texts: cloneSetWaits,
  rules,
  membership: ({ owner }) => ({
    selector: owner.spec.selector,
    minReadySeconds: 0,
    countsTerminating: true,
    adopts: ({ metadata }) => ordinalOf(owner, metadata.name) !== undefined,
  }),
  strategy: ({ owner }) => ({
    ...{ isOnDelete: false, isPaused: false, podUpdatePolicy: 'InPlaceIfPossible', graceSeconds: 0 },
    lifecycle: owner.spec.lifecycle,
  }),
  replicas: ({ owner }) => owner.spec.nodes.length,
  scene: (scene) => scene,
  scale: planScale,
  demand: demandOf,
  line: (scene, { concerns }) => ({
    pods: scene.counted
      .filter((pod) => concerns(pod) && !pod.isSpecified && !pod.isTerminating && !skippedPods(scene).has(pod.name))
      .toSorted((left, right) => placeOf(scene, right) - placeOf(scene, left))
      .toSorted(underWayFirst),
    passesOver: false,
    admits: budgetOf(scene),
  }),
  emptyStatus: { replicas: 0, readyReplicas: 0, updatedReplicas: 0, updateRevision: '' },
  status({ owner, counted, revisions: { update, current }, now }, { wait }) {
    const updated = counted.filter((pod) => isOfRevision(pod, update.metadata.name));
    return {
      replicas: counted.length,
      readyReplicas: counted.filter(({ isReady }) => isReady).length,
      updatedReplicas: updated.length,
      updateRevision: update.metadata.name,
      currentRevision: (updated.length === owner.spec.nodes.length ? update : current).metadata.name,
      ...(wait && { waitingFor: waitingSince(owner.status?.waitingFor, wait, now) }),
    };
  },
};

export const ordinalSetPlanner = workloadPlanner(planner);

/** Maintains the pods of OrdinalSets. */
export const ordinalSetController: ControllerOf = (context) =>
  new FleetController<OrdinalSet, FleetInput<OrdinalSet>>(context, {
    planner: ordinalSetPlanner,
    events: cloneSetEvent,
    component: 'ordinalset-controller',
    rollOuts: 'ordinal-roll-outs',
    adopts: true,
    input: (input) => input,
  }).controller;

/** Which places are empty, and which pods have none. A terminating pod keeps its place. */
function planScale(scene: Scene): ScalePlan {
  const { input, owner, counted, resource, scheme, now } = scene;
  const { gates, claims } = input;
  const taken = new Set(counted.map(({ name }) => name));
  const places = owner.spec.nodes.map((node, ordinal) => ({
    node,
    ordinal,
    name: `${owner.metadata.name}-${ordinal}`,
  }));
  const empty = places.filter(({ name }) => !taken.has(name));
  const kept = new Set(places.map(({ name }) => name));
  const going = counted.filter(
    ({ name, isSpecified, isTerminating }) => !isTerminating && (isSpecified || !kept.has(name)),
  );
  const creations = empty.map(({ node, ordinal, name }) =>
    newPod({
      ...{ resource, owner, scheme, name, suffix: String(ordinal), labels: {}, claims, gates, now },
      revision: ordinal < (owner.spec.partition ?? 0) ? scene.other : scene.target,
      spec: { nodeName: node },
    }),
  );
  return {
    steps: [...creations, ...going.map(({ pod }) => ({ kind: 'deletePod', pod: asSeen(pod), claims: [] }) as const)],
    events: [],
    missing: empty.length,
    surplus: going.length,
    isSettled: empty.length + going.length === 0 && !counted.some(({ isTerminating }) => isTerminating),
    spared: [],
  };
}

function demandOf(scene: Scene): UpdateDemand {
  const keeps = scene.isUndo ? 0 : (scene.owner.spec.partition ?? 0);
  const concerns = (pod: FleetPod) => !isAtGoal(scene, pod) && placeOf(scene, pod) >= keeps;
  return { left: scene.counted.filter(concerns).length, keeps, concerns };
}

function budgetOf({ counted, owner }: Scene): (pod: FleetPod) => boolean {
  let away = counted.filter(({ isAvailable }) => !isAvailable).length;
  return ({ isAvailable }) => {
    if (!isAvailable) return true;
    if (away >= (owner.spec.maxUnavailable ?? 1)) return false;
    away++;
    return true;
  };
}

function placeOf({ owner }: Scene, { name }: FleetPod): number {
  return ordinalOf(owner, name) ?? -1;
}

function ordinalOf({ metadata, spec }: OrdinalSet, podName: string): number | undefined {
  const ordinal = Number(podName.slice(metadata.name.length + 1));
  const isOne = podName === `${metadata.name}-${ordinal}` && Number.isInteger(ordinal);
  return isOne && ordinal >= 0 && ordinal < spec.nodes.length ? ordinal : undefined;
}
