import { describe, expect, it } from '@jest/globals';
import { Client, Connection } from '@temporalio/client';
import {
  ApplicationFailure,
  defaultPayloadConverter,
  type Payload,
  type SerializationContext,
} from '@temporalio/common';
import { dataConverter, payloadLimit, payloadLimitBytes, unreadableAsNothing } from '../../workers/payload-limit.ts';

const text = (length: number) => defaultPayloadConverter.toPayload('x'.repeat(length - 2));
const workflow = { type: 'workflow', namespace: 'default', workflowId: 'restart-containers/1' } as const;
const activity = { type: 'activity', namespace: 'default', activityId: 'stop web@node-7', isLocal: false } as const;

describe('payloadLimit', () => {
  it('lets exactly the limit pass, unchanged', async () => {
    const payloads = [text(payloadLimitBytes), text(10)];
    await expect(payloadLimit.encode(payloads, workflow)).resolves.toBe(payloads);
  });

  it('refuses one byte more as Invalid, for good, and tells whose it was, how large, and nothing of it', async () => {
    const refused = payloadLimit.encode([text(10), text(payloadLimitBytes + 1)], workflow);
    await expect(refused).rejects.toBeInstanceOf(ApplicationFailure);
    await expect(refused).rejects.toMatchObject({
      type: 'Invalid',
      nonRetryable: true,
      message:
        'Cannot send a payload of workflow "restart-containers/1": 4097 bytes are more than the 4096 that are allowed',
    });
  });

  it('names the activity whose result or heartbeat it was', async () => {
    const message = /^Cannot send a payload of activity "stop web@node-7": /;
    await expect(payloadLimit.encode([text(5_000)], activity)).rejects.toThrow(message);
    const withWorkflow = { ...activity, workflowId: 'roll-out/1' };
    await expect(payloadLimit.encode([text(5_000)], withWorkflow)).rejects.toThrow(
      '"stop web@node-7" of workflow "roll-out/1"',
    );
  });

  it('reads whatever arrives, since operators may signal what they like', async () => {
    const payloads = [text(100_000)];
    await expect(payloadLimit.decode(payloads, workflow)).resolves.toBe(payloads);
  });
});

describe('unreadableAsNothing', () => {
  const read = async (payload: Payload, context = workflow as SerializationContext) => {
    const [decoded] = await unreadableAsNothing.decode([payload], context);
    return decoded && defaultPayloadConverter.fromPayload(decoded);
  };
  const encoded = (encoding: string, data: string): Payload => ({
    metadata: { encoding: Buffer.from(encoding) },
    data: Buffer.from(data),
  });

  it('reads what is no JSON, and what has no known encoding, as nothing', async () => {
    await expect(read(encoded('json/plain', '{"by": "ann'))).resolves.toBeUndefined();
    await expect(read(encoded('json/plain', ''))).resolves.toBeUndefined();
    await expect(read(encoded('binary/encrypted', 'x'))).resolves.toBeUndefined();
    await expect(read({ metadata: {}, data: Buffer.from('x') })).resolves.toBeUndefined();
    await expect(read({})).resolves.toBeUndefined();
  });

  it('leaves what can be read as it is', async () => {
    const payloads = [text(10), defaultPayloadConverter.toPayload(undefined), encoded('binary/plain', 'x')];
    await expect(unreadableAsNothing.decode(payloads, workflow)).resolves.toEqual(payloads);
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
    const large = 'x'.repeat(5_000);
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
