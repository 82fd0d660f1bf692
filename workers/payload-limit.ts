import {
  ApplicationFailure,
  type DataConverter,
  defaultPayloadConverter,
  type Payload,
  type PayloadCodec,
  type SerializationContext,
} from '@temporalio/common';
import { unreadablePayload } from '../api/engine/unreadable-payload.ts';
import { payloadBytes } from '../workflows/plan/text-size.ts';
import type { Logger } from './log.ts';
import type { Metrics } from './metrics.ts';

/** What is told of payloads that are larger than they should be. Absent: nothing. */
export interface PayloadObserver {
  readonly log?: Pick<Logger, 'warn'>;
  readonly metrics?: Pick<Metrics, 'largePayloads'>;
}

/** Payloads are references and verdicts of at most so much. Whatever needs more belongs into the cluster, not into a history. */
export const payloadLimitBytes = payloadBytes;

/** What is larger is not sent at all. */
export const mostPayloadBytes = 64 * 1024;

/**
 * Watches over the size of every payload: inputs, results, signals, queries, updates, memos and heartbeat details pass
 * here, from clients, activities and workflows alike. One over 4 KB is sent, counted, and told of once for each operation
 * and sender: whoever made it should have cut it, but a refusal within a workflow task would hold the operation for good.
 * One over 64 KB is refused: a client call throws, an activity fails with `Invalid`, and a workflow is held until it is
 * fixed. What is told is the size and the receiver, never the content.
 *
 * A codec rather than interceptors, since nothing that is sent can go round it. What arrives is not limited, since
 * operators may signal what they like.
 */
export function payloadLimit({ log, metrics }: PayloadObserver = {}): PayloadCodec {
  const told = new Set<string>();
  return {
    async encode(payloads, context) {
      for (const { data } of payloads) {
        const bytes = data?.length ?? 0;
        if (bytes > payloadLimitBytes) observe(bytes, context);
      }
      return payloads;
    },
    async decode(payloads) {
      return payloads;
    },
  };

  function observe(bytes: number, context: SerializationContext | undefined): void {
    const operation = operationOf(context);
    metrics?.largePayloads.inc({ operation });
    if (bytes > mostPayloadBytes) {
      throw ApplicationFailure.create({
        type: 'Invalid',
        nonRetryable: true,
        message: `Cannot send ${owner(context)}: ${bytes} bytes are more than the ${mostPayloadBytes} that are allowed`,
      });
    }
    const sender = `${operation} ${context?.type ?? ''}`;
    if (told.has(sender)) return;
    told.add(sender);
    log?.warn({ operation, payload: owner(context), bytes, limitBytes: payloadLimitBytes }, 'A payload is too large');
  }
}

/**
 * Marks what is sent to a workflow and cannot be decoded, a text that is no JSON for example: in a signal it is read as
 * nothing, because a workflow that cannot read a signal is stuck for good; in an input it is an error. What activities send
 * is our own, and must be readable.
 */
export const unreadableAsMark: PayloadCodec = {
  async encode(payloads) {
    return payloads;
  },
  async decode(payloads, context) {
    if (context?.type === 'activity') return payloads;
    return payloads.map((payload) => (isReadable(payload) ? payload : markOf(payload)));
  },
};

/** For every Temporal client and worker that we make. */
export function dataConverterFor(observer: PayloadObserver): DataConverter {
  return { payloadCodecs: [payloadLimit(observer), unreadableAsMark] };
}

/** For clients and tests that tell nobody. */
export const dataConverter: DataConverter = dataConverterFor({});

function isReadable(payload: Payload): boolean {
  try {
    defaultPayloadConverter.fromPayload(payload);
    return true;
  } catch {
    return false;
  }
}

function markOf({ metadata }: Payload): Payload {
  const encoding = Buffer.from(metadata?.encoding ?? []).toString('utf8');
  return defaultPayloadConverter.toPayload(unreadablePayload(encoding.slice(0, 64)));
}

/** What stands before the UID in the ID of a workflow: `pull-images`. */
function operationOf(context: SerializationContext | undefined): string {
  return context?.workflowId?.split('/', 1)[0] ?? '';
}

function owner(context: SerializationContext | undefined): string {
  if (context === undefined) return 'a payload';
  const workflow = context.workflowId === undefined ? '' : ` of workflow "${context.workflowId}"`;
  if (context.type === 'workflow') return `a payload${workflow}`;
  return `a payload of activity "${context.activityId ?? 'unnamed'}"${workflow}`;
}
