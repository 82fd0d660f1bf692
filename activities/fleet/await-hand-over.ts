import { ApplicationFailure } from '@temporalio/common';

/** After a rollback to the watcher of release 0.1.0, such a run continues after so long at most. */
const retryMs = 60_000;

/**
 * The activity by which roll-outs of release 0.1.0 ask for their permits. They get none, and do not end by that: it is tried
 * again once a minute, until the watcher starts the operation again on a worker of this release.
 */
export async function awaitHandOver(): Promise<never> {
  const message =
    'Cannot update pods for a roll-out of release 0.1.0: it continues when the watcher starts it again on a cluster worker of this release';
  throw ApplicationFailure.create({ type: 'Held', message, nextRetryDelay: retryMs });
}
