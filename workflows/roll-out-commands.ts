/** How the commands of operators get to the leading watcher, which applies them to the object that is rolled out. */
import { condition, sleep, workflowInfo } from '@temporalio/workflow';
import type { SignalPlace } from '../activities/temporal/signals.ts';
import type { CommandAnswer, CommandName } from '../api/engine/operations.ts';
import type { RollOutOperation } from '../api/fleet/operation.ts';
import { type GivenCommand, isHold, type RollOutNews } from '../plan/fleet/roll-out.ts';
import { refusedPauseMs } from '../plan/refused-pause.ts';
import { shortened, summaryBytes } from '../plan/text-size.ts';
import { fleetCommands } from './shared/activities.ts';
import type { Inbox } from './shared/inbox.ts';
import type { OperationRun } from './shared/operation.ts';
import type { Operator } from './shared/operator.ts';
import { asRefusal, reasonOf, refusedWait } from './shared/refusals.ts';
import { type Revocable, revocable } from './shared/revocable.ts';
import { listOf, number, object, oneOf, optional, text } from './shared/shape.ts';

/** A command that is not applied yet, as one run leaves it to the next. */
export interface PlacedCommand extends GivenCommand {
  /** The number of the command in the run that has received it: it names its Event. */
  readonly id: number;
  /** Where its signal can be read. Absent: no signal has brought it. */
  readonly place?: SignalPlace;
}

export const givenCommand = object<PlacedCommand>({
  key: text,
  name: oneOf<CommandName>('pause', 'resume', 'retry', 'skip', 'abort', 'undo'),
  by: optional(text),
  at: text,
  pods: optional(listOf(text)),
  takesBack: optional(oneOf('hold', 'undo', 'unwritten')),
  id: number,
  place: optional(object<SignalPlace>({ runId: text, signal: text, upTo: number, fromEnd: number })),
});

/** Where news of a roll-out go. */
export type News = Pick<Inbox<RollOutNews>, 'put'>;

/**
 * The commands of one run on their way to the leading watcher: in the order in which they were given, but that holds, and what takes
 * holds back, wait for no other.
 */
export interface CommandLane {
  readonly add: (
    command: GivenCommand,
    received: { readonly id: number; readonly place?: () => Promise<SignalPlace> },
  ) => void;
  /**
   * Has the first of these and what holds applied, unless that is under way. One that has left them before it was applied was
   * taken back. `withdraw` is called when a hold takes long: the permits of batches must not outlive it.
   */
  readonly apply: (waiting: readonly GivenCommand[], withdraw: () => void) => void;
  /** Resolves when it is known where the signals of all commands can be read. */
  readonly arePlaced: () => Promise<void>;
  /** These commands for the next run. */
  readonly placed: (waiting: readonly GivenCommand[]) => readonly PlacedCommand[];
  /** Nothing is applied any more: those without an answer have no effect, because of this. */
  readonly close: (refused: string) => void;
}

/** A command that is being applied. */
type Applying = Pick<Revocable<unknown>, 'revoke'>;

/**
 * The first one, and what holds or takes holds back: that has to get to the leading watcher at once. It may overtake the others,
 * since none takes back what was given after it.
 */
function dueNow(waiting: readonly GivenCommand[]): readonly GivenCommand[] {
  return waiting.filter(
    (one, index) => index === 0 || isHold(one) || one.takesBack === 'hold' || one.takesBack === 'unwritten',
  );
}

/** A hold that is not applied within this time takes the permits of all batches back (P-9). */
const holdMs = 2_000;

/** Lets commands get to the leading watcher. What comes of one is an event, and an Event of the object. */
export function commandLane(
  operation: RollOutOperation,
  run: {
    readonly inbox: News;
    readonly retries: Operator['retries'];
    readonly announce: OperationRun['announce'];
    /** From the previous run. */
    readonly before: readonly PlacedCommand[];
  },
): CommandLane {
  const { inbox, retries, announce } = run;
  /** Those without an answer. */
  const open = new Map(run.before.map((command) => [command.key, command]));
  /** Places that are not known before the end of the task in which the signal came. */
  const places = new Map<string, Promise<void>>();
  let waitingKeys: readonly string[] = [];
  const underWay = new Map<string, Applying>();

  return {
    add(command, { id, place }) {
      open.set(command.key, { ...command, id });
      if (place === undefined) return;
      const known = place().then((at) => {
        if (open.has(command.key)) open.set(command.key, { ...command, id, place: at });
      });
      places.set(command.key, known);
    },
    apply(waiting, withdraw) {
      waitingKeys = waiting.map(({ key }) => key);
      answerTakenBack();
      const due = dueNow(waiting).map(({ key }) => key);
      for (const [key, { revoke }] of underWay) {
        if (due.includes(key)) continue;
        underWay.delete(key);
        revoke();
      }
      for (const key of due) {
        const command = open.get(key);
        if (command && !underWay.has(key)) underWay.set(key, begin(command, withdraw));
      }
    },
    arePlaced: async () => {
      await Promise.all(places.values());
    },
    placed: (waiting) => waiting.flatMap(({ key }) => open.get(key) ?? []),
    close(refused) {
      for (const { revoke } of underWay.values()) revoke();
      underWay.clear();
      for (const command of open.values()) answer(command, { refused });
    },
  };

  /** Has a command applied. */
  function begin({ key, ...given }: PlacedCommand, withdraw: () => void): Applying {
    let isOpen = true;
    let attempt: Revocable<unknown> | undefined;
    const patience = isHold(given) ? revocable(() => sleep(holdMs, { summary: 'time to hold' })) : undefined;
    patience?.result.then(() => isOpen && withdraw(), ignored);
    void untilApplied();
    return { revoke: end };

    function end(): void {
      isOpen = false;
      patience?.revoke();
      attempt?.revoke();
    }

    async function untilApplied(): Promise<void> {
      await places.get(key);
      for (let refusals = 0; isOpen; refusals++) {
        const command = open.get(key);
        if (command === undefined) return;
        const [retriesBefore, waitingBefore] = [retries(), waitingKeys.length];
        const one = revocable(() => applyOnce(command));
        attempt = one;
        try {
          const { by, answer: told, next } = await one.result;
          if (!isOpen) return;
          end();
          inbox.put({ kind: 'applied', key, next, atMs: Date.now() });
          return answer({ ...command, by }, told);
        } catch (error) {
          if (!isOpen) return;
          const why = reasonOf(error);
          if (why.kind === 'superseded') return inbox.put({ kind: 'withdrawn' });
          const refusal = asRefusal(why);
          inbox.put({ kind: 'notApplied', waitingFor: refusedWait(refusal) });
          const isNews = () => retries() !== retriesBefore || waitingKeys.length > waitingBefore || !isOpen;
          const summary = 'retry after a refusal';
          await condition(isNews, refusedPauseMs(refusal.reason, refusals), { summary });
        }
      }
    }
  }

  async function applyOnce({ id: _, by, place, ...command }: PlacedCommand) {
    const { kind, target } = operation;
    const summary = shortened(`${command.name} ${target.name}`, summaryBytes);
    const { workflowId } = workflowInfo();
    const sender = { ...(by !== undefined && { by }), ...(place && { place: { ...place, workflowId } }) };
    return await fleetCommands['fleet.v1.applyCommand'].executeWithOptions({ summary }, [
      { kind, target, command, ...sender },
    ]);
  }

  function answerTakenBack(): void {
    for (const [key, command] of open) {
      if (!waitingKeys.includes(key) && isHold(command)) answer(command, { note: 'taken back before it was written' });
    }
  }

  function answer(command: PlacedCommand, told: CommandAnswer): void {
    open.delete(command.key);
    places.delete(command.key);
    const [of = '', id] = command.key.split('/');
    announce({ ...command, eventKey: `${of.slice(0, 8)}-${id}` }, command.by ?? 'an operator', told);
  }
}

function ignored(): void {
  // what is cancelled has nothing to say
}
