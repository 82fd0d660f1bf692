import type { FieldError } from './failure.ts';

/** A refusal of a field with its kind, in the words of Kubernetes, so that clients that look for these find them. */
export interface FieldProblem extends FieldError {
  readonly reason: FieldProblemReason;
}

export type FieldProblemReason =
  | 'FieldValueInvalid'
  | 'FieldValueRequired'
  | 'FieldValueForbidden'
  | 'FieldValueNotSupported';

/** The field has a value that it cannot have. */
export function invalid(path: string, value: unknown, why: string): FieldProblem {
  return { path, message: `Invalid value: ${shown(value)}: ${why}`, reason: 'FieldValueInvalid' };
}

/** Something is missing there. */
export function required(path: string, why: string): FieldProblem {
  return { path, message: `Required value: ${why}`, reason: 'FieldValueRequired' };
}

/** The field, or a change of it, is not allowed at all. */
export function forbidden(path: string, why: string): FieldProblem {
  return { path, message: `Forbidden: ${why}`, reason: 'FieldValueForbidden' };
}

/** The field has none of the values that are possible. */
export function notSupported(path: string, value: unknown, supported: readonly string[]): FieldProblem {
  const values = supported.map((text) => JSON.stringify(text)).join(', ');
  return {
    path,
    message: `Unsupported value: ${shown(value)}: supported values: ${values}`,
    reason: 'FieldValueNotSupported',
  };
}

/**
 * Those of `problems` that the object has not had before: an object that was stored with a problem stays editable, as long
 * as the edit adds none.
 */
export function newProblems<Problem extends FieldError>(
  before: readonly FieldError[],
  problems: readonly Problem[],
): readonly Problem[] {
  const known = new Set(before.map(textOf));
  return problems.filter((problem) => !known.has(textOf(problem)));
}

function textOf({ path, message }: FieldError): string {
  return `${path}: ${message}`;
}

const longestShown = 200;

/** The value in a message; of large ones the beginning. */
function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? 'null';
  return text.length > longestShown ? `${text.slice(0, longestShown)}…` : text;
}
