import {
  ApplicationFailure,
  type DataConverter,
  defaultPayloadConverter,
  type Payload,
  type PayloadCodec,
  type SerializationContext,
} from '@temporalio/common';

/** Payloads are references and verdicts. Whatever needs more belongs into the cluster, not into a history. */
export const payloadLimitBytes = 4 * 1024;

/**
 * Refuses to send any payload over 4 KB: inputs, results, signals, queries, updates, memos and heartbeat details pass
 * here, from clients, activities and workflows alike. The failure tells the size and the receiver, never the content.
 *
 * A codec rather than interceptors, since nothing that is sent can go round it: a client call throws, an activity fails
 * with `Invalid`, and a workflow that sends too much is a bug and is held until it is mended. What arrives is not
 * limited, since operators may signal what they like.
 */
export const payloadLimit: PayloadCodec = {
  async encode(payloads, context) {
    for (const payload of payloads) refuseIfTooLarge(payload, context);
    return payloads;
  },
  async decode(payloads) {
    return payloads;
  },
};

/**
 * Reads what operators send to a workflow and nobody can read, a text that is no JSON for example, as nothing. A workflow
 * that cannot read a signal is stuck for good: the signal stands in its history. What activities send is our own, and
 * must be readable.
 */
export const unreadableAsNothing: PayloadCodec = {
  async encode(payloads) {
    return payloads;
  },
  async decode(payloads, context) {
    if (context?.type === 'activity') return payloads;
    return payloads.map((payload) => (isReadable(payload) ? payload : defaultPayloadConverter.toPayload(undefined)));
  },
};

/** For every Temporal client and worker that we make. */
export const dataConverter: DataConverter = { payloadCodecs: [payloadLimit, unreadableAsNothing] };

function isReadable(payload: Payload): boolean {
  try {
    defaultPayloadConverter.fromPayload(payload);
    return true;
  } catch {
    return false;
  }
}

function refuseIfTooLarge(payload: Payload, context: SerializationContext | undefined): void {
  const bytes = payload.data?.length ?? 0;
  if (bytes <= payloadLimitBytes) return;
  throw ApplicationFailure.create({
    type: 'Invalid',
    nonRetryable: true,
    message: `Cannot send ${owner(context)}: ${bytes} bytes are more than the ${payloadLimitBytes} that are allowed`,
  });
}

function owner(context: SerializationContext | undefined): string {
  if (context === undefined) return 'a payload';
  const workflow = context.workflowId === undefined ? '' : ` of workflow "${context.workflowId}"`;
  if (context.type === 'workflow') return `a payload${workflow}`;
  return `a payload of activity "${context.activityId ?? 'unnamed'}"${workflow}`;
}
