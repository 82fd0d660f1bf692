import { expect } from '@jest/globals';
import type { ActivityName } from '../../../workflows/shared/results.ts';
import type { Placeholders } from '../command-lines.ts';
import { expectStops } from '../expect-stops.ts';
import type { OperationType } from '../played-operations.ts';
import type { SteerableOperation } from '../steerable-operations.ts';
import { waitFor } from '../wait.ts';
import {
  begunRollOut,
  commandOnJob,
  endsByRetry,
  forEach,
  has,
  notJobs,
  operations,
  orders,
  played,
  type Row,
  rolledOut,
  rollOuts,
  signal,
  type Typed,
  trivial,
  windlass,
} from './operations.ts';

const retries: readonly Row[] = [
  {
    lines: Object.values(signal('retry')),
    tests: {
      ...forEach([...notJobs, 'rollOut'], async (type, operation) => {
        const one = await operations.begin(
          operation,
          operation === 'rollOut' ? { look: 'refused' } : { act: 'refused' },
        );
        await one.waits('Parked');
        const tries = () => (operation === 'rollOut' ? one.looks() : one.acts());
        const before = tries();
        await type(played(one));
        await waitFor('another attempt', () => tries() > before);
        expect(await timersAfterSignal(one, 'retry')).toEqual([]);
        one.let(operation === 'rollOut' ? 'look' : 'act', 'usual');
        await endsByRetry(one);
      }),
      pullOnNodes: commandOnJob('retry'),
      'rollOut, pods that were skipped': async (type) => {
        const rollOut = await begunRollOut();
        await rollOut.handle.signal('skip', { by: 'ann', target: 'pod-5' });
        await waitFor('the order', () => orders(rollOut)?.skip);
        await type(trivial(rollOut));
        await rolledOut(rollOut);
      },
    },
  },
  {
    lines: [
      "temporal workflow signal-with-start --workflow-id $id --type rollOut --task-queue cluster --input '<input>' --signal-name retry",
    ],
    tests: {
      'rollOut, after abort': async (type) => {
        const rollOut = await begunRollOut();
        await rollOut.handle.signal('abort', { by: 'ann' });
        rollOut.kubelet();
        await rollOut.shows('Failed', 'Aborted');
        await type(trivial(rollOut), { input: JSON.stringify(rollOut.operation()) });
        await rolledOut(rollOut);
      },
    },
  },
  {
    lines: Object.values(signal('retry', '{"target": "<container>"}')),
    tests: {
      'restartContainers, a container whose stop has failed': async (type) => {
        const pod = await windlass().runPod(['app', 'proxy']);
        pod.script('app', { stopFails: 'context deadline exceeded' });
        pod.script('proxy', { readyTakes: new Promise<void>(() => undefined) });
        const strategy = { failurePolicy: 'Ignore' } as const;
        const request = await windlass().request({ pod, containers: ['app', 'proxy'], strategy });
        await request.untilContainer('app', 'Failed');
        pod.script('app', {});
        await type({ client: windlass().client, workflowId: request.workflowId }, { container: 'app' });
        await request.untilContainer('app', 'Succeeded');
        await request.operation.signal('abort', { by: 'ann' });
        await request.ended();
        expectStops(windlass().node.stopsOf(pod), ['app', 'proxy', 'app']);
      },
    },
  },
  {
    lines: [signal('retry', '{"target": "<pod>"}').temporal],
    tests: {
      'rollOut, only this pod': async (type) => {
        const rollOut = await begunRollOut();
        for (const target of ['pod-4', 'pod-5']) await rollOut.handle.signal('skip', { by: 'ann', target });
        await waitFor('both orders', () => orders(rollOut)?.skip?.length === 2);
        await type(trivial(rollOut), { pod: 'pod-5' });
        await rolledOut(rollOut, 'new', 5);
        expect(orders(rollOut)?.skip).toEqual(['pod-4']);
      },
    },
  },
];

/** The timers that have fired between the last signal of this name and the next activity. */
async function timersAfterSignal({ handle }: SteerableOperation, name: string): Promise<readonly unknown[]> {
  const { events } = await handle.fetchHistory();
  const all = events ?? [];
  const at = all.findLastIndex((event) => event.workflowExecutionSignaledEventAttributes?.signalName === name);
  const after = all.slice(at);
  const next = after.findIndex(
    (event) => event.activityTaskScheduledEventAttributes || event.markerRecordedEventAttributes,
  );
  return after.slice(0, next).filter((event) => event.timerFiredEventAttributes);
}

/** A container, or an image, that cannot be dealt with is left out, and the operation ends. */
const skipsContainer = forEach(['restartContainers', 'refreshEnvironment', 'terminateSidecars'], skipsTarget);

async function skipsTarget(type: Typed, operation: OperationType): Promise<void> {
  const one = await operations.begin(operation, { act: 'refused' });
  await one.waits('Parked');
  const container = operation === 'terminateSidecars' ? 'proxy' : 'app';
  await type(played(one), { container, pod: container });
  if (operation === 'terminateSidecars') {
    await reported(one, 'reportSidecars', { status: { skipped: ['proxy'] } });
    await one.handle.terminate('the answers of this test do not follow the status');
    return;
  }
  await one.ended();
  if (operation === 'restartContainers') {
    expect(JSON.stringify(one.inputsOf('reportRequest'))).toMatch(/skipped by /);
  }
}

async function reported(one: SteerableOperation, activity: ActivityName, part: object): Promise<void> {
  await waitFor(`${activity} of ${JSON.stringify(part)}`, (see) => {
    return see(one.inputsOf(activity)).some((input) => has(input, part));
  });
}

const skipsPod = async (type: Typed, placeholders: Placeholders) => {
  const rollOut = await begunRollOut();
  await type(trivial(rollOut), placeholders);
  await waitFor('the order', () => orders(rollOut)?.skip);
  expect(orders(rollOut)?.skip).toEqual(['pod-5']);
  await rolledOut(rollOut, 'new', 5);
  expect(rollOuts.eventsOf(rollOut.uid).join()).toMatch(/^Skipped: Skipped [a-z0-9/-]*pod-5 by /);
};

const skips: readonly Row[] = [
  {
    lines: Object.values(signal('skip')),
    tests: {
      ...forEach(['restartContainers', 'terminateSidecars'], skipsTarget),
      pullImages: async (type) => {
        const one = await operations.begin('pullImages', { act: 'held' });
        await one.pending();
        await type(played(one));
        await one.ended();
        expect(JSON.stringify(one.inputsOf('reportPulls'))).toMatch(/skipped by /);
      },
      'rollOut, answered when nothing is in the way': async (type) => {
        const rollOut = await rollOuts.begin({ maxUnavailable: 1 });
        await type(trivial(rollOut));
        await waitFor('the Event', () => rollOuts.eventsOf(rollOut.uid).length === 1);
        expect(rollOuts.eventsOf(rollOut.uid)[0]).toMatch(/^CommandRefused: Command skip by /);
        await rollOut.handle.terminate('the test is over');
      },
    },
  },
  { lines: [signal('skip', '{"target": "<container>"}').temporal], tests: skipsContainer },
  {
    lines: Object.values(signal('skip', '{"target": "<pod>"}')),
    tests: { rollOut: (type) => skipsPod(type, { pod: 'pod-5' }) },
  },
  {
    lines: [signal('skip', '{"target": "<namespace>/<pod>"}').temporal],
    tests: {
      rollOut: (type) => skipsPod(type, { namespace: 'shop', pod: 'pod-5' }),
      'rollOut, of another namespace': async (type) => {
        const rollOut = await begunRollOut();
        await type(trivial(rollOut), { namespace: 'other', pod: 'pod-5' });
        await waitFor('the Event', () => rollOuts.eventsOf(rollOut.uid).length === 1);
        expect(rollOuts.eventsOf(rollOut.uid)[0]).toMatch(/^CommandRefused: /);
        await rolledOut(rollOut);
      },
    },
  },
  {
    lines: [signal('skip', '{"target": "batch <number>"}').temporal],
    tests: {
      rollOut: async (type) => {
        const rollOut = await begunRollOut(2);
        const names = rollOut.unready();
        await type(trivial(rollOut), { number: '1' });
        await waitFor('the order', () => orders(rollOut)?.skip);
        expect(orders(rollOut)?.skip?.toSorted()).toEqual(names.toSorted());
        await rollOut.handle.terminate('the test is over');
      },
    },
  },
  {
    lines: [signal('skip', '{"target": "<repository>:<tag>"}').temporal],
    tests: {
      pullImages: async (type) => {
        const one = await operations.begin('pullImages', { act: 'held' });
        await one.pending();
        await type(played(one), { repository: 'nginx', tag: '1.27' });
        await one.ended();
        expect(JSON.stringify(one.inputsOf('reportPulls'))).toMatch(/skipped by /);
      },
    },
  },
];

const pauses: readonly Row[] = [
  {
    lines: Object.values(signal('pause')),
    tests: {
      ...forEach(notJobs, async (type, operation) => {
        const one = await operations.begin(operation, { act: 'refused' });
        await one.waits('Parked');
        await type(played(one));
        await one.waits('Paused');
        one.let('act', 'usual');
        await one.handle.signal('resume', { by: 'ann' });
        await endsByRetry(one);
      }),
      pullOnNodes: commandOnJob('pause'),
      rollOut: async (type) => {
        const rollOut = await begunRollOut();
        await type(trivial(rollOut));
        await rollOut.shows('Paused', 'PausedByOperator');
        rollOut.kubelet();
        expect(orders(rollOut)?.paused).toBeDefined();
        expect(rollOut.pods('new')).toBe(1);
        await rollOut.handle.terminate('the pause outlives this');
        await rollOut.tell();
        await rollOut.shows('Paused', 'PausedByOperator');
        await rollOut.handle.signal('resume', { by: 'ann' });
        await rolledOut(rollOut);
      },
    },
  },
  {
    lines: Object.values(signal('resume')),
    tests: {
      ...forEach(notJobs, async (type, operation) => {
        const one = await operations.begin(operation, { signal: 'pause' });
        await one.waits('Paused');
        expect(one.acts()).toBe(0);
        await type(played(one));
        await one.ended();
        // a swap writes once more: it empties the old container
        expect(one.acts()).toBe(operation === 'swapSidecar' ? 2 : 1);
      }),
      pullOnNodes: commandOnJob('resume'),
    },
  },
];

const aborts: readonly Row[] = [
  ...[
    Object.values(signal('abort')),
    ['temporal workflow cancel --workflow-id $id', 'tctl workflow cancel --workflow_id $id'],
  ].map(
    (lines, nth): Row => ({
      lines,
      tests: {
        ...forEach(notJobs, async (type, operation) => {
          const one = await operations.begin(operation, { act: 'refused' });
          await one.waits('Parked');
          await type(played(one));
          await one.ended();
        }),
        pullOnNodes: commandOnJob('abort'),
        rollOut: async (type) => {
          const rollOut = await begunRollOut();
          await type(trivial(rollOut));
          await waitFor('the order', () => orders(rollOut)?.aborted);
          rollOut.kubelet();
          const ends = nth === 1 ? 'CANCELLED' : 'FAILED';
          await rollOut.until('the end', async () => (await rollOut.handle.describe()).status.name === ends);
          expect(rollOut.pods('new')).toBe(1);
          await rollOut.tell('retry', { by: 'ann' });
          await rolledOut(rollOut);
        },
      },
    }),
  ),
  {
    lines: Object.values(signal('undo')),
    tests: {
      rollOut: async (type) => {
        const rollOut = await begunRollOut(2);
        await type(trivial(rollOut));
        await rolledOut(rollOut, 'old');
      },
    },
  },
];

/** The lines that send commands. */
export const commandRows = [...retries, ...skips, ...pauses, ...aborts];
