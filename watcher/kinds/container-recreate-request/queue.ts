/** Requests that wait for their turn: what they report, their deadline, and commands about them. */

import { fnv1a } from '../../../api/base/fnv.ts';
import { timestamp } from '../../../api/base/time.ts';
import { recreateMessage, recreateWait, recreateWaits } from '../../../api/container-recreate-request/texts.ts';
import type { ContainerRecreateRequest } from '../../../api/container-recreate-request/types.ts';
import { eventComponent } from '../../../api/core/well-known.ts';
import { commandEvent, takesNoTarget } from '../../../api/engine/operations.ts';
import { tellEvent } from '../../../kube/events.ts';
import { earliest, type PassResult } from '../../../kube/keyed-queue.ts';
import { notOfRequest } from '../../../plan/recreate/answer.ts';
import { isPaused, type RequestQueue } from '../../../plan/recreate/request-queue.ts';
import { skippedMessage, skipperOf } from '../../../plan/recreate/status.ts';
import type { AnnotatedCommand } from '../../operator-commands.ts';
import { troubleOf } from './operation.ts';
import { podUidOf } from './request.ts';
import type { RequestPassDependencies } from './request-pass-dependencies.ts';
import { writeEnd, writeStatus, writeWait } from './status.ts';

/**
 * A request that cannot continue reports why: it is queued behind another one, or Temporal does not run its operation. The
 * deadline of a request runs in the queue, too (CRR-13); once its turn has come, the operation enforces it.
 */
export async function writeWaits(
  { first, behind }: RequestQueue,
  inFront: { readonly blockedBy: readonly string[]; readonly unblock?: string },
  world: RequestPassDependencies,
): Promise<PassResult | undefined> {
  const since = timestamp(world.now());
  const due: PassResult[] = [];
  for (const request of behind) {
    const leftMs = timeLeftMs(request, world.now());
    if (leftMs !== undefined && leftMs <= 0) {
      await endInQueue(request, world);
      continue;
    }
    if (leftMs !== undefined) due.push({ againInMs: leftMs });
    // a pause stays visible: the status stores it until the request is resumed
    if (isPaused(request)) continue;
    await writeWait(request, recreateWait('Queued', { ...inFront, since }), 'Pending', world);
  }
  // a pause stays visible: the status stores it in case the operation is restarted
  if (first && !isPaused(first)) {
    const trouble = troubleOf(first, podUidOf(first), world);
    if (trouble) await writeWait(first, recreateWait(trouble.reason, { ...trouble, since }), undefined, world);
  }
  return earliest(...due);
}

/** The time until the deadline; undefined when there is none, or when the operation enforces it. */
function timeLeftMs({ spec, status, metadata }: ContainerRecreateRequest, now: number): number | undefined {
  if (spec.activeDeadlineSeconds === undefined || status?.phase === 'Recreating') return undefined;
  return Date.parse(metadata.creationTimestamp) + spec.activeDeadlineSeconds * 1000 - now;
}

/** Fails a request whose turn has not come before its deadline. */
async function endInQueue(request: ContainerRecreateRequest, world: RequestPassDependencies): Promise<void> {
  const { podName } = request.spec;
  await writeEnd(request, world, {
    reason: 'DeadlineExceeded',
    text: recreateMessage.deadlineExceeded,
    message: `activeDeadlineSeconds passed while this request was queued: no container of pod "${podName}" was recreated`,
  });
}

/**
 * Carries out a command about a request that waits for its turn, by writing it where the operation of the request will
 * find it: a pause into its wait, a skip into the state of the container. False when the request has changed meanwhile.
 * May be repeated, so a skip without a target always means the first container.
 */
export async function obeyInQueue(
  request: ContainerRecreateRequest,
  command: AnnotatedCommand,
  world: RequestPassDependencies,
): Promise<boolean> {
  const order = orderInQueue(request, command, timestamp(world.now()));
  if ('write' in order && !(await order.write(request, world))) return false;
  const { name, target, by, id } = command;
  const answer = 'refused' in order ? order : { target: order.target ?? target };
  const text = commandEvent(name, by, answer);
  if (world.commandEvents.take(request, text)) {
    const key = fnv1a(id).toString(16);
    await tellEvent(world.kube, {
      about: request,
      component: eventComponent.recreate,
      ...text,
      atMs: world.now(),
      key,
    });
  }
  return true;
}

/** What a command means for a request in the queue, or why it means nothing. */
type OrderInQueue =
  | { readonly refused: string }
  | {
      readonly write: (request: ContainerRecreateRequest, world: RequestPassDependencies) => Promise<boolean>;
      readonly target?: string;
    };

function orderInQueue(
  request: ContainerRecreateRequest,
  { name, target, by }: AnnotatedCommand,
  since: string,
): OrderInQueue {
  if (target !== undefined && name !== 'skip' && name !== 'retry') return { refused: takesNoTarget(name) };
  switch (name) {
    case 'abort':
      return {
        write: (queued, world) =>
          writeEnd(queued, world, {
            reason: 'Aborted',
            text: recreateMessage.aborted(by),
            message: `Aborted by ${by} while it was queued: no container of pod "${queued.spec.podName}" was recreated`,
          }),
      };
    case 'pause': {
      const unblock = `${recreateWaits.Paused}; paused by ${by}`;
      const waitingFor = recreateWait('Paused', { blockedBy: [], since, unblock });
      return { write: (queued, world) => writeStatus(queued, world, { phase: 'Pending', waitingFor }) };
    }
    case 'resume':
      if (!isPaused(request)) return { refused: 'the request is not paused' };
      return { write: (queued, world) => writeStatus(queued, world, { phase: 'Pending', waitingFor: null }) };
    case 'skip':
      return skipInQueue(request, target, by);
    case 'retry':
    case 'undo':
      return { refused: 'the request waits for its turn: nothing has failed that could be tried again' };
  }
}

function skipInQueue(request: ContainerRecreateRequest, target: string | undefined, by: string): OrderInQueue {
  const { status, spec } = request;
  const names = spec.containers.map((one) => one.name);
  const container = target ?? names[0];
  if (container === undefined || !names.includes(container)) return { refused: notOfRequest(container ?? '', names) };
  const states = status?.containerRecreateStates ?? [];
  const state = states.find((one) => one.name === container) ?? { name: container, phase: 'Pending' };
  const skipper = skipperOf(state);
  // written by an attempt whose Event is missing
  if (skipper === by) return { write: async () => true, target: container };
  if (skipper !== undefined) return { refused: `container "${container}" is skipped already, by ${skipper}` };
  if (state.phase !== 'Pending') return { refused: `container "${container}" is ${state.phase} already` };
  const others = states.filter((one) => one.name !== container);
  const containerRecreateStates = [...others, { ...state, message: skippedMessage(by) }];
  const phase = status?.phase ?? '';
  return {
    write: (queued, world) => writeStatus(queued, world, { phase, containerRecreateStates }),
    target: container,
  };
}
