import { failureTypeOf } from '../api/core/failure.ts';

/** Immediate attempts; if all of them fail, the caller retries later, with a pause. */
const attemptsAtOnce = 5;

/**
 * Reads, decides and writes, and repeats that at once after a conflict: the kubelet writes pods and their status, too.
 * Throws the last error, which after several attempts may be the conflict itself.
 */
export async function despiteConflicts<Result>(write: () => Promise<Result>): Promise<Result> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await write();
    } catch (error) {
      if (failureTypeOf(error) !== 'Conflict' || attempt === attemptsAtOnce) throw error;
    }
  }
}
