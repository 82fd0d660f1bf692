import { CancellationScope, isCancellation } from '@temporalio/workflow';

/** Something that is under way, and can be taken back. */
export interface Revocable<Result> {
  /** Rejects as cancelled when it was taken back. */
  readonly result: Promise<Result>;
  readonly revoke: () => void;
}

/**
 * Begins what ends when it is taken back, and not with a cancellation of the workflow: the SDK hands that on to every scope,
 * also within one that cannot be cancelled. Then it is begun once more, and cannot be taken back any more.
 */
export function revocable<Result>(begin: () => Promise<Result>): Revocable<Result> {
  const scope = new CancellationScope();
  let isRevoked = false;
  const result = scope.run(begin).catch((error: unknown) => {
    if (isRevoked || !isCancellation(error)) throw error;
    return begin();
  });
  return {
    result,
    revoke() {
      isRevoked = true;
      scope.cancel();
    },
  };
}
