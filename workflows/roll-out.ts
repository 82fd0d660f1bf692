import { CancellationScope, condition, isCancellation, sleep } from '@temporalio/workflow';
import { timestamp } from '../api/base/time.ts';
import { refusalWait } from '../api/core/failure.ts';
import { type CommandName, rollOutCommandNames } from '../api/engine/operations.ts';
import type { WaitingFor } from '../api/engine/waiting-for.ts';
import { parseRollOutChanged, type RollOutOperation, rollOutId } from '../api/fleet/operation.ts';
import { type RollOutOrders, readOrders } from '../api/fleet/roll-out-orders.ts';
import type { Permit } from './plan/fleet/permit.ts';
import {
  type Batch,
  begun,
  detailsOf,
  heard,
  isOver,
  permitText,
  phaseOf,
  type RollOutNews,
  type RollOutProgress,
  refusalOf,
  unrecordedOrders,
  wantedPermit,
} from './plan/fleet/roll-out.ts';
import { refusedPauseMs } from './plan/refused-pause.ts';
import { shortened } from './plan/text-size.ts';
import { fleet, fleetWrites, kube, permitLife } from './shared/activities.ts';
import { type Displayed, newDisplay } from './shared/display.ts';
import { handedOver, handOverTo } from './shared/hand-over.ts';
import { type Inbox, newInbox } from './shared/inbox.ts';
import { type Announcement, beginOperation } from './shared/operation.ts';
import { type Operator, type OperatorCommand, type OperatorHandOver, operatorHandOver } from './shared/operator.ts';
import { reasonOf, type StepFailure } from './shared/refusals.ts';
import { type Fields, listOf, number, object, optional, text } from './shared/shape.ts';

/** What a run leaves to the next one; what it knows of the object and its orders comes with the operation. */
export interface RollOutHandOver extends Pick<RollOutProgress, 'batch' | 'log'> {
  readonly operator: OperatorHandOver;
  /** Permits that came to nothing in a row: each pause after one is longer than the one before. */
  readonly refusals: number;
}

const rollOutHandOver: Fields<RollOutHandOver> = {
  operator: operatorHandOver,
  batch: object<Batch>({ number, milestone: number, startedAtMs: number, arrived: optional(number) }),
  log: listOf(text),
  refusals: number,
};

/**
 * Rolls out what one fleet object asks for, for as long as there is something to roll out. It gives the leading watcher
 * permits to disrupt pods, takes in its verdicts, and obeys operators. Answers how far it has come.
 */
export async function rollOut(operation: RollOutOperation, handOver?: unknown): Promise<string> {
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
  let progress = begun(operation.facts, Date.now(), before);

  return await run.carryOut(async () => {
    const advance = advancer(operation, inbox, before.refusals);
    const record = recorder(operation, inbox, operator);
    const display = newDisplay();
    for (;;) {
      // nothing is begun on events that have not been read: one may be a command
      if (inbox.isEmpty()) {
        const unrecorded = unrecordedOrders(progress);
        record(unrecorded);
        advance.to(wantedPermit(progress), progress);
        display(displayed(progress));
        const isLast = isOver(progress) || (isCancelled && !unrecorded);
        if (isLast || (operator.isHandOverDue() && !unrecorded)) {
          // a run that has ended receives nothing: what comes until then is read first
          await run.announced();
          if (inbox.isEmpty() && operator.unidentified() === 0) {
            if (isLast) return progress.summary || phaseOf(progress);
            await goOn(operation, progress, { operator: operator.handOver(), refusals: advance.refusals() });
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

/** Sees that this permit is handed in, and no other. What comes of it is an event. */
function advancer({ kind, target }: RollOutOperation, inbox: Inbox<RollOutNews>, refusalsBefore = 0) {
  let current: { readonly key: string; readonly scope: CancellationScope } | undefined;
  let refusals = refusalsBefore;

  /** No verdict has come, and none will: it is asked for again after a pause. */
  function park(why: StepFailure): void {
    inbox.put({ kind: 'parked', waitingFor: refusalWaitOf(why) });
    const reason = why.kind === 'refused' ? why.reason : 'Invalid';
    void sleep(refusedPauseMs(reason, refusals++), { summary: 'retry after a refusal' }).then(() =>
      inbox.put({ kind: 'changed', change: undefined }),
    );
  }

  return { to, refusals: () => refusals };

  function to(wanted: Permit | undefined, progress: RollOutProgress): void {
    const key = wanted ? JSON.stringify([wanted, progress.round]) : '';
    if (key === (current?.key ?? '')) return;
    current?.scope.cancel();
    current = undefined;
    if (progress.awaitsFacts && !progress.end)
      void sleep(factsMs, { summary: 'read the object' }).then(() => inbox.put({ kind: 'noFacts' }));
    if (!wanted) return;

    const scope = new CancellationScope();
    current = { key, scope };
    const of = { permit: wanted, generation: progress.facts.generation };
    const options = {
      summary: shortened(permitText(progress, wanted), mostSummaryBytes),
      heartbeatTimeout: wanted.told === undefined ? permitLife.working : permitLife.waiting,
    };
    void scope
      .run(() => fleet['fleet.v1.advance'].executeWithOptions(options, [{ kind, target, permit: wanted }]))
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
        inbox.put({ kind: 'refused', waitingFor: refusalWaitOf(outcome.why) });
        const reason = outcome.why.kind === 'refused' ? outcome.why.reason : 'Invalid';
        const pauseMs = refusedPauseMs(reason, refusals++);
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
        { summary: shortened(summary, mostSummaryBytes) },
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

/** What a roll-out waits for when a step of it was refused. */
function refusalWaitOf(why: StepFailure): WaitingFor {
  const reason = why.kind === 'refused' ? refusalWait(why.reason) : 'Parked';
  const message = why.kind === 'nodeSilent' ? 'no worker answered in time' : why.message;
  const unblock = `It is retried automatically, or at once after the signal retry; ${message}`;
  return { reason, blockedBy: [], blockedCount: 0, since: timestamp(Date.now()), unblock };
}

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

/** The next run begins with what this one knows; a permit that is handed in is taken back and given anew. */
async function goOn(
  operation: RollOutOperation,
  { facts, orders, batch, log }: RollOutProgress,
  rest: Pick<RollOutHandOver, 'operator' | 'refusals'>,
): Promise<never> {
  const known = { ...operation, facts: { ...facts, ...(orders && { orders }) } };
  return await handOverTo<typeof rollOut>([known, { ...rest, batch, log: log.slice(-3) }]);
}

/** How long it waits for the signal that says what the object asks for, before it asks again. */
const factsMs = 2_000;

const mostSummaryBytes = 180;
