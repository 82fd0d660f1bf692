import {
  ApplicationFailure,
  type DataConverter,
  defaultPayloadConverter,
  type Payload,
  type PayloadCodec,
  type SerializationContext,
} from '@temporalio/common';
import { unreadablePayload } from '../api/engine/unreadable-payload.ts';
import { answerPayloadBytes, payloadBytes } from '../plan/text-size.ts';
import type { Logger } from './log.ts';
import type { Metrics } from './metrics.ts';

/** Where oversized payloads are reported. Absent: nowhere. */
export interface PayloadObserver {
  readonly log?: Pick<Logger, 'warn'>;
  readonly metrics?: Pick<Metrics, 'largePayloads'>;
}

/** Payloads are references and verdicts of at most this size. Larger data belongs in the cluster, not in a history. */
export const payloadLimitBytes = payloadBytes;

/** A larger payload is not sent at all. */
export const mostPayloadBytes = 64 * 1024;

/**
 * Checks the size of every payload: inputs, results, signals, queries, updates, memos and heartbeat details, from
 * clients, activities and workflows. A payload over 4 KB is sent, counted, and logged once per operation and sender:
 * its producer should have shortened it, but rejecting it within a workflow task would block the operation for good. A
 * payload over 64 KB is rejected: a client call throws, an activity fails with `Invalid`, and a workflow is blocked
 * until it is fixed. Only size and receiver are logged, never the content.
 *
 * It is a codec and not an interceptor, because every sent payload passes the codec. Received payloads are not limited,
 * since operators may signal what they like.
 */
export function payloadLimit({ log, metrics }: PayloadObserver = {}): PayloadCodec {
  const told = new Set<string>();
  return {
    async encode(payloads, context) {
      const limitBytes = limitFor(context);
      for (const { data } of payloads) {
        const bytes = data?.length ?? 0;
        if (bytes > limitBytes) observe(bytes, context);
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
    log?.warn({ operation, payload: owner(context), bytes, limitBytes: limitFor(context) }, 'A payload is too large');
  }
}

/**
 * Replaces payloads to a workflow that cannot be decoded, for example text that is no JSON. In a signal such a payload
 * is read as null, because a workflow that cannot decode a signal is blocked for good; in an input it is an error.
 * Payloads from activities are our own, and must be readable.
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

/** For every Temporal client and worker of Windlass. */
export function dataConverterFor(observer: PayloadObserver): DataConverter {
  return { payloadCodecs: [payloadLimit(observer), unreadableAsMark] };
}

/** For clients and tests that do not report sizes. */
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

/** Beyond how many bytes a payload is counted and logged. */
function limitFor(context: SerializationContext | undefined): number {
  return limitsOf[operationOf(context)] ?? payloadLimitBytes;
}

/** Of operations whose payloads name pods or nodes. */
const limitsOf: Readonly<Record<string, number>> = {
  'roll-out': answerPayloadBytes,
  'pull-on-nodes': answerPayloadBytes,
};

/** The prefix of a workflow ID before the UID: `pull-images`. */
function operationOf(context: SerializationContext | undefined): string {
  return context?.workflowId?.split('/', 1)[0] ?? '';
}

function owner(context: SerializationContext | undefined): string {
  if (context === undefined) return 'a payload';
  const workflow = context.workflowId === undefined ? '' : ` of workflow "${context.workflowId}"`;
  if (context.type === 'workflow') return `a payload${workflow}`;
  return `a payload of activity "${context.activityId ?? 'unnamed'}"${workflow}`;
}
