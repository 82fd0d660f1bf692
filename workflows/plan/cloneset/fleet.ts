/** The pods of a CloneSet as all its decisions see them: which count, which are to be relied on, which come first. */

import { compareGoStrings } from '../../../api/base/json-go.ts';
import { perObject } from '../../../api/base/per-object.ts';
import { cloneSetMark } from '../../../api/cloneset/types.ts';
import { labelMatcher } from '../../../api/core/label-selector.ts';
import { isActive, type Pod } from '../../../api/core/pod.ts';
import { isControlledBy } from '../../../api/core/refs.ts';
import { isWorkingState, type LifecycleState, lifecycleStateOf } from '../../../api/fleet/lifecycle.ts';
import { isAtRevision, revisionMark } from '../../../api/fleet/revision.ts';
import { inPlaceReadinessGate } from '../../../api/in-place/annotations.ts';
import type { AsSeen } from '../fleet/steps.ts';
import type { CloneSetWorld, VolumeClaim } from './input.ts';

/** A pod that counts (CS-10). */
export interface FleetPod {
  readonly pod: Pod;
  readonly name: string;
  readonly state: LifecycleState | '';
  /** What its label says of its revision. */
  readonly revision: string | undefined;
  /** Named to be deleted, by its label or by the set. */
  readonly isSpecified: boolean;
  /** Takes part in the service, whatever its state. */
  readonly isServing: boolean;
  /** Serves and works: what a deletion of it would take away. */
  readonly isReady: boolean;
  /** Has been ready for minReadySeconds. */
  readonly isAvailable: boolean;
  /** When it will be available if nothing happens; absent when it is, or when something has to happen first. */
  readonly availableAtMs?: number;
}

/** Pods that differ in nothing but their names. */
export interface AlikePods {
  /** As each of them is. */
  readonly pod: FleetPod;
  readonly count: number;
}

/** The pods that count, in the order given; undefined when the selector is malformed (CS-15). */
export function countedPods({ set, pods, nowMs }: Pick<CloneSetWorld, 'set' | 'pods' | 'nowMs'>):
  | {
      readonly counted: readonly FleetPod[];
      /** Running pods that the selector no longer chooses. */
      readonly strays: readonly Pod[];
    }
  | undefined {
  const matches = labelMatcher(set.spec.selector);
  if (matches === undefined) return undefined;
  const named = new Set(set.spec.scaleStrategy?.podsToDelete ?? []);
  const active = pods.filter((pod) => isControlledBy(set, pod) && isActive(pod));
  const minReadyMs = (set.spec.minReadySeconds ?? 0) * 1000;
  return {
    counted: active
      .filter(({ metadata }) => matches(metadata.labels))
      .map((pod) => fleetPod(pod, { named, minReadyMs, nowMs })),
    strays: active.filter(({ metadata }) => !matches(metadata.labels)),
  };
}

function fleetPod(
  pod: Pod,
  {
    named,
    minReadyMs,
    nowMs,
  }: { readonly named: ReadonlySet<string>; readonly minReadyMs: number; readonly nowMs: number },
): FleetPod {
  const { name, labels = {} } = pod.metadata;
  const state = lifecycleStateOf(pod);
  const isServing = pod.status?.phase === 'Running' && isPodReady(pod) && isInPlaceReady(pod);
  const isReady = isServing && isWorkingState(state);
  // One millisecond more, because a pod is available only when longer than that has passed.
  const availableAtMs = minReadyMs > 0 ? (readySinceMs(pod) ?? Number.NaN) + minReadyMs + 1 : 0;
  const isOldEnough = minReadyMs <= 0 || nowMs >= availableAtMs;
  return {
    pod,
    name,
    state,
    revision: labels[revisionMark.podRevision],
    isSpecified: labels[cloneSetMark.specifiedDelete] !== undefined || named.has(name),
    isServing,
    isReady,
    isAvailable: isReady && isOldEnough,
    ...(isReady && nowMs < availableAtMs && { availableAtMs }),
  };
}

/** Whether the pod is, or is being brought, to this revision. */
export function isOfRevision({ revision }: FleetPod, name: string): boolean {
  return isAtRevision(revision, name);
}

/** The object as it was looked at. */
export function asSeen({ metadata }: Pick<Pod, 'metadata'> | VolumeClaim): AsSeen {
  const { namespace = '', name, uid, resourceVersion } = metadata;
  return { namespace, name, uid, resourceVersion };
}

/** How blockers are named. */
export function podRef(pod: { readonly name: string }): string {
  return `pod/${pod.name}`;
}

/** Whether the kubelet calls the pod ready. */
export function isPodReady(pod: Pod): boolean {
  return rankOf(pod).isReady;
}

function isInPlaceReady(pod: Pod): boolean {
  const gate = pod.status?.conditions?.find(({ type }) => type === inPlaceReadinessGate);
  return gate === undefined || gate.status === 'True';
}

function readySinceMs(pod: Pod): number | undefined {
  return rankOf(pod).readySinceMs;
}

/** What pods are ordered by, as far as it depends on the pod alone. */
interface Rank {
  readonly phase: number;
  readonly isReady: boolean;
  readonly readySinceMs: number | undefined;
  readonly restarts: number;
  readonly createdAtMs: number | undefined;
}

/** Sorting thousands of pods asks each for its rank many times. */
const rankOf = perObject(({ metadata, status }: Pod): Rank => {
  const ready = status?.conditions?.find(({ type }) => type === 'Ready');
  return {
    // One that is not known sorts as Go's zero value does, with Pending.
    phase: Math.max(phases.indexOf(status?.phase ?? 'Pending'), 0),
    isReady: ready?.status === 'True',
    readySinceMs: ready?.lastTransitionTime ? Date.parse(ready.lastTransitionTime) : undefined,
    restarts: Math.max(0, ...(status?.containerStatuses ?? []).map(({ restartCount }) => restartCount)),
    createdAtMs: metadata.creationTimestamp ? Date.parse(metadata.creationTimestamp) : undefined,
  };
});

/** Less than 0: the first comes first. */
export type PodOrder = (left: FleetPod, right: FleetPod) => number;

/** Orders that are asked one after the other until one tells the pods apart. */
export function inOrder(...orders: readonly PodOrder[]): PodOrder {
  return (left, right) => {
    for (const order of orders) {
      const difference = order(left, right);
      if (difference !== 0) return difference;
    }
    return 0;
  };
}

/** Pods that claim is true of come first. */
export function first(claim: (pod: FleetPod) => boolean): PodOrder {
  return (left, right) => Number(claim(right)) - Number(claim(left));
}

const phases = ['Pending', 'Unknown', 'Running'];

/** Pods that have come least far first: without a node, then by phase. */
export const byProgress: PodOrder = inOrder(
  first(({ pod }) => !pod.spec.nodeName),
  (left, right) => rankOf(left.pod).phase - rankOf(right.pod).phase,
);

/** Pods that the kubelet does not call ready first. */
export const unreadyFirst: PodOrder = first(({ pod }) => !isPodReady(pod));

/** Of ready pods those with the shorter time of service first; of any, those that restart more, then the newer. */
export const byService: PodOrder = inOrder(
  (left, right) =>
    isPodReady(left.pod) && isPodReady(right.pod) ? laterFirst(readySinceMs(left.pod), readySinceMs(right.pod)) : 0,
  (left, right) => rankOf(right.pod).restarts - rankOf(left.pod).restarts,
  (left, right) => laterFirst(rankOf(left.pod).createdAtMs, rankOf(right.pod).createdAtMs),
  // Nothing is left to tell them apart; but two looks at the same pods should decide the same.
  (left, right) => compareGoStrings(left.name, right.name),
);

function laterFirst(left: number | undefined, right: number | undefined): number {
  if (left === right) return 0;
  if (left === undefined) return -1;
  return right === undefined ? 1 : right - left;
}
