/** What the status of a ContainerRecreateRequest reports. */

import { type CompleteReason, type FailedReason, recreateMessage } from '../../api/container-recreate-request/texts.ts';
import type {
  ContainerRecreateState,
  ContainerStatusSnapshot,
  RecreatePhase,
} from '../../api/container-recreate-request/types.ts';
import type { Wait } from '../decision.ts';
import { shortened } from '../text-size.ts';
import { type ContainerProgress, containerMessageBytes, type End, isSettled, type Progress } from './model.ts';
import { recreateWait } from './waits.ts';

/** As JSON; texts come from runtimes and people, and are stored in histories. */
const outcomeBytes = 1500;

/** The status without times, which are added by the caller. */
export interface RecreateStatus {
  readonly phase: RecreatePhase;
  readonly message: string;
  readonly states: readonly ContainerRecreateState[];
  readonly snapshot: readonly ContainerStatusSnapshot[];
  readonly condition?: RecreateOutcome;
  readonly waitingFor?: Wait;
}

/** The result of the request, as in its last condition. */
export type RecreateOutcome =
  | { readonly type: 'Complete'; readonly reason: CompleteReason; readonly message: string }
  | { readonly type: 'Failed'; readonly reason: FailedReason; readonly message: string };

/** The status of the request; the runtime is the prefix of every container ID. */
export function recreateStatus(progress: Progress, runtime: string): RecreateStatus {
  const end = reportedEnd(progress);
  const waitingFor = recreateWait(progress);
  const begun = progress.phase === 'Recreating';
  return {
    phase: end ? 'Completed' : progress.phase,
    message: end ? statusMessage(end, progress) : '',
    states: progress.containers.filter((container) => begun || isSettled(container)).map(containerState),
    snapshot: progress.containers.flatMap((container) =>
      container.replacement
        ? {
            name: container.name,
            ready: true,
            restartCount: container.replacement.restartCount,
            containerID: `${runtime}://${container.replacement.containerId}`,
          }
        : [],
    ),
    ...(end ? { condition: conditionAtEnd(end, progress) } : {}),
    ...(waitingFor && !end ? { waitingFor } : {}),
  };
}

/** The end, if it can be reported. A written end is final, so the name of who aborted has to be known. */
function reportedEnd({ end, commands }: Progress): Exclude<End, { kind: 'withdrawn' }> | undefined {
  if (end === undefined || end.kind === 'withdrawn') return undefined;
  const isNamed = end.kind !== 'aborted' || commands.find(({ id }) => id === end.command)?.by !== undefined;
  return isNamed ? end : undefined;
}

function containerState(container: ContainerProgress): ContainerRecreateState {
  const message = container.skippedBy !== undefined ? skippedMessage(container.skippedBy) : container.message;
  return {
    name: container.name,
    phase: container.phase,
    ...(message ? { message } : {}),
    ...(container.isKilled ? { isKilled: true } : {}),
    ...(container.targetRecorded && container.targetId ? { targetContainerID: container.targetId } : {}),
  };
}

const skippedPrefix = 'skipped by ';

/** The message of a skipped container. */
export function skippedMessage(by: string): string {
  return shortened(`${skippedPrefix}${skipperName(by)}`, containerMessageBytes);
}

/** Who skipped this container, according to its state; undefined when it was not skipped. */
export function skipperOf(state: ContainerRecreateState): string | undefined {
  const isSkipped = state.phase !== 'Succeeded' && state.message?.startsWith(skippedPrefix);
  return isSkipped ? state.message?.slice(skippedPrefix.length) : undefined;
}

function skipperName(skippedBy: string): string {
  return skippedBy.startsWith('#') ? 'an operator' : skippedBy;
}

function statusMessage(end: Exclude<End, { kind: 'withdrawn' }>, progress: Progress): string {
  switch (end.kind) {
    case 'settled':
      return '';
    case 'podGone':
      return recreateMessage.podGone;
    case 'nodeSilent':
      return recreateMessage.nodeSilent;
    case 'deadline':
      return recreateMessage.deadlineExceeded;
    case 'noRuntime':
      return recreateMessage.runtimeNotFound(end.message);
    case 'aborted':
      return recreateMessage.aborted(abortedBy(end, progress));
  }
}

function conditionAtEnd(end: Exclude<End, { kind: 'withdrawn' }>, progress: Progress): RecreateOutcome {
  const outcome = outcomeAtEnd(end, progress);
  return { ...outcome, message: shortened(outcome.message, outcomeBytes) };
}

function outcomeAtEnd(end: Exclude<End, { kind: 'withdrawn' }>, progress: Progress): RecreateOutcome {
  const { containers, order } = progress;
  const isDone = ({ phase, isDown }: ContainerProgress) => phase === 'Succeeded' || isDown;
  const succeeded = containers.filter(isDone).length;
  const open = containers.filter((container) => !isDone(container)).map(({ name }) => `"${name}"`);
  const verb = order.stopOnly ? 'stopped' : 'recreated';
  const done = `${succeeded} of ${containers.length} containers of pod "${order.pod}" were ${verb}`;
  const left = open.length > 0 ? `; not ${firstTenOf(open)}` : '';
  switch (end.kind) {
    case 'settled': {
      const failed = containers.filter(({ phase, skippedBy }) => phase === 'Failed' && skippedBy === undefined);
      const why = failed.map(({ name, message }) => `; "${name}": ${message ?? ''}`).join('');
      if (failed.length === 0 || order.failurePolicy === 'Ignore') {
        const reason = order.stopOnly ? 'ContainersStopped' : 'ContainersRecreated';
        return { type: 'Complete', reason, message: `${done}${left}${why}` };
      }
      return { type: 'Failed', reason: 'StopFailed', message: `${done}${left}${why}` };
    }
    case 'podGone':
      return { type: 'Failed', reason: 'PodGone', message: `${done}, then the pod went away${left}` };
    case 'nodeSilent':
      return {
        type: 'Failed',
        reason: 'NodeSilent',
        message: `No daemon answered for the node of pod "${order.pod}"${left}`,
      };
    case 'deadline':
      return { type: 'Failed', reason: 'DeadlineExceeded', message: `${done} before activeDeadlineSeconds${left}` };
    case 'noRuntime':
      return { type: 'Failed', reason: 'RuntimeNotFound', message: `${end.message}${left}` };
    case 'aborted':
      return { type: 'Failed', reason: 'Aborted', message: `Aborted by ${abortedBy(end, progress)}: ${done}${left}` };
  }
}

/** The first ten, and how many more. */
function firstTenOf(names: readonly string[]): string {
  const more = names.length > 10 ? ` and ${names.length - 10} more` : '';
  return `${names.slice(0, 10).join(', ')}${more}`;
}

function abortedBy(end: Extract<End, { kind: 'aborted' }>, progress: Progress): string {
  return progress.commands.find(({ id }) => id === end.command)?.by ?? 'an operator';
}
