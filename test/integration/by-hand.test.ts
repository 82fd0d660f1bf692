import { afterAll, beforeAll, expect, it } from '@jest/globals';
import proto from '@temporalio/proto';
import type { RestartChanged } from '../../api/container-recreate-request/operation.ts';
import { operationLock } from '../../api/engine/operation-id.ts';
import { changedSignal, queues } from '../../api/engine/operations.ts';
import type { PerOperation } from '../../api/operations.ts';
import { type ActivityName, activityResults } from '../../workflows/shared/results.ts';
import { closedAs } from '../support/closed.ts';
import { describeProof, describeTogether } from '../support/groups.ts';
import {
  inputOf,
  type OperationType,
  type PlayedOperations,
  startPlayedOperations,
} from '../support/played-operations.ts';
import { type Treatment, treatedUid, treatments } from '../support/treatments.ts';
import { waitFor } from '../support/wait.ts';

type HistoryEvent = proto.temporal.api.history.v1.IHistoryEvent;

/** How an operation gets to the activity, and what happens when the activity fails for good. */
interface Row {
  readonly operation: OperationType;
  /** The first signal, from a sender without a name if `by` is empty. */
  readonly command?: string;
  readonly by?: string;
  /** The operation does not depend on it, and continues. */
  readonly isHarmless?: boolean;
  /** Instead of a command: the payload of the signal `changed`. */
  readonly change?: (uid: string) => unknown;
  /** The status of the object contains the wait. */
  readonly inStatus?: boolean;
}

/** The compiler requires a row for each activity. */
const rows: Readonly<Record<ActivityName, Row>> = {
  lookAtRequest: { operation: 'restartContainers' },
  reportRequest: { operation: 'restartContainers' },
  announceCommand: { operation: 'restartContainers', command: 'resume', isHarmless: true },
  identifySignal: { operation: 'restartContainers', command: 'resume', by: '', isHarmless: true },
  startNextRun: { operation: 'restartContainers', change: nextRequest, isHarmless: true },
  recordTarget: { operation: 'restartContainers', inStatus: true },
  takeOutOfService: { operation: 'restartContainers', inStatus: true },
  awaitDrained: { operation: 'restartContainers', inStatus: true },
  'node.v1.lookAtContainers': { operation: 'restartContainers', inStatus: true },
  'node.v1.stopContainer': { operation: 'restartContainers', inStatus: true },
  'node.v1.awaitContainer': { operation: 'restartContainers', inStatus: true },
  lookAtEnvironment: { operation: 'refreshEnvironment' },
  'node.v1.refreshContainer': { operation: 'refreshEnvironment' },
  lookAtSidecars: { operation: 'terminateSidecars' },
  endSidecars: { operation: 'terminateSidecars', inStatus: true },
  reportSidecars: { operation: 'terminateSidecars' },
  announceOnPod: { operation: 'terminateSidecars', command: 'resume', isHarmless: true },
  lookAtNodeImage: { operation: 'pullImages' },
  reportPulls: { operation: 'pullImages' },
  'node.v1.pullImage': { operation: 'pullImages', inStatus: true },
  steerPullJob: { operation: 'pullOnNodes', command: 'abort' },
  announceSteering: { operation: 'pullOnNodes', command: 'abort', isHarmless: true },
  'fleet.v1.nextNodes': { operation: 'pullOnNodes' },
  'fleet.v1.awaitNodes': { operation: 'pullOnNodes', isHarmless: true },
  'fleet.v1.lookAtSwap': { operation: 'swapSidecar' },
  'fleet.v1.swapStep': { operation: 'swapSidecar' },
  'fleet.v1.awaitSwap': { operation: 'swapSidecar' },
  'fleet.v1.next': { operation: 'rollOut' },
  'fleet.v1.carryOutBatch': { operation: 'rollOut', isHarmless: true },
  'fleet.v1.applyCommand': { operation: 'rollOut', command: 'skip' },
  announceRollOutCommand: { operation: 'rollOut', command: 'skip', isHarmless: true },
};

/** Another request for the same pod. */
function nextRequest(uid: string): RestartChanged {
  const request = { namespace: 'default', name: 'next', uid: 'next' };
  const pod = { namespace: 'default', name: 'web', uid };
  return { operation: { request, pod, node: { name: 'node-1', uid: 'node-1' } }, generation: 1 };
}

/** Activities whose result is not used: whatever it is, the operation continues. */
const returnsNothing: readonly ActivityName[] = [
  'reportRequest',
  'awaitDrained',
  'endSidecars',
  'reportSidecars',
  'reportPulls',
  'steerPullJob',
];

let played: PlayedOperations;

beforeAll(async () => {
  played = await startPlayedOperations();
});

afterAll(async () => {
  await played?.stop();
});

/** Runs the operation to its end, and returns its waits. */
async function treat(activity: ActivityName, treatment: Treatment): Promise<readonly string[]> {
  const { operation, command, by = 'ann', change } = rows[activity];
  const uid = treatedUid(activity, treatment);
  const payload = { ...(by && { by }), ...(command === 'skip' && { target: 'web-0' }) };
  const first = change ? { name: changedSignal, payload: change(uid) } : command && { name: command, payload };
  const handle = await played.begin(operation, uid, first || undefined);
  let isTold = false;
  /**
   * The wait of its first look ends with a change. One signal is enough: another one would end a wait that the test has
   * to see.
   */
  const tellOfChange = async (details: string): Promise<void> => {
    if (isTold || operation !== 'terminateSidecars' || !/\bContainerNotStarted\b/.test(details)) return;
    isTold = true;
    await handle.signal(changedSignal, null);
  };
  await waitFor(`${uid} to be treated`, async (see) => {
    if (played.isTreated(handle.workflowId)) return true; // it may have ended since
    if (operation === 'terminateSidecars') await tellOfChange(see(await played.detailsOf(handle)));
    return false;
  });
  let isOver = false;
  void closedAs(handle).then(() => {
    isOver = true;
  });
  const waits: string[] = [];
  await waitFor(`${handle.workflowId} to end`, async (see) => {
    if (isOver) return true;
    const details = see(await played.detailsOf(handle));
    if (/\bParked\b/.test(details)) {
      waits.push(details);
      await handle.signal('retry', { by: 'ann' });
    }
    await tellOfChange(details);
    return false;
  });
  const { events } = await handle.fetchHistory();
  expect((await handle.describe()).status.name).toBe('COMPLETED');
  expect(events?.flatMap(failedTask)).toEqual([]);
  return waits;
}

/** The error of a failed workflow task, except for a signal that arrived when the operation was about to end. */
function failedTask({ workflowTaskFailedEventAttributes: failed }: HistoryEvent): readonly unknown[] {
  const unhandledCommand =
    proto.temporal.api.enums.v1.WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND;
  return !failed || failed.cause === unhandledCommand ? [] : [failed.failure];
}

/** The waits in the status reports of the operation. */
function waitsInStatus(activity: ActivityName, treatment: Treatment): string {
  const uid = treatedUid(activity, treatment);
  return JSON.stringify(
    played.calls.filter((call) => call.workflowId.endsWith(uid) && call.activity.startsWith('report')),
  );
}

describeTogether('F5: an activity that ends in a way that nobody has foreseen', () => {
  it('has a row here', () => {
    expect(new Set(Object.keys(rows))).toEqual(new Set(Object.keys(activityResults)));
  });
});

describeProof('by-hand', 'F5: an activity that ends in a way that nobody has foreseen', () => {
  for (const activity of Object.keys(rows) as ActivityName[]) {
    const { isHarmless = false, inStatus = false } = rows[activity];

    it.concurrent(`${activity}, failed by hand: ${isHarmless ? 'goes on' : 'parks the operation until retry'}`, async () => {
      const waits = await treat(activity, 'failed');
      if (isHarmless) expect(waits).toEqual([]);
      else expect(waits[0]).toContain('failed by hand');
      if (inStatus) expect(waitsInStatus(activity, 'failed')).toMatch(/"reason":"Parked".*failed by hand/);
    });

    for (const treatment of treatments.filter((one) => one !== 'failed')) {
      it.concurrent(`${activity}, ${treatment}: parks the operation, or it ends as usual`, async () => {
        const waits = await treat(activity, treatment);
        const parks = !isHarmless && !returnsNothing.includes(activity) && treatment !== 'timedOut';
        if (parks) expect(waits[0]).toContain(`Cannot use the result of activity "${activity}"`);
      });
    }
  }
});

describeTogether('F14: an operation that is started under another ID than its own', () => {
  const web = { namespace: 'shop', name: 'web', uid: 'u' };
  const started: PerOperation<{ readonly input: object; readonly right: string }> = {
    restartContainers: { input: { request: { uid: 'r' }, pod: web }, right: 'restart-containers/shop/web/u' },
    rollOut: { input: { target: web }, right: 'roll-out/shop/web/u' },
    pullImages: { input: { nodeImage: { name: 'node-1', uid: 'n' } }, right: 'pull-images/node-1/n' },
    pullOnNodes: { input: { job: web }, right: 'pull-on-nodes/shop/web/u' },
    terminateSidecars: { input: { pod: web }, right: 'terminate-sidecars/shop/web/u' },
    swapSidecar: { input: { pod: web, set: { uid: 's' } }, right: 'swap-sidecar/shop/web/u' },
  };
  it.each(Object.entries(started))('%s: fails, and says which ID is right', async (type, { input, right }) => {
    const options = { taskQueue: queues.cluster, workflowId: `my/${type}`, args: [input] };
    await expect(played.client.workflow.execute(type, options)).rejects.toMatchObject({
      cause: { message: `Cannot run ${type} as workflow "my/${type}": the ID of this operation must be "${right}"` },
    });
  });

  it.each(Object.keys(started) as OperationType[])(
    '%s: works under the ID that release 0.1.0 gave it',
    async (type) => {
      const uid = `earlier-${type}`;
      const handle = await played.client.workflow.signalWithStart(type, {
        ...{ taskQueue: queues.cluster, workflowId: operationLock(type, uid), args: [inputOf(type, uid)] },
        ...{ signal: 'abort', signalArgs: [{ by: 'ann' }] },
      });
      await waitFor('its first step', (see) => see(played.calls).some((call) => call.workflowId === handle.workflowId));
      await handle.terminate().catch(() => undefined); // it may have ended
    },
  );
});
