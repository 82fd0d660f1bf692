import { failureTypeOf } from '../api/core/failure.ts';

/** Whether a call was refused because its object is gone, is another one, or has changed since it was looked at. */
export function hasMovedOn(error: unknown): boolean {
  const type = failureTypeOf(error);
  return type === 'Conflict' || type === 'Superseded';
}

/** A call about something that is gone, or is another one by now, has nothing left to do. */
export async function unlessGone<T>(call: Promise<T>): Promise<T | undefined> {
  try {
    return await call;
  } catch (error) {
    if (failureTypeOf(error) === 'Superseded') return undefined;
    throw error;
  }
}

/** A call about something that has moved on is no error: the watch event of the change brings the next pass. */
export async function unlessMovedOn<T>(call: Promise<T>): Promise<T | undefined> {
  try {
    return await call;
  } catch (error) {
    if (hasMovedOn(error)) return undefined;
    throw error;
  }
}

/** Whether a write that failed with this error may have been made nevertheless: it was not refused by the API server. */
export function mayBeMade(error: unknown): boolean {
  const type = failureTypeOf(error);
  return type === undefined || type === 'Unreachable';
}
