/**
 * Why an activity failed. A type says what happens next, not what broke; code branches on the type and never on the
 * text.
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

/** Failures that an immediate retry cannot fix: the workflow has to decide again, wait, park, or end. */
export const finalFailureTypes: readonly FailureType[] = ['Superseded', 'Denied', 'Invalid'];

/** Rejections by the API server: a missing right or quota, which may be granted, or an invalid object. */
export type RefusalReason = Extract<FailureType, 'Denied' | 'Invalid'>;

/** The reason of the wait of an operation that was rejected. */
export function refusalWait(reason: RefusalReason): 'Denied' | 'Parked' {
  return reason === 'Denied' ? 'Denied' : 'Parked';
}

export function isFailureType(type: string | null | undefined): type is FailureType {
  return failureTypes.some((known) => known === type);
}

/** The failure type of an error, independent of its class; undefined when it is none of ours. */
export function failureTypeOf(error: unknown): FailureType | undefined {
  if (typeof error !== 'object' || error === null || !('type' in error)) return undefined;
  const { type } = error;
  return typeof type === 'string' && isFailureType(type) ? type : undefined;
}

/**
 * Whether the API server rejected an object because of its size, either the request, or in etcd, which is reported as
 * 500 with the text of etcd or gRPC.
 */
export function isTooLarge(error: unknown): boolean {
  const { status, message } = (error ?? {}) as { readonly status?: unknown; readonly message?: unknown };
  if (status === 413) return true;
  return typeof message === 'string' && /request is too large|trying to send message larger than max/i.test(message);
}
