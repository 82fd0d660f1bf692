import { CancellationScope, condition, isCancellation, sleep } from '@temporalio/workflow';
import { type CommandName, rollOutCommandNames } from '../api/engine/operations.ts';
import { parseRollOutChanged, type RollOutOperation, rollOutId } from '../api/fleet/operation.ts';
import { type RollOutOrders, readOrders } from '../api/fleet/roll-out-orders.ts';
import {
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
  refusalOf,
  unrecordedOrders,
  type WantedChoice,
  wantedChoice,
} from './plan/fleet/roll-out.ts';
import { refusedPauseMs } from './plan/refused-pause.ts';
import { fitting, shortened, summaryBytes } from './plan/text-size.ts';
import { fleet, fleetWrites, kube, permitLife } from './shared/activities.ts';
import { type Displayed, newDisplay } from './shared/display.ts';
import { newGrace } from './shared/grace.ts';
import { handedOver, handOverTo } from './shared/hand-over.ts';
import { type Inbox, newInbox } from './shared/inbox.ts';
import { type Announcement, beginOperation } from './shared/operation.ts';
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
  /** What has become of each command: undefined when it was obeyed, else why not. */
  const answers = new Map<number, string | undefined>();
  const givenAt = new Map<number, string>();
  let isCancelled = false;

  const run = beginOperation(
    { id: rollOutId(operation.target.uid), commands: rollOutCommandNames, before: before.operator },
    {
      changed: (payload) => inbox.put({ kind: 'changed', change: parseRollOutChanged(payload) }),
      command: receive,
      identified: ({ id, name }, by) =>
        inbox.put({ kind: 'identified', command: { name, at: givenAt.get(id) ?? '' }, by }),
      cancelled: (abort) => {
        isCancelled = true; // it stops like after the command of the same sense, and ends besides
        receive(abort);
      },
      announce: async (announcement) => {
        await condition(() => answers.has(announcement.id));
        await announceCommand(operation, announcement, answers.get(announcement.id));
      },
    },
  );
  const { operator } = run;
  let progress = begun(operation.facts, { ...before, namespace: operation.target.namespace ?? '' });

  return await run.carryOut(async () => {
    const choose = chooser(operation, inbox, before.refusals);
    const carryOut = carrier(operation, inbox);
    const record = recorder(operation, inbox, operator);
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
          await run.announced();
          if (inbox.isEmpty() && operator.unidentified() === 0) {
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
        if (news.kind === 'command') answers.set(news.id, refusalOf(progress, news.command));
        progress = heard(progress, news);
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

/** Writes orders into the object, one after the other; those that are overtaken are skipped. */
function recorder({ kind, target }: RollOutOperation, inbox: Inbox<RollOutNews>, operator: Operator) {
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
      if (outcome.newer) inbox.put({ kind: 'overtaken', orders: outcome.newer });
      else inbox.put({ kind: 'recorded', version: orders.version });
    }
    isWriting = false;
  }

  async function writeOnce(orders: RollOutOrders): Promise<WriteOutcome> {
    try {
      const summary = `write the orders of operators into ${target.name}`;
      const answer = await fleetWrites['fleet.v1.recordOrders'].executeWithOptions(
        { summary: shortened(summary, summaryBytes) },
        [{ kind, target, orders }],
      );
      const newer = readOrders(answer?.newer);
      return { kind: 'done', ...(newer && { newer }) };
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
  | { readonly kind: 'done'; readonly newer?: RollOutOrders }
  | { readonly kind: 'gone' }
  | { readonly kind: 'refused'; readonly why: StepFailure };

/** What the roll-out does now, and all there is to say about it. */
function displayed(progress: RollOutProgress): Displayed {
  return { details: detailsOf(progress), phase: phaseOf(progress), reason: progress.waitingFor?.reason ?? '' };
}

/** Says in an Event who gave the command, and why it had no effect when it had none. */
async function announceCommand(
  { kind, target }: RollOutOperation,
  { options, event: { target: pod, ...event } }: Announcement,
  refused: string | undefined,
): Promise<void> {
  const more = { ...(pod !== undefined && { pod }), ...(refused !== undefined && { refused }) };
  await kube.announceRollOutCommand.executeWithOptions(options, [{ kind, target, ...event, ...more }]);
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
