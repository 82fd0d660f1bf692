import {
  CancellationScope,
  condition,
  defineSignal,
  isCancellation,
  setCurrentDetails,
  setHandler,
  sleep,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import type { RequestLook } from '../activities/kube/requests.ts';
import { timestamp, whenPassed } from '../api/base/time.ts';
import {
  isSameWork,
  parseRestartChanged,
  type RestartOperation,
  type RestartWork,
  restartContainersId,
} from '../api/container-recreate-request/operation.ts';
import { crr } from '../api/container-recreate-request/types.ts';
import { changedSignal, commandNames, searchAttributes } from '../api/engine/operations.ts';
import {
  type Action,
  allNamed,
  heard,
  isMomentary,
  isOver,
  momentMs,
  type News,
  newProgress,
  nextActions,
  type Progress,
  started,
  statusOf,
  waitingSince,
} from './plan/recreate/recreate-containers.ts';
import {
  overwritten,
  type ReportedStatus,
  reportedBefore,
  sameStatus,
  statusDelta,
  withDelta,
} from './plan/recreate/report.ts';
import { refusedPauseMs } from './plan/refused-pause.ts';
import { type RefreshHandOver, refreshEnvironment, refreshHandOver } from './refresh-environment.ts';
import { kube, look, nodeSilenceMs, onNode, silenceSlice, untilItWorks } from './shared/activities.ts';
import { handedOver, handOverTo } from './shared/hand-over.ts';
import { type Inbox, newInbox } from './shared/inbox.ts';
import {
  listenToOperator,
  type Operator,
  type OperatorCommand,
  type OperatorHandOver,
  operatorHandOver,
} from './shared/operator.ts';
import { checkOwnId } from './shared/own-id.ts';
import { reasonOf } from './shared/refusals.ts';
import { newReporter } from './shared/reporter.ts';
import type { Fields } from './shared/shape.ts';
import { type Refused, untilAllowed } from './shared/until-allowed.ts';

type OpenRequest = Extract<RequestLook, { kind: 'open' }>;
type Heard = News | { readonly kind: 'changed' };

/** What a run leaves to the next one. */
export interface RestartHandOver {
  readonly operator: OperatorHandOver;
  /** Of the same work. */
  readonly refresh?: RefreshHandOver | undefined;
}

const restartHandOver: Fields<RestartHandOver> = { operator: operatorHandOver, refresh: refreshHandOver };

/**
 * Recreates the containers that one request names, in the pod that the workflow ID names, or those whose environment is
 * older than the pod's labels and annotations. While it runs, nothing else stops a container of that pod. When it ends it
 * goes on with the next work on the pod, if it was told of any: `told` is what an earlier run was told of.
 */
export async function restartContainers(operation: RestartWork, told?: RestartWork, handOver?: unknown): Promise<void> {
  checkOwnId(restartContainersId(operation.pod.uid));
  const before = handedOver(handOver, restartHandOver);
  const inbox = newInbox<Heard>();
  const announcements: Promise<void>[] = [];
  let next = told;
  let isLooking = false;

  setHandler(defineSignal<[unknown]>(changedSignal), (payload) => {
    const { operation: other, withdrawn } = parseRestartChanged(payload);
    if (other && other.pod.uid === operation.pod.uid && !isSameWork(other, operation)) {
      if (!withdrawn) next = other;
      else if (next && isSameWork(next, other)) next = undefined;
    }
    // also when it is about other work: that one waits for this to end, and perhaps it should have
    if (isLooking) inbox.put({ kind: 'changed' });
  });
  const operator = listenToOperator(
    commandNames,
    {
      command: (command) => inbox.put({ kind: 'command', command }),
      identified: (command, by) => {
        inbox.put({ kind: 'commandIdentified', id: command.id, by });
        if ('request' in operation) announcements.push(announce(operation, command, by));
      },
    },
    // a command may come when the run that it is meant for has not begun yet
    { request: 'request' in operation ? operation.request.uid : '', before: before.operator },
  );

  // Temporal's own cancellation ends the request in order, like the command of the same sense
  CancellationScope.current().cancelRequested.catch(() =>
    inbox.put({ kind: 'command', command: { id: 0, name: 'abort', by: 'a cancellation of its workflow' } }),
  );
  await CancellationScope.nonCancellable(async () => {
    isLooking = true; // whatever has come so far is older than the look that follows
    const announced = () => Promise.all(announcements);
    const end =
      'request' in operation
        ? await recreateAsRequested(operation, inbox, operator, announced)
        : await refreshEnvironment(operation, inbox, operator, before.refresh);
    // a run that hands over has waited already: what is signalled from now on would be lost to the next
    if (end === 'ended') await announced();
    // all other progress is in the cluster, so the next run needs only the same references
    else {
      const rest = { operator: operator.handOver(), ...(end !== 'historyFull' && { refresh: end }) };
      await handOverTo<typeof restartContainers>([operation, next, rest]);
    }
    if (!next) return;
    await condition(() => operator.unidentified() === 0);
    if (next) await goOnWith(next, { operator: operator.handOver() });
  });
}

/** Emits an Event that names the command and its sender. Nothing depends on it, and nothing waits for it for long. */
async function announce({ request }: RestartOperation, command: OperatorCommand, by: string): Promise<void> {
  const { name, target, id } = command;
  const key = `${workflowInfo().runId.slice(0, 8)}-${id}`;
  // not by whom: Temporal refuses a task whose summary is long, and anybody may choose any name
  const options = { summary: `emit an Event: ${name}`, scheduleToCloseTimeout: '30s', retry: { maximumAttempts: 3 } };
  const input = { request, command: name, by, key, ...(target === undefined ? {} : { target }) };
  await kube.announceCommand.executeWithOptions(options, [input]).catch(() => undefined);
}

/** Hands the pod over to the next work on it, under the name of whom that is for. */
async function goOnWith(next: RestartWork, rest: RestartHandOver): Promise<never> {
  const { namespace, name } = 'request' in next ? next.request : next.pod;
  const kind = 'request' in next ? crr.kind : 'Pod';
  return await handOverTo<typeof restartContainers>([next, undefined, rest], {
    memo: { ...workflowInfo().memo, kind, namespace, name },
    searchAttributes: {
      [searchAttributes.kind]: [kind],
      [searchAttributes.namespace]: [namespace],
      [searchAttributes.name]: [name],
      [searchAttributes.node]: [next.node.name],
    },
  });
}

/** The whole request, read in parts that fit into history; nothing when there is nothing left to do for it. */
async function openRequest(operation: RestartOperation, operator: Operator): Promise<OpenRequest | undefined> {
  const containers: OpenRequest['containers'][number][] = [];
  for (;;) {
    const found = await lookAtRequest(operation, containers.length, operator);
    if (found.kind !== 'open') return undefined;
    containers.push(...found.containers);
    if (!found.more) return { ...found, containers };
  }
}

async function lookAtRequest(
  operation: RestartOperation,
  skip: number,
  operator: Operator,
  refused?: (why: Refused) => void,
): Promise<RequestLook> {
  const summary = `look at request ${operation.request.name}`;
  return await untilAllowed(
    () => look.lookAtRequest.executeWithOptions({ summary }, [{ operation, skip }]),
    operator,
    refused ? { refused } : {},
  );
}

/** Does what the request asks for, if there is anything left to do for it. */
async function recreateAsRequested(
  operation: RestartOperation,
  inbox: Inbox<Heard>,
  operator: Operator,
  announced: () => Promise<unknown>,
): Promise<'ended' | 'historyFull'> {
  const request = await openRequest(operation, operator);
  return request === undefined ? 'ended' : await recreate(operation, request, inbox, operator, announced);
}

/** Goes through the request, as far as one history holds it. */
async function recreate(
  operation: RestartOperation,
  request: OpenRequest,
  inbox: Inbox<Heard>,
  operator: Operator,
  announced: () => Promise<unknown>,
): Promise<'ended' | 'historyFull'> {
  const waits = new CancellationScope();
  let node = request.node ?? operation.node;
  let progress = newProgress(request);
  let status = reportedBefore(request);
  let looking: Promise<void> | undefined;
  let wantsLook = false;
  /** Why the request cannot be looked at, while that is so. */
  let unseen: Refused | undefined;
  let refusals = 0;
  let silentMs = 0;
  let moment: CancellationScope | undefined;
  showPhase(operation, status);

  const reporter = newReporter({
    initial: status,
    same: sameStatus,
    write: (before, wanted) => writeStatus(operation, before, wanted, operator),
  });

  // before anything is begun: both may be over since long when Temporal was away
  if (request.podGone) progress = heard(progress, { kind: 'podGone' });
  if (request.deadlineSeconds !== undefined) {
    const left = Date.parse(request.createdAt) + request.deadlineSeconds * 1000 - Date.now();
    if (left <= 0) progress = heard(progress, { kind: 'deadline' });
    else after(left, 'activeDeadlineSeconds', () => inbox.put({ kind: 'deadline' }));
  }

  for (;;) {
    // nothing is begun on news that has not been read: it may be an abort
    if (inbox.isEmpty()) begin();
    tell();
    if (progress.end) waits.cancel();
    if (isOver(progress)) break;

    if (operator.isHandOverDue() && canBeHandedOver(progress)) {
      await Promise.all([reporter.flushed(), announced()]);
      if (inbox.isEmpty() && operator.unidentified() === 0) {
        waits.cancel();
        return 'historyFull';
      }
    }
    for (const news of await inbox.take()) {
      if (news.kind === 'changed') void lookAgain();
      else progress = heard(progress, news);
    }
  }
  await reporter.flushed();
  return 'ended';

  function begin(): void {
    for (let actions = nextActions(progress); actions.length > 0; actions = nextActions(progress)) {
      for (const action of actions) {
        progress = started(progress, action);
        perform(action);
      }
    }
  }

  function tell(): void {
    status = statusNow(status, progress, request.runtime, unseen);
    if (isMomentary(progress)) {
      moment ??= after(momentMs, 'report a stop that takes long', () => {
        moment = undefined;
        inbox.put({ kind: 'stopIsLong' });
      });
      return;
    }
    moment?.cancel();
    moment = undefined;
    if (progress.end?.kind !== 'withdrawn') reporter.report(status);
  }

  function perform(action: Action): void {
    switch (action.kind) {
      case 'look':
        void attempt('look', undefined, async () => {
          const input = { ...target(), containers: action.containers };
          // gives up after a while to say why, and then asks on
          const maximumAttempts = progress.runtimeAway === undefined ? 4 : 20;
          const seen = await nodeActivities()['node.v1.lookAtContainers'].executeWithOptions(
            {
              summary: `look at ${operation.pod.name}`,
              scheduleToStartTimeout: progress.phase === 'Recreating' ? nodeSilenceMs : silenceSlice.ms,
              startToCloseTimeout: '30s',
              retry: { ...untilItWorks, maximumAttempts },
            },
            [input],
          );
          return seen.kind === 'noRuntime' ? seen : { kind: 'looked', ...input, instances: seen.instances };
        });
        break;
      case 'drain':
        void attempt('drain', undefined, async () => {
          const summary = `take ${operation.pod.name} out of service`;
          const { since, isHeld } = await kube.takeOutOfService.executeWithOptions({ summary }, [operation]);
          if (isHeld) {
            // unready is seen before anything stops, however short the grace period
            const seen = `see ${operation.pod.name} drained`;
            await kube.awaitDrained.executeWithOptions({ summary: seen }, [operation.pod]);
          }
          const left = whenPassed(since, action.graceSeconds) - Date.now();
          if (left > 0) await sleep(Math.min(left, longestMs), { summary: 'unreadyGracePeriodSeconds' });
          return { kind: 'drained' };
        });
        break;
      case 'recordTarget':
        void attempt('record', action.container, async () => {
          const { container, containerId } = action;
          const summary = `choose ${container}@${operation.pod.name}`;
          const recorded = await kube.recordTarget.executeWithOptions({ summary }, [
            { request: operation.request, container, containerId },
          ]);
          return { kind: 'targetRecorded', container, containerId: recorded.containerId };
        });
        break;
      case 'stop':
        void attempt('stop', action.container, async () => {
          const { kind: _, ...stop } = action;
          const result = await nodeActivities()['node.v1.stopContainer'].executeWithOptions(
            { summary: `restart ${action.container}@${operation.pod.name}` },
            [{ ...target(), ...stop }],
          );
          return { kind: 'stopEnded', container: action.container, result };
        });
        break;
      case 'await':
        void waits.run(() =>
          attempt('await', action.container, async () => {
            const { kind: _, ...wait } = action;
            const result = await nodeActivities()['node.v1.awaitContainer'].executeWithOptions(
              { summary: `wait for ${action.container}@${operation.pod.name}` },
              [{ ...target(), ...wait }],
            );
            if (result.kind === 'podGone') await lookAgain();
            return { kind: 'awaitEnded', container: action.container, result };
          }),
        );
        break;
    }
  }

  function nodeActivities() {
    return onNode(node.uid);
  }

  function target() {
    return { request: operation.request, pod: operation.pod, runtime: request.runtime };
  }

  /** Runs one step; whatever becomes of it is news. */
  async function attempt(during: During, container: string | undefined, step: () => Promise<News>): Promise<void> {
    const startedAt = Date.now();
    const about = { during, ...(container === undefined ? {} : { container }) };
    try {
      inbox.put(await step());
      refusals = 0;
    } catch (error) {
      if (isCancellation(error)) return;
      const why = reasonOf(error);
      switch (why.kind) {
        case 'nodeSilent': {
          const tookMs = Date.now() - startedAt;
          await lookAgain();
          if (during === 'look' && progress.phase !== 'Recreating') {
            if (tookMs <= silenceSlice.ms + silenceSlice.lateMs) silentMs += silenceSlice.ms;
            if (silentMs < nodeSilenceMs) {
              inbox.put({ kind: 'interrupted', ...about });
              break;
            }
          }
          inbox.put({ kind: 'nodeSilent', ...about });
          break;
        }
        case 'refused':
          inbox.put({ kind: 'refused', ...about, reason: why.reason, message: why.message });
          after(refusedPauseMs(why.reason, refusals++), 'retry after a refusal', () => inbox.put({ kind: 'tryAgain' }));
          break;
        case 'away':
          if (during === 'look') inbox.put({ kind: 'runtimeAway', message: why.message });
          else inbox.put({ kind: 'interrupted', ...about });
          break;
        case 'superseded':
          await lookAgain();
          inbox.put({ kind: 'interrupted', ...about });
          break;
      }
    }
  }

  /**
   * Looks whether the request, its pod and its node are still there. A wish that comes during a look may be about
   * something newer than what it sees, so one more look follows; all who wish wait for the last.
   */
  function lookAgain(): Promise<void> {
    wantsLook = true;
    // several wait for it, so the end of one of them must not end it
    looking ??= CancellationScope.nonCancellable(async () => {
      while (wantsLook) {
        wantsLook = false;
        // none of the containers: how they are is known here
        const found = await lookAtRequest(operation, request.containers.length, operator, (why) => {
          unseen = why;
          tell();
        });
        if (unseen) {
          unseen = undefined;
          tell();
        }
        takeIn(found);
      }
      looking = undefined;
    });
    return looking;
  }

  function takeIn(found: RequestLook): void {
    if (found.kind !== 'open') {
      inbox.put({ kind: 'withdrawn' });
      return;
    }
    if (found.podGone) inbox.put({ kind: 'podGone' });
    if (found.node) node = found.node;
    reporter.correct((written) => overwritten(written, found.waitingFor));
  }
}

type During = Extract<News, { kind: 'refused' }>['during'];

/** Nothing is under way that only this run knows of. */
function canBeHandedOver(progress: Progress): boolean {
  const { inFlight, end, drain } = progress;
  const busy = inFlight.stopping !== undefined || inFlight.recording !== undefined || drain === 'running';
  return !busy && end === undefined && allNamed(progress);
}

function statusNow(
  before: ReportedStatus,
  progress: Progress,
  runtime: string,
  unseen: Refused | undefined,
): ReportedStatus {
  const now = timestamp(Date.now());
  const { waitingFor: wait, ...status } = statusOf(unseen ? { ...progress, parked: unseen } : progress, runtime);
  const waitingFor = waitingSince(before.waitingFor, wait, now);
  const completionTime = before.completionTime ?? (status.phase === 'Completed' ? now : undefined);
  return {
    ...status,
    ...(waitingFor ? { waitingFor } : {}),
    ...(completionTime === undefined ? {} : { completionTime }),
  };
}

/** Writes what has changed, in the status and in what Temporal shows. Answers what stands now. */
async function writeStatus(
  operation: RestartOperation,
  before: ReportedStatus,
  wanted: ReportedStatus,
  operator: Operator,
): Promise<ReportedStatus> {
  const { request } = operation;
  const delta = statusDelta(before, wanted);
  const reason = wanted.waitingFor?.reason ?? '';
  setCurrentDetails(wanted.waitingFor ? `${reason}: ${wanted.waitingFor.unblock}` : (wanted.condition?.message ?? ''));
  if (before.phase !== wanted.phase || before.waitingFor?.reason !== wanted.waitingFor?.reason) {
    showPhase(operation, wanted);
  }
  const summary = `report ${request.name} ${wanted.phase} ${reason}`.trimEnd();
  await untilAllowed(() => kube.reportRequest.executeWithOptions({ summary }, [{ request, delta }]), operator, {
    superseded: () => undefined, // there is nobody left to tell: whoever looks learns of it
  });
  return withDelta(before, delta);
}

/** Makes the operation findable by what it does now. */
function showPhase({ request }: RestartOperation, { phase, waitingFor }: ReportedStatus): void {
  upsertSearchAttributes({
    [searchAttributes.name]: [request.name],
    [searchAttributes.phase]: [phase],
    [searchAttributes.reason]: [waitingFor?.reason ?? ''],
  });
}

/** Longer times are cut to 100 years: that is no deadline in effect, and within the range of a timer. */
const longestMs = 100 * 365 * 24 * 3600 * 1000;

/** Does something after a time, unless the workflow has ended by then or this has been cancelled. */
function after(ms: number, summary: string, act: () => void): CancellationScope {
  const scope = new CancellationScope();
  void scope.run(() => sleep(Math.min(Math.max(ms, 0), longestMs), { summary })).then(act, () => undefined);
  return scope;
}
