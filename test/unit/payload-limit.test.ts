import { describe, expect, it } from '@jest/globals';
import { Client, Connection } from '@temporalio/client';
import { ApplicationFailure, defaultPayloadConverter } from '@temporalio/common';
import { dataConverter, payloadLimit, payloadLimitBytes } from '../../workers/payload-limit.ts';

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
