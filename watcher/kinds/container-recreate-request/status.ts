import { sameJson } from '../../../api/base/json.ts';
import { timestamp } from '../../../api/base/time.ts';
import { type FailedReason, recreateCondition } from '../../../api/container-recreate-request/texts.ts';
import { type ContainerRecreateRequest, crr } from '../../../api/container-recreate-request/types.ts';
import { withCondition } from '../../../api/core/conditions.ts';
import type { WaitingFor } from '../../../api/engine/waiting-for.ts';
import { unlessMovedOn } from '../../../kube/moved-on.ts';
import { generationOf, nameOf } from './request.ts';
import type { RequestPassDependencies } from './request-pass-dependencies.ts';

/**
 * Writes these fields of the status, provided that the request has not changed since it was read; otherwise returns
 * false.
 */
export async function writeStatus(
  request: ContainerRecreateRequest,
  world: RequestPassDependencies,
  status: object,
): Promise<boolean> {
  const { uid, resourceVersion } = request.metadata;
  const body = { metadata: { uid, resourceVersion }, status };
  const patch = world.kube.patch(crr, nameOf(request), 'merge', body, { subresource: 'status' });
  return (await unlessMovedOn(patch)) !== undefined;
}

/** Completes a request as Failed. */
export async function writeEnd(
  request: ContainerRecreateRequest,
  world: RequestPassDependencies,
  { reason, text, message }: { readonly reason: FailedReason; readonly text: string; readonly message: string },
): Promise<boolean> {
  const at = timestamp(world.now());
  const condition = { type: recreateCondition.failed, status: 'True', reason, message } as const;
  return await writeStatus(request, world, {
    phase: 'Completed',
    completionTime: at,
    message: text,
    conditions: withCondition(request.status?.conditions, condition, at),
    waitingFor: null,
    observedGeneration: generationOf(request),
  });
}

/** Writes what a request waits for, and the phase Pending if it has none yet. */
export async function writeWait(
  request: ContainerRecreateRequest,
  waitingFor: WaitingFor,
  phase: 'Pending' | undefined,
  world: RequestPassDependencies,
): Promise<void> {
  const { status } = request;
  const known = status?.waitingFor;
  const isKnown = known?.reason === waitingFor.reason && known.blockedBy.join() === waitingFor.blockedBy.join();
  const told = isKnown ? { ...waitingFor, since: known.since } : waitingFor;
  const newPhase = phase && !status?.phase ? phase : (status?.phase ?? '');
  if (sameJson(known, told) && newPhase === status?.phase) return;

  await writeStatus(request, world, { phase: newPhase, waitingFor: told });
}
