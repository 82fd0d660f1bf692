/**
 * Task queues. A node's queue contains the UID of the Node, so a recreated node never gets tasks of its predecessor.
 */
export const queues = {
  cluster: 'cluster',
  fleet: 'fleet',
  node: (nodeUid: string): string => `node/${nodeUid}`,
} as const;

/** The internal signal that something has changed that the operation works on. */
export const changedSignal = 'changed';

/** Asks a run to continue as new at its next safe point, on the then current version of the workers. */
export const handOverSignal = 'handOver';

/** The commands of operators for every operation: Temporal signals of exactly these names. */
export const commandNames = ['pause', 'resume', 'retry', 'skip', 'abort'] as const;

/** A roll-out can also be undone. */
export const rollOutCommandNames = [...commandNames, 'undo'] as const;

/** A command of any operation. */
export type CommandName = (typeof rollOutCommandNames)[number];

/** Whether the text is the name of one of these commands. */
export function isCommandName<Name extends CommandName>(text: string, understood: readonly Name[]): text is Name {
  return understood.some((name) => name === text);
}

/** The payload of a command. Everything is optional, and other fields are ignored. */
export interface CommandPayload {
  readonly by?: string;
  readonly target?: string;
  /** A command that is delivered twice with the same ID counts once. */
  readonly id?: string;
  /**
   * UID of the ContainerRecreateRequest that it is for: requests of one pod use the same workflow ID one after the
   * other. Absent: the request in progress.
   */
  readonly request?: string;
}

/** The Event about a command: `Paused by alice`, `Skipped app by alice`. */
export function commandEvent(
  name: CommandName,
  by: string,
  target?: string,
): { readonly reason: string; readonly message: string } {
  const reason = commandReasons[name];
  return { reason, message: `${reason}${target === undefined ? '' : ` ${target}`} by ${by}` };
}

/** The Event about a command that had no effect. */
export function refusedCommandEvent(
  name: CommandName,
  by: string,
  why: string,
): { readonly reason: string; readonly message: string } {
  return { reason: 'CommandRefused', message: `Command ${name} by ${by} has no effect: ${why}` };
}

/** The Event about an invalid command annotation, which is removed. */
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

/** Parses the payload of a signal from a person: an object with `by` and `target`, null, nothing, or anything else. */
export function parseCommandPayload(payload: unknown): CommandPayload {
  if (typeof payload !== 'object' || payload === null) return {};
  const { by, target, id, request } = payload as Readonly<Record<keyof CommandPayload, unknown>>;
  return {
    ...(typeof by === 'string' && by !== '' ? { by: by.slice(0, 253) } : {}),
    ...(typeof target === 'string' && target !== '' ? { target: target.slice(0, longestTarget) } : {}),
    ...(typeof id === 'string' && id !== '' ? { id: id.slice(0, 253) } : {}),
    ...(typeof request === 'string' && request !== '' ? { request: request.slice(0, 253) } : {}),
  };
}

/** The maximum length of a target: a namespace, a slash and a name. Longer values in signals are cut. */
const longestTarget = 317;

/**
 * Parses a command from an annotation: its name, and after a space its target. Undefined when the command is unknown,
 * or the target is longer than any name.
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
  /** The workflow ID of the operation that has caused this one. Absent: no operation has. */
  cause: 'WindlassCause',
} as const;
