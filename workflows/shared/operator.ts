import { defineSignal, patched, setDefaultSignalHandler, setHandler, workflowInfo } from '@temporalio/workflow';
import type { SignalPlace } from '../../activities/temporal/signals.ts';
import {
  type CommandName,
  type CommandPayload,
  commandInputProblem,
  handOverSignal,
  isCommandName,
  parseCommandPayload,
  takesNoTarget,
  unknownCommand,
} from '../../api/engine/operations.ts';
import { fitting, shortened } from '../../plan/text-size.ts';
import { temporal } from './activities.ts';
import { sentName } from './reserved-signals.ts';
import { listOf, object, optional, text } from './shape.ts';
import type { Retries } from './until-allowed.ts';

/** A received command. `by` is added later when the sender did not give a name. */
export interface OperatorCommand<Name extends CommandName = CommandName> {
  readonly id: number;
  readonly name: Name;
  readonly by?: string;
  readonly target?: string;
}

/** A signal without effect. */
export interface RefusedSignal {
  readonly id: number;
  /** Of a signal that is no command: any name, cut. */
  readonly name: string;
  readonly refused: string;
}

/** A command that is kept for the run that it is for. */
export interface KeptCommand extends CommandPayload {
  readonly name: string;
  readonly by: string;
}

/** What the next run has to know about received commands. Small: it is part of one payload. */
export interface OperatorHandOver {
  /** Commands for a later run, in order of arrival. */
  readonly commands: readonly KeptCommand[];
  /** The IDs of the latest commands: a second delivery may reach the next run. */
  readonly seen: readonly string[];
}

export interface Operator extends Retries {
  /** The number of commands whose sender is not known yet. */
  readonly unidentified: () => number;
  /** Refuses a command that the listener has taken, once it is known who sent it. */
  readonly refuse: (command: OperatorCommand, refused: string, place: () => Promise<SignalPlace>) => void;
  readonly handOver: () => OperatorHandOver;
  /** Whether commands for other requests are kept. */
  readonly keepsCommands: () => boolean;
  /** Gives away the oldest of these, as many as fit into a payload. */
  readonly takeKept: () => readonly KeptCommand[];
  /**
   * Whether this run is to hand over at its next safe point: its history is full, or the leading watcher has requested
   * it, because another worker version is current. Temporal's own flag, `targetWorkerDeploymentVersionChanged`, is not
   * used: server 1.31 also sets it on each task that it starts in the answer to the previous one.
   */
  readonly isHandOverDue: () => boolean;
}

/** What Temporal's UI shows about a signal that is not for people. */
export const internal = 'Internal: sent by Windlass.';

/** What Temporal's UI shows about the commands. */
const descriptions: Readonly<Record<CommandName, string>> = {
  pause: 'Begins nothing new; what is in progress is finished.',
  resume: 'Continues after pause or abort.',
  retry: 'Tries again now what was refused or has failed.',
  skip: 'Leaves out the target, or what the operation waits for if there is no target.',
  abort: 'Stops in order: what is in progress is finished, nothing is undone.',
  undo: 'Returns updated pods to the previous revision.',
};
const payloadDescription = 'Input, optional: {"by": "<your name>", "target": "<what it is about>"}';

/** Within this time a second `skip` without target by the same sender is a double click. */
const doubleClickMs = 5_000;
const doubleClick = `a skip without a target by the same sender came within ${doubleClickMs / 1_000} s before it`;

/** Signals of one run that are refused with an Event. What sends more is no person. */
const mostRefused = 50;

const mostNameBytes = 60;

/** The maximum size of the parts of a hand-over as JSON; older entries are left out. */
const mostBytes = { commands: 2_500, seen: 1_000 } as const;

/**
 * Receives these commands from now on. A command without `by` is passed on at once; its sender is then read from the
 * history, because workflow code cannot see the identity of a signal. Any other signal is refused, and so is a command about
 * the whole operation that names a target: who sent it meant only that.
 */
export function listenToOperator<Name extends CommandName>(
  understood: readonly Name[],
  listener: {
    readonly command: (command: OperatorCommand<Name>) => void;
    /** In place of `command`: the listener finds out itself who sent it. Absent: senders are looked up here. */
    readonly take?: ((command: OperatorCommand<Name>, place: () => Promise<SignalPlace>) => void) | undefined;
    readonly identified: (command: OperatorCommand<Name>, by: string) => void;
    /** A signal has no effect, and this is who sent it. */
    readonly refused: (signal: RefusedSignal, by: string) => void;
    /** The run is to hand over. Absent: it looks for that by itself. */
    readonly handOver?: (() => void) | undefined;
  },
  run: {
    /** The commands that may name a target. */
    readonly withTarget: readonly Name[];
    /** UID of the request that this run is for; a command that names another one is kept. Absent: all are for this run. */
    readonly request?: string;
    /** From the previous run. */
    readonly before?: OperatorHandOver | undefined;
    /** Whether commands of different names that came before the first task are received in their order. Absent: by name. */
    readonly inOrder?: boolean;
  },
): Operator {
  const before = run.before ?? { commands: [], seen: [] };
  const receivedByName = new Map<string, number>();
  const seenIds = new Set(before.seen);
  const kept: KeptCommand[] = [];
  let lastId = 0;
  let unidentified = 0;
  let retries = 0;
  let isAsked = false;
  let refusals = 0;
  const isDoubleClick = newDoubleClicks();

  const handOver = () => {
    isAsked = true;
    listener.handOver?.();
  };
  setHandler(defineSignal(handOverSignal), handOver, { description: internal });
  if (run.inOrder) {
    // signals that came before the first task are handed out by this, in their order; those below would take them name by name
    setDefaultSignalHandler(async (received, payload) => {
      const name = sentName(received);
      const handle = isCommandName(name, understood) ? obeying(name) : refusing(name);
      await handle(payload);
    });
  }
  for (const name of understood) {
    setHandler(defineSignal<[unknown]>(name), obeying(name), {
      description: `${descriptions[name]} ${payloadDescription}`,
    });
  }
  setDefaultSignalHandler(async (received, payload) => await refusing(sentName(received))(payload));
  for (const { name, ...command } of before.commands) {
    if (isCommandName(name, understood)) void receive(name, command, placeOfNext(name));
  }

  return {
    retries: () => retries,
    unidentified: () => unidentified,
    refuse: ({ id, name, by }, refused, place) => void refuse(name, refused, by, place, id),
    isHandOverDue: () => isAsked || workflowInfo().continueAsNewSuggested,
    keepsCommands: () => kept.length > 0,
    takeKept: () => kept.splice(0, fitting(kept, mostBytes.commands).length),
    handOver: () => ({
      commands: latest(kept, mostBytes.commands),
      seen: latest([...seenIds], mostBytes.seen),
    }),
  };

  function obeying(name: Name) {
    return async (payload: unknown) => {
      const given = parseCommandPayload(payload);
      const place = placeOfNext(name);
      // who names a target in a way that is not understood did not mean whatever comes next
      const problem = run.withTarget.includes(name) ? commandInputProblem(payload) : undefined;
      if (problem !== undefined && patched('commandInputs')) await refuse(name, problem, given.by, place);
      else await receive(name, given, place);
    };
  }

  function refusing(name: string) {
    return async (payload: unknown) => {
      const { by } = parseCommandPayload(payload);
      await refuse(shortened(name, mostNameBytes), unknownCommand(understood), by, placeOfNext(name));
    };
  }

  /** The place of the signal of this name that is received now. */
  function placeOfNext(name: string): () => Promise<SignalPlace> {
    const { runId, historyLength } = workflowInfo();
    const nth = receivedByName.get(name) ?? 0;
    receivedByName.set(name, nth + 1);
    return async () => {
      await Promise.resolve(); // by now all signals of this task have been received
      return { runId, signal: name, upTo: historyLength, fromEnd: (receivedByName.get(name) ?? 0) - 1 - nth };
    };
  }

  async function refuse(
    name: string,
    refused: string,
    by: string | undefined,
    place: () => Promise<SignalPlace>,
    id = ++lastId,
  ) {
    // runs of earlier releases have received such signals without any step
    if (refusals === mostRefused || !patched('refusedSignals')) return;
    refusals++;
    const signal = { id, name, refused };
    await identify(by, place, (known) => listener.refused(signal, known));
  }

  async function receive(name: Name, payload: CommandPayload, place: () => Promise<SignalPlace>): Promise<void> {
    const { id: sentId, request, ...given } = payload;
    const isMeantForAnother = run.request !== undefined && request !== undefined && request !== run.request;
    if (isMeantForAnother) {
      return await identify(given.by, place, (by) => void kept.push({ ...payload, name, by }));
    }
    if (sentId !== undefined && seenIds.has(sentId)) return;
    if (sentId !== undefined) seenIds.add(sentId);
    if (given.target !== undefined && !run.withTarget.includes(name)) {
      return await refuse(name, takesNoTarget(name), given.by, place);
    }
    const command = { id: ++lastId, name, ...given };
    if (isDoubleClick(command)) return await refuse(name, doubleClick, given.by, place);
    if (name === 'retry') retries++;
    if (listener.take) return listener.take(command, place);
    listener.command(command);
    await identify(given.by, place, (by) => listener.identified(command, by));
  }

  async function identify(by: string | undefined, place: () => Promise<SignalPlace>, act: (by: string) => void) {
    if (by !== undefined) return act(by);
    unidentified++;
    act(await sender(await place()));
    unidentified--;
  }
}

/** Without a target a second `skip` would be about the next container, which the sender has not seen yet. */
function newDoubleClicks(): (command: OperatorCommand) => boolean {
  let lastSkip: { readonly by: string; readonly atMs: number } | undefined;
  return ({ name, by = '', target }) => {
    if (name !== 'skip' || target !== undefined) return false;
    const atMs = Date.now();
    if (lastSkip?.by === by && atMs - lastSkip.atMs < doubleClickMs) return true;
    lastSkip = { by, atMs };
    return false;
  };
}

/** As many of the last entries as fit. */
function latest<T>(entries: readonly T[], bytes: number): readonly T[] {
  return fitting(entries.toReversed(), bytes).toReversed();
}

/** The shape of what a previous run has handed over. */
export const operatorHandOver = object<OperatorHandOver>({
  commands: listOf(
    object<KeptCommand>({
      name: text,
      by: text,
      target: optional(text),
      id: optional(text),
      request: optional(text),
    }),
  ),
  seen: listOf(text),
});

async function sender({ signal, runId, upTo, fromEnd }: SignalPlace): Promise<string> {
  const { workflowId } = workflowInfo();
  try {
    return await temporal.identifySignal.executeWithOptions(
      { summary: `find the sender of ${shortened(signal, mostNameBytes)}` },
      [{ workflowId, runId, signal, upTo, fromEnd }],
    );
  } catch {
    return unknownSender; // an operation must not wait for a name in a message
  }
}

/** How a sender is called whose name cannot be found out. */
const unknownSender = 'an operator';
