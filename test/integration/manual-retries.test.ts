import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Client } from '@temporalio/client';
import type { RollOutOrders } from '../../api/fleet/roll-out-orders.ts';
import type { ActivityName } from '../../workflows/shared/results.ts';
import { commandLinesOf, filledIn, type Placeholders, runInShell } from '../support/command-lines.ts';
import { inTheMiddle } from '../support/in-the-middle.ts';
import type { OperationType } from '../support/played-operations.ts';
import { outcomeOf } from '../support/requests.ts';
import {
  type SteerableOperation,
  type SteerableOperations,
  startSteerableOperations,
} from '../support/steerable-operations.ts';
import { sendLikeTctl } from '../support/tctl.ts';
import { startTemporal, type TemporalServer } from '../support/temporal-server.ts';
import { type RollOuts, startRollOuts, type TrivialRollOut } from '../support/trivial-roll-outs.ts';
import { waitFor } from '../support/wait.ts';
import { useSharedWindlass } from './windlass.ts';

const page = new URL('../../docs/manual-retries.md', import.meta.url);

/** Types the line of the page for this workflow, with these values for its placeholders. Returns what is printed. */
type Typed = (
  workflow: { readonly client: Client; readonly workflowId: string },
  placeholders?: Placeholders,
) => Promise<string>;

/** What the page says about some lines, by what happens. */
interface Row {
  readonly lines: readonly string[];
  readonly tests: Readonly<Record<string, (type: Typed) => Promise<void>>>;
}

let operations: SteerableOperations;
let ofRollOuts: TemporalServer;
let rollOuts: RollOuts;
/** The address of the Temporal server of a client. */
const addresses = new Map<Client, string>();
const windlass = useSharedWindlass();

beforeAll(async () => {
  const starting = startSteerableOperations();
  ofRollOuts = await startTemporal([]);
  rollOuts = await startRollOuts({ temporalAddress: ofRollOuts.address });
  operations = await starting;
  addresses.set(rollOuts.client, ofRollOuts.address);
  addresses.set(operations.played.client, operations.played.address);
});

afterAll(async () => {
  await rollOuts?.stop();
  await Promise.all([operations?.stop(), ofRollOuts?.stop()]);
});

function typing(line: string): Typed {
  return async ({ client, workflowId }, placeholders = {}) => {
    const filled = filledIn(line, { why: 'by hand', name: 'ann', detail: 'none', ...placeholders });
    if (line.startsWith('tctl ')) return await sendLikeTctl(filled, workflowId, client);
    const address = addresses.get(client) ?? windlass().platform.temporalAddress;
    return await runInShell(filled, workflowId, address);
  };
}

const played = ({ workflowId }: SteerableOperation) => ({ client: operations.played.client, workflowId });
const trivial = ({ handle: { workflowId } }: TrivialRollOut) => ({ client: rollOuts.client, workflowId });

const orders = ({ uid }: TrivialRollOut): RollOutOrders | undefined => rollOuts.cluster.fleetOf(uid)?.orders;

/** Plays the kubelet until all pods are of this revision and the roll-out has ended. */
async function rolledOut(rollOut: TrivialRollOut, revision = 'new', pods = 6): Promise<void> {
  await rollOut.until(`${pods} pods to be ${revision}`, () => rollOut.pods(revision) === pods);
  await rollOut.until('the end', async () => (await rollOut.handle.describe()).status.name === 'COMPLETED');
}

/** A roll-out whose first pods are down. */
async function begunRollOut(maxUnavailable = 1): Promise<TrivialRollOut> {
  const rollOut = await rollOuts.begin({ maxUnavailable });
  await waitFor('the first pods', () => rollOut.pods('new') === maxUnavailable);
  return rollOut;
}

function forEach(types: readonly OperationType[], test: (type: Typed, operation: OperationType) => Promise<void>) {
  return Object.fromEntries(types.map((one) => [one, (type: Typed) => test(type, one)]));
}

const notJobs = ['restartContainers', 'refreshEnvironment', 'pullImages', 'terminateSidecars'] as const;

const signal = (name: string, input?: string) => ({
  temporal: `temporal workflow signal --workflow-id $id --name ${name}${input ? ` --input '${input}'` : ''}`,
  tctl: `tctl workflow signal --workflow_id $id --name ${name}${input ? ` --input '${input}'` : ''}`,
});

/** Waits until the command has been written to the job. */
async function steered(operation: SteerableOperation, command: string): Promise<void> {
  await waitFor(command, (see) => see(operation.inputsOf('steerPullJob')).some((input) => has(input, { command })));
  await operation.ended();
}

function has(input: unknown, part: object): boolean {
  try {
    expect(input).toMatchObject(part);
    return true;
  } catch {
    return false;
  }
}

function commandOnJob(name: string): (type: Typed) => Promise<void> {
  return async (type) => {
    const job = await operations.begin('pullOnNodes');
    await type(played(job));
    await steered(job, name);
  };
}

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
      'rollOut, after abort': async (type) => {
        const rollOut = await begunRollOut();
        await rollOut.handle.signal('abort', { by: 'ann' });
        await rollOut.shows('Aborted', 'Aborted');
        await type(trivial(rollOut));
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
        expect(windlass().node.stopsOf(pod)).toEqual(['app', 'proxy', 'app']);
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

/** Retries once per attempt until it has ended: an attempt that has begun before the last change may still be refused. */
async function endsByRetry(one: SteerableOperation): Promise<void> {
  let retriedAfter = -1;
  await waitFor(`${one.workflowId} to end`, async (see) => {
    const { status, searchAttributes: found } = await one.handle.describe();
    if (see(status.name) === 'COMPLETED') return true;
    const attempts = one.acts() + one.looks();
    if (found.WindlassReason?.[0] === 'Parked' && attempts !== retriedAfter) {
      retriedAfter = attempts;
      await one.handle.signal('retry', { by: 'ann' }).catch(() => undefined); // or it has ended just now
    }
    return false;
  });
}

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
        expect(one.acts()).toBe(1);
      }),
      pullOnNodes: commandOnJob('resume'),
      'rollOut, after abort': async (type) => {
        const rollOut = await begunRollOut();
        await rollOut.handle.signal('abort', { by: 'ann' });
        await rollOut.shows('Aborted', 'Aborted');
        await type(trivial(rollOut));
        await rolledOut(rollOut);
      },
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
          if (nth === 1) {
            await rollOut.until('the end', async () => (await rollOut.handle.describe()).status.name === 'COMPLETED');
          } else {
            await rollOut.shows('Aborted', 'Aborted');
          }
          rollOut.kubelet();
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

/** A new run is there, and ends like the one before. */
async function startsOverPlayed(type: Typed, operation: OperationType): Promise<void> {
  const one = await operations.begin(operation, operation === 'pullOnNodes' ? {} : { act: 'held' });
  await waitFor('the step', () => (operation === 'pullOnNodes' ? one.looks() : one.acts()) === 1);
  const { runId } = await one.handle.describe();
  const looks = one.looks();
  await type(played(one), { 'event ID': await completedTask(one.handle) });
  await waitFor('a new run', async () => (await one.handle.describe()).runId !== runId);
  one.let('act', 'usual');
  await waitFor('another look or step', () => one.looks() > looks || one.acts() > 1 || operation === 'rollOut');
  await one.ended();
}

async function completedTask(handle: SteerableOperation['handle']): Promise<string> {
  return await waitFor('a completed workflow task', async () => {
    const { events } = await handle.fetchHistory();
    return events?.find((event) => event.workflowTaskCompletedEventAttributes)?.eventId?.toString();
  });
}

async function startsOverTrivial(type: Typed): Promise<void> {
  const rollOut = await begunRollOut();
  const { runId } = await rollOut.handle.describe();
  await type(trivial(rollOut), { 'event ID': await completedTask(rollOut.handle) });
  expect((await rollOut.handle.describe()).runId).not.toBe(runId);
  await rolledOut(rollOut);
}

const continuesAfterReset = {
  'restartContainers: no container is stopped twice': async (type: Typed) => {
    const { request, pod, ready } = await inTheMiddle(windlass());
    const workflow = { client: windlass().client, workflowId: request.workflowId };
    await type(workflow, { 'event ID': await completedTask(request.operation) });
    ready();
    expect(outcomeOf(await request.ended())).toMatchObject({ type: 'Complete' });
    expect(windlass().node.stopsOf(pod)).toEqual(['app', 'proxy']);
  },
  rollOut: startsOverTrivial,
};

const startsOver = { ...continuesAfterReset, ...forEach([...notJobs, 'pullOnNodes'], startsOverPlayed) };

const ends: readonly Row[] = [
  {
    lines: [
      'temporal workflow terminate --workflow-id $id --reason "<why>"',
      'tctl workflow terminate --workflow_id $id --reason "<why>"',
    ],
    tests: {
      'restartContainers: the watcher starts it again': async (type) => {
        const { request, pod, ready } = await inTheMiddle(windlass());
        await type({ client: windlass().client, workflowId: request.workflowId });
        ready();
        expect(outcomeOf(await request.ended())).toMatchObject({ type: 'Complete' });
        expect(windlass().node.stopsOf(pod)).toEqual(['app', 'proxy']);
      },
      'rollOut: what the watcher starts continues': async (type) => {
        const rollOut = await begunRollOut();
        const first = await rollOut.handle.describe();
        await type(trivial(rollOut));
        expect((await rollOut.run(first.runId).describe()).status.name).toBe('TERMINATED');
        await rollOut.tell();
        await rolledOut(rollOut);
      },
    },
  },
  ...[
    'temporal workflow reset --workflow-id $id --type FirstWorkflowTask --reason "<why>"',
    'tctl workflow reset --workflow_id $id --reset_type FirstWorkflowTask --reason "<why>"',
    'temporal workflow reset --workflow-id $id --type LastWorkflowTask --reason "<why>"',
    'temporal workflow reset --workflow-id $id --event-id <event ID> --reason "<why>"',
  ].map(
    (line): Row => ({ lines: [line], tests: line.includes('FirstWorkflowTask') ? startsOver : continuesAfterReset }),
  ),
];

const looks: readonly Row[] = [
  {
    lines: ['temporal workflow describe --workflow-id $id', 'tctl workflow describe --workflow_id $id'],
    tests: {
      'shows pending activities': async (type) => {
        const one = await operations.begin('restartContainers', { act: 'held' });
        await one.pending();
        expect(await type(played(one))).toContain('node.v1.stopContainer');
        one.let('act', 'usual');
      },
    },
  },
  {
    lines: ['temporal workflow show --workflow-id $id', 'tctl workflow show --workflow_id $id'],
    tests: {
      'shows the history': async (type) => {
        const one = await operations.begin('pullImages');
        await one.ended();
        expect(await type(played(one))).toMatch(/WorkflowExecutionSignaled|signalName/);
      },
    },
  },
  {
    lines: ['temporal workflow stack --workflow-id $id', 'tctl workflow stack --workflow_id $id'],
    tests: {
      'shows where the code waits': async (type) => {
        const one = await operations.begin('restartContainers', { act: 'held' });
        await one.pending();
        const shown = await type(played(one));
        const { queryResult } = shown.startsWith('{') ? JSON.parse(shown) : { queryResult: undefined };
        const data = queryResult?.payloads?.[0]?.data;
        expect(data ? Buffer.from(data, 'base64').toString() : shown).toContain('at ');
        one.let('act', 'usual');
      },
    },
  },
  {
    lines: ['temporal workflow list --query \'ExecutionStatus="Running"\'', 'tctl workflow list --open'],
    tests: {
      'lists what runs': async (type) => {
        const one = await operations.begin('pullImages', { act: 'held' });
        await one.pending();
        await waitFor('the list', async (see) => see(await type(played(one))).includes(one.workflowId));
        one.let('act', 'usual');
      },
    },
  },
];

const fails: Readonly<Record<string, RegExp>> = { fail: /by hand/, complete: /Cannot use the result of activity/ };

const activities: readonly Row[] = [
  {
    lines: ['temporal activity pause --workflow-id $id --activity-id <activity ID>'],
    tests: forEach(['restartContainers', 'pullImages'], async (type, operation) => {
      const one = await operations.begin(operation, { act: 'failing' });
      const { id } = await one.pending();
      await type(played(one), { 'activity ID': id });
      await one.pending(({ isPaused }) => isPaused);
      one.let('act', 'usual');
      const line = 'temporal activity unpause --workflow-id $id --activity-id <activity ID>';
      await typing(line)(played(one), { 'activity ID': id });
      await one.ended();
    }),
  },
  ...['unpause', 'reset'].map(
    (name): Row => ({
      lines: [`temporal activity ${name} --workflow-id $id --activity-id <activity ID>`],
      tests: forEach(['restartContainers', 'pullImages'], async (type, operation) => {
        const one = await operations.begin(operation, { act: 'failing' });
        const { id } = await one.pending(({ attempt }) => attempt > 1);
        const line = 'temporal activity pause --workflow-id $id --activity-id <activity ID>';
        await typing(line)(played(one), { 'activity ID': id });
        await one.pending(({ isPaused }) => isPaused);
        one.let('act', 'usual');
        await type(played(one), { 'activity ID': id });
        await one.ended();
        const attempt = await lastAttemptOf(one, id);
        if (name === 'reset') expect(attempt).toBe(1);
        else expect(attempt).toBeGreaterThan(1);
      }),
    }),
  ),
  ...Object.entries(fails).map(
    ([name, text]): Row => ({
      lines: handLines(name),
      tests: {
        ...forEach(notJobs, async (type, operation) => {
          const one = await operations.begin(operation, { act: 'held' });
          const { id } = await one.pending();
          const { runId } = await one.handle.describe();
          // any other result of this step is used, whatever it is
          const isUsed = operation === 'terminateSidecars' && name === 'complete';
          await type(played(one), { 'activity ID': id, 'run ID': runId });
          if (!isUsed) expect(await one.waits('Parked')).toMatch(text);
          one.let('act', 'usual');
          await endsByRetry(one);
        }),
        'rollOut: continues': async (type) => {
          const one = await operations.begin('rollOut', { act: 'held' });
          const { id } = await one.pending();
          const { runId } = await one.handle.describe();
          await type(played(one), { 'activity ID': id, 'run ID': runId });
          one.let('act', 'usual');
          await one.ended();
          expect(one.looks()).toBeGreaterThan(1);
        },
      },
    }),
  ),
];

/** The number of the attempt in which the activity ended. */
async function lastAttemptOf({ handle }: SteerableOperation, activityId: string): Promise<number | undefined> {
  const { events = [] } = await handle.fetchHistory();
  const scheduled = events?.find((event) => event.activityTaskScheduledEventAttributes?.activityId === activityId);
  const started = events?.flatMap(({ activityTaskStartedEventAttributes: found }) =>
    found && String(found.scheduledEventId) === String(scheduled?.eventId) ? [found.attempt ?? 0] : [],
  );
  return started?.at(-1);
}

function handLines(name: string): readonly string[] {
  const [own, older] =
    name === 'fail' ? ['--reason "<why>"', '--reason "<why>" --detail "<detail>"'] : ['--result null', '--result null'];
  return [
    `temporal activity ${name} --workflow-id $id --activity-id <activity ID> ${own}`,
    `tctl activity ${name} --workflow_id $id --run_id <run ID> --activity_id <activity ID> ${older} --identity <name>`,
  ];
}

/** Two operations that only this query finds, and what becomes of them. */
function batch(
  about: 'namespace' | 'node',
  begin: { readonly act?: 'held' | 'refused'; readonly look?: 'held' },
  then: (one: SteerableOperation) => Promise<void>,
): (type: Typed) => Promise<void> {
  return async (type) => {
    const value = `many-${crypto.randomUUID()}`;
    const all = await Promise.all(
      (['restartContainers', 'pullImages'] as const).map((one) =>
        operations.begin(one, { ...begin, about: { [about]: value } }),
      ),
    );
    for (const one of all) {
      if (begin.act === 'refused') await one.waits('Parked');
      else if (begin.act === 'held') await one.pending();
    }
    const parked = begin.act === 'refused' ? ' AND WindlassReason="Parked"' : '';
    const key = about === 'node' ? 'WindlassNode' : 'WindlassNamespace';
    const query = `${key}="${value}"${parked} AND ExecutionStatus="Running"`;
    const { client } = operations.played;
    await waitFor('all to be found', async () => (await client.workflow.count(query)).count === all.length);
    const [first] = all;
    if (!first) throw new Error('there are none');
    // one batch at a time
    await waitFor('the batch', async () => await type(played(first), { [about]: value }));
    await Promise.all(all.map(then));
  };
}

const many: readonly Row[] = [
  {
    lines: [
      'temporal workflow list --query \'WindlassKind="NodeImage" AND WindlassReason="Paused"\'',
      'tctl workflow list --query \'WindlassKind="NodeImage" AND WindlassReason="Paused"\'',
    ],
    tests: {
      'lists what waits so': async (type) => {
        const one = await operations.begin('pullImages', { signal: 'pause', about: { kind: 'NodeImage' } });
        await waitFor('the list', async (see) => see(await type(played(one))).includes(one.workflowId));
        await one.handle.signal('abort', { by: 'ann' });
      },
    },
  },
  {
    lines: [
      'temporal workflow count --query \'WindlassNamespace="<namespace>" AND WindlassName="<name>" AND WindlassPhase="<phase>"\'',
    ],
    tests: {
      'counts what is found': async (type) => {
        const about = { namespace: 'counted', name: 'web', phase: 'counted' };
        const one = await operations.begin('pullImages', { act: 'held', about });
        await waitFor('the count', async (see) => /: 1\b/.test(see(await type(played(one), about))));
        one.let('act', 'usual');
      },
    },
  },
  {
    lines: [
      'temporal workflow signal --query \'WindlassNode="<node>" AND WindlassReason="Parked" AND ExecutionStatus="Running"\' --name retry --reason "<why>" --yes',
    ],
    tests: {
      'all try again': batch('node', { act: 'refused' }, async (one) => {
        await waitFor('the signal', async () => await signalled(one, 'retry'));
        one.let('act', 'usual');
        await endsByRetry(one);
      }),
    },
  },
  {
    lines: [
      'temporal workflow signal --query \'WindlassNamespace="<namespace>" AND ExecutionStatus="Running"\' --name pause --reason "<why>" --yes',
    ],
    tests: {
      'all pause': batch('namespace', { look: 'held' }, async (one) => {
        await waitFor('the signal', async () => await signalled(one, 'pause'));
        one.let('look', 'usual');
        await one.waits('Paused');
        await one.handle.signal('abort', { by: 'ann' });
        await one.ended();
      }),
    },
  },
  {
    lines: [
      'temporal workflow cancel --query \'WindlassNamespace="<namespace>" AND ExecutionStatus="Running"\' --reason "<why>" --yes',
    ],
    tests: { 'all are aborted': batch('namespace', { act: 'refused' }, (one) => one.ended()) },
  },
  {
    lines: [
      'temporal workflow terminate --query \'WindlassNamespace="<namespace>" AND ExecutionStatus="Running"\' --reason "<why>" --yes',
    ],
    tests: {
      'all are terminated': batch('namespace', { act: 'held' }, async (one) => {
        await waitFor('the end', async () => (await one.handle.describe()).status.name === 'TERMINATED');
        one.let('act', 'usual');
      }),
    },
  },
  {
    lines: [
      'temporal workflow reset --query \'WindlassNamespace="<namespace>" AND ExecutionStatus="Running"\' --type FirstWorkflowTask --reason "<why>" --yes',
    ],
    tests: {
      'all start over': batch('namespace', { act: 'held' }, async (one) => {
        await waitFor('another step', () => one.acts() > 1);
        one.let('act', 'usual');
        await one.ended();
      }),
    },
  },
  {
    lines: ['temporal batch list', 'temporal batch describe --job-id <job ID>'],
    tests: {
      'shows the batch': async (type) => {
        const { client } = operations.played;
        const { operationInfo } = await waitFor('a batch', async () => {
          await client.workflowService
            .startBatchOperation({
              namespace: 'default',
              jobId: crypto.randomUUID(),
              visibilityQuery: 'WindlassName="nobody"',
              reason: 'by hand',
              signalOperation: { signal: 'retry' },
            })
            .catch(() => undefined); // one at a time
          const listed = await client.workflowService.listBatchOperations({ namespace: 'default' });
          return (listed.operationInfo?.length ?? 0) > 0 && listed;
        });
        const jobId = operationInfo?.[0]?.jobId ?? '';
        const shown = await type({ client, workflowId: '' }, { 'job ID': jobId });
        expect(/^ *State +(Running|Completed)/.test(shown) || shown.includes(jobId)).toBe(true);
      },
    },
  },
];

async function signalled({ handle }: SteerableOperation, name: string): Promise<boolean> {
  const { events } = await handle.fetchHistory();
  return events?.some((event) => event.workflowExecutionSignaledEventAttributes?.signalName === name) ?? false;
}

const rows = [...retries, ...skips, ...pauses, ...aborts, ...ends, ...looks, ...activities, ...many];

describe('the page of manual retries', () => {
  it('has a test for each command line', () => {
    expect(rows.flatMap(({ lines }) => lines).toSorted()).toEqual(commandLinesOf(page).toSorted());
  });

  for (const { lines, tests } of rows) {
    for (const line of lines) {
      // tctl sends what temporal does, so what each type does then need not be tested twice
      const all = Object.entries(tests);
      for (const [what, test] of line.startsWith('tctl ') ? all.slice(0, 1) : all) {
        it.concurrent(`${line}: ${what}`, async () => await test(typing(line)));
      }
    }
  }
});
