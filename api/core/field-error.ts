// Errors about one field of an object, in the format of Kubernetes' `field.Error`.

/** The kind of an error. Clients read it as the reason of a cause in the API server's Status. */
export type FieldErrorType =
  | 'FieldValueInvalid'
  | 'FieldValueRequired'
  | 'FieldValueForbidden'
  | 'FieldValueNotSupported';

export interface FieldError {
  /** Absent: the detail is the whole message, as for messages of other components. */
  readonly type?: FieldErrorType;
  /** The path as users write it: `spec.containers[1].name`. */
  readonly field: string;
  /** The value, for errors whose message contains it: `FieldValueInvalid` and `FieldValueNotSupported`. */
  readonly badValue?: unknown;
  readonly detail: string;
}

/** The value of the field is invalid. */
export function invalid(field: string, badValue: unknown, detail: string): FieldError {
  return { type: 'FieldValueInvalid', field, badValue, detail };
}

/** A required value is missing. */
export function required(field: string, detail: string): FieldError {
  return { type: 'FieldValueRequired', field, detail };
}

/** The field, or a change of it, is not allowed at all. */
export function forbidden(field: string, detail: string): FieldError {
  return { type: 'FieldValueForbidden', field, detail };
}

/** The value is not one of the supported ones. */
export function notSupported(field: string, badValue: unknown, supported: readonly string[]): FieldError {
  const values = supported.map((text) => JSON.stringify(text)).join(', ');
  return { type: 'FieldValueNotSupported', field, badValue, detail: `supported values: ${values}` };
}

/** The message of an error without its field. */
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

/** An error in the API server's Status. */
export interface StatusCause {
  readonly reason: FieldErrorType;
  readonly field: string;
  readonly message: string;
}

/** The error as clients of the API server receive it. */
export function causeOf(error: FieldError): StatusCause {
  return { reason: error.type ?? 'FieldValueInvalid', field: error.field, message: messageOf(error) };
}

/**
 * The `errors` that the stored object does not have: an object that was stored with an error stays editable, as long as
 * the edit adds none.
 */
export function newErrors(before: readonly FieldError[], errors: readonly FieldError[]): readonly FieldError[] {
  const known = new Set(before.map(describeError));
  return errors.filter((error) => !known.has(describeError(error)));
}

const longestShown = 200;

/** The value in a message; large values are cut. */
function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? 'null';
  return text.length > longestShown ? `${text.slice(0, longestShown)}…` : text;
}
