/**
 * The lifecycle of a pod with hooks: a user's own controller holds the pod before it counts as working, before and
 * after an in-place update, and before it is deleted.
 *
 * The contract is metadata alone. Windlass sets the state label; the other side sets or removes marks, which are labels
 * and finalizers. A hold before something ends when all marks are gone; a hold after something ends when all are set
 * (LC-3). There are no timeouts.
 */

import type { Pod, PodCondition } from '../../api/core/pod.ts';
import { withoutReadinessKey, withReadinessKey } from '../../api/core/pod-readiness.ts';
import {
  hasMarks,
  hookKey,
  isAllHooked,
  isHooked,
  type Lifecycle,
  type LifecycleState,
  lifecycleMark,
  lifecycleStateOf,
} from '../../api/fleet/lifecycle.ts';
import type { PodWrite } from './in-place/update.ts';

/** The next state, if the condition of the present one is met; undefined: it is not. */
export function nextState(
  pod: Pod,
  lifecycle: Lifecycle | undefined,
  isUpdateComplete: () => boolean,
): LifecycleState | undefined {
  switch (lifecycleStateOf(pod)) {
    case 'PreparingNormal': {
      const hook = lifecycle?.preNormal;
      const isDone = hook === undefined ? Boolean(pod.spec.nodeName) : isAllHooked(hook, pod); // LC-11
      return isDone ? 'Normal' : undefined;
    }
    case 'Updating':
      return isUpdateComplete() ? stateAfterUpdate(pod, lifecycle) : undefined;
    case 'Updated': {
      const hook = lifecycle?.inPlaceUpdate;
      return hook === undefined || isAllHooked(hook, pod) ? 'Normal' : undefined; // LC-23
    }
    default:
      return undefined;
  }
}

/** LC-22: the state after a complete update. */
function stateAfterUpdate(pod: Pod, lifecycle: Lifecycle | undefined): LifecycleState {
  return lifecycle !== undefined && !isAllHooked(lifecycle.inPlaceUpdate, pod) ? 'Updated' : 'Normal';
}

/** LC-26: the state of a pod in PreparingUpdate that is not to be updated after all. */
export function stateWithoutUpdate(pod: Pod, lifecycle: Lifecycle | undefined): LifecycleState {
  return isAllHooked(lifecycle?.inPlaceUpdate, pod) || lifecycle?.inPlaceUpdate === undefined ? 'Normal' : 'Updated';
}

/** What has to be done before a pod is updated in place. */
export type BeforeUpdate =
  /** Nothing. */
  | 'start'
  /** Request the removal of the marks. */
  | 'prepare'
  /** Some marks are still set. */
  | 'wait';

/** LC-21, LC-24, LC-25, LC-29: whether an in-place update of this pod may start. */
export function beforeUpdate(pod: Pod, lifecycle: Lifecycle | undefined): BeforeUpdate {
  const hook = lifecycle?.inPlaceUpdate;
  switch (lifecycleStateOf(pod)) {
    case 'Updating':
      return 'start';
    case 'PreparingUpdate':
      return isHooked(hook, pod) ? 'wait' : 'start';
    case 'Updated':
      return hasMarks(hook) ? 'prepare' : 'start';
    default:
      return isHooked(hook, pod) ? 'prepare' : 'start';
  }
}

/** What has to be done before a pod is deleted. */
export type BeforeDelete = 'delete' | 'prepare' | 'wait';

/** LC-40, LC-41: whether this pod may be deleted. */
export function beforeDelete(pod: Pod, lifecycle: Lifecycle | undefined): BeforeDelete {
  if (!isHooked(lifecycle?.preDelete, pod)) return 'delete';
  return lifecycleStateOf(pod) === 'PreparingDelete' ? 'wait' : 'prepare';
}

/** LC-44: whether a deletion that waits for its hook can be cancelled at all. */
export function canCancelDelete(lifecycle: Lifecycle | undefined): boolean {
  return !lifecycle?.preDelete?.markPodNotReady && !lifecycle?.inPlaceUpdate?.markPodNotReady;
}

/** The changes of a pod, besides its containers. */
export interface PodChange {
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  /** Finalizers to add. */
  readonly finalizers?: readonly string[];
  /** Conditions to set. */
  readonly conditions?: readonly PodCondition[];
}

/** The metadata of the state, entered now. */
export function stateMetadata(
  state: LifecycleState,
  now: string,
): { readonly labels: Readonly<Record<string, string>>; readonly annotations: Readonly<Record<string, string>> } {
  return { labels: { [lifecycleMark.state]: state }, annotations: { [lifecycleMark.timestamp]: now } };
}

/** The changes with which the pod enters another state (LC-24, LC-52). */
export function enter(state: LifecycleState, pod: Pod, lifecycle: Lifecycle | undefined, now: string): PodChange {
  const metadata = stateMetadata(state, now);
  const conditions = readinessIn(state, pod, lifecycle, now);
  const readiness = conditions === undefined ? {} : { conditions };

  if (state !== 'PreparingUpdate' || lifecycleStateOf(pod) !== 'Updated') return { ...metadata, ...readiness };
  // LC-24: the user's controller is to drain again, so the marks that it removes have to be set
  const { labelsHandler = {}, finalizersHandler = [] } = lifecycle?.inPlaceUpdate ?? {};
  const finalizers = finalizersHandler.filter((name) => !pod.metadata.finalizers?.includes(name));
  return {
    ...metadata,
    labels: { ...labelsHandler, ...metadata.labels },
    ...(finalizers.length > 0 && { finalizers }),
    ...readiness,
  };
}

/** LC-53: the changes of a pod that is held before its deletion when the flag was set later; undefined: none. */
export function whileHeldBeforeDelete(pod: Pod, lifecycle: Lifecycle | undefined, now: string): PodChange | undefined {
  const conditions = readinessIn('PreparingDelete', pod, lifecycle, now);
  return conditions && { conditions };
}

function readinessIn(
  state: LifecycleState,
  pod: Pod,
  lifecycle: Lifecycle | undefined,
  now: string,
): readonly PodCondition[] | undefined {
  const after = conditionsIn(state, pod, lifecycle, now);
  return after?.filter((condition) => !pod.status?.conditions?.includes(condition));
}

/** All conditions of the pod in this state; undefined: none changes. */
function conditionsIn(
  state: LifecycleState,
  pod: Pod,
  lifecycle: Lifecycle | undefined,
  now: string,
): readonly PodCondition[] | undefined {
  switch (state) {
    case 'PreparingDelete':
      return lifecycle?.preDelete?.markPodNotReady ? withReadinessKey(pod, hookKey.preDelete, now) : undefined;
    case 'PreparingUpdate':
      return lifecycle?.inPlaceUpdate?.markPodNotReady ? withReadinessKey(pod, hookKey.preUpdate, now) : undefined;
    // LC-54: on every way back, or the pod stays out of service for good
    case 'Updated':
    case 'Normal':
      return withoutReadinessKey(pod, hookKey.preUpdate, now);
    case 'PreparingNormal':
      return withoutReadinessKey(pod, hookKey.preDelete, now);
    case 'Updating':
      return undefined;
  }
}

/**
 * The change as writes (strategic merge patches). A status write may contain labels and annotations, so mostly one is
 * enough; the write that takes a pod out of service always comes first (LC-53).
 */
export function changeWrites({ labels, annotations, finalizers, conditions }: PodChange): readonly PodWrite[] {
  const metadata = { ...(labels && { labels }), ...(annotations && { annotations }) };
  const hasMetadata = Object.keys(metadata).length > 0;
  if (conditions === undefined) {
    const all = { ...metadata, ...(finalizers && { finalizers }) };
    return Object.keys(all).length > 0 ? [{ kind: 'pod', patch: { metadata: all } }] : [];
  }
  const patch = {
    ...(hasMetadata && { metadata }),
    status: {
      conditions: conditions.map(({ type, status, reason, message, lastTransitionTime }) => ({
        type,
        status,
        reason: reason ?? null,
        message: message ?? null,
        lastTransitionTime: lastTransitionTime ?? null,
      })),
    },
  };
  const status: PodWrite = { kind: 'status', patch };
  return finalizers ? [status, { kind: 'pod', patch: { metadata: { finalizers } } }] : [status];
}
