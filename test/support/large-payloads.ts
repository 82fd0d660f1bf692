import { proxyActivities } from '@temporalio/workflow';

const { sendBack } = proxyActivities<{ sendBack(bytes: number, heartbeatBytes: number): Promise<string> }>({
  startToCloseTimeout: '1 minute',
  heartbeatTimeout: '30 seconds',
  retry: { maximumAttempts: 1 },
});

const { receive } = proxyActivities<{ receive(text: string): Promise<void> }>({ startToCloseTimeout: '1 minute' });

/** Calls an activity whose result and heartbeat have this many bytes. */
export async function askForBytes(bytes: number, heartbeatBytes: number): Promise<number> {
  return (await sendBack(bytes, heartbeatBytes)).length;
}

/** Sends this many bytes to an activity: a bug, above the limit. */
export async function sendBytes(bytes: number): Promise<void> {
  await receive('x'.repeat(bytes));
}
