import { ApplicationFailure } from '@temporalio/common';
import { qualifiedName } from '../../api/core/refs.ts';
import { sidecarSets } from '../../api/sidecar-set/types.ts';
import type {
  SwapAwaitAnswer,
  SwapAwaitRequest,
  SwapLook,
  SwapOfPod,
  SwapStepAnswer,
  SwapStepRequest,
} from '../../plan/sidecar-swap/model.ts';
import type { PermitLife } from '../../watcher/permits/held.ts';

import { type FleetDependencies, whileItCounts } from './permit-holder.ts';

/** The controller of SidecarSets, as far as swaps need it; none while this watcher does not lead. */
export interface SwapHolder {
  /** How far a swap is. */
  look(of: SwapOfPod): SwapLook;
  /** Writes this step once the SidecarSet lets the pod go. Rejects when its life or the term ends. */
  step(request: SwapStepRequest, life: PermitLife): Promise<SwapStepAnswer>;
  /** Waits until the kubelet reports what the last step has written. */
  await(request: SwapAwaitRequest, life: PermitLife): Promise<SwapAwaitAnswer>;
  /** What people see of what is handed in for this pod. */
  progressOf(podUid: string): unknown;
}

/** Where these activities find the controller. */
export type SwapDependencies = FleetDependencies<SwapHolder>;

/** Says how far the swap of sidecars in a pod is. */
export function lookAtSwapActivity({
  queueOf,
}: Pick<SwapDependencies, 'queueOf'>): (input: SwapOfPod) => Promise<SwapLook> {
  return async (of) => {
    const holder = queueOf(sidecarSets.kind);
    if (holder) return holder.look(of);
    const what = `Cannot look at the sidecars of pod "${qualifiedName(of.pod)}"`;
    throw ApplicationFailure.retryable(`${what}: this watcher is not the leader`, 'Unreachable');
  };
}

/**
 * Has the leading watcher write one step of a swap, and waits, heartbeating, until it may. Another attempt finds what has
 * been written.
 */
export function swapStepActivity(dependencies: SwapDependencies): (input: SwapStepRequest) => Promise<SwapStepAnswer> {
  return async (request) => {
    const of = { kind: sidecarSets.kind, target: targetOf(request), doing: `${doing[request.step]} for` };
    return await whileItCounts(dependencies, of, (holder, life) => holder.step(request, life), {
      progress: (holder) => holder.progressOf(request.pod.uid),
    });
  };
}

/** Waits, heartbeating, until the kubelet runs what the last step has written. */
export function awaitSwapActivity(
  dependencies: SwapDependencies,
): (input: SwapAwaitRequest) => Promise<SwapAwaitAnswer> {
  return async (request) => {
    const of = { kind: sidecarSets.kind, target: targetOf(request), doing: `await pod "${request.pod.name}" of` };
    return await whileItCounts(dependencies, of, (holder, life) => holder.await(request, life), {
      progress: (holder) => holder.progressOf(request.pod.uid),
    });
  };
}

const doing = { begin: 'write new images', reset: 'write empty images', cancel: 'restore the old version' } as const;

function targetOf({ set }: Pick<SwapStepRequest, 'set'>) {
  return { namespace: '', ...set };
}
