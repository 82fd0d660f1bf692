import { describe, expect, it } from '@jest/globals';
import { Client, Connection } from '@temporalio/client';
import {
  ApplicationFailure,
  defaultPayloadConverter,
  type Payload,
  type SerializationContext,
} from '@temporalio/common';
import { unreadableEncoding } from '../../api/engine/unreadable-payload.ts';
import { createMetrics } from '../../process/metrics.ts';
import {
  dataConverter,
  mostPayloadBytes,
  payloadLimit,
  payloadLimitBytes,
  unreadableAsMark,
} from '../../process/payload-limit.ts';
import { interceptors, readableOrNothing, refuseUnreadable } from '../../workflows/shared/interceptors.ts';

const text = (length: number) => defaultPayloadConverter.toPayload('x'.repeat(length - 2));
const workflow = { type: 'workflow', namespace: 'default', workflowId: 'restart-containers/1' } as const;
const activity = { type: 'activity', namespace: 'default', activityId: 'stop web@node-7', isLocal: false } as const;

function observed() {
  const warnings: { readonly fields: object; readonly message: string }[] = [];
  const metrics = createMetrics('worker');
  const log = { warn: (fields: object, message: string) => void warnings.push({ fields, message }) };
  return { warnings, metrics, codec: payloadLimit({ log: log as never, metrics }) };
}

describe('payloadLimit', () => {
  it('accepts exactly the limit, unchanged and without a report', async () => {
    const { codec, warnings } = observed();
    const payloads = [text(payloadLimitBytes), text(10)];
    await expect(codec.encode(payloads, workflow)).resolves.toBe(payloads);
    expect(warnings).toEqual([]);
  });

  it('F4: sends one byte more, counts it, and tells once whose it was, how large, and nothing of it', async () => {
    const { codec, warnings, metrics } = observed();
    const payloads = [text(10), text(payloadLimitBytes + 1)];
    await expect(codec.encode(payloads, workflow)).resolves.toBe(payloads);
    await expect(
      codec.encode([text(9_000)], { ...workflow, workflowId: 'restart-containers/2' }),
    ).resolves.toHaveLength(1);
    expect(warnings).toEqual([
      {
        message: 'A payload is too large',
        fields: {
          operation: 'restart-containers',
          payload: 'a payload of workflow "restart-containers/1"',
          bytes: 4_097,
          limitBytes: 4_096,
        },
      },
    ]);
    await codec.encode([text(5_000)], { ...activity, workflowId: 'restart-containers/2' });
    expect(warnings).toHaveLength(2);
    expect(await metrics.registry.metrics()).toContain(
      'windlass_large_payloads_total{operation="restart-containers",role="worker"} 3',
    );
  });

  it('refuses more than 64 KB as Invalid, for good, and tells whose it was, how large, and nothing of it', async () => {
    const { codec } = observed();
    await expect(codec.encode([text(mostPayloadBytes)], workflow)).resolves.toHaveLength(1);
    const refused = codec.encode([text(10), text(mostPayloadBytes + 1)], workflow);
    await expect(refused).rejects.toBeInstanceOf(ApplicationFailure);
    await expect(refused).rejects.toMatchObject({
      type: 'Invalid',
      nonRetryable: true,
      message:
        'Cannot send a payload of workflow "restart-containers/1": 65537 bytes are more than the 65536 that are allowed',
    });
  });

  it('names the activity whose result or heartbeat it was', async () => {
    const { codec } = observed();
    const message = /^Cannot send a payload of activity "stop web@node-7": /;
    await expect(codec.encode([text(70_000)], activity)).rejects.toThrow(message);
    const withWorkflow = { ...activity, workflowId: 'roll-out/1' };
    await expect(codec.encode([text(70_000)], withWorkflow)).rejects.toThrow(
      '"stop web@node-7" of workflow "roll-out/1"',
    );
  });

  it.each([
    ['roll-out', 40],
    ['pull-on-nodes', 40],
  ])('takes of %s, whose payloads name pods or nodes, %s KiB', async (operation, kib) => {
    const { codec, warnings } = observed();
    const context = { ...workflow, workflowId: `${operation}/1` };
    await codec.encode([text(kib * 1024)], context);
    expect(warnings).toEqual([]);
    await codec.encode([text(kib * 1024 + 1)], context);
    expect(warnings).toHaveLength(1);
  });

  it('reads whatever arrives, since operators may signal what they like', async () => {
    const payloads = [text(100_000)];
    await expect(payloadLimit().decode(payloads, workflow)).resolves.toBe(payloads);
  });
});

describe('unreadableAsMark', () => {
  const read = async (payload: Payload, context = workflow as SerializationContext) => {
    const [decoded] = await unreadableAsMark.decode([payload], context);
    return decoded && defaultPayloadConverter.fromPayload(decoded);
  };
  const encoded = (encoding: string, data: string): Payload => ({
    metadata: { encoding: Buffer.from(encoding) },
    data: Buffer.from(data),
  });

  const unreadable: readonly (readonly [Payload, string])[] = [
    [encoded('json/plain', '{"by": "ann'), 'json/plain'],
    [encoded('json/plain', ''), 'json/plain'],
    [encoded('binary/encrypted', 'x'), 'binary/encrypted'],
    [{ metadata: {}, data: Buffer.from('x') }, ''],
    [{}, ''],
  ];

  it('marks what is no JSON, and what has no known encoding', async () => {
    for (const [payload, encoding] of unreadable) expect(unreadableEncoding(await read(payload))).toBe(encoding);
  });

  it('1.9: reads a signal that cannot be decoded as nothing, and leaves any other as it is', async () => {
    const [inbound] = interceptors().inbound ?? [];
    const seen: unknown[] = [];
    const next = async (input: { readonly args: unknown[] }) => void seen.push(...input.args);
    for (const [payload] of unreadable) {
      const input = { signalName: 'pause', args: [await read(payload)], headers: {} };
      await inbound?.handleSignal?.(input, next);
    }
    expect(seen).toEqual(unreadable.map(() => undefined));
    expect(readableOrNothing({ by: 'ann' })).toEqual({ by: 'ann' });
  });

  it('1.9: an input that cannot be decoded is an error that says so', async () => {
    const [inbound] = interceptors().inbound ?? [];
    const begin = (args: unknown[]) => inbound?.execute?.({ args, headers: {} }, async () => 'begun');
    const input = await read(encoded('binary/encrypted', 'x'));
    expect(() => begin([input])).toThrow(
      'Cannot read the input of this workflow: it cannot be decoded from "binary/encrypted"',
    );
    await expect(begin([{ nodeImage: {} }])).resolves.toBe('begun');
    expect(() => refuseUnreadable([undefined, null, 1])).not.toThrow();
  });

  it('leaves what can be read as it is', async () => {
    const payloads = [text(10), defaultPayloadConverter.toPayload(undefined), encoded('binary/plain', 'x')];
    await expect(unreadableAsMark.decode(payloads, workflow)).resolves.toEqual(payloads);
  });

  it('leaves what activities send alone: there it would hide a fault of ours', async () => {
    await expect(read(encoded('json/plain', '{'), activity)).rejects.toThrow('JSON');
  });
});

describe('dataConverter', () => {
  it('makes a client refuse before it sends', async () => {
    // Lazy: no server is asked for anything before the refusal.
    const connection = Connection.lazy({ address: '127.0.0.1:1' });
    const client = new Client({ connection, dataConverter });
    const large = 'x'.repeat(70_000);
    const handle = client.workflow.getHandle('roll-out/1');
    await expect(handle.signal('pause', large)).rejects.toMatchObject({ type: 'Invalid' });
    const options = { taskQueue: 'cluster', workflowId: 'roll-out/1' };
    await expect(client.workflow.start('rollOut', { ...options, args: [large] })).rejects.toMatchObject({
      type: 'Invalid',
    });
    const withMemo = client.workflow.start('rollOut', { ...options, args: [], memo: { large } });
    await expect(withMemo).rejects.toMatchObject({ type: 'Invalid' });
    await connection.close();
  });
});
