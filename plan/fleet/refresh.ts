/**
 * Writes that pods of a workload need after a change (CS-50, IPU-40, LC-65): the next step of an update in progress,
 * another lifecycle state, a readiness condition, a label that older versions did not write.
 *
 * None of them makes a pod less available than it is, so they need no permit and continue while paused.
 */

import { isJsonList, isJsonObject, type Json, type JsonObject } from '../../api/base/json.ts';
import type { Pod } from '../../api/core/pod.ts';
import { initialReadiness, lacksReadiness } from '../../api/core/pod-readiness.ts';
import { isWorkingState } from '../../api/fleet/lifecycle.ts';
import { revisionMark } from '../../api/fleet/revision.ts';
import { inPlaceReadinessGate } from '../../api/in-place/annotations.ts';
import { isInGrace } from '../../api/in-place/grace.ts';
import { isInPlaceComplete } from './in-place/completion.ts';
import { type InPlaceRefresh, type InPlaceWait, type PodWrite, refreshInPlace } from './in-place/update.ts';
import { changeWrites, enter, nextState, type PodChange, stateWithoutUpdate } from './lifecycle.ts';
import { asSeen, type FleetPod } from './pods.ts';
import { refusalOf, refusedFor } from './refused-updates.ts';
import { type FleetScene, isAtGoal } from './scene.ts';
import type { Intention } from './steps.ts';

export interface RefreshPlan {
  readonly steps: readonly Intention[];
  /** Updates in progress, and what they wait for. */
  readonly underWay: readonly { readonly pod: FleetPod; readonly waitingFor: InPlaceWait }[];
  /** Pods with annotations that cannot be parsed. */
  readonly broken: readonly { readonly pod: FleetPod; readonly message: string }[];
  /** When to look again without a change. */
  readonly againInMs?: number;
}

/**
 * The writes that pods need in order to continue. `busy` names pods that are written already in this pass; `isTakenBack`: pods go
 * back to the old revision.
 */
export function planRefresh(
  scene: FleetScene,
  { busy, isTakenBack }: { readonly busy: ReadonlySet<string>; readonly isTakenBack: boolean },
): RefreshPlan {
  const { input, counted } = scene;
  const { metadata } = isTakenBack ? scene.other : scene.target;
  const refused = refusedFor(input.refused, metadata.name);
  const open = counted.filter((pod) => !pod.isTerminating && !busy.has(pod.name) && !isSettled(scene, pod));
  const young = open.map((pod) => silenceLeftMs(pod, input.nowMs)).filter((ms) => ms > 0);
  const looked = open
    .filter((pod) => silenceLeftMs(pod, input.nowMs) === 0)
    .map((pod) => {
      const refresh = refreshInPlace({
        pod: pod.pod,
        nowMs: input.nowMs,
        gates: input.gates,
        canResize: input.hasResizeSubresource,
        isRefused: refusalOf(refused, pod) !== undefined,
      });
      // LC-26: it is held for an update that it no longer needs
      const isBack = pod.state === 'PreparingUpdate' && isAtGoal(scene, pod) && !isTakenBack;
      return { pod, refresh, writes: refreshWrites(scene, pod, refresh, isBack) };
    });

  const waits = looked.flatMap(({ refresh }) =>
    refresh.kind === 'wait' && refresh.againInMs !== undefined ? [refresh.againInMs] : [],
  );
  const due = [...waits, ...young];
  return {
    steps: looked.flatMap(({ pod, writes }): readonly Intention[] =>
      writes.length > 0 ? [{ kind: 'writePod', pod: asSeen(pod.pod), why: 'refresh', writes }] : [],
    ),
    underWay: looked.flatMap(({ pod, refresh }) =>
      refresh.kind === 'wait' ? [{ pod, waitingFor: refresh.waitingFor }] : [],
    ),
    broken: looked.flatMap(({ pod, refresh }) =>
      refresh.kind === 'broken' ? [{ pod, message: refresh.message }] : [],
    ),
    ...(due.length > 0 && { againInMs: Math.min(...due) }),
  };
}

/** Most pods most of the time: they are in service, and their last update is complete. */
function isSettled(scene: FleetScene, { pod, state }: FleetPod): boolean {
  const gate = pod.status?.conditions?.find(({ type }) => type === inPlaceReadinessGate);
  const isOpen = gate?.status === 'True' && !gate.reason && !gate.message;
  return (
    isWorkingState(state) &&
    isOpen &&
    !isInGrace(pod) &&
    missingLabels(scene, pod) === undefined &&
    !lacksReadiness(pod)
  );
}

/**
 * How long a new pod is left to the scheduler and the kubelet, which both write it: our writes would conflict with
 * theirs, and each change would need a write of its own. They are made after the first status of the kubelet, at the
 * latest after this time.
 */
const silenceMs = 10_000;

/** The remaining time to wait for the first status of the kubelet; 0 when there is one, or none is needed. */
function silenceLeftMs({ pod }: FleetPod, nowMs: number): number {
  const { phase = 'Pending', conditions = [] } = pod.status ?? {};
  if (phase !== 'Pending' || conditions.some(({ type }) => type !== 'PodScheduled')) return 0;
  // The clock of the API server may be ahead.
  const ageMs = Math.max(nowMs - Date.parse(pod.metadata.creationTimestamp), 0);
  return Math.max(silenceMs - ageMs, 0);
}

function refreshWrites(
  scene: FleetScene,
  { pod }: FleetPod,
  refresh: InPlaceRefresh,
  isBack: boolean,
): readonly PodWrite[] {
  const { input, strategy, now } = scene;
  const { lifecycle } = strategy;
  const own = refresh.kind === 'write' ? refresh.writes : [];
  // Containers are being changed: the next pass sees the result.
  if (refresh.kind === 'write' && refresh.step !== 'intoService') return own;

  // what is updated, and is not in service again, is under way
  const isComplete = () => refresh.kind !== 'wait' && isInPlaceComplete(pod, input.gates);
  const state = nextState(pod, lifecycle, isComplete) ?? (isBack ? stateWithoutUpdate(pod, lifecycle) : undefined);
  const change = withMissingLabels(scene, pod, state ? enter(state, pod, lifecycle, now) : {});
  return joined(own, withReadiness(pod, change, now));
}

/** PRG-6: set here, so that a new pod needs one write. */
function withReadiness(pod: Pod, change: PodChange, now: string): PodChange {
  const answer = initialReadiness(pod, now)?.filter((condition) => !pod.status?.conditions?.includes(condition));
  return answer ? { ...change, conditions: [...(change.conditions ?? []), ...answer] } : change;
}

/** Labels that name the revision of the pod and that older versions did not write; undefined when it has them all. */
function missingLabels({ scheme, input }: FleetScene, { metadata }: Pod): Readonly<Record<string, string>> | undefined {
  const revision = metadata.labels?.[revisionMark.podRevision];
  if (!revision) return undefined;
  const missing = Object.entries(scheme.podLabels(revision, input.gates)).filter(
    ([key]) => metadata.labels?.[key] === undefined,
  );
  return missing.length === 0 ? undefined : Object.fromEntries(missing);
}

function withMissingLabels(scene: FleetScene, pod: Pod, change: PodChange): PodChange {
  const missing = missingLabels(scene, pod);
  return missing === undefined ? change : { ...change, labels: { ...change.labels, ...missing } };
}

/** Merges the writes and the change: a status write can contain the change, so that one is enough. */
function joined(own: readonly PodWrite[], change: PodChange): readonly PodWrite[] {
  const others = changeWrites(change);
  const [status, ...more] = own;
  const [other, ...rest] = others;
  if (status?.kind !== 'status' || other === undefined || more.length + rest.length > 0) return [...own, ...others];
  const conditions = [...conditionsIn(status.patch), ...conditionsIn(other.patch)];
  return [{ kind: 'status', patch: { ...status.patch, ...other.patch, status: { conditions } } }];
}

function conditionsIn({ status }: JsonObject): readonly Json[] {
  const conditions = isJsonObject(status) ? status.conditions : undefined;
  return isJsonList(conditions) ? conditions : [];
}
