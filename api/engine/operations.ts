/** Task queues. A node's queue carries the UID of the Node, so a rebuilt node never sees work of its predecessor. */
export const queues = {
  cluster: 'cluster',
  fleet: 'fleet',
  node: (nodeUid: string): string => `node/${nodeUid}`,
} as const;

/** The internal signal that tells an operation that what it works on has changed. */
export const changedSignal = 'changed';

/** Asks a run to go on in another one at its next safe point, on the version of the workers that is current then. */
export const handOverSignal = 'handOver';

/** The commands of operators that every operation understands: Temporal signals of exactly these names. */
export const commandNames = ['pause', 'resume', 'retry', 'skip', 'abort'] as const;

/** What is rolled out can be taken back, too. */
export const rollOutCommandNames = [...commandNames, 'undo'] as const;

/** A command of any operation. */
export type CommandName = (typeof rollOutCommandNames)[number];

/** Whether the text is the name of one of these commands. */
export function isCommandName<Name extends CommandName>(text: string, understood: readonly Name[]): text is Name {
  return understood.some((name) => name === text);
}

/** What a command may carry. All of it is optional, and anything else is ignored. */
export interface CommandPayload {
  readonly by?: string;
  readonly target?: string;
  /** A command that comes twice under the same ID counts once. */
  readonly id?: string;
  /**
   * UID of the ContainerRecreateRequest that it is meant for: requests of one pod follow one another under one workflow
   * ID. Absent: it is for the one that is being worked on.
   */
  readonly request?: string;
}

/** What an Event about the object says of a command: `Paused by alice`, `Skipped app by alice`. */
export function commandEvent(
  name: CommandName,
  by: string,
  target?: string,
): { readonly reason: string; readonly message: string } {
  const reason = commandReasons[name];
  return { reason, message: `${reason}${target === undefined ? '' : ` ${target}`} by ${by}` };
}

/** What an Event says of a command that had no effect. */
export function refusedCommandEvent(
  name: CommandName,
  by: string,
  why: string,
): { readonly reason: string; readonly message: string } {
  return { reason: 'CommandRefused', message: `Command ${name} by ${by} has no effect: ${why}` };
}

/** What an Event says of an annotation that is no command, which is taken off. */
export function unreadableCommandEvent(
  text: string,
  understood: readonly CommandName[],
): { readonly reason: string; readonly message: string } {
  const quoted = JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text);
  const expected = `one of ${understood.join(', ')}, optionally followed by a space and a target of at most ${longestTarget} characters`;
  return { reason: 'CommandRefused', message: `Command ${quoted} is invalid and was removed: must be ${expected}` };
}

const commandReasons = {
  pause: 'Paused',
  resume: 'Resumed',
  retry: 'Retried',
  skip: 'Skipped',
  abort: 'Aborted',
  undo: 'Undone',
} as const satisfies Record<CommandName, string>;

/** Reads whatever a person has sent with a signal: an object with `by` and `target`, null, nothing, or anything else. */
export function parseCommandPayload(payload: unknown): CommandPayload {
  if (typeof payload !== 'object' || payload === null) return {};
  const { by, target, id, request } = payload as Readonly<Record<keyof CommandPayload, unknown>>;
  return {
    ...(typeof by === 'string' && by !== '' ? { by: by.slice(0, 253) } : {}),
    ...(typeof target === 'string' && target !== '' ? { target: target.slice(0, 253) } : {}),
    ...(typeof id === 'string' && id !== '' ? { id: id.slice(0, 253) } : {}),
    ...(typeof request === 'string' && request !== '' ? { request: request.slice(0, 253) } : {}),
  };
}

/** Names of objects and containers are not longer; what is given with a signal is cut there. */
const longestTarget = 253;

/**
 * Reads a command from an annotation: its name, and its target behind a blank. Undefined when it is none of these, or its
 * target is longer than any name.
 */
export function parseCommandText<Name extends CommandName>(
  text: string,
  understood: readonly Name[],
): { readonly name: Name; readonly target?: string } | undefined {
  const [name = '', target, ...rest] = text.trim().split(/\s+/);
  if (!isCommandName(name, understood) || rest.length > 0) return undefined;
  if (target !== undefined && target.length > longestTarget) return undefined;
  return { name, ...(target === undefined ? {} : { target }) };
}

/** Search attributes of every operation, all of type Keyword. */
export const searchAttributes = {
  kind: 'WindlassKind',
  namespace: 'WindlassNamespace',
  name: 'WindlassName',
  node: 'WindlassNode',
  phase: 'WindlassPhase',
  reason: 'WindlassReason',
} as const;
