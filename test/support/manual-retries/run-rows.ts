import { expect } from '@jest/globals';
import { expectStops } from '../expect-stops.ts';
import { inTheMiddle } from '../in-the-middle.ts';
import type { OperationType } from '../played-operations.ts';
import { outcomeOf } from '../requests.ts';
import type { SteerableOperation } from '../steerable-operations.ts';
import { waitFor } from '../wait.ts';
import {
  begunRollOut,
  endsByRetry,
  forEach,
  notJobs,
  operations,
  played,
  type Row,
  rolledOut,
  type Typed,
  trivial,
  typing,
  windlass,
} from './operations.ts';

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
    expectStops(windlass().node.stopsOf(pod), ['app', 'proxy']);
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
        expectStops(windlass().node.stopsOf(pod), ['app', 'proxy']);
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
  {
    lines: [
      'temporal workflow list --query \'ExecutionStatus="Failed"\'',
      'tctl workflow list --query \'ExecutionStatus="Failed"\'',
    ],
    tests: {
      'lists what has failed': async (type) => {
        const one = await operations.begin('terminateSidecars', { act: 'refused' });
        await one.waits('Parked');
        await one.handle.signal('abort', { by: 'ann' });
        await one.ended();
        await waitFor('the list', async (see) => see(await type(played(one))).includes(one.workflowId));
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
    lines: ['temporal workflow list --query \'WindlassCause="roll-out/<namespace>/<name>/<uid>"\''],
    tests: {
      'lists what the roll-out has caused, and nothing else': async (type) => {
        const uid = crypto.randomUUID();
        const [caused, other] = await Promise.all([
          operations.begin('pullImages', { signal: 'pause', about: { cause: `roll-out/shop/web/${uid}` } }),
          operations.begin('pullImages', {
            signal: 'pause',
            about: { cause: `roll-out/shop/web/${crypto.randomUUID()}` },
          }),
        ]);
        const list = await waitFor('the list', async (see) => {
          const text = see(await type(played(caused), { namespace: 'shop', name: 'web', uid }));
          return text.includes(caused.workflowId) && text;
        });
        expect(list).not.toContain(other.workflowId);
        for (const one of [caused, other]) await one.handle.signal('abort', { by: 'ann' });
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

/** The lines about runs, activities, and many operations. */
export const runRows = [...ends, ...looks, ...activities, ...many];
