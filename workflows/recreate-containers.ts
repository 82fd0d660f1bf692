import { CancellationScope, setCurrentDetails, upsertSearchAttributes } from '@temporalio/workflow';
import type { RequestLook } from '../activities/kube/requests.ts';
import { timestamp } from '../api/base/time.ts';
import type { RestartOperation } from '../api/container-recreate-request/operation.ts';
import { crr } from '../api/container-recreate-request/types.ts';
import { searchAttributes } from '../api/engine/operations.ts';
import { answerTo } from '../plan/recreate/answer.ts';
import { applyEvent, markStarted, newProgress } from '../plan/recreate/events.ts';
import { allNamed, isMomentary, isOver, momentMs, type Progress } from '../plan/recreate/model.ts';
import { nextActions } from '../plan/recreate/next.ts';
import {
  overwritten,
  type ReportedStatus,
  reportedBefore,
  sameStatus,
  statusDelta,
  withDelta,
} from '../plan/recreate/report.ts';
import { recreateStatus } from '../plan/recreate/status.ts';
import { waitingOnBlockersSince } from '../plan/waiting-since.ts';
import { newSteps, type OpenRequest, type Recreation, type RestartEvent } from './recreate-steps.ts';
import type { RestartEnd } from './refresh-environment.ts';
import { kube, look } from './shared/activities.ts';
import type { Inbox } from './shared/inbox.ts';
import type { Answers, OperationRun } from './shared/operation.ts';
import type { Operator } from './shared/operator.ts';
import { deleted, type Outcome, outcomeOf, showEnd } from './shared/outcome.ts';
import type { Refused } from './shared/refusals.ts';
import { newReporter } from './shared/reporter.ts';
import { after } from './shared/timers.ts';
import { untilAllowed } from './shared/until-allowed.ts';

/**
 * Recreates the containers of one request, if anything is left to do for it. It is a part of the workflow
 * `restartContainers`, whose ID is the lock on the pod.
 */
export async function recreateContainers(
  operation: RestartOperation,
  inbox: Inbox<RestartEvent>,
  run: OperationRun,
  answers: Answers,
): Promise<RestartEnd> {
  const { operator } = run;
  const request = await readOpenRequest(operation, operator);
  if (request.kind === 'gone') return deleted(crr.kind);
  if (request.kind === 'finished') return request.end ? outcomeOf(request.end, run.aborted()) : wasFinished;
  const node = request.node ?? operation.node;
  return await recreate({ operation, request, inbox, operator, node, progress: newProgress(request) }, run, answers);
}

/** A request that another controller has finished has no condition. */
const wasFinished: Outcome = { kind: 'Completed', reason: 'Finished', message: 'The request was finished already' };

/** Carries out the request, until it is done or the run hands over. */
async function recreate(recreation: Recreation, run: OperationRun, answers: Answers): Promise<RestartEnd> {
  const { inbox, operator } = recreation;
  const report = newStatusReport(recreation, run);
  const steps = newSteps(recreation, requestWatch(recreation, report));
  considerTimeAway(recreation);

  for (;;) {
    // nothing begins before all events are read: one may be an abort
    if (inbox.isEmpty()) beginDue();
    report.update();
    if (recreation.progress.end) steps.endWaits();
    if (isOver(recreation.progress)) break;

    if (operator.isHandOverDue() && canBeHandedOver(recreation.progress)) {
      await Promise.all([report.flushed(), run.announced(() => !inbox.isEmpty())]);
      if (inbox.isEmpty() && operator.unidentified() === 0 && run.isAnnounced()) {
        steps.endWaits();
        return { kind: 'handOver' };
      }
    }
    for (const event of await inbox.take()) {
      if (event.kind === 'command') answers.put(event.command, answerTo(recreation.progress, event.command));
      if (event.kind === 'changed') void steps.lookAgain();
      else recreation.progress = applyEvent(recreation.progress, event);
    }
  }
  await report.flushed();
  const { condition } = recreateStatus(recreation.progress, recreation.request.runtime);
  return condition ? { ...outcomeOf(condition, run.aborted()), isShown: true } : deleted(crr.kind);

  function beginDue(): void {
    for (let due = nextActions(recreation.progress); due.length > 0; due = nextActions(recreation.progress)) {
      for (const action of due) {
        recreation.progress = markStarted(recreation.progress, action);
        steps.begin(action);
      }
    }
  }
}

/** After a Temporal outage the pod may be gone, or the deadline long past: then nothing begins. */
function considerTimeAway(recreation: Recreation): void {
  const { request, inbox } = recreation;
  if (request.podGone) recreation.progress = applyEvent(recreation.progress, { kind: 'podGone' });
  if (request.deadlineSeconds === undefined) return;
  const leftMs = Date.parse(request.createdAt) + request.deadlineSeconds * 1000 - Date.now();
  if (leftMs <= 0) recreation.progress = applyEvent(recreation.progress, { kind: 'deadline' });
  else after(leftMs, 'activeDeadlineSeconds', () => inbox.put({ kind: 'deadline' }));
}

/** Whether nothing is in progress that only this run knows about. */
function canBeHandedOver(progress: Progress): boolean {
  const { inFlight, end, drain } = progress;
  const busy = inFlight.stopping !== undefined || inFlight.recording !== undefined || drain === 'running';
  return !busy && end === undefined && allNamed(progress);
}

// ---------------------------------------------------------------------------------------------------------- looking

/** The whole request, read in parts that fit into the history, unless there is nothing left to do for it. */
async function readOpenRequest(operation: RestartOperation, operator: Operator): Promise<RequestLook> {
  const containers: OpenRequest['containers'][number][] = [];
  for (;;) {
    const found = await lookAtRequest(operation, containers.length, operator);
    if (found.kind !== 'open') return found;
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

/**
 * Checks whether the request, its pod and its node still exist. A call during a look may be about something newer, so
 * one more look follows; all callers wait for the last look.
 */
function requestWatch(recreation: Recreation, report: StatusReport): () => Promise<void> {
  const { operation, request, operator } = recreation;
  let looking: Promise<void> | undefined;
  let isWished = false;

  return () => {
    isWished = true;
    // several steps wait for it, so the cancellation of one must not cancel it
    looking ??= CancellationScope.nonCancellable(async () => {
      while (isWished) {
        isWished = false;
        // without the containers: their state is known here
        const found = await lookAtRequest(operation, request.containers.length, operator, report.lookRefused);
        report.lookAllowed();
        takeIn(found, recreation, report);
      }
      looking = undefined;
    });
    return looking;
  };
}

function takeIn(found: RequestLook, recreation: Recreation, report: StatusReport): void {
  if (found.kind !== 'open') {
    recreation.inbox.put({ kind: 'withdrawn' });
    return;
  }
  if (found.podGone) recreation.inbox.put({ kind: 'podGone' });
  const { neverRestarts } = recreation.progress.order;
  if (found.order.neverRestarts && !neverRestarts) recreation.inbox.put({ kind: 'podFinished' });
  if (found.node) recreation.node = found.node;
  report.overwrittenBy(found.waitingFor);
}

// -------------------------------------------------------------------------------------------------------- reporting

/** Reports the status of the request as the progress changes. */
interface StatusReport {
  /** Reports the status of the current progress. */
  readonly update: () => void;
  /** Reports that the request may not be read, until it may be. */
  readonly lookRefused: (why: Refused) => void;
  readonly lookAllowed: () => void;
  /** Records the wait in the status, which may have been written by somebody else. */
  readonly overwrittenBy: (waitingFor: OpenRequest['waitingFor']) => void;
  readonly flushed: () => Promise<void>;
}

function newStatusReport(recreation: Recreation, run: OperationRun): StatusReport {
  const { operation, request, inbox } = recreation;
  let status = reportedBefore(request);
  let unseen: Refused | undefined;
  let moment: CancellationScope | undefined;
  showPhase(operation, status);

  const reporter = newReporter({
    initial: status,
    same: sameStatus,
    write: (before, wanted) => writeStatus(operation, before, wanted, run),
  });

  function update(): void {
    const { progress } = recreation;
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

  return {
    update,
    lookRefused: (why) => {
      unseen = why;
      update();
    },
    lookAllowed: () => {
      if (unseen === undefined) return;
      unseen = undefined;
      update();
    },
    overwrittenBy: (waitingFor) => reporter.correct((written) => overwritten(written, waitingFor)),
    flushed: reporter.flushed,
  };
}

function statusNow(
  before: ReportedStatus,
  progress: Progress,
  runtime: string,
  unseen: Refused | undefined,
): ReportedStatus {
  const now = timestamp(Date.now());
  const { waitingFor: wait, ...status } = recreateStatus(unseen ? { ...progress, parked: unseen } : progress, runtime);
  const waitingFor = waitingOnBlockersSince(before.waitingFor, wait, now);
  const completionTime = before.completionTime ?? (status.phase === 'Completed' ? now : undefined);
  return {
    ...status,
    ...(waitingFor ? { waitingFor } : {}),
    ...(completionTime === undefined ? {} : { completionTime }),
  };
}

/** Writes the changes to the status and to Temporal's search attributes. Returns the written status. */
async function writeStatus(
  operation: RestartOperation,
  before: ReportedStatus,
  wanted: ReportedStatus,
  run: OperationRun,
): Promise<ReportedStatus> {
  const { request } = operation;
  const delta = statusDelta(before, wanted);
  const reason = wanted.waitingFor?.reason ?? '';
  setCurrentDetails(wanted.waitingFor ? `${reason}: ${wanted.waitingFor.unblock}` : (wanted.condition?.message ?? ''));
  if (before.phase !== wanted.phase || before.waitingFor?.reason !== wanted.waitingFor?.reason) {
    if (wanted.condition) showEnd(outcomeOf(wanted.condition, run.aborted()));
    else showPhase(operation, wanted);
  }
  const summary = `report ${request.name} ${wanted.phase} ${reason}`.trimEnd();
  await untilAllowed(() => kube.reportRequest.executeWithOptions({ summary }, [{ request, delta }]), run.operator, {
    superseded: () => undefined, // the request is gone: the next look says so
  });
  return withDelta(before, delta);
}

/** Sets the search attributes of the operation. */
function showPhase({ request }: RestartOperation, { phase, waitingFor }: ReportedStatus): void {
  upsertSearchAttributes({
    [searchAttributes.name]: [request.name],
    [searchAttributes.phase]: [phase],
    [searchAttributes.reason]: [waitingFor?.reason ?? ''],
  });
}
