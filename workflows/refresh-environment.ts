import { condition } from '@temporalio/workflow';
import type { EnvironmentLook } from '../activities/kube/environment.ts';
import type { RefreshOperation } from '../api/container-recreate-request/operation.ts';
import { refusalWait } from '../api/core/failure.ts';
import {
  answerToRefresh,
  applyRefreshEvent,
  newRefresh,
  nextRefresh,
  type RefreshDecision,
  type RefreshEvent,
  type RefreshProgress,
  type StaleInstance,
} from '../plan/refresh-environment.ts';
import { fitting } from '../plan/text-size.ts';
import type { RestartEvent } from './recreate-steps.ts';
import { look, onNode } from './shared/activities.ts';
import { type Displayed, newDisplay } from './shared/display.ts';
import type { Inbox } from './shared/inbox.ts';
import type { Answers, OperationRun } from './shared/operation.ts';
import type { Operator } from './shared/operator.ts';
import type { Outcome } from './shared/outcome.ts';
import { reasonOf } from './shared/refusals.ts';
import { listOf, object, optional, text } from './shared/shape.ts';
import { untilAllowed } from './shared/until-allowed.ts';

/** How work on a pod ends: for good, or by a hand-over to the next run. */
export type RestartEnd =
  /** `isShown`: in the search attributes already. */
  (Outcome & { readonly isShown?: boolean }) | { readonly kind: 'handOver'; readonly refresh?: RefreshHandOver };

/** What is handed over to the next run. */
export type RefreshHandOver = Pick<RefreshProgress, 'pausedBy' | 'skipped'>;

/** The shape of what a previous run has handed over. */
export const refreshHandOver = object<RefreshHandOver>({ pausedBy: optional(text), skipped: listOf(text) });

/**
 * Stops the containers of a pod that run with an old environment, until none is left that this run has not stopped. It
 * is a part of the workflow `restartContainers`, whose ID is the lock on the pod.
 */
export async function refreshEnvironment(
  operation: RefreshOperation,
  inbox: Inbox<RestartEvent>,
  run: OperationRun & { readonly answers: Answers },
  before?: RefreshHandOver,
): Promise<RestartEnd> {
  const { operator, answers } = run;
  let progress: RefreshProgress = { ...newRefresh(operation.pod.name), ...before };
  const display = newDisplay();

  for (;;) {
    const seen = await lookAtEnvironment(operation, operator);
    for (const event of inbox.isEmpty() ? [] : await inbox.take()) {
      if (event.kind !== 'command') continue;
      answers.put(event.command, answerToRefresh(progress, event.command, seen));
      progress = applyRefreshEvent(progress, event);
    }
    const decision = nextRefresh(progress, seen);
    if (decision.kind !== 'done') display(displayed(decision));

    switch (decision.kind) {
      case 'done':
        // a change during the look may be newer than what it saw
        if (inbox.isEmpty() || progress.aborted) return endOf(progress, run);
        break;
      case 'wait': {
        const isReceived = await anyEvent(decision.againInMs);
        if (mayHandOver()) {
          const { pausedBy, skipped } = progress;
          const refresh = { skipped: fitting(skipped, mostSkippedBytes), ...(pausedBy !== undefined && { pausedBy }) };
          return { kind: 'handOver', refresh };
        }
        if (!isReceived) progress = applyRefreshEvent(progress, { kind: 'tryAgain' });
        break;
      }
      case 'stop': {
        const node = seen.node ?? operation.node;
        const ends = await Promise.all(decision.instances.map((instance) => stop(operation, node.uid, instance)));
        progress = ends.reduce(applyRefreshEvent, progress);
      }
    }
  }

  /** An unread event, or a command without a known sender, would be lost to the next run. */
  function mayHandOver(): boolean {
    return operator.isHandOverDue() && inbox.isEmpty() && operator.unidentified() === 0 && run.isAnnounced();
  }

  /** Waits for an event, or until a hand-over is possible; false when no event arrived in time. */
  async function anyEvent(ms: number | undefined): Promise<boolean> {
    const isThere = () => !inbox.isEmpty() || mayHandOver();
    if (ms !== undefined) return await condition(isThere, ms, { summary: 'try again' });
    await condition(isThere);
    return true;
  }
}

function endOf({ pod, aborted, stopped }: RefreshProgress, run: OperationRun): Outcome {
  const done = `${stopped.length} containers of pod "${pod}" with an old environment were stopped`;
  if (aborted) return { kind: run.aborted(), reason: 'Aborted', message: `Aborted by an operator: ${done}` };
  return { kind: 'Completed', reason: 'EnvironmentRefreshed', message: done };
}

function displayed(decision: RefreshDecision): Displayed {
  const waitingFor = decision.kind === 'wait' ? decision.waitingFor : undefined;
  const reason = waitingFor?.reason ?? '';
  return { details: waitingFor ? `${reason}: ${waitingFor.unblock}` : '', phase: 'Refreshing', reason };
}

/** Names of containers are in one payload with everything else that is handed over. */
const mostSkippedBytes = 500;

async function lookAtEnvironment(operation: RefreshOperation, operator: Operator): Promise<EnvironmentLook> {
  const summary = `look at ${operation.pod.name}`;
  return await untilAllowed(() => look.lookAtEnvironment.executeWithOptions({ summary }, [operation]), operator);
}

/** Stops one instance. The result is an event. */
async function stop({ pod }: RefreshOperation, nodeUid: string, instance: StaleInstance): Promise<RefreshEvent> {
  const { name: container, runtime, containerId } = instance;
  try {
    const result = await onNode(nodeUid)['node.v1.refreshContainer'].executeWithOptions(
      { summary: `refresh ${container}@${pod.name}` },
      [{ pod, runtime, container, containerId }],
    );
    if (result.kind === 'failed' || result.kind === 'noRuntime')
      return { kind: 'failed', reason: 'StopFailed', message: result.message };
    return { kind: 'stopped', containerId };
  } catch (error) {
    const why = reasonOf(error);
    switch (why.kind) {
      case 'nodeSilent':
        return { kind: 'failed', reason: 'NodeSilent', message: 'no daemon has answered for the node' };
      case 'away':
        return { kind: 'failed', reason: 'RuntimeUnreachable', message: why.message };
      case 'refused':
        return { kind: 'failed', reason: refusalWait(why.reason), message: why.message };
      case 'superseded':
        return { kind: 'failed', reason: 'PodChanged', message: why.message };
    }
  }
}
