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
import { timestamp } from '../api/base/time.ts';
import { refusalWait } from '../api/core/failure.ts';
import { changedSignal, rollOutCommandNames, searchAttributes } from '../api/engine/operations.ts';
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
 * leave to disrupt pods, hears what came of it, and obeys operators. Answers how far it has come.
 */
export async function rollOut(operation: RollOutOperation, handOver?: unknown): Promise<string> {
  checkOwnId(rollOutId(operation.target.uid));
  const before = handedOver(handOver, rollOutHandOver);
  const inbox = newInbox<RollOutNews>();
  const announcements: Promise<void>[] = [];
  /** What has become of each command: undefined when it was obeyed, else why not. */
  const answers = new Map<number, string | undefined>();
  const givenAt = new Map<number, string>();
  let progress = begun(operation.facts, Date.now(), before);

  setHandler(defineSignal<[unknown]>(changedSignal), (payload) =>
    inbox.put({ kind: 'changed', change: parseRollOutChanged(payload) }),
  );
  const operator = listenToOperator(
    rollOutCommandNames,
    {
      command: ({ id, name, by = '', target }) => {
        const at = new Date().toISOString();
        givenAt.set(id, at);
        inbox.put({ kind: 'command', id, command: { name, by, at, ...(target !== undefined && { target }) } });
      },
      identified: (command, by) => {
        const at = givenAt.get(command.id) ?? '';
        inbox.put({ kind: 'identified', command: { name: command.name, at }, by });
        announcements.push(
          condition(() => answers.has(command.id)).then(() =>
            announce(operation, command, by, answers.get(command.id)),
          ),
        );
      },
    },
    { before: before.operator },
  );

  // Temporal's own cancellation stops it like the command of the same sense, and ends the run
  let isCancelled = false;
  CancellationScope.current().cancelRequested.catch(() => {
    isCancelled = true;
    const command = { name: 'abort', by: 'a cancellation of its workflow', at: new Date().toISOString() } as const;
    inbox.put({ kind: 'command', id: 0, command });
  });

  return await CancellationScope.nonCancellable(async () => {
    const advance = advancer(operation, inbox, before.refusals);
    const record = recorder(operation, inbox, operator);
    for (let shown = ''; ; ) {
      // nothing is begun on news that has not been read: it may be a command
      if (inbox.isEmpty()) {
        const unrecorded = unrecordedOrders(progress);
        record(unrecorded);
        advance.to(wantedPermit(progress), progress);
        shown = show(progress, shown);
        const isLast = isOver(progress) || (isCancelled && !unrecorded);
        if (isLast || (operator.isHandOverDue() && !unrecorded)) {
          // a run that has ended hears nothing: what comes until then is read first
          await Promise.all(announcements);
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
}

/** Sees that this permit is handed in, and no other. What comes of it is news. */
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

/** Makes the operation findable by what it does now, and says all there is to say. Answers what it has shown. */
function show(progress: RollOutProgress, shown: string): string {
  setCurrentDetails(detailsOf(progress));
  const phase = phaseOf(progress);
  const reason = progress.waitingFor?.reason ?? '';
  const next = `${phase} ${reason}`;
  if (next !== shown) {
    upsertSearchAttributes({ [searchAttributes.phase]: [phase], [searchAttributes.reason]: [reason] });
  }
  return next;
}

/** Emits an Event that names the command and its sender. Nothing depends on it, and nothing waits for it for long. */
async function announce(
  { kind, target }: RollOutOperation,
  { id, name, target: pod }: OperatorCommand,
  by: string,
  refused: string | undefined,
): Promise<void> {
  const key = `${workflowInfo().runId.slice(0, 8)}-${id}`;
  // not by whom: Temporal refuses a task whose summary is long, and anybody may choose any name
  const options = { summary: `emit an Event: ${name}`, scheduleToCloseTimeout: '30s', retry: { maximumAttempts: 3 } };
  const input = { kind, target, command: name, by, key };
  const more = { ...(pod !== undefined && { pod }), ...(refused !== undefined && { refused }) };
  await kube.announceRollOutCommand.executeWithOptions(options, [{ ...input, ...more }]).catch(() => undefined);
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

/** How long it waits to be told what the object asks for, before it asks again. */
const factsMs = 2_000;

const mostSummaryBytes = 180;
