/**
 * The skeleton of an operation: what every workflow does in the same way. It checks its ID, receives the signal
 * `changed`, the commands of operators and Temporal's cancellation, emits an Event for each command, and hands over to
 * the next run only when nothing that it received would be lost.
 *
 * How the events are processed is specific to each operation: most fold them into a plain value and carry out its
 * `nextActions` (docs/adr/0003).
 */
import { CancellationScope, defineSignal, setHandler, workflowInfo } from '@temporalio/workflow';
import { type CommandName, changedSignal } from '../../api/engine/operations.ts';
import { internal, listenToOperator, type Operator, type OperatorCommand, type OperatorHandOver } from './operator.ts';
import { checkOwnId } from './own-id.ts';

/** The reactions of an operation to external events. Each is called in the workflow task in which the event arrives. */
export interface OperationListener<Name extends CommandName> {
  /** Something that the operation depends on has changed: the payload of the signal as it was sent. */
  readonly changed: (payload: unknown) => void;
  /** A command was received; `by` is missing until the sender is identified. */
  readonly command: (command: OperatorCommand<Name>) => void;
  /** The sender of a command is known. */
  readonly identified: (command: OperatorCommand<Name>, by: string) => void;
  /** Somebody cancelled the workflow in Temporal; it means the same as the command `abort`. */
  readonly cancelled: (abort: CancelledAs) => void;
  /** Calls the activity that emits the Event about a command. Absent: the operation has no object to emit it for. */
  readonly announce?: (announcement: Announcement) => Promise<unknown>;
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
  readonly event: {
    readonly command: CommandName;
    readonly by: string;
    /** Names the Event, so that a retry emits it once. */
    readonly key: string;
    readonly target?: string;
  };
  /** ID of the command. */
  readonly id: number;
}

/** One run of an operation. */
export interface OperationRun {
  readonly operator: Operator;
  /** Waits until the Events of all commands are emitted, including commands that are received meanwhile. */
  readonly announced: () => Promise<void>;
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
      command: listener.command,
      identified: (command, by) => {
        listener.identified(command, by);
        if (!listener.announce) return;
        const announced = announce(command, by, listener.announce);
        announcements.add(announced);
        void announced.finally(() => announcements.delete(announced));
      },
    },
    operation,
  );
  let isCancelled = false;
  CancellationScope.current().cancelRequested.catch(() => {
    isCancelled = true;
    listener.cancelled(cancellation);
  });

  return {
    operator,
    async announced() {
      while (announcements.size > 0) await Promise.all(announcements);
    },
    isAnnounced: () => announcements.size === 0,
    aborted: () => (isCancelled ? 'Canceled' : 'Failed'),
    carryOut: (body) => CancellationScope.nonCancellable(body),
  };
}

/** Emits an Event that names the command and its sender. A failure of that is ignored. */
export async function announce(
  { id, name, target }: OperatorCommand,
  by: string,
  emit: (announcement: Announcement) => Promise<unknown>,
): Promise<void> {
  const key = `${workflowInfo().runId.slice(0, 8)}-${id}`;
  // the summary leaves out the sender: Temporal rejects a task whose summary is long, and a name may be of any length
  const options = { summary: `emit an Event: ${name}`, ...announcementLimits };
  const event = { command: name, by, key, ...(target === undefined ? {} : { target }) };
  await emit({ options, event, id }).catch(() => undefined);
}
