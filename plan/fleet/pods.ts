/** The pods of a workload as all its decisions see them: which ones count, and which are available. */

import { perObject } from '../../api/base/per-object.ts';
import { whenPassed } from '../../api/base/time.ts';
import { type LabelSelector, labelMatcher } from '../../api/core/label-selector.ts';
import type { KubeObject } from '../../api/core/meta.ts';
import { isActive, type Pod } from '../../api/core/pod.ts';
import { isControlledBy } from '../../api/core/refs.ts';
import { isWorkingState, type LifecycleState, lifecycleStateOf } from '../../api/fleet/lifecycle.ts';
import { podMark } from '../../api/fleet/marks.ts';
import { isAtRevision, revisionMark } from '../../api/fleet/revision.ts';
import { inPlaceReadinessGate } from '../../api/in-place/annotations.ts';
import { graceOf } from '../../api/in-place/grace.ts';
import { stateOf } from '../../api/in-place/state.ts';
import { startingUntil } from '../starting.ts';

/** An object as it was when something was decided about it; a write to another version is refused. */
export interface AsSeen {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
}

/** Which pods belong to a workload, and what its spec says about each. */
export interface Membership {
  readonly selector: LabelSelector;
  readonly minReadySeconds: number;
  /** Names of pods that the spec wants deleted. Absent: none. */
  readonly named?: ReadonlySet<string>;
  /** Whether pods that have ended or are being deleted count until they are gone, because their name or node is taken until then. */
  readonly countsTerminating?: boolean;
  /** Whether a selected pod without a controller is to be adopted. Absent: none is. */
  readonly adopts?: (pod: Pod) => boolean;
  /** Whether a pod can be a member by its name; one that cannot is released. Absent: every pod can. */
  readonly fits?: (pod: Pod) => boolean;
}

/** A pod that counts (CS-10). */
export interface FleetPod {
  readonly pod: Pod;
  readonly name: string;
  readonly state: LifecycleState | '';
  /** The revision in its label. */
  readonly revision: string | undefined;
  /** Named to be deleted, by its label or by the workload. */
  readonly isSpecified: boolean;
  /** It is being deleted, and counts until it is gone. */
  readonly isTerminating: boolean;
  /** It is in service, whatever its state. */
  readonly isServing: boolean;
  /** It is in service and in a working state: a deletion would reduce the service. */
  readonly isReady: boolean;
  /** Has been ready for minReadySeconds. */
  readonly isAvailable: boolean;
  /** When it will be available if nothing changes; absent when it is, or when something has to change first. */
  readonly availableAtMs?: number;
  /** Until when it counts as being started or replaced; absent when it is available, or something is wrong with it. */
  readonly startingUntilMs?: number;
}

/** The pods around a workload. */
export interface Members {
  /** The pods that count, in the order given. */
  readonly counted: readonly FleetPod[];
  /** Pods that it controls, and that no longer match: those that would count otherwise, and are not being deleted. */
  readonly strays: readonly Pod[];
  /** Pods that it is to become the controller of. */
  readonly adoptable: readonly Pod[];
}

/** Stands among the labels of a cached pod that has more than are kept. No label has this key. */
export const moreLabels = '';

function hasMoreLabels({ metadata }: Pod): boolean {
  return metadata.labels !== undefined && Object.hasOwn(metadata.labels, moreLabels);
}

/** The members of a workload; undefined when its selector is malformed (CS-15). */
export function membersOf(
  owner: KubeObject,
  { selector, minReadySeconds, named = new Set(), countsTerminating = false, ...rules }: Membership,
  seen: { readonly pods: readonly Pod[]; readonly orphans?: readonly Pod[] | undefined; readonly nowMs: number },
): Members | undefined {
  const selects = labelMatcher(selector);
  if (selects === undefined) return undefined;
  const { adopts = () => false, fits = () => true } = rules;
  // Released or passed over because of what is not known of it, a pod would be replaced by another one, without end.
  const isMember = (pod: Pod) => (hasMoreLabels(pod) || selects(pod.metadata.labels)) && fits(pod);
  const controlled = seen.pods.filter((pod) => isControlledBy(owner, pod));
  const present = countsTerminating ? controlled : controlled.filter(isActive);
  const isStaying = (pod: Pod) => pod.metadata.deletionTimestamp === undefined && (countsTerminating || isActive(pod));
  const facts = { named, minReadyMs: minReadySeconds * 1000, nowMs: seen.nowMs };
  return {
    counted: present.filter(isMember).map((pod) => fleetPod(pod, facts)),
    strays: present.filter((pod) => isStaying(pod) && !isMember(pod)),
    adoptable: (seen.orphans ?? []).filter(
      (pod) => isStaying(pod) && !hasMoreLabels(pod) && isMember(pod) && adopts(pod),
    ),
  };
}

function fleetPod(
  pod: Pod,
  facts: { readonly named: ReadonlySet<string>; readonly minReadyMs: number; readonly nowMs: number },
): FleetPod {
  const { named, minReadyMs, nowMs } = facts;
  const { name, labels = {}, deletionTimestamp } = pod.metadata;
  const state = lifecycleStateOf(pod);
  const isTerminating = deletionTimestamp !== undefined;
  const isServing = !isTerminating && pod.status?.phase === 'Running' && isPodReady(pod) && isInPlaceReady(pod);
  const isReady = isServing && isWorkingState(state);
  // One millisecond more, because a pod is available only when longer than that has passed.
  const availableAtMs = minReadyMs > 0 ? (readySinceMs(pod) ?? Number.NaN) + minReadyMs + 1 : 0;
  const isOldEnough = minReadyMs <= 0 || nowMs >= availableAtMs;
  return {
    pod,
    name,
    state,
    revision: labels[revisionMark.podRevision],
    isSpecified: labels[podMark.specifiedDelete] !== undefined || named.has(name),
    isTerminating,
    isServing,
    isReady,
    isAvailable: isReady && isOldEnough,
    ...(isReady && nowMs < availableAtMs && { availableAtMs }),
    ...(isReady && isOldEnough ? {} : startingUntil(pod, timesOf(pod, isReady ? availableAtMs : 0), nowMs)),
  };
}

/**
 * When it was created, taken out of service or put back, or its containers were changed; and when it is to be deleted, changed
 * or available.
 */
function timesOf(pod: Pod, availableAtMs: number): Parameters<typeof startingUntil>[1] {
  const { creationTimestamp, deletionTimestamp = '' } = pod.metadata;
  const gate = pod.status?.conditions?.find(({ type }) => type === inPlaceReadinessGate);
  const [state, grace] = [stateOf(pod), graceOf(pod)];
  const { updateTimestamp = '', batches = [] } = state.kind === 'value' ? state.value : {};
  const graceSeconds = grace.kind === 'value' ? grace.value.graceSeconds : 0;
  return {
    begunAt: [creationTimestamp, gate?.lastTransitionTime ?? '', batches.at(-1)?.timestamp ?? ''],
    dueAtMs: [Date.parse(deletionTimestamp), whenPassed(updateTimestamp, graceSeconds), availableAtMs],
  };
}

/** Whether the pod has this revision, or is being updated to it. */
export function isOfRevision({ revision }: FleetPod, name: string): boolean {
  return isAtRevision(revision, name);
}

/** The object as it was read. */
export function asSeen({ metadata }: Pick<KubeObject, 'metadata'>): AsSeen {
  const { namespace = '', name, uid, resourceVersion } = metadata;
  return { namespace, name, uid, resourceVersion };
}

/** How blockers are named. */
export function podRef(pod: { readonly name: string }): string {
  return `pod/${pod.name}`;
}

/** Whether the kubelet reports the pod as ready. */
export function isPodReady(pod: Pod): boolean {
  return rankOf(pod).isReady;
}

function isInPlaceReady(pod: Pod): boolean {
  const gate = pod.status?.conditions?.find(({ type }) => type === inPlaceReadinessGate);
  return gate === undefined || gate.status === 'True';
}

/** Since when the kubelet has reported the pod as ready. */
export function readySinceMs(pod: Pod): number | undefined {
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

/** How far a pod has started. Cached, because sorting thousands of pods uses it many times. */
export const rankOf = perObject(({ metadata, status }: Pod): Rank => {
  const ready = status?.conditions?.find(({ type }) => type === 'Ready');
  return {
    // An unknown phase sorts like Go's zero value, with Pending.
    phase: Math.max(phases.indexOf(status?.phase ?? 'Pending'), 0),
    isReady: ready?.status === 'True',
    readySinceMs: ready?.lastTransitionTime ? Date.parse(ready.lastTransitionTime) : undefined,
    restarts: Math.max(0, ...(status?.containerStatuses ?? []).map(({ restartCount }) => restartCount)),
    createdAtMs: metadata.creationTimestamp ? Date.parse(metadata.creationTimestamp) : undefined,
  };
});

const phases = ['Pending', 'Unknown', 'Running'];
