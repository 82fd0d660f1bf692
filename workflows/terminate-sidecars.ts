import { condition, setCurrentDetails, upsertSearchAttributes } from '@temporalio/workflow';
import type { SidecarLook } from '../activities/kube/sidecars.ts';
import { timestamp } from '../api/base/time.ts';
import { refusalWait } from '../api/core/failure.ts';
import { commandNames, searchAttributes } from '../api/engine/operations.ts';
import {
  type SidecarOperation,
  type TerminationStatus,
  terminateSidecarsId,
  terminationWaits,
} from '../api/job-sidecar-termination.ts';
import { type Wait, waitFor } from '../plan/decision.ts';
import { refusedPauseMs } from '../plan/refused-pause.ts';
import type { SidecarDecision, SidecarStep } from '../plan/terminate-sidecars.ts';
import {
  answerToTermination,
  applyTerminationEvent,
  lookAgainPauseMs,
  newTermination,
  nextOrder,
  repeatPauseMs,
  type TerminationEvent,
  type TerminationOrder,
  type TerminationProgress,
} from '../plan/termination-progress.ts';
import { shortened } from '../plan/text-size.ts';
import { waitingOnBlockersSince } from '../plan/waiting-since.ts';
import { kube, look } from './shared/activities.ts';
import { handedOver, handOverTo } from './shared/hand-over.ts';
import { type Answers, answersOf, beginOperation, newAnswers, type OperationRun } from './shared/operation.ts';
import { type Operator, type OperatorHandOver, operatorHandOver } from './shared/operator.ts';
import { endAs, type OperationResult, type Outcome, showEnd } from './shared/outcome.ts';
import { reasonOf, type StepFailure } from './shared/refusals.ts';
import { type Fields, number } from './shared/shape.ts';
import { untilAllowed } from './shared/until-allowed.ts';

/** What a run hands over to the next one; everything else is on the pod. */
export interface SidecarHandOver extends Pick<TerminationProgress, 'failures' | 'refusals'> {
  readonly operator: OperatorHandOver;
}

const sidecarHandOver: Fields<SidecarHandOver> = { operator: operatorHandOver, failures: number, refusals: number };

/**
 * Terminates the sidecars of one pod whose main containers have completed: looks, does the next step, looks again,
 * until nothing is left. All its knowledge is in the cluster, so a lost run is simply started again.
 */
export async function terminateSidecars(operation: SidecarOperation, handOver?: unknown): Promise<OperationResult> {
  const { pod } = operation;
  const before = handedOver(handOver, sidecarHandOver);
  const memory = newMemory(newTermination(before));
  const answers = newAnswers();

  const run = beginOperation(
    { id: terminateSidecarsId(pod), commands: commandNames, withTarget: ['skip'], before: before.operator },
    {
      changed: () => memory.apply({ kind: 'changed' }),
      command: ({ id, name, target }) => {
        // what is skipped depends on the next look
        if (name !== 'skip') answers.put({ id }, answerToTermination(memory.progress(), name));
        memory.apply({ kind: 'command', id, name, target });
      },
      identified: ({ name }, by) => memory.apply({ kind: 'commandIdentified', name, by }),
      cancelled: ({ by }) => memory.apply({ kind: 'cancelled', by }),
      answerTo: answersOf(answers),
      announce: ({ options, event }) => kube.announceOnPod.executeWithOptions(options, [{ pod, ...event }]),
    },
  );

  return await run.carryOut(async () => {
    const end = await untilEnded({ pod, memory, answers, run, operator: run.operator });
    if (end !== 'historyFull') answers.close('the sidecars of the pod have ended, or are left as they are');
    await run.announced();
    if (end !== 'historyFull') return endAs(end);
    const { failures, refusals } = memory.progress();
    const rest = { operator: run.operator.handOver(), failures, refusals };
    return await handOverTo<typeof terminateSidecars>([operation, rest]);
  });
}

/** The progress, and the only way to change it. */
interface Memory {
  readonly progress: () => TerminationProgress;
  readonly apply: (event: TerminationEvent) => void;
  /** Waits until more events than this have been received; false after that time without any. */
  readonly receives: (moreThan: number, ms?: number) => Promise<boolean>;
}

function newMemory(initial: TerminationProgress): Memory {
  let progress = initial;
  const hasMore = (seen: number) => () => progress.received !== seen;
  return {
    progress: () => progress,
    apply: (event) => {
      progress = applyTerminationEvent(progress, event);
    },
    receives: async (seen, ms) => {
      if (ms !== undefined) return await condition(hasMore(seen), ms, { summary: 'look again' });
      await condition(hasMore(seen));
      return true;
    },
  };
}

interface Termination {
  readonly pod: SidecarOperation['pod'];
  readonly memory: Memory;
  readonly answers: Answers;
  readonly run: OperationRun;
  readonly operator: Operator;
}

/** A look that shows something left to do. `received`: the number of events that it includes. */
interface OpenLook {
  readonly decision: Exclude<SidecarDecision, { kind: 'done' }>;
  readonly status: TerminationStatus;
  readonly sidecars?: readonly string[] | undefined;
  readonly received: number;
}

async function untilEnded(termination: Termination): Promise<Outcome | 'historyFull'> {
  const { pod, memory, operator } = termination;
  for (;;) {
    const { received } = memory.progress();
    const { decision, status, sidecars } = await lookAt(pod, operator);
    memory.apply({ kind: 'looked', status });
    if (decision.kind === 'done') {
      if (memory.progress().received !== received) continue; // a change during the look may be newer than what it saw
      const end = status.abortedBy === undefined ? terminated(pod.name) : aborted(status.abortedBy, termination);
      showEnd(end);
      await report(pod, operator, status, { ...status, waitingFor: undefined });
      return end;
    }

    const seen = { decision, status, sidecars, received };
    const order = nextOrder(memory.progress(), decision, status, sidecars);
    if (order) {
      const end = await obey(order, termination, seen);
      if (end) return end;
      continue;
    }
    // only now: everything that is not handed over has been carried out, and a pause is in the status
    if (!memory.progress().mayTryAgain && (await mayHandOver(termination, received))) return 'historyFull';
    await proceed(termination, seen);
  }
}

async function obey(
  order: TerminationOrder,
  termination: Termination,
  { status, received }: OpenLook,
): Promise<Outcome | 'historyFull' | undefined> {
  const { pod, memory, answers, operator } = termination;
  switch (order.kind) {
    case 'skip': {
      memory.apply({ kind: 'skipsReported' });
      for (const { id, answer } of order.answers) answers.put({ id }, answer);
      const skipped = order.skipped.length > 0 ? order.skipped : undefined;
      await report(pod, operator, status, { ...status, skipped });
      return undefined;
    }
    case 'abort': {
      await condition(() => memory.progress().abortedBy !== '');
      const { abortedBy = '' } = memory.progress();
      await report(pod, operator, status, { ...status, waitingFor: undefined, abortedBy });
      const end = aborted(abortedBy, termination);
      showEnd(end);
      return end;
    }
    case 'pause':
      await reportWait(termination, status, order.waitingFor);
      if (await mayHandOver(termination, received)) return 'historyFull';
      await memory.receives(received);
      return undefined;
  }
}

function terminated(pod: string): Outcome {
  const message = `No sidecar of pod "${pod}" is left to be terminated`;
  return { kind: 'Completed', reason: 'SidecarsTerminated', message };
}

function aborted(by: string, { pod, run }: Pick<Termination, 'pod' | 'run'>): Outcome {
  const message = shortened(`Aborted by ${by}: sidecars of pod "${pod.name}" may be left running`, mostRefusalBytes);
  return { kind: run.aborted(), reason: 'Aborted', message };
}

/** Whether the run is to hand over, and no event is left that would be lost to the next run. */
async function mayHandOver({ memory, run, operator }: Termination, received: number): Promise<boolean> {
  if (!operator.isHandOverDue()) return false;
  const isReceived = () => memory.progress().received !== received;
  await condition(() => operator.unidentified() === 0);
  await run.announced(isReceived);
  return !isReceived() && operator.unidentified() === 0;
}

/** Waits, or does the step that is due. */
async function proceed(termination: Termination, { decision, status, received }: OpenLook): Promise<void> {
  const { memory } = termination;
  if (decision.kind === 'wait') {
    await reportWait(termination, status, decision.waitingFor);
    const isReceived = await memory.receives(received, lookAgainPauseMs(memory.progress()));
    memory.apply({ kind: 'waited', isQuiet: !isReceived });
    return;
  }
  if (decision.kind === 'tryAgain' && !memory.progress().mayTryAgain) {
    await reportWait(termination, status, decision.waitingFor);
    memory.apply({ kind: 'tryAgainReported', atMs: Date.now() });
    const leftMs = decision.byItself ? (memory.progress().tryAgainAtMs ?? 0) - Date.now() : undefined;
    if ((leftMs === undefined || leftMs > 0) && (await memory.receives(received, leftMs))) return;
    memory.apply({ kind: 'pauseEnded' });
  }
  memory.apply({ kind: 'stepDue', step: decision.step });
  const pauseMs = repeatPauseMs(memory.progress());
  if (pauseMs > 0) await memory.receives(received, pauseMs);
  await doStep(termination, decision.step, { status, received });
}

/** Does the step. A rejected one is reported as a wait, and followed by a pause. */
async function doStep(
  termination: Termination,
  step: SidecarStep,
  { status, received }: Pick<OpenLook, 'status' | 'received'>,
): Promise<void> {
  const { pod, memory } = termination;
  const refusal = await attempt(pod, step);
  if (refusal === undefined) {
    memory.apply({ kind: 'stepEnded', isRefused: false });
    return;
  }
  const reason = refusalWait(refusal.reason);
  const why = shortened(refusal.message, mostRefusalBytes);
  await reportWait(termination, status, waitFor(reason, [`pod/${pod.name}`], `${terminationWaits[reason]}; ${why}`));
  const pauseMs = refusedPauseMs(refusal.reason, memory.progress().refusals);
  memory.apply({ kind: 'stepEnded', isRefused: true });
  await memory.receives(received, pauseMs);
}

async function reportWait({ pod, operator }: Termination, status: TerminationStatus, wait: Wait): Promise<void> {
  show(wait);
  const waitingFor = waitingOnBlockersSince(status.waitingFor, wait, timestamp(Date.now()));
  // the progress of a stop is in its request
  await report(pod, operator, status, { ...status, waitingFor: wait.reason === 'Stopping' ? undefined : waitingFor });
}

async function lookAt(pod: SidecarOperation['pod'], operator: Operator): Promise<SidecarLook> {
  const summary = `look at ${pod.name}`;
  return await untilAllowed(() => look.lookAtSidecars.executeWithOptions({ summary }, [{ pod }]), operator);
}

/** Does the step; returns why it was rejected, if it was. */
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

/** For people: `request the stop of proxy@job-7`. */
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

/** A status of which fields may be removed. */
type Loose = { readonly [Field in keyof TerminationStatus]: TerminationStatus[Field] | undefined };

/** Sets the search attributes of the operation. */
function show({ reason, unblock }: Wait): void {
  setCurrentDetails(`${reason}: ${unblock}`);
  upsertSearchAttributes({ [searchAttributes.phase]: ['Terminating'], [searchAttributes.reason]: [reason] });
}
