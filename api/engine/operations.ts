import type { ObjectEnd } from '../core/conditions.ts';
import { type EventText, normal, warning } from '../core/event.ts';

/**
 * Task queues. A node's queue contains the UID of the Node, so a recreated node never gets tasks of its predecessor.
 */
export const queues = {
  cluster: 'cluster',
  fleet: 'fleet',
  fleetCommands: 'fleet-commands',
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

/** What has become of a command. */
export interface CommandAnswer {
  /** Why it had no effect. Absent: it had. */
  readonly refused?: string | undefined;
  /** What it was about. Absent: the whole operation. */
  readonly target?: string | undefined;
  /** What the sender has to know of its effect. */
  readonly note?: string | undefined;
  /** The note is a warning. */
  readonly isWarning?: boolean | undefined;
}

/**
 * The Event about a command: `Paused by alice`, `Skipped app by alice`, `Undone to revision web-1 by alice`. One that had
 * no effect says why.
 */
export function commandEvent(
  name: string,
  by: string,
  { refused, target, note, isWarning = false }: CommandAnswer = {},
): EventText {
  if (refused !== undefined)
    return warning('CommandRefused', inLine(`Command ${name} by ${by} has no effect: ${refused}`));
  const reason = isCommandName(name, rollOutCommandNames) ? commandReasons[name] : name;
  const about = target === undefined ? '' : ` ${name === 'undo' ? 'to revision ' : ''}${target}`;
  const message = `${reason}${about} by ${by}${note === undefined ? '' : `; ${note}`}`;
  return isWarning ? warning(reason, inLine(message)) : normal(reason, inLine(message));
}

/** The Event about a command that has no effect yet. */
export function delayedCommandEvent(name: CommandName, by: string, why: string): EventText {
  return warning(
    'CommandNotApplied',
    inLine(`Command ${name} by ${by} is not applied yet, and is tried again: ${why}`),
  );
}

/** Why a command is refused whose name no command has, or none that this operation obeys. */
export function unknownCommand(understood: readonly CommandName[]): string {
  return `it must be one of ${understood.join(', ')}`;
}

/** Why a command is refused that is about the whole operation, but names a part of it. */
export function takesNoTarget(name: CommandName): string {
  return `${name} takes no target here: it is about all that the operation does`;
}

/** Why a command about something that has ended is refused. */
export function endedBefore(
  what: string,
  { end, instead }: { readonly end: ObjectEnd | undefined; readonly instead: string },
): string {
  return `the ${what} has ended${end === undefined ? '' : ` (${end.type}: ${end.reason})`}; ${instead}`;
}

/** The commands that an operation of this workflow type obeys. */
export function commandsOf(workflowType: string | undefined): readonly CommandName[] {
  return workflowType === 'rollOut' ? rollOutCommandNames : commandNames;
}

/** The Event about an invalid command annotation, which is removed. */
export function unreadableCommandEvent(text: string, understood: readonly CommandName[]): EventText {
  const quoted = JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text);
  const expected = `one of ${understood.join(', ')}, optionally followed by a space and a target of at most ${longestTarget} characters`;
  return warning('CommandRefused', `Command ${quoted} is invalid and was removed: must be ${expected}`);
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
    ...(typeof by === 'string' && by !== '' ? { by: inLine(by.slice(0, 253)) || 'an operator' } : {}),
    ...(typeof target === 'string' && target !== '' ? { target: target.slice(0, longestTarget) } : {}),
    ...(typeof id === 'string' && id !== '' ? { id: id.slice(0, 253) } : {}),
    ...(typeof request === 'string' && request !== '' ? { request: request.slice(0, 253) } : {}),
  };
}

/** As it can be read in a message: line breaks and other control characters become a space. */
export function inLine(text: string): string {
  return text.replace(/[\s\p{Cc}]+/gu, ' ').trim();
}

const commandInputKeys: readonly string[] = ['by', 'target', 'id', 'request'] satisfies (keyof CommandPayload)[];

/** Why the payload of a signal cannot be what its sender meant; undefined: there is none, or it is understood. */
export function commandInputProblem(payload: unknown): string | undefined {
  if (payload === undefined || payload === null) return undefined;
  const isUnderstood =
    typeof payload === 'object' &&
    Object.entries(payload).every(([key, value]) => commandInputKeys.includes(key) && typeof value === 'string');
  return isUnderstood ? undefined : 'its input is not understood: it must be {"target": "<name>", "by": "<your name>"}';
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
