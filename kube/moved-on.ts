import { failureTypeOf } from '../api/core/failure.ts';

/** Whether a call was refused because its object is gone, was replaced, or has changed since it was read. */
export function hasMovedOn(error: unknown): boolean {
  const type = failureTypeOf(error);
  return type === 'Conflict' || type === 'Superseded';
}

/** Resolves with undefined when the object of the call is gone or was replaced: then there is nothing left to do. */
export async function unlessGone<T>(call: Promise<T>): Promise<T | undefined> {
  try {
    return await call;
  } catch (error) {
    if (failureTypeOf(error) === 'Superseded') return undefined;
    throw error;
  }
}

/**
 * Resolves with undefined when the object of the call has changed, is gone or was replaced: its watch event triggers
 * the next reconcile.
 */
export async function unlessMovedOn<T>(call: Promise<T>): Promise<T | undefined> {
  try {
    return await call;
  } catch (error) {
    if (hasMovedOn(error)) return undefined;
    throw error;
  }
}

/** Whether a write that failed with this error may have succeeded nevertheless: the API server did not refuse it. */
export function mayBeMade(error: unknown): boolean {
  const type = failureTypeOf(error);
  if (type === undefined) return true;
  return type === 'Unreachable' && !(error instanceof Error && webhookFailed.test(error.message));
}

/** The API server asks webhooks before it writes, and writes nothing when it gets no answer of one. */
const webhookFailed = /\bfailed calling webhook\b/;

/** Of a dry run that was refused because a webhook must not be asked in one nothing is known: it counts as accepted. */
export function unlessNoDryRun(error: unknown): void {
  if (!(error instanceof Error && /\bdoes not support dry run\b/.test(error.message))) throw error;
}
