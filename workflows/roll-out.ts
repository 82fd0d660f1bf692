import { CancellationScope, condition, isCancellation, patched, sleep } from '@temporalio/workflow';
import { type CommandName, rollOutCommandNames } from '../api/engine/operations.ts';
import { parseRollOutChanged, type RollOutOperation, rollOutId } from '../api/fleet/operation.ts';
import { type RollOutOrders, readOrders } from '../api/fleet/roll-out-orders.ts';
import {
  afterCommand,
  begun,
  choiceText,
  detailsOf,
  doneReason,
  heard,
  type InFlight,
  inFlightText,
  isEnding,
  phaseOf,
  type RollOutNews,
  type RollOutProgress,
  unrecordedOrders,
  type WantedChoice,
  wantedChoice,
} from '../plan/fleet/roll-out.ts';
import { answerToSkip, type CheckedSkips, type OrdersAfter } from '../plan/fleet/roll-out-orders.ts';
import { refusedPauseMs } from '../plan/refused-pause.ts';
import { fitting, shortened, summaryBytes } from '../plan/text-size.ts';
import { fleet, fleetWrites, kube, permitLife } from './shared/activities.ts';
import { type Displayed, newDisplay } from './shared/display.ts';
import { newGrace } from './shared/grace.ts';
import { handedOver, handOverTo } from './shared/hand-over.ts';
import { type Inbox, newInbox } from './shared/inbox.ts';
import { type Announcement, type Answers, beginOperation, newAnswers } from './shared/operation.ts';
import { type Operator, type OperatorCommand, type OperatorHandOver, operatorHandOver } from './shared/operator.ts';
import { deleted, endAs, type OperationResult, type Outcome, showEnd } from './shared/outcome.ts';
import { asRefusal, reasonOf, refusedWait, type StepFailure } from './shared/refusals.ts';
import { podBatch } from './shared/results.ts';
import { type Fields, listOf, number, object, text } from './shared/shape.ts';

/** What a run leaves to the next one; what it knows of the object and its orders comes with the operation. */
export interface RollOutHandOver extends Pick<RollOutProgress, 'next' | 'inFlight' | 'log'> {
  readonly operator: OperatorHandOver;
  /** Questions that came to nothing in a row: each pause after one is longer than the one before. */
  readonly refusals: number;
}

const rollOutHandOver: Fields<RollOutHandOver> = {
  operator: operatorHandOver,
  next: number,
  inFlight: listOf(object<InFlight>({ number, revision: text, batch: podBatch, startedAtMs: number })),
  log: listOf(text),
  refusals: number,
};

/**
 * Rolls out what one fleet object asks for, for as long as there is something to roll out. It asks the leading watcher
 * which pods go next, has it carry these out, and obeys operators.
 */
export async function rollOut(operation: RollOutOperation, handOver?: unknown): Promise<OperationResult> {
  const before = handedOver(handOver, rollOutHandOver);
  const inbox = newInbox<RollOutNews>();
  const answers = newAnswers();
  const skips = newSkips(answers);
  const givenAt = new Map<number, string>();
  let isCancelled = false;

  const run = beginOperation(
    {
      id: rollOutId(operation.target.uid),
      commands: rollOutCommandNames,
      withTarget: ['retry', 'skip'],
      before: before.operator,
    },
    {
      changed: (payload) => inbox.put({ kind: 'changed', change: parseRollOutChanged(payload) }),
      command: receive,
      identified: ({ id, name }, by) =>
        inbox.put({ kind: 'identified', command: { name, at: givenAt.get(id) ?? '' }, by }),
      cancelled: (abort) => {
        isCancelled = true; // it stops like after the command of the same sense, and ends besides
        receive(abort);
      },
      answerTo: answers.of,
      announce: async (announcement) => await announceCommand(operation, announcement),
    },
  );
  const { operator } = run;
  let progress = begun(operation.facts, { ...before, namespace: operation.target.namespace ?? '' });

  return await run.carryOut(async () => {
    const choose = chooser(operation, inbox, before.refusals);
    const carryOut = carrier(operation, inbox);
    const record = recorder(operation, { inbox, operator, skips });
    const display = newDisplay();
    const grace = newGrace('wait for the batches in flight', () => inbox.put({ kind: 'graceOver' }));
    for (;;) {
      // nothing is begun on events that have not been read: one may be a command
      if (inbox.isEmpty()) {
        const unrecorded = unrecordedOrders(progress);
        const isLast = isEnding(progress) || (isCancelled && !unrecorded);
        const isHandOver = !isLast && operator.isHandOverDue() && !unrecorded;
        record(unrecorded);
        // a pod that is promised to a batch is not chosen again, so the batches come first
        carryOut(progress);
        choose.to(isHandOver ? undefined : wantedChoice(progress), progress);
        if (progress.end === undefined) display(displayed(progress));
        const isDone = progress.inFlight.length === 0 || progress.end === 'withdrawn';
        const mayEnd = grace.isOver(isLast || isHandOver, isDone);
        if ((isLast || isHandOver) && mayEnd) {
          // a run that has ended receives nothing: what comes until then is read first
          await run.announced(() => !inbox.isEmpty());
          if (inbox.isEmpty()) {
            if (isLast) {
              const end = endOf(progress, operation.kind);
              showEnd(end, detailsOf(progress, true));
              return endAs(end);
            }
            return await goOn(operation, progress, { operator: operator.handOver(), refusals: choose.refusals() });
          }
        }
      }
      for (const news of await inbox.take()) {
        const after = news.kind === 'command' ? afterCommand(progress, news.command) : undefined;
        progress = heard(progress, news);
        if (news.kind === 'command' && after) skips.answer(news, after);
      }
    }
  });

  function receive({ id, name, by = '', target }: OperatorCommand<CommandName>): void {
    const at = new Date().toISOString();
    givenAt.set(id, at);
    inbox.put({ kind: 'command', id, command: { name, by, at, ...(target !== undefined && { target }) } });
  }
}

/** A roll-out never fails: what it cannot do it waits for. A run that is not over was cancelled. */
function endOf(progress: RollOutProgress, kind: string): Outcome {
  const { end, summary } = progress;
  const done = summary || 'nothing was done';
  switch (end) {
    case 'withdrawn':
      return deleted(kind);
    case 'done':
      return { kind: 'Completed', reason: doneReason(progress), message: done };
    case 'superseded': {
      const message = `Another run rolls the ${kind} out, if anything is left to do; ${done}`;
      return { kind: 'Completed', reason: 'Superseded', message };
    }
    default:
      return { kind: 'Canceled', reason: 'Aborted', message: done };
  }
}

/** Sees that each batch in flight is carried out, once. What comes of it is an event. */
function carrier({ kind, target }: RollOutOperation, inbox: Inbox<RollOutNews>) {
  const begun = new Set<number>();

  return (progress: RollOutProgress): void => {
    for (const inFlight of progress.inFlight) {
      const { number, revision, batch } = inFlight;
      if (begun.has(number)) continue;
      begun.add(number);
      const options = { summary: inFlightText(progress, inFlight) };
      void fleet['fleet.v1.carryOutBatch']
        .executeWithOptions(options, [{ kind, target, number, revision, batch }])
        .then(
          (verdict) => inbox.put({ kind: 'carriedOut', number, verdict, atMs: Date.now() }),
          (error: unknown) => inbox.put({ kind: 'lost', number, why: asRefusal(reasonOf(error)).message }),
        );
    }
  };
}

/** Sees that this is asked, and nothing else. What comes of it is an event. */
function chooser({ kind, target }: RollOutOperation, inbox: Inbox<RollOutNews>, refusalsBefore = 0) {
  let current: { readonly key: string; readonly scope: CancellationScope } | undefined;
  let refusals = refusalsBefore;

  /** No answer has come, and none will: it is asked again after a pause. */
  function park(why: StepFailure): void {
    const refusal = asRefusal(why);
    inbox.put({ kind: 'parked', waitingFor: refusedWait(refusal) });
    void sleep(refusedPauseMs(refusal.reason, refusals++), { summary: 'retry after a refusal' }).then(() =>
      inbox.put({ kind: 'changed', change: undefined }),
    );
  }

  return { to, refusals: () => refusals };

  function to(wanted: WantedChoice | undefined, progress: RollOutProgress): void {
    const key = wanted ? JSON.stringify([wanted, progress.round]) : '';
    if (key === (current?.key ?? '')) return;
    current?.scope.cancel();
    current = undefined;
    if (progress.awaitsFacts && !progress.end)
      void sleep(factsMs, { summary: 'read the object' }).then(() => inbox.put({ kind: 'noFacts' }));
    if (!wanted) return;

    const scope = new CancellationScope();
    current = { key, scope };
    const { leave, told, parked } = wanted;
    const of = { leave, generation: progress.facts.generation };
    const after = progress.inFlight.map(({ number }) => number);
    const options = {
      summary: shortened(choiceText(progress, leave), summaryBytes),
      heartbeatTimeout: told === undefined ? permitLife.working : permitLife.waiting,
    };
    const choice = { ...leave, after, ...(told !== undefined && { told }), ...(parked && { parked }) };
    void scope
      .run(() => fleet['fleet.v1.chooseBatch'].executeWithOptions(options, [{ kind, target, choice }]))
      .then(
        (verdict) => {
          refusals = 0;
          if (current?.scope === scope) inbox.put({ kind: 'verdict', verdict, of, atMs: Date.now() });
        },
        (error: unknown) => {
          if (isCancellation(error)) return;
          if (current?.scope === scope) park(reasonOf(error));
        },
      );
  }
}

/** Commands that skip pods, until the leading watcher has said which of these the object has. */
interface Skips {
  /** Answers a command at once, unless it skips pods. */
  readonly answer: (command: { readonly id: number }, after: OrdersAfter) => void;
  /** The names to be checked. */
  readonly names: () => readonly string[];
  /** Orders of this version stand in the object. */
  readonly checked: (version: number, checked: CheckedSkips | undefined) => void;
  readonly close: (refused: string) => void;
}

function newSkips(answers: Answers): Skips {
  let open: readonly { readonly id: number; readonly version: number; readonly names: readonly string[] }[] = [];

  return {
    answer({ id }, after) {
      if ('refused' in after) answers.put({ id }, after);
      // runs of earlier releases have emitted the Event at once
      else if (after.skips === undefined || !patched('checkedSkips')) answers.put({ id }, after.answer);
      else open = [...open, { id, version: after.orders.version, names: after.skips }];
    },
    names: () => [...new Set(open.flatMap(({ names }) => names))],
    checked(version, checked) {
      for (const skip of open) if (skip.version <= version) answers.put(skip, answerToSkip(skip.names, checked));
      open = open.filter((skip) => skip.version > version);
    },
    close(refused) {
      for (const skip of open) answers.put(skip, { refused });
      open = [];
    },
  };
}

/** Writes orders into the object, one after the other; those that are overtaken are skipped. */
function recorder(
  { kind, target }: RollOutOperation,
  {
    inbox,
    operator,
    skips,
  }: { readonly inbox: Inbox<RollOutNews>; readonly operator: Operator; readonly skips: Skips },
) {
  let wanted: RollOutOrders | undefined;
  let isWriting = false;

  async function write(): Promise<void> {
    isWriting = true;
    let refusals = 0;
    for (let orders = wanted; orders !== undefined; orders = wanted) {
      const retriesBefore = operator.retries();
      const outcome = await writeOnce(orders);
      if (outcome.kind === 'gone') {
        inbox.put({ kind: 'changed', change: { withdrawn: true } });
        skips.close(`the ${kind} is gone`);
        break;
      }
      if (outcome.kind === 'refused') {
        const refusal = asRefusal(outcome.why);
        inbox.put({ kind: 'refused', waitingFor: refusedWait(refusal) });
        const pauseMs = refusedPauseMs(refusal.reason, refusals++);
        const summary = 'retry after a refusal';
        await condition(() => operator.retries() !== retriesBefore, pauseMs, { summary });
        continue;
      }
      refusals = 0;
      if (wanted === orders) wanted = undefined;
      const { newer, checked } = outcome;
      if (newer) inbox.put({ kind: 'overtaken', orders: newer });
      else {
        inbox.put({ kind: 'recorded', version: orders.version, ...(checked && { unknown: checked.unknown }) });
        skips.checked(orders.version, checked);
      }
    }
    isWriting = false;
  }

  async function writeOnce(orders: RollOutOrders): Promise<WriteOutcome> {
    try {
      const summary = `write the orders of operators into ${target.name}`;
      const answer = await fleetWrites['fleet.v1.recordOrders'].executeWithOptions(
        { summary: shortened(summary, summaryBytes) },
        [{ kind, target, orders, check: skips.names() }],
      );
      const newer = readOrders(answer?.newer);
      const checked = answer?.checked;
      const isKnown = checked !== undefined && checkedSkips(checked, 'checked') === undefined;
      return { kind: 'done', ...(newer && { newer }), ...(isKnown && { checked }) };
    } catch (error) {
      const why = reasonOf(error);
      return why.kind === 'superseded' ? { kind: 'gone' } : { kind: 'refused', why };
    }
  }

  return (orders: RollOutOrders | undefined): void => {
    wanted = orders;
    if (orders !== undefined && !isWriting) void write();
  };
}

type WriteOutcome =
  /** `newer`: what stands in the object instead. */
  | { readonly kind: 'done'; readonly newer?: RollOutOrders; readonly checked?: CheckedSkips }
  | { readonly kind: 'gone' }
  | { readonly kind: 'refused'; readonly why: StepFailure };

/** What the roll-out does now, and all there is to say about it. */
function displayed(progress: RollOutProgress): Displayed {
  return { details: detailsOf(progress), phase: phaseOf(progress), reason: progress.waitingFor?.reason ?? '' };
}

const checkedSkips = object<CheckedSkips>({
  unknown: listOf(text),
  unavailable: listOf(text),
  pods: listOf(text),
  count: number,
});

/** Says in an Event who gave the command, and what has become of it. */
async function announceCommand(
  { kind, target }: RollOutOperation,
  { options, event: { target: pod, ...event } }: Announcement,
): Promise<void> {
  const about = { kind, target, ...event, ...(pod !== undefined && { pod }) };
  await kube.announceRollOutCommand.executeWithOptions(options, [about]);
}

/** The next run begins with what this one knows, and waits for the batches in flight before it asks which pods go next. */
async function goOn(
  operation: RollOutOperation,
  { facts, orders, next, inFlight, log }: RollOutProgress,
  rest: Pick<RollOutHandOver, 'operator' | 'refusals'>,
): Promise<never> {
  const known = { ...operation, facts: { ...facts, ...(orders && { orders }) } };
  const carried = fitting(inFlight, mostCarriedBytes);
  return await handOverTo<typeof rollOut>([known, { ...rest, next, inFlight: carried, log: log.slice(-3) }]);
}

/** Of batches that do not fit the pods are chosen again, unless they have been updated by then. */
const mostCarriedBytes = 32 * 1024;

/** How long it waits for the signal that says what the object asks for, before it asks again. */
const factsMs = 2_000;
