import type { WorkflowInterceptors } from '@temporalio/workflow';
import { unreadableEncoding } from '../../api/engine/unreadable-payload.ts';
import { renameReserved } from './reserved-signals.ts';

/**
 * A signal that cannot be decoded is treated as a signal without a payload: it stays in the history for good, and
 * anybody may have sent it. An input that cannot be decoded fails the workflow task with an explanation, which is
 * retried until a worker can decode it.
 */
export const interceptors = (): WorkflowInterceptors => ({
  internals: [
    {
      activate(input, next) {
        renameReserved(input.activation);
        next(input);
      },
    },
  ],
  inbound: [
    {
      execute: (input, next) => {
        refuseUnreadable(input.args);
        return next(input);
      },
      handleSignal: (input, next) => next({ ...input, args: input.args.map(readableOrNothing) }),
    },
  ],
});

/** Throws where one of the inputs of a workflow could not be decoded. */
export function refuseUnreadable(args: readonly unknown[]): void {
  const encoding = args.map(unreadableEncoding).find((found) => found !== undefined);
  if (encoding === undefined) return;
  throw new Error(
    `Cannot read the input of this workflow: it cannot be decoded from "${encoding}"; run workers with the keys and the data converter that it was written with`,
  );
}

/** The argument of a signal; undefined where it could not be decoded. */
export function readableOrNothing(arg: unknown): unknown {
  return unreadableEncoding(arg) === undefined ? arg : undefined;
}
