/**
 * Why an activity could not do its work. A type says what happens next, not what broke; code branches on it and never
 * on the text.
 */
export const failureTypes = [
  'Unreachable',
  'Throttled',
  'Conflict',
  'Held',
  'Superseded',
  'Denied',
  'Invalid',
] as const;

export type FailureType = (typeof failureTypes)[number];

/** Failures that no attempt at once can mend: the workflow has to decide anew, wait, park, or end. */
export const finalFailureTypes: readonly FailureType[] = ['Superseded', 'Denied', 'Invalid'];

/** Refusals by the API server: a right or leave that is missing, which may come, or a verdict on what was asked for. */
export type RefusalReason = Extract<FailureType, 'Denied' | 'Invalid'>;

/** What an operation that was refused says that it waits for. */
export function refusalWait(reason: RefusalReason): 'Denied' | 'Parked' {
  return reason === 'Denied' ? 'Denied' : 'Parked';
}

export function isFailureType(type: string | null | undefined): type is FailureType {
  return failureTypes.some((known) => known === type);
}

/** Why a call failed, for whoever has the error but not its class; undefined when it is none of ours. */
export function failureTypeOf(error: unknown): FailureType | undefined {
  if (typeof error !== 'object' || error === null || !('type' in error)) return undefined;
  const { type } = error;
  return typeof type === 'string' && isFailureType(type) ? type : undefined;
}

/**
 * Whether the API server refused an object for its size, be it as a request or in its store, which answers with 500 and
 * the words of etcd or gRPC.
 */
export function isTooLarge(error: unknown): boolean {
  const { status, message } = (error ?? {}) as { readonly status?: unknown; readonly message?: unknown };
  if (status === 413) return true;
  return typeof message === 'string' && /request is too large|trying to send message larger than max/i.test(message);
}
