import { failureTypeOf } from '../api/core/failure.ts';

/** So often at once; who still fails then comes again later, with a pause. */
const attemptsAtOnce = 5;

/**
 * Reads, decides and writes, and does so again at once when somebody else has written in between: the kubelet writes pods
 * and their status, too. Throws what it failed with, which after some attempts may be the conflict itself.
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
