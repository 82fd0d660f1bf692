import { Context } from '@temporalio/activity';
import { type Client, isGrpcServiceError } from '@temporalio/client';
import type { Payload } from '@temporalio/common';
import type { FleetAttempt } from './permit-holder.ts';
import type { Confirmation } from './permit-life.ts';

/** gRPC's code for an attempt that Temporal has given up. */
const notFound = 5;

/** The share of the heartbeat timeout after which the SDK has to hear of a heartbeat: by a timer of its own it gives the attempt up. */
const sdkShare = 0.8;

/**
 * The attempt that is being executed, as the life of its permit needs it. What is to be confirmed is sent by a call of our
 * own, since the SDK does not tell whether Temporal received a heartbeat. The SDK sends one of its own for each that it hears of,
 * so beside these it hears of as many as its timers need, and of a cancellation, which only the SDK can end the attempt with.
 */
export function currentAttempt(client: Client): FleetAttempt {
  const context = Context.current();
  const { heartbeatTimeoutMs, taskToken } = context.info;
  if (heartbeatTimeoutMs === undefined) throw new Error('an activity that holds a permit needs a heartbeat timeout');

  // the SDK counts from the beginning of the attempt
  let heardAtMs = performance.now();
  const tellSdk = (progress: unknown) => {
    heardAtMs = performance.now();
    context.heartbeat(progress);
  };

  return {
    heartbeatTimeoutMs,
    cancelled: context.cancellationSignal,
    heartbeat: tellSdk,
    async confirm(deadlineMs, progress): Promise<Confirmation> {
      if (performance.now() - heardAtMs >= sdkShare * heartbeatTimeoutMs) tellSdk(progress);
      const { namespace, identity } = client.options;
      const payloads = await payloadsOf(progress, client);
      const request = { namespace, identity, taskToken, ...(payloads && { details: { payloads } }) };
      try {
        const answer = await client.withDeadline(Date.now() + deadlineMs, () =>
          client.workflowService.recordActivityTaskHeartbeat(request),
        );
        const isTakenBack = answer.cancelRequested || answer.activityPaused || answer.activityReset;
        if (isTakenBack) tellSdk(progress);
        return isTakenBack ? 'cancelled' : 'counts';
      } catch (error) {
        if (isGrpcServiceError(error) && error.code === notFound) return 'gone';
        throw error;
      }
    },
  };
}

/** The run whose activity is being executed. */
export function currentRunId(): string {
  return Context.current().info.workflowExecution?.runId ?? '';
}

/** As the SDK encodes the details of its own heartbeats. */
async function payloadsOf(details: unknown, { options }: Client): Promise<Payload[] | undefined> {
  if (details === undefined) return undefined;
  const { payloadConverter, payloadCodecs } = options.loadedDataConverter;
  let payloads = [payloadConverter.toPayload(details, undefined as never)];
  for (const codec of payloadCodecs) payloads = await codec.encode(payloads, undefined as never);
  return payloads;
}
