import { Context } from '@temporalio/activity';
import { type Client, isGrpcServiceError } from '@temporalio/client';
import type { Confirmation, PermitLifeOptions } from './permit-life.ts';

/** gRPC's code for an attempt that Temporal has given up. */
const notFound = 5;

/**
 * The attempt that is being executed, as the life of its permit needs it. Heartbeats are sent by a call of our own, since
 * the SDK does not tell whether Temporal received one; the SDK hears of them, too, for its own timers.
 */
export function currentAttempt(client: Client): PermitLifeOptions {
  const context = Context.current();
  const { heartbeatTimeoutMs, taskToken } = context.info;
  if (heartbeatTimeoutMs === undefined) throw new Error('an activity that holds a permit needs a heartbeat timeout');

  return {
    heartbeatTimeoutMs,
    cancelled: context.cancellationSignal,
    async confirm(deadlineMs): Promise<Confirmation> {
      context.heartbeat();
      const { namespace, identity } = client.options;
      const request = { namespace, identity, taskToken };
      try {
        const answer = await client.withDeadline(Date.now() + deadlineMs, () =>
          client.workflowService.recordActivityTaskHeartbeat(request),
        );
        return answer.cancelRequested || answer.activityPaused || answer.activityReset ? 'cancelled' : 'counts';
      } catch (error) {
        if (isGrpcServiceError(error) && error.code === notFound) return 'gone';
        throw error;
      }
    },
  };
}
