import { patched } from '@temporalio/workflow';
import {
  isSameWork,
  parseRestartChanged,
  type RefreshOperation,
  type RestartWork,
  restartContainersId,
} from '../api/container-recreate-request/operation.ts';
import { commandNames } from '../api/engine/operations.ts';
import { recreateContainers } from './recreate-containers.ts';
import type { RestartEvent } from './recreate-steps.ts';
import { type RefreshHandOver, refreshEnvironment, refreshHandOver } from './refresh-environment.ts';
import { kube } from './shared/activities.ts';
import { handedOver, handOverTo } from './shared/hand-over.ts';
import { newInbox } from './shared/inbox.ts';
import { startNextRun } from './shared/next-run.ts';
import { type Announcement, answersOf, beginOperation, newAnswers } from './shared/operation.ts';
import { type OperatorHandOver, operatorHandOver } from './shared/operator.ts';
import { endAs, type OperationResult, showEnd } from './shared/outcome.ts';
import type { Fields } from './shared/shape.ts';

/** What a run hands over to the next one. */
export interface RestartHandOver {
  readonly operator: OperatorHandOver;
  /** Of the same work. */
  readonly refresh?: RefreshHandOver | undefined;
}

const restartHandOver: Fields<RestartHandOver> = { operator: operatorHandOver, refresh: refreshHandOver };

/**
 * Recreates the containers of one request in the pod that the workflow ID names, or those whose environment is older
 * than the pod's labels and annotations. While it runs, nothing else stops a container of that pod. It ends as that
 * work does, and has the next work on the pod started, if there is any: `queued` is what an earlier run has received.
 */
export async function restartContainers(
  operation: RestartWork,
  queued?: RestartWork,
  handOver?: unknown,
): Promise<OperationResult> {
  const before = handedOver(handOver, restartHandOver);
  const inbox = newInbox<RestartEvent>();
  const answers = newAnswers();
  let next = queued;
  let hasBegun = false;

  const run = beginOperation(
    {
      id: restartContainersId(operation.pod),
      commands: commandNames,
      withTarget: ['retry', 'skip'],
      // a command may come when the run that it is meant for has not begun yet
      request: 'request' in operation ? operation.request.uid : '',
      before: before.operator,
    },
    {
      changed: (payload) => {
        next = nextWork(operation, next, payload);
        // also when it is about other work: that work waits for this run to end, and this run may have to end because
        // of it. A signal from before the run began is older than its first look.
        if (hasBegun) inbox.put({ kind: 'changed' });
      },
      command: (command) => inbox.put({ kind: 'command', command }),
      identified: ({ id }, by) => inbox.put({ kind: 'commandIdentified', id, by }),
      cancelled: (abort) => inbox.put({ kind: 'command', command: abort }),
      answerTo: answersOf(answers),
      announce: 'request' in operation ? announceOn(operation.request) : announceRefresh(operation),
    },
  );

  return await run.carryOut(async () => {
    hasBegun = true;
    const end =
      'request' in operation
        ? await recreateContainers(operation, inbox, run, answers)
        : await refreshEnvironment(operation, inbox, { ...run, answers }, before.refresh);
    if (end.kind === 'handOver') {
      // the run has waited for all events already: a later signal would be lost to the next run. All other progress is
      // in the cluster, so the next run needs only the same references.
      const rest = { operator: run.operator.handOver(), ...(end.refresh && { refresh: end.refresh }) };
      return await handOverTo<typeof restartContainers>([operation, next, rest]);
    }
    answers.close('what it was about has ended');
    await run.announced();
    await startNextRun(
      run,
      () => next,
      (work) => ('request' in work ? work.request.name : `the environment of ${work.pod.name}`),
    );
    if (!end.isShown) showEnd(end);
    return endAs(end);
  });
}

/** The next work on the same pod, after a signal `changed`. */
function nextWork(current: RestartWork, next: RestartWork | undefined, payload: unknown): RestartWork | undefined {
  const { operation: other, withdrawn } = parseRestartChanged(payload);
  if (!other || other.pod.uid !== current.pod.uid || isSameWork(other, current)) return next;
  if (!withdrawn) return other;
  return next && isSameWork(next, other) ? undefined : next;
}

function announceOn(request: Extract<RestartWork, { request: unknown }>['request']) {
  return ({ options, event }: Announcement) =>
    kube.announceCommand.executeWithOptions(options, [{ request, ...event }]);
}

/** Runs of earlier releases emit none for a refresh. */
function announceRefresh({ pod }: RefreshOperation) {
  return async ({ options, event }: Announcement) => {
    if (patched('refreshEvents'))
      await kube.announceOnPod.executeWithOptions(options, [{ pod, of: 'refresh', ...event }]);
  };
}
