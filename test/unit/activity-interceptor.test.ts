import { describe, expect, it } from '@jest/globals';
import type { Context } from '@temporalio/activity';
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { observeActivities } from '../../process/activity-interceptor.ts';
import { createLogger } from '../../process/log.ts';

const info = {
  activityType: 'node.v1.stopContainer',
  activityId: 'stop web@node-7',
  attempt: 2,
  workflowExecution: { workflowId: 'restart-containers/1', runId: 'run' },
};

/** Runs one attempt through the interceptor, and returns what was counted and logged. */
async function observed(act: () => Promise<unknown>) {
  const counted: unknown[] = [];
  const lines: Record<string, unknown>[] = [];
  const destination = { write: (line: string) => void lines.push(JSON.parse(line)) };
  const log = createLogger('daemon', { logLevel: 'debug', ignoredFlags: [] }, destination);
  const activitySeconds = { observe: (labels: unknown) => void counted.push(labels) };
  const factory = observeActivities({ log, metrics: { activitySeconds } });
  const interceptors = factory({ info } as unknown as Context);
  const result = await interceptors.inbound?.execute?.({ args: [], headers: {} }, act).catch((error: unknown) => error);
  return { result, counted, line: lines[0] };
}

describe('observeActivities', () => {
  it('passes the result on, and logs with the operation it belongs to', async () => {
    const { result, counted, line } = await observed(async () => 'stopped');
    expect(result).toBe('stopped');
    expect(counted).toEqual([{ activity: 'node.v1.stopContainer', outcome: 'done' }]);
    expect(line).toMatchObject({
      level: 'debug',
      operationId: 'restart-containers/1',
      activityId: 'stop web@node-7',
      attempt: 2,
      outcome: 'done',
    });
  });

  it('counts a failure by its type, and passes it on', async () => {
    const failure = ApplicationFailure.retryable('Cannot stop container "app": socket closed', 'Unreachable');
    const { result, counted, line } = await observed(() => Promise.reject(failure));
    expect(result).toBe(failure);
    expect(counted).toMatchObject([{ outcome: 'Unreachable' }]);
    expect(line).toMatchObject({ level: 'info', failure: 'Cannot stop container "app": socket closed' });
  });

  it('counts an error that nobody classified as Error and logs it as one, whatever its name', async () => {
    const { counted, line } = await observed(() => Promise.reject(new TypeError('undefined is not a pod')));
    expect(counted).toMatchObject([{ outcome: 'Error' }]);
    expect(line).toMatchObject({ level: 'error', err: { message: 'undefined is not a pod' } });
    const foreign = await observed(() => Promise.reject(ApplicationFailure.create({ type: 'Anything' })));
    expect(foreign.counted).toMatchObject([{ outcome: 'Error' }]);
  });

  it('counts a cancelled attempt as cancelled, which is no failure', async () => {
    const { counted, line } = await observed(() => Promise.reject(new CancelledFailure('TIMED_OUT')));
    expect(counted).toMatchObject([{ outcome: 'cancelled' }]);
    expect(line).toMatchObject({ level: 'debug' });
  });
});
