import { workflowInfo } from '@temporalio/workflow';
import type { SignalPlace } from '../activities/temporal/signals.ts';
import { type CommandName, rollOutCommandNames } from '../api/engine/operations.ts';
import { type RollOutOperation, rollOutId } from '../api/fleet/operation.ts';
import type { PodBatch } from '../plan/fleet/batch.ts';
import {
  abortedBy,
  asked,
  asks,
  begun,
  detailsOf,
  doneReason,
  handedInAgain,
  heard,
  inFlightText,
  isEnding,
  isHold,
  justPermitted,
  mayBegin,
  meantBy,
  phaseOf,
  type RollOutNews,
  type RollOutProgress,
  shownWait,
} from '../plan/fleet/roll-out.ts';
import { carriedIn, type InFlight } from '../plan/permits/in-flight.ts';
import { fitting } from '../plan/text-size.ts';
import { commandLane, givenCommand, type PlacedCommand } from './roll-out-commands.ts';
import { fleetBatches, fleetLooks, kube } from './shared/activities.ts';
import { type Displayed, newDisplay } from './shared/display.ts';
import { newGrace } from './shared/grace.ts';
import { handedOver, handOverTo } from './shared/hand-over.ts';
import { newInbox } from './shared/inbox.ts';
import { type Announcement, beginOperation } from './shared/operation.ts';
import { type OperatorCommand, type OperatorHandOver, operatorHandOver } from './shared/operator.ts';
import { deleted, endAs, type OperationResult, type Outcome, showEnd } from './shared/outcome.ts';
import { mostCarriedBytes, newCarrier, newQuestion, questionTimeout } from './shared/permits.ts';
import { inFlightOf, podBatch } from './shared/results.ts';
import { type Fields, listOf, number, text } from './shared/shape.ts';

/** What a run leaves to the next one; what it knows of the object and its orders comes with the operation. */
export interface RollOutHandOver extends Pick<RollOutProgress, 'next' | 'inFlight' | 'log'> {
  readonly operator: OperatorHandOver;
  /** Commands that are not applied yet. */
  readonly commands: readonly PlacedCommand[];
  /** Questions that came to nothing in a row: each pause after one is longer than the one before. */
  readonly refusals: number;
}

const rollOutHandOver: Fields<RollOutHandOver> = {
  operator: operatorHandOver,
  commands: listOf(givenCommand),
  next: number,
  inFlight: listOf(inFlightOf(podBatch)),
  log: listOf(text),
  refusals: number,
};

/**
 * Rolls out what one fleet object asks for, for as long as there is something to roll out. It asks the leading watcher
 * which pods go next, has it carry these out, and obeys operators.
 */
export async function rollOut(operation: RollOutOperation, handOver?: unknown): Promise<OperationResult> {
  const before = handedOver(handOver, rollOutHandOver);
  const inbox = newInbox<RollOutNews | Received>();
  const now = newClock();
  const { namespace = '' } = operation.target;
  let progress = begun(operation.facts, { ...before, namespace });
  const lane = commandLane(operation, {
    inbox,
    retries: () => run.operator.retries(),
    announce: (...about) => run.announce(...about),
    before: before.commands ?? [],
  });
  let isCancelled = false;

  const run = beginOperation(
    {
      id: rollOutId(operation.target),
      commands: rollOutCommandNames,
      withTarget: ['retry', 'skip'],
      before: before.operator,
    },
    {
      changed: () => inbox.put({ kind: 'changed' }),
      handOver: () => inbox.put({ kind: 'timeOver' }),
      take: (command, place) => inbox.put({ kind: 'received', command, at: now(), place }),
      cancelled: (command) => {
        isCancelled = true; // it stops like after the command of the same sense, and ends besides
        inbox.put({ kind: 'received', command, at: now() });
      },
      announce: async (announcement) => await announceCommand(operation, announcement),
    },
  );
  const { operator } = run;
  const { kind, target } = operation;
  const question = newQuestion(
    inbox,
    () => {
      const options = { summary: 'which pods go next', ...questionTimeout };
      const input = { kind, target, justPermitted: justPermitted(progress, Date.now()), carried: carriedIn(progress) };
      return fleetLooks['fleet.v1.next'].executeWithOptions(options, [input]);
    },
    before.refusals,
  );

  return await run.carryOut(async () => {
    const batches = newCarrier(inbox, (one: InFlight<PodBatch>) => {
      const { number, batch } = one;
      const options = { summary: inFlightText(progress, one) };
      return fleetBatches['fleet.v1.carryOutBatch'].executeWithOptions(options, [{ kind, target, number, batch }]);
    });
    const display = newDisplay();
    const grace = newGrace('wait for the batches in flight', () => inbox.put({ kind: 'timeOver' }));
    for (;;) {
      // nothing is begun on events that have not been read: one may be a command
      if (inbox.isEmpty()) {
        const isAnswered = !question.isOpen() || progress.end === 'withdrawn';
        const isLast = (isEnding(progress) && isAnswered) || (isCancelled && progress.commands.length === 0);
        const isHandOver = !isLast && !isCancelled && operator.isHandOverDue();
        lane.apply(progress.commands, batches.withdraw);
        if (progress.end === 'withdrawn') lane.close(`the ${operation.kind} is gone`);
        // P-11: it takes along what is in flight, and waits only for Events about commands
        if (isHandOver && run.isAnnounced()) {
          await lane.arePlaced();
          if (inbox.isEmpty()) return await handOn();
          continue;
        }
        progress = handedInAgain(progress, Date.now());
        // what is in a batch is not named again, so the batches come first
        batches.carryOut(progress.inFlight, mayBegin(progress));
        if (asks(progress) && !question.isOpen() && !isLast) {
          question.ask();
          progress = asked(progress);
        }
        if (progress.end === undefined || isFinishing(progress)) display(displayed(progress));
        const isDone = progress.inFlight.length === 0 || progress.end === 'withdrawn';
        const waitsForBatches = isFinishing(progress) && !progress.isIdle && !isCancelled;
        const mayEnd = grace.isOver(isLast && !waitsForBatches, isDone);
        // a run that has ended receives nothing: what comes until then is read first
        if (mayEnd || isHandOver) await run.announced(() => !inbox.isEmpty());
        if (isHandOver) await lane.arePlaced();
        if (mayEnd && inbox.isEmpty()) {
          const end = endOf(progress, { kind: operation.kind, aborted: run.aborted() });
          showEnd(end, detailsOf(progress, true));
          return endAs(end);
        }
        if (isHandOver && inbox.isEmpty()) return await handOn();
      }
      for (const news of await inbox.take()) {
        const known = news.kind === 'received' ? given(news) : news;
        if (known) progress = heard(progress, known);
      }
    }
  });

  async function handOn(): Promise<never> {
    const commands = carried(lane.placed(progress.commands));
    return await goOn(operation, progress, { operator: operator.handOver(), commands, refusals: question.refusals() });
  }

  /** The command as the leading watcher is to apply it; undefined when it is refused here. */
  function given({ command, at, place }: Received): RollOutNews | undefined {
    const { id, name, by } = command;
    const meant = meantBy(progress, command);
    if ('refused' in meant) {
      if (place) operator.refuse(command, meant.refused, place);
      return undefined;
    }
    const known = { key: `${workflowInfo().runId}/${id}`, name, at, ...meant, ...(by !== undefined && { by }) };
    lane.add(known, { id, ...(place && { place }) });
    return { kind: 'command', command: known };
  }
}

/** A command that was received, and is not understood yet. */
interface Received {
  readonly kind: 'received';
  readonly command: OperatorCommand<CommandName>;
  /** RFC 3339 */
  readonly at: string;
  /** Where its sender can be read. Absent: its sender is known. */
  readonly place?: () => Promise<SignalPlace>;
}

/** Moments of commands, RFC 3339: each is later than the one before, also within one task, since later ones are told by that. */
function newClock(): () => string {
  let lastMs = 0;
  return () => {
    lastMs = Math.max(Date.now(), lastMs + 1);
    return new Date(lastMs).toISOString();
  };
}

/** What a roll-out cannot do it waits for. A run that is not over was cancelled. `aborted`: how one ends that an operator has aborted. */
function endOf(
  progress: RollOutProgress,
  { kind, aborted }: { readonly kind: string; readonly aborted: Outcome['kind'] },
): Outcome {
  const { end, summary } = progress;
  const done = summary || 'nothing was done';
  switch (end) {
    case 'withdrawn':
      return deleted(kind);
    case 'done':
      return { kind: 'Completed', reason: doneReason(progress), message: done };
    case 'aborted':
      return { kind: aborted, reason: 'Aborted', message: `Aborted by ${abortedBy(progress)}: ${done}` };
    default:
      return { kind: 'Canceled', reason: 'Aborted', message: done };
  }
}

/** Whether it is aborted, and something is left to be finished or applied before it ends. */
function isFinishing({ end, inFlight, commands }: RollOutProgress): boolean {
  return end === 'aborted' && inFlight.length + commands.length > 0;
}

/** What the roll-out does now, and all there is to say about it. */
function displayed(progress: RollOutProgress): Displayed {
  const reason = shownWait(progress)?.reason ?? (progress.end === 'aborted' ? 'Aborted' : '');
  return { details: detailsOf(progress), phase: phaseOf(progress), reason };
}

/** Says in an Event who gave the command, and what has become of it. */
async function announceCommand(
  { kind, target }: RollOutOperation,
  { options, event: { target: pod, ...event } }: Announcement,
): Promise<void> {
  const about = { kind, target, ...event, ...(pod !== undefined && { pod }) };
  await kube.announceRollOutCommand.executeWithOptions(options, [about]);
}

/** The next run begins with what this one knows, and asks which pods go next. */
async function goOn(
  operation: RollOutOperation,
  { facts, next, inFlight, log }: RollOutProgress,
  rest: Pick<RollOutHandOver, 'operator' | 'commands' | 'refusals'>,
): Promise<never> {
  const known = { ...operation, facts };
  const carried = fitting(inFlight, mostCarriedBytes);
  return await handOverTo<typeof rollOut>([known, { ...rest, next, inFlight: carried, log: log.slice(-3) }]);
}

/** Of commands that do not fit those stay behind that hold nothing. */
function carried(commands: readonly PlacedCommand[]): readonly PlacedCommand[] {
  const others = fitting(
    commands.filter((command) => !isHold(command)),
    mostCarriedBytes,
  );
  return commands.filter((command) => isHold(command) || others.includes(command));
}
