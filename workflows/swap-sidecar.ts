import { CancellationScope, condition } from '@temporalio/workflow';
import { commandNames } from '../api/engine/operations.ts';
import { isSameSwap, parseSwapChanged, type SwapOperation, swapSidecarId } from '../api/sidecar-set/swap.ts';
import { refusedPauseMs } from '../plan/refused-pause.ts';
import { answerToSwap } from '../plan/sidecar-swap/answer.ts';
import {
  afterNews,
  backOffUntilMs,
  begunSwap,
  deadlineMs,
  type KeptProgress,
  restOf,
  type SwapEnd,
  type SwapNews,
  type SwapProgress,
  type SwapWork,
  wantedWork,
} from '../plan/sidecar-swap/progress.ts';
import { swapDetailsOf, swapPhaseOf, swapWaitOf, workText } from '../plan/sidecar-swap/texts.ts';
import { shortened, summaryBytes } from '../plan/text-size.ts';
import { fleet, fleetLooks, fleetSteps, kube, permitLife } from './shared/activities.ts';
import { type AlarmTime, newAlarm } from './shared/alarm.ts';
import { newDisplay } from './shared/display.ts';
import { handedOver, handOverTo } from './shared/hand-over.ts';
import { type Inbox, newInbox } from './shared/inbox.ts';
import { startNextRun } from './shared/next-run.ts';
import { type Answers, answersOf, beginOperation, newAnswers, type OperationRun } from './shared/operation.ts';
import { type Operator, type OperatorHandOver, operatorHandOver } from './shared/operator.ts';
import { endAs, type OperationResult, type Outcome, showEnd } from './shared/outcome.ts';
import { asRefusal, reasonOf, refusedWait } from './shared/refusals.ts';
import { type Fields, flag, object, oneOf, optional } from './shared/shape.ts';
import { untilAllowed } from './shared/until-allowed.ts';

/** What a run hands over to the next one. How far the swap is stands on the pod. */
export interface SwapHandOver {
  readonly operator: OperatorHandOver;
  readonly kept?: KeptProgress | undefined;
}

const swapHandOver: Fields<SwapHandOver> = {
  operator: operatorHandOver,
  kept: object<KeptProgress>({
    isPaused: flag,
    isAborted: flag,
    goesBack: optional(oneOf('Aborted', 'DeadlineExceeded')),
    skipsBackOff: flag,
  }),
};

/**
 * Swaps the hot-upgrade sidecars that one pod has of one SidecarSet: has the new image written into the idle container,
 * waits until it serves, has the old container emptied, and waits until it is idle. All writes are the leading watcher's.
 * While it runs, no other SidecarSet swaps in that pod. At its end it has the next swap of the pod started, if there is
 * any: `queued` is what an earlier run has received.
 */
export async function swapSidecar(
  operation: SwapOperation,
  queued?: SwapOperation,
  handOver?: unknown,
): Promise<OperationResult> {
  const { pod, set } = operation;
  const before = handedOver(handOver, swapHandOver);
  const inbox = newInbox<SwapNews>();
  const answers = newAnswers();
  let next = queued;

  const run = beginOperation(
    // a command for another SidecarSet is kept for its run
    {
      id: swapSidecarId(pod),
      commands: commandNames,
      withTarget: [],
      request: set.uid,
      before: before.operator,
    },
    {
      changed: (payload) => {
        const { operation: told } = parseSwapChanged(payload);
        const isOther = told !== undefined && !isSameSwap(told, operation);
        if (isOther && told.pod.uid === pod.uid) next = told;
        if (!isOther) inbox.put({ kind: 'changed' });
      },
      command: ({ id, name }) => inbox.put({ kind: 'command', id, name }),
      identified: () => undefined,
      cancelled: ({ id, name }) => inbox.put({ kind: 'command', id, name }),
      answerTo: answersOf(answers),
      announce: ({ options, event }) => kube.announceOnPod.executeWithOptions(options, [{ pod, of: 'swap', ...event }]),
    },
  );

  return await run.carryOut(async () => {
    const { end, ...kept } = await untilEnded(operation, inbox, { ...run, answers }, begunSwap(pod.name, before.kept));
    if (end === undefined) {
      return await handOverTo<typeof swapSidecar>([operation, next, { operator: run.operator.handOver(), kept }]);
    }
    answers.close('the swap has ended');
    await run.announced();
    await startNextRun(
      run,
      () => next,
      (work) => `${work.set.name} in ${work.pod.name}`,
    );
    const outcome = outcomeOf(end, run);
    showEnd(outcome);
    return endAs(outcome);
  });
}

/** How it ended; no end: the next run continues. */
type Left = KeptProgress & { readonly end?: SwapEnd };

async function untilEnded(
  operation: SwapOperation,
  inbox: Inbox<SwapNews>,
  { operator, isAnnounced, answers }: OperationRun & { readonly answers: Answers },
  initial: SwapProgress,
): Promise<Left> {
  const look = newLooker(operation, inbox, operator);
  const asker = newAsker(operation, inbox);
  const display = newDisplay();
  const alarms = {
    rest: newAlarm('look again', () => inbox.put({ kind: 'again' })),
    backOff: newAlarm('wait for the back-off of the kubelet', () => inbox.put({ kind: 'backOffOver' })),
    deadline: newAlarm('deadline', () => inbox.put({ kind: 'deadlineOver' })),
  };
  let progress = initial;

  for (;;) {
    if (inbox.isEmpty()) {
      const isOver = progress.end !== undefined || operator.isHandOverDue();
      asker.ask(isOver ? undefined : wantedWork(progress), progress);
      // A look may or may not show what is being written; whoever writes sees by itself what has changed.
      if (!isOver && !asker.isWriting()) look(progress);
      alarms.rest(isOver ? undefined : restTime(progress));
      alarms.backOff(isOver ? undefined : alarmAt(backOffUntilMs(progress)));
      alarms.deadline(isOver ? undefined : alarmAt(deadlineMs(progress)));
      if (!progress.end) {
        const reason = swapWaitOf(progress)?.reason ?? '';
        display({ details: swapDetailsOf(operation, progress), phase: swapPhaseOf(progress), reason });
      }
      if (isOver) {
        const isReady = () => operator.unidentified() === 0 && !asker.isWriting();
        await condition(() => isReady() && (progress.end !== undefined || isAnnounced() || !inbox.isEmpty()));
        // what came meanwhile would be lost to the next run
        if (inbox.isEmpty()) return leftOf(progress);
      }
    }
    for (const news of await inbox.take()) {
      if (news.kind === 'command') answers.put({ id: news.id ?? 0 }, answerToSwap(progress, news.name));
      progress = afterNews(progress, news);
    }
  }
}

function leftOf({ isPaused, isAborted, goesBack, skipsBackOff, end }: SwapProgress): Left {
  return { isPaused, isAborted, skipsBackOff, ...(goesBack && { goesBack }), ...(end && { end }) };
}

function outcomeOf({ kind, reason, message }: SwapEnd, run: OperationRun): Outcome {
  if (kind === 'Completed') return { kind, reason, message };
  return { kind: kind === 'Aborted' ? run.aborted() : 'Failed', reason, message };
}

function alarmAt(atMs: number | undefined): AlarmTime | undefined {
  return atMs === undefined ? undefined : { key: `${atMs}`, inMs: atMs - Date.now() };
}

function restTime(progress: SwapProgress): AlarmTime | undefined {
  const inMs = restOf(progress);
  return inMs === undefined ? undefined : { key: `${progress.answers}`, inMs };
}

/** Looks whenever something has changed, one look after the other. */
function newLooker({ pod, set }: SwapOperation, inbox: Inbox<SwapNews>, operator: Operator) {
  let seen = 0;
  let isLooking = false;

  return (progress: SwapProgress): void => {
    if (isLooking || progress.looks === seen) return;
    seen = progress.looks;
    isLooking = true;
    void go(progress);
  };

  async function go({ looks: nth, answers }: SwapProgress): Promise<void> {
    const summary = shortened(`look at ${pod.name}`, summaryBytes);
    const found = await untilAllowed(
      () => fleetLooks['fleet.v1.lookAtSwap'].executeWithOptions({ summary }, [{ pod, set }]),
      operator,
      { refused: (why) => inbox.put({ kind: 'refused', waitingFor: refusedWait(why) }) },
    );
    isLooking = false;
    inbox.put({ kind: 'allowed' });
    inbox.put({ kind: 'looked', look: found, nth, answers, atMs: Date.now() });
  }
}

/** What was asked of the leading watcher last. Something answered is not asked for again under the same key. */
interface Asked {
  readonly work: SwapWork;
  readonly scope: CancellationScope;
  state: 'open' | 'withdrawn' | 'answered';
}

/**
 * Sees that this is asked of the leading watcher, and nothing else. What comes of it is an event. A write that is withdrawn
 * may be made all the same: nothing else is asked before it has ended.
 */
function newAsker(operation: SwapOperation, inbox: Inbox<SwapNews>) {
  let current: Asked | undefined;
  let refusals = 0;
  const again = newAlarm('retry after a refusal', () => inbox.put({ kind: 'again' }));

  /** No answer has come, and none will: it is asked again after a pause, or after `retry`. */
  function park(error: unknown): void {
    const refusal = asRefusal(reasonOf(error));
    inbox.put({ kind: 'parked', waitingFor: refusedWait(refusal) });
    again({ key: `${refusals}`, inMs: refusedPauseMs(refusal.reason, refusals++) });
  }

  function withdraw(asked: Asked): void {
    asked.state = 'withdrawn';
    asked.scope.cancel();
    if (asked.work.kind === 'await') current = undefined;
  }

  function answered(asked: Asked, news: SwapNews): void {
    const isUnmade = news.kind !== 'stepped' || news.answer.kind !== 'written';
    if (asked.state === 'withdrawn' && isUnmade) {
      ended();
      return;
    }
    asked.state = 'answered';
    refusals = 0;
    inbox.put(news);
  }

  function failed(asked: Asked, error: unknown): void {
    if (asked.state === 'withdrawn') {
      ended();
      return;
    }
    asked.state = 'answered';
    park(error);
  }

  /** A write that was withdrawn is over. */
  function ended(): void {
    current = undefined;
    inbox.put({ kind: 'withdrawn' });
  }

  return {
    /** A write was asked for, or withdrawn, and has not ended. */
    isWriting: () => current?.work.kind === 'write' && current.state !== 'answered',
    ask(work: SwapWork | undefined, progress: SwapProgress): void {
      if (work !== undefined) again(undefined);
      if (current?.work.key === work?.key && current?.state !== 'withdrawn') return;
      if (current?.state === 'open') withdraw(current);
      if (current?.state === 'withdrawn') return;
      current = undefined;
      if (work === undefined) return;

      const scope = new CancellationScope();
      const one: Asked = { work, scope, state: 'open' };
      current = one;
      void scope
        .run(() => asked(operation, work, progress))
        .then(
          (news) => {
            if (current === one) answered(one, news);
          },
          (error: unknown) => {
            if (current === one) failed(one, error);
          },
        );
    },
  };
}

async function asked(
  operation: SwapOperation,
  work: SwapWork,
  { swap, waitingFor, reports }: SwapProgress,
): Promise<SwapNews> {
  const { pod, set } = operation;
  const options = {
    summary: swap ? workText(operation, swap, work) : '',
    // what has not waited yet is about to write
    heartbeatTimeout: work.kind === 'write' && reports === 0 ? permitLife.working : permitLife.waiting,
  };
  const request = { pod, set, reports, ...(waitingFor && { told: waitingFor.reason }) };
  if (work.kind === 'await') {
    const { until } = work;
    const answer = await fleet['fleet.v1.awaitSwap'].executeWithOptions(options, [{ ...request, until }]);
    return { kind: 'awaited', until, answer };
  }
  const { step, why } = work;
  const input = { ...request, step, ...(why && { why }) };
  const answer = await fleetSteps['fleet.v1.swapStep'].executeWithOptions(options, [input]);
  return { kind: 'stepped', step, answer };
}
