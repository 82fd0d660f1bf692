/**
 * The skeleton of an operation: what every workflow does in the same way. It checks its ID, receives the signal
 * `changed`, the commands of operators and Temporal's cancellation, emits an Event for each command, and hands over to
 * the next run only when nothing that it received would be lost.
 *
 * How the events are processed is specific to each operation: most fold them into a plain value and carry out its
 * `nextActions` (docs/adr/0003).
 */
import { CancellationScope, condition, defineSignal, patched, setHandler, workflowInfo } from '@temporalio/workflow';
import type { SignalPlace } from '../../activities/temporal/signals.ts';
import { type CommandAnswer, type CommandName, changedSignal } from '../../api/engine/operations.ts';
import { shortened } from '../../plan/text-size.ts';
import {
  internal,
  listenToOperator,
  type Operator,
  type OperatorCommand,
  type OperatorHandOver,
  type RefusedSignal,
} from './operator.ts';
import { checkOwnId } from './own-id.ts';

/** The reactions of an operation to external events. Each is called in the workflow task in which the event arrives. */
export interface OperationListener<Name extends CommandName> {
  /** Something that the operation depends on has changed: the payload of the signal as it was sent. */
  readonly changed: (payload: unknown) => void;
  /** A command was received; `by` is missing until the sender is identified. */
  readonly command?: (command: OperatorCommand<Name>) => void;
  /**
   * A command was received, and the operation finds out itself who sent it: `place` says where that can be read. Used in place
   * of `command`, `identified` and `answerTo`.
   */
  readonly take?: (command: OperatorCommand<Name>, place: () => Promise<SignalPlace>) => void;
  /** The sender of a command is known. */
  readonly identified?: (command: OperatorCommand<Name>, by: string) => void;
  /** Somebody cancelled the workflow in Temporal; it means the same as the command `abort`. */
  readonly cancelled: (abort: CancelledAs) => void;
  /** The run is to hand over (`Operator.isHandOverDue`). Absent: it looks for that by itself. */
  readonly handOver?: () => void;
  /** What has become of a command, for its Event. Undefined: the operation emits that itself. */
  readonly answerTo?: (command: OperatorCommand<Name>) => CommandAnswer | Promise<CommandAnswer> | undefined;
  /** Calls the activity that emits the Event about a command. */
  readonly announce: (announcement: Announcement) => Promise<unknown>;
}

/** Temporal's cancellation as a command. */
export interface CancelledAs extends OperatorCommand<'abort'> {
  readonly by: string;
}

/** An Event about one command. */
export interface Announcement {
  /** Options of the activity. */
  readonly options: typeof announcementLimits & { readonly summary: string };
  /** Input of the activity, beside the object that the Event is about. */
  readonly event: CommandAnswer & {
    readonly command: string;
    readonly by: string;
    /** Names the Event, so that a retry emits it once. */
    readonly key: string;
  };
}

/** One run of an operation. */
export interface OperationRun {
  readonly operator: Operator;
  /**
   * Waits until the Events of all commands are emitted, including commands that are received meanwhile. `unless` says that
   * something has to be done first: the answer to a command may depend on it.
   */
  readonly announced: (unless?: () => boolean) => Promise<void>;
  /** Emits the Event about a command that the listener has taken. */
  readonly announce: (command: Announced, by: string, answer: CommandAnswer) => void;
  /** Whether they are all emitted: a run that ends or hands over earlier loses the rest. */
  readonly isAnnounced: () => boolean;
  /** How the run ends after an operator has aborted it: `Canceled` if that was by a cancellation in Temporal. */
  readonly aborted: () => 'Failed' | 'Canceled';
  /** Carries the operation out. A cancellation does not interrupt it: the listener receives it. */
  readonly carryOut: <Result>(body: () => Promise<Result>) => Promise<Result>;
}

/** No decision depends on an Event, and no operation waits long for one. */
const announcementLimits = { scheduleToCloseTimeout: '30s', retry: { maximumAttempts: 3 } } as const;

const cancellation: CancelledAs = { id: 0, name: 'abort', by: 'a cancellation of its workflow' };

/** Begins a run: from now on the listener is called for every external event. */
export function beginOperation<Name extends CommandName>(
  operation: {
    /** The workflow ID that is the lock on what the operation works on. */
    readonly id: string;
    /** The supported commands. */
    readonly commands: readonly Name[];
    /** Those that may name a target. */
    readonly withTarget: readonly Name[];
    /** UID of the request that this run is for; a command that names another one is kept. Absent: all are for this run. */
    readonly request?: string;
    /** From the previous run. */
    readonly before: OperatorHandOver | undefined;
  },
  listener: OperationListener<Name>,
): OperationRun {
  checkOwnId(operation.id);
  const announcements = new Set<Promise<void>>();

  setHandler(defineSignal<[unknown]>(changedSignal), listener.changed, { description: internal });
  const operator = listenToOperator(
    operation.commands,
    {
      command: (command) => listener.command?.(command),
      take: listener.take,
      handOver: listener.handOver,
      identified: (command, by) => {
        listener.identified?.(command, by);
        track(tell(command, by));
      },
      refused: (signal, by) => track(announce(signal, by, signal, listener.announce)),
    },
    { ...operation, inOrder: listener.take !== undefined },
  );
  let isCancelled = false;
  CancellationScope.current().cancelRequested.catch(() => {
    isCancelled = true;
    listener.cancelled(cancellation);
  });

  return {
    operator,
    announced: (unless = () => false) => condition(() => isAnnounced() || unless()),
    announce: (command, by, answer) => track(announce(command, by, answer, listener.announce)),
    isAnnounced,
    aborted: () => (isCancelled ? 'Canceled' : 'Failed'),
    carryOut: (body) => CancellationScope.nonCancellable(body),
  };

  function isAnnounced(): boolean {
    return announcements.size === 0 && operator.unidentified() === 0;
  }

  function track(announced: Promise<void>): void {
    announcements.add(announced);
    void announced.finally(() => announcements.delete(announced));
  }

  function tell(command: OperatorCommand<Name>, by: string): Promise<void> {
    const emit = async (answer: CommandAnswer | undefined) => {
      if (answer) await announce(command, by, { target: command.target, ...answer }, listener.announce);
    };
    const answer = listener.answerTo?.(command);
    // without a wait where there is nothing to wait for: histories of earlier releases have the Event in that task
    return answer instanceof Promise ? answer.then(emit) : emit(answer);
  }
}

/** A command or another signal about which an Event is emitted. */
export interface Announced extends Pick<OperatorCommand | RefusedSignal, 'id' | 'name'> {
  /** Names the Event. Absent: the number of the signal in this run does. */
  readonly eventKey?: string;
}

/** Emits an Event that names the command and its sender, and says what has become of it. A failure of that is ignored. */
export async function announce(
  { id, name, eventKey }: Announced,
  by: string,
  { refused, target, note, isWarning }: CommandAnswer,
  emit: (announcement: Announcement) => Promise<unknown>,
): Promise<void> {
  const key = eventKey ?? `${workflowInfo().runId.slice(0, 8)}-${id}`;
  // the summary leaves out the sender: Temporal rejects a task whose summary is long, and a name may be of any length
  const summary = `emit an Event: ${name}${refused === undefined ? '' : ' refused'}`;
  const answer = {
    ...(refused !== undefined && { refused: shortened(refused, mostAnswerBytes) }),
    ...(target !== undefined && { target: shortened(target, mostAnswerBytes) }),
    ...(note !== undefined && { note: shortened(note, mostAnswerBytes) }),
    ...(isWarning && { isWarning }),
  };
  await emit({ options: { summary, ...announcementLimits }, event: { command: name, by, key, ...answer } }).catch(
    () => undefined,
  );
}

/** Leaves room for the rest of the message of an Event. */
const mostAnswerBytes = 400;

/**
 * The answers of an operation of which earlier releases emitted the Event about a command at once, as if it had always
 * taken effect.
 */
export function answersOf({ of }: Answers) {
  return (command: Pick<OperatorCommand, 'id'>): CommandAnswer | Promise<CommandAnswer> =>
    patched('commandAnswers') ? of(command) : {};
}

/** What has become of commands. The Event about one is emitted once that is known. */
export interface Answers {
  readonly put: (command: Pick<OperatorCommand, 'id'>, answer: CommandAnswer) => void;
  /** No command is looked at any more: those without an answer have no effect, because of this. */
  readonly close: (refused: string) => void;
  readonly of: (command: Pick<OperatorCommand, 'id'>) => Promise<CommandAnswer>;
}

/** No answers yet. */
export function newAnswers(): Answers {
  const known = new Map<number, CommandAnswer>();
  let rest: CommandAnswer | undefined;
  return {
    put: ({ id }, answer) => void known.set(id, answer),
    close: (refused) => {
      rest ??= { refused };
    },
    of: async ({ id }) => {
      await condition(() => known.has(id) || rest !== undefined);
      const answer = known.get(id) ?? rest ?? {};
      known.delete(id);
      return answer;
    },
  };
}
