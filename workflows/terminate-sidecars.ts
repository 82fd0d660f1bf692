import {
  CancellationScope,
  condition,
  defineSignal,
  setCurrentDetails,
  setHandler,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import type { SidecarLook } from '../activities/kube/sidecars.ts';
import { timestamp } from '../api/base/time.ts';
import { refusalWait } from '../api/core/failure.ts';
import { changedSignal, commandNames, searchAttributes } from '../api/engine/operations.ts';
import {
  type SidecarOperation,
  type TerminationStatus,
  terminateSidecarsId,
  terminationWaits,
} from '../api/job-sidecar-termination.ts';
import { type Wait, waitFor } from './plan/decision.ts';
import { waitingSince } from './plan/recreate/recreate-containers.ts';
import { refusedPauseMs } from './plan/refused-pause.ts';
import type { SidecarStep } from './plan/terminate-sidecars.ts';
import { shortened } from './plan/text-size.ts';
import { kube, look } from './shared/activities.ts';
import { handedOver, handOverTo } from './shared/hand-over.ts';
import {
  listenToOperator,
  type Operator,
  type OperatorCommand,
  type OperatorHandOver,
  operatorHandOver,
} from './shared/operator.ts';
import { checkOwnId } from './shared/own-id.ts';
import { reasonOf, type StepFailure } from './shared/refusals.ts';
import { type Fields, number } from './shared/shape.ts';
import { untilAllowed } from './shared/until-allowed.ts';

/** First and longest pause before a stop that did not work is tried again (JST-30). */
const tryAgainMs = { first: 10_000, most: 300_000 } as const;

/** Changes are told by signal; this finds what nobody has told. */
const lookAgainMs = { first: 60_000, most: 600_000 } as const;

/** What a run leaves to the next one; all else stands on the pod. */
export interface SidecarHandOver {
  readonly operator: OperatorHandOver;
  readonly failures: number;
  readonly refusals: number;
}

const sidecarHandOver: Fields<SidecarHandOver> = { operator: operatorHandOver, failures: number, refusals: number };

/**
 * Ends the sidecars of one pod whose main containers are done: looks, does the one step that is due, looks again, until
 * nothing is left. All that it knows stands in the cluster, so a run that is lost is simply started again.
 */
export async function terminateSidecars(operation: SidecarOperation, handOver?: unknown): Promise<void> {
  const { pod } = operation;
  checkOwnId(terminateSidecarsId(pod.uid));
  const before = handedOver(handOver, sidecarHandOver);
  /** Stops that did not work, and steps that were refused: each pause after one is longer than the one before. */
  let { failures = 0, refusals = 0 } = before;
  const heard = { news: 0 };
  const announcements: Promise<void>[] = [];
  /** Who paused or aborted; empty until it is known. */
  let pausedBy: string | undefined;
  let abortedBy: string | undefined;
  let skips: readonly (string | undefined)[] = [];
  let mayTryAgain = false;
  let isResumed = false;

  setHandler(defineSignal<[unknown]>(changedSignal), () => void heard.news++);
  const operator = listenToOperator(commandNames, { command: obey, identified: name }, { before: before.operator });
  CancellationScope.current().cancelRequested.catch(() => {
    abortedBy = 'a cancellation of its workflow';
    heard.news++;
  });

  await CancellationScope.nonCancellable(async () => {
    const end = await untilEnded();
    await Promise.all(announcements);
    if (end === 'historyFull') {
      await handOverTo<typeof terminateSidecars>([operation, { operator: operator.handOver(), failures, refusals }]);
    }
  });

  async function untilEnded(): Promise<'ended' | 'historyFull'> {
    let quiet = 0;
    let tryAgainAt: number | undefined;
    let lastStep = '';
    let repeats = 0;
    for (let isFirst = true; ; isFirst = false) {
      const seenNews = heard.news;
      const { decision, status } = await lookAt(pod, operator);
      // the status is what keeps a pause when a run is lost
      if (isFirst && !isResumed && status.waitingFor?.reason === 'Paused') pausedBy ??= '';
      if (decision.kind === 'done') {
        if (heard.news !== seenNews) continue; // who was told of a change while it looked has not seen it
        show(undefined);
        await report(pod, operator, status, { ...status, waitingFor: undefined });
        return 'ended';
      }

      if (skips.length > 0) {
        const blocked = 'step' in decision ? decision.step.containers : namesIn(decision.waitingFor);
        const skipped = [...(status.skipped ?? [])];
        for (const target of skips) {
          const name = target ?? blocked.find((one) => !skipped.includes(one));
          if (name !== undefined && !skipped.includes(name)) skipped.push(name);
        }
        skips = [];
        await report(pod, operator, status, { ...status, skipped });
        continue;
      }
      if (abortedBy !== undefined) {
        await condition(() => abortedBy !== '');
        await report(pod, operator, status, { ...status, waitingFor: undefined, abortedBy });
        return 'ended';
      }
      if (pausedBy !== undefined) {
        const by = pausedBy === '' ? '' : `; paused by ${pausedBy}`;
        await tellWait(status, waitFor('Paused', [], `${terminationWaits.Paused}${by}`));
        if (await mayHandOver(seenNews)) return 'historyFull';
        await news(seenNews);
        continue;
      }
      // only now: what the next run is not told of has been obeyed, and a pause stands in the status
      if (!mayTryAgain && (await mayHandOver(seenNews))) return 'historyFull';

      if (decision.kind === 'wait') {
        await tellWait(status, decision.waitingFor);
        const pauseMs = Math.min(lookAgainMs.first * 2 ** quiet, lookAgainMs.most);
        quiet = (await news(seenNews, pauseMs)) ? 0 : quiet + 1;
        continue;
      }
      if (decision.kind === 'tryAgain' && !mayTryAgain) {
        await tellWait(status, decision.waitingFor);
        tryAgainAt ??= Date.now() + Math.min(tryAgainMs.first * 2 ** failures, tryAgainMs.most);
        const leftMs = decision.byItself ? tryAgainAt - Date.now() : undefined;
        if ((leftMs === undefined || leftMs > 0) && (await news(seenNews, leftMs))) continue;
        failures++;
      }
      mayTryAgain = false;
      tryAgainAt = undefined;
      // a step that had no effect is not repeated all the time, whatever the reason may be
      const step = JSON.stringify(decision.step);
      repeats = step === lastStep ? repeats + 1 : 0;
      lastStep = step;
      if (repeats > 0) await news(seenNews, Math.min(1_000 * 2 ** repeats, lookAgainMs.first));
      const refusal = await attempt(pod, decision.step);
      if (refusal === undefined) {
        refusals = 0;
        continue;
      }
      const reason = refusalWait(refusal.reason);
      const why = shortened(refusal.message, mostRefusalBytes);
      await tellWait(status, waitFor(reason, [`pod/${pod.name}`], `${terminationWaits[reason]}; ${why}`));
      await news(seenNews, refusedPauseMs(refusal.reason, refusals++));
    }
  }

  /** Whether the history is full, and nothing has come that is not obeyed yet: it would be lost to the next run. */
  async function mayHandOver(seenNews: number): Promise<boolean> {
    if (!operator.isHandOverDue()) return false;
    await condition(() => operator.unidentified() === 0);
    await Promise.all(announcements.splice(0));
    return heard.news === seenNews && operator.unidentified() === 0;
  }

  function obey({ name: command, target }: OperatorCommand): void {
    heard.news++;
    if (command === 'pause') pausedBy ??= '';
    if (command === 'resume') {
      pausedBy = undefined;
      isResumed = true;
    }
    if (command === 'retry') mayTryAgain = true;
    if (command === 'skip') skips = [...skips, target];
    if (command === 'abort') abortedBy ??= '';
  }

  function name(command: OperatorCommand, by: string): void {
    heard.news++;
    if (command.name === 'pause' && pausedBy === '') pausedBy = by;
    if (command.name === 'abort' && abortedBy === '') abortedBy = by;
    announcements.push(announce(operation, command, by));
  }

  /** Waits until more has come than was seen; false when nothing has in that time. */
  async function news(seen: number, ms?: number): Promise<boolean> {
    const hasCome = () => heard.news !== seen;
    if (ms !== undefined) return await condition(hasCome, ms);
    await condition(hasCome);
    return true;
  }

  async function tellWait(status: TerminationStatus, wait: Wait): Promise<void> {
    show(wait);
    const waitingFor = waitingSince(status.waitingFor, wait, timestamp(Date.now()));
    // how far a stop is, its request says
    await report(pod, operator, status, { ...status, waitingFor: wait.reason === 'Stopping' ? undefined : waitingFor });
  }
}

async function lookAt(pod: SidecarOperation['pod'], operator: Operator): Promise<SidecarLook> {
  const summary = `look at ${pod.name}`;
  return await untilAllowed(() => look.lookAtSidecars.executeWithOptions({ summary }, [{ pod }]), operator);
}

/** Does the step; answers why it was refused, if it was. */
async function attempt(pod: SidecarOperation['pod'], step: SidecarStep): Promise<Refusal | undefined> {
  try {
    const input = { pod, step };
    await kube.endSidecars.executeWithOptions({ summary: summaryOf(step, pod.name) }, [input]);
    return undefined;
  } catch (error) {
    const why = reasonOf(error);
    return why.kind === 'refused' ? why : undefined;
  }
}

type Refusal = Extract<StepFailure, { kind: 'refused' }>;

const mostRefusalBytes = 600;

/** As people read it: `request the stop of proxy@job-7`. */
function summaryOf({ kind, containers }: SidecarStep, pod: string): string {
  const [first = '', ...others] = containers;
  const target = `${first}${others.length > 0 ? ` and ${others.length} more` : ''}@${pod}`;
  switch (kind) {
    case 'requestStop':
      return `request the stop of ${target}`;
    case 'withdrawRequest':
      return `withdraw the stop of ${target}`;
    case 'swapImages':
      return `swap the image of ${target}`;
    case 'finishPod':
      return `finish ${pod}`;
  }
}

async function report(
  pod: SidecarOperation['pod'],
  operator: Operator,
  before: TerminationStatus,
  status: Loose,
): Promise<void> {
  const wanted = JSON.parse(JSON.stringify(status)) as TerminationStatus;
  if (JSON.stringify(before) === JSON.stringify(wanted)) return;
  const summary = `report ${pod.name} ${wanted.waitingFor?.reason ?? ''}`.trimEnd();
  await untilAllowed(
    () => kube.reportSidecars.executeWithOptions({ summary }, [{ pod, status: wanted }]),
    operator,
    { superseded: () => undefined }, // the pod is gone: the next look says so
  );
}

/** A status of which a field may be taken away. */
type Loose = { readonly [Field in keyof TerminationStatus]: TerminationStatus[Field] | undefined };

async function announce({ pod }: SidecarOperation, command: OperatorCommand, by: string): Promise<void> {
  const { name, target, id } = command;
  const key = `${workflowInfo().runId.slice(0, 8)}-${id}`;
  const options = { summary: `emit an Event: ${name}`, scheduleToCloseTimeout: '30s', retry: { maximumAttempts: 3 } };
  const input = { pod, command: name, by, key, ...(target === undefined ? {} : { target }) };
  await kube.announceOnPod.executeWithOptions(options, [input]).catch(() => undefined);
}

/** Makes the operation findable by what it does now; without a wait it has ended. */
function show(wait: Wait | undefined): void {
  const reason = wait?.reason ?? '';
  setCurrentDetails(wait ? `${reason}: ${wait.unblock}` : '');
  upsertSearchAttributes({
    [searchAttributes.phase]: [wait ? 'Terminating' : 'Completed'],
    [searchAttributes.reason]: [reason],
  });
}

function namesIn({ blockedBy }: Wait): readonly string[] {
  return blockedBy.flatMap((blocker) => (blocker.startsWith('container/') ? blocker.slice('container/'.length) : []));
}
