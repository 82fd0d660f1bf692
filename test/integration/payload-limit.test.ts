import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { Context } from '@temporalio/activity';
import { Client, type Connection } from '@temporalio/client';
import { type NativeConnection, Worker } from '@temporalio/worker';
import { dataConverter } from '../../process/payload-limit.ts';
import { describeAlone } from '../support/groups.ts';
import type { askForBytes, sendBytes } from '../support/large-payloads.ts';
import { testPlatform } from '../support/platform.ts';
import { prepareRoles } from '../support/roles.ts';
import { connectToTemporal, connectWorkersToTemporal } from '../support/temporal-connection.ts';
import { waitFor } from '../support/wait.ts';

const platform = testPlatform();
const taskQueue = `payloads-${randomUUID()}`;

let connection: NativeConnection;
let clientConnection: Connection;
let client: Client;
let worker: Worker;
let working: Promise<void>;

beforeAll(async () => {
  prepareRoles(platform);
  connection = await connectWorkersToTemporal(platform.temporalAddress);
  clientConnection = await connectToTemporal(platform.temporalAddress);
  client = new Client({ connection: clientConnection, dataConverter });
  worker = await Worker.create({
    connection,
    taskQueue,
    dataConverter,
    workflowsPath: fileURLToPath(new URL('../support/large-payloads.ts', import.meta.url)),
    activities: {
      async sendBack(bytes: number, heartbeatBytes: number) {
        const context = Context.current();
        context.heartbeat('x'.repeat(heartbeatBytes));
        if (heartbeatBytes > 65_536) await context.cancelled;
        return 'x'.repeat(bytes);
      },
      receive: async () => undefined,
    },
  });
  working = worker.run();
});

afterAll(async () => {
  worker.shutdown();
  await working;
  await clientConnection.close();
  await connection.close();
});

describeAlone('the payload limit', () => {
  const ask = (bytes: number, heartbeatBytes: number) =>
    client.workflow.execute<typeof askForBytes>('askForBytes', {
      taskQueue,
      workflowId: `ask/${randomUUID()}`,
      args: [bytes, heartbeatBytes],
    });

  it('lets an activity answer with what fits', async () => {
    await expect(ask(4_000, 4_000)).resolves.toBe(4_000);
  });

  it('F4: lets pass what is larger than it should be, from activities and workflows', async () => {
    await expect(ask(5_000, 5_000)).resolves.toBe(5_000);
    const options = { taskQueue, workflowId: `send/${randomUUID()}`, args: [5_000] as [number] };
    await expect(client.workflow.execute<typeof sendBytes>('sendBytes', options)).resolves.toBeUndefined();
  });

  it('fails an activity that answers with more as Invalid', async () => {
    await expect(ask(70_000, 0)).rejects.toMatchObject({
      cause: {
        cause: { type: 'Invalid', nonRetryable: true, message: expect.stringContaining('70002 bytes are more') },
      },
    });
  });

  it('ends an activity that heartbeats with more', async () => {
    await expect(ask(1, 70_000)).rejects.toMatchObject({ cause: { cause: { type: 'CancelledFailure' } } });
  });

  it('holds a workflow that sends more, and says why in its history', async () => {
    const handle = await client.workflow.start<typeof sendBytes>('sendBytes', {
      taskQueue,
      workflowId: `send/${randomUUID()}`,
      args: [70_000],
    });
    const message = await waitFor('the workflow task to fail', async () => {
      const { events } = await handle.fetchHistory();
      return events?.map((event) => event.workflowTaskFailedEventAttributes?.failure?.message).find(Boolean);
    });
    expect(message).toContain('70002 bytes are more than the 65536 that are allowed');
    expect((await handle.describe()).status.name).toBe('RUNNING');
    await handle.terminate();
  });
});
