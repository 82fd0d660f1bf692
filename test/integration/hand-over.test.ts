import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { Client } from '@temporalio/client';
import { expectStops } from '../support/expect-stops.ts';
import { newGate } from '../support/gate.ts';
import { describeAlone } from '../support/groups.ts';
import { inTheMiddle } from '../support/in-the-middle.ts';
import { outcomeOf, type TestRequest } from '../support/requests.ts';
import { startTemporal, type TemporalServer } from '../support/temporal-server.ts';
import { type RollOuts, startRollOuts } from '../support/trivial-roll-outs.ts';
import { waitFor } from '../support/wait.ts';
import { startWindlass, type Windlass } from '../support/windlass.ts';

/** A history counts as full so early that a single operation continues as new several times. */
const fullEvents = 30;

let temporal: TemporalServer;

beforeAll(async () => {
  temporal = await startTemporal([`limit.historyCount.suggestContinueAsNew=${fullEvents}`]);
});

afterAll(async () => {
  await temporal?.stop();
});

/** The lengths of the histories of all runs of this operation. */
async function runLengths(client: Client, workflowId: string): Promise<readonly number[]> {
  const lengths: number[] = [];
  let runId: string | undefined;
  for (;;) {
    const handle = client.workflow.getHandle(workflowId, runId);
    const { events = [] } = await handle.fetchHistory();
    lengths.push(events?.length ?? 0);
    const before = events?.[0]?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId;
    if (!before) return lengths;
    runId = before;
  }
}

/** Waits until the operation is in another run than the one it was in. */
async function nextRun(client: Client, workflowId: string, before: number): Promise<void> {
  await waitFor('the next run', async (see) => see(await runLengths(client, workflowId)).length > before);
}

describeAlone('a roll-out whose history is full', () => {
  let rollOuts: RollOuts;

  beforeAll(async () => {
    rollOuts = await startRollOuts({ temporalAddress: temporal.address });
  });

  afterAll(async () => {
    await rollOuts?.stop();
  });

  it.concurrent('continues as new, and keeps the budget', async () => {
    const rollOut = await rollOuts.begin({ replicas: 120, maxUnavailable: 12 });
    let most = 0;
    await rollOut.until('all pods to be new', () => {
      most = Math.max(most, rollOut.unready().length);
      return rollOut.pods('new') === 120;
    });
    rollOut.kubelet();
    await rollOut.shows('Completed', 'RolledOut');
    expect(most).toBeLessThanOrEqual(12);
    const lengths = await runLengths(rollOuts.client, rollOut.handle.workflowId);
    expect(lengths.length).toBeGreaterThan(1);
  });

  it.concurrent('receives each command once, in whichever run, and keeps the orders', async () => {
    const rollOut = await rollOuts.begin({ maxUnavailable: 1 });
    for (let round = 1; round <= 12; round++) {
      await rollOut.handle.signal('pause', { by: `ann ${round}` });
      await rollOut.handle.signal('resume', { by: `bob ${round}` });
    }
    await rollOut.handle.signal('pause', { by: 'the last' });
    await rollOut.shows('Paused', 'PausedByOperator');
    rollOut.kubelet();
    const changed = rollOut.pods('new');
    await nextRun(rollOuts.client, rollOut.handle.workflowId, 1);
    await waitFor('each command to be told', (see) => new Set(see(rollOuts.eventsOf(rollOut.uid))).size === 25);
    expect(rollOuts.eventsOf(rollOut.uid)).toHaveLength(25);

    // a look that finds no change is no permit
    await rollOut.tell();
    await rollOut.shows('Paused', 'PausedByOperator');
    expect(rollOut.pods('new')).toBe(changed);
    await rollOut.handle.signal('undo', { by: 'ann' });
    await rollOut.until('all pods to be old', () => rollOut.pods('old') === 6);
    rollOut.kubelet();
    await rollOut.shows('Completed', 'RolledBack');
  });
});

describeAlone('a request whose history is full', () => {
  let windlass: Windlass;

  beforeAll(async () => {
    windlass = await startWindlass({ temporalAddress: temporal.address });
  });

  afterAll(async () => {
    await windlass?.stop();
  });

  it.concurrent('continues as new, and stops each container once', async () => {
    const names = ['a', 'b', 'c', 'd', 'e', 'f'];
    const pod = await windlass.runPod(names);
    const gates = names.map((name) => {
      const gate = newGate();
      pod.script(name, { readyTakes: gate.opened });
      return gate;
    });
    const request = await windlass.request({ pod, containers: names, strategy: { orderedRecreate: true } });
    for (const [index, name] of names.entries()) {
      await request.until(`waiting for ${name}`, ({ waitingFor }) => {
        return waitingFor?.reason === 'ContainerNotReady' && waitingFor.blockedBy.join() === `container/${name}`;
      });
      // makes the history grow while nothing else happens
      if (index % 2 === 1) await fill(request);
      gates[index]?.open();
    }
    expect(outcomeOf(await request.ended())).toMatchObject({ type: 'Complete', status: 'True' });
    expectStops(windlass.node.stopsOf(pod), names);
    expect(names.map((name) => pod.restartsOf(name))).toEqual(names.map(() => 1));
  });

  /** Sends commands until the history is full and the next run has started. */
  async function fill(request: TestRequest): Promise<void> {
    const before = (await runLengths(windlass.client, request.workflowId)).length;
    for (let round = 0; round < 6; round++) {
      await request.operation.signal('pause', { by: 'ann' });
      await request.operation.signal('resume', { by: 'ann' });
    }
    await nextRun(windlass.client, request.workflowId, before);
  }

  it.concurrent('keeps a pause, and obeys an abort that comes after many commands', async () => {
    const { request, pod, ready } = await inTheMiddle(windlass);
    await fill(request);
    await request.operation.signal('pause', { by: 'ann' });
    ready();
    await request.untilContainer('app', 'Succeeded');
    await request.waitsFor('Paused');
    expectStops(windlass.node.stopsOf(pod), ['app']);
    await request.operation.signal('abort', { by: 'ann' });
    expect(outcomeOf(await request.ended())).toMatchObject({ type: 'Failed', status: 'True', reason: 'Aborted' });
    expectStops(windlass.node.stopsOf(pod), ['app']);
  });
});
