// What is wrong with one field of an object, as `field.Error` of Kubernetes says it.

/** The kind of an error. Clients read it as the reason of a cause in the Status of the API server. */
export type FieldErrorType =
  | 'FieldValueInvalid'
  | 'FieldValueRequired'
  | 'FieldValueForbidden'
  | 'FieldValueNotSupported';

export interface FieldError {
  /** Absent: the detail is the whole message, as it is for what others have worded. */
  readonly type?: FieldErrorType;
  /** The path as users write it: `spec.containers[1].name`. */
  readonly field: string;
  /** The value, of errors whose message shows it: `FieldValueInvalid` and `FieldValueNotSupported`. */
  readonly badValue?: unknown;
  readonly detail: string;
}

/** The field has a value that it cannot have. */
export function invalid(field: string, badValue: unknown, detail: string): FieldError {
  return { type: 'FieldValueInvalid', field, badValue, detail };
}

/** Something is missing there. */
export function required(field: string, detail: string): FieldError {
  return { type: 'FieldValueRequired', field, detail };
}

/** The field, or a change of it, is not allowed at all. */
export function forbidden(field: string, detail: string): FieldError {
  return { type: 'FieldValueForbidden', field, detail };
}

/** The field has none of the values that are possible. */
export function notSupported(field: string, badValue: unknown, supported: readonly string[]): FieldError {
  const values = supported.map((text) => JSON.stringify(text)).join(', ');
  return { type: 'FieldValueNotSupported', field, badValue, detail: `supported values: ${values}` };
}

/** What users read of an error beside its field. */
export function messageOf({ type, badValue, detail }: FieldError): string {
  switch (type) {
    case 'FieldValueInvalid':
      return `Invalid value: ${shown(badValue)}: ${detail}`;
    case 'FieldValueRequired':
      return `Required value: ${detail}`;
    case 'FieldValueForbidden':
      return `Forbidden: ${detail}`;
    case 'FieldValueNotSupported':
      return `Unsupported value: ${shown(badValue)}: ${detail}`;
    default:
      return detail;
  }
}

/** The error with its field in one line. */
export function describeError(error: FieldError): string {
  return `${error.field}: ${messageOf(error)}`;
}

/** All errors in one line. */
export function describeErrors(errors: readonly FieldError[]): string {
  return errors.map(describeError).join('; ');
}

/** An error in the Status of the API server. */
export interface StatusCause {
  readonly reason: FieldErrorType;
  readonly field: string;
  readonly message: string;
}

/** The error as clients of the API server get it. */
export function causeOf(error: FieldError): StatusCause {
  return { reason: error.type ?? 'FieldValueInvalid', field: error.field, message: messageOf(error) };
}

/**
 * Those of `errors` that the object has not had before: an object that was stored with an error stays editable, as long as
 * the edit adds none.
 */
export function newErrors(before: readonly FieldError[], errors: readonly FieldError[]): readonly FieldError[] {
  const known = new Set(before.map(describeError));
  return errors.filter((error) => !known.has(describeError(error)));
}

const longestShown = 200;

/** The value in a message; of large ones the beginning. */
function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? 'null';
  return text.length > longestShown ? `${text.slice(0, longestShown)}…` : text;
}
