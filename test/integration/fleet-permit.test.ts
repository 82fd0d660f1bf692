import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { Client, type Connection } from '@temporalio/client';
import { type NativeConnection, Worker } from '@temporalio/worker';
import { pino } from 'pino';
import { advanceActivity } from '../../activities/fleet/advance.ts';
import { currentAttempt } from '../../activities/fleet/attempt.ts';
import { dataConverter } from '../../process/payload-limit.ts';
import { FleetQueue } from '../../watcher/fleet/queue.ts';
import { describeAlone, describeProof } from '../support/groups.ts';
import { testPlatform } from '../support/platform.ts';
import { prepareRoles } from '../support/roles.ts';
import { connectToTemporal, connectWorkersToTemporal } from '../support/temporal-connection.ts';
import { TrivialCluster, type TrivialFleet } from '../support/trivial-fleet.ts';
import type { rollOutTrivial } from '../support/trivial-roll-out.ts';
import { waitFor } from '../support/wait.ts';

const platform = testPlatform();
const taskQueue = `fleet-${randomUUID()}`;
const cluster = new TrivialCluster();
const queue = new FleetQueue({
  fleet: cluster.fleet(),
  term: { isLeading: () => true, lost: new AbortController().signal },
  log: pino({ level: 'silent' }),
  blockedAfterMs: 600_000,
  concurrency: 4,
  parallelSteps: 4,
  nowMs: () => Date.now(),
});
cluster.onShown = (uid) => queue.add(uid, 'changed');

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
    workflowsPath: fileURLToPath(new URL('../support/trivial-roll-out.ts', import.meta.url)),
    activities: {
      advanceTrivial: advanceActivity({
        queueOf: () => queue,
        attempt: () => currentAttempt(client),
      }),
    },
    maxHeartbeatThrottleInterval: '1s',
  });
  working = worker.run();
});

afterAll(async () => {
  worker.shutdown();
  await working;
  await queue.stop();
  await clientConnection.close();
  await connection.close();
});

/** A fleet whose pods are all ready and of the revision "old", while "new" is wanted; and its roll-out. */
async function rollOut(overrides: Partial<TrivialFleet>, batches: readonly number[]) {
  const uid = randomUUID();
  const fleet = { uid, replicas: 6, revision: 'old', maxUnavailable: 2, minReadyMs: 0, ...overrides };
  cluster.put(fleet);
  await waitFor('the pods to be made', () => cluster.pods(uid).length === fleet.replicas);
  const unready = () => cluster.pods(uid).filter(({ readyAtMs }) => readyAtMs === undefined);
  const kubelet = () => {
    for (const { name } of unready()) cluster.makeReady(uid, name, Date.now());
  };
  kubelet();
  cluster.put({ ...fleet, revision: 'new' });
  const handle = await client.workflow.start<typeof rollOutTrivial>('rollOutTrivial', {
    taskQueue,
    workflowId: `roll-out/${uid}`,
    args: [{ namespace: 'shop', name: 'web', uid }, 'new', batches],
  });
  const ofNew = () => cluster.pods(uid).filter(({ revision }) => revision === 'new').length;
  return { uid, fleet, handle, kubelet, unready, ofNew };
}

describeAlone('a roll-out by permits', () => {
  it('goes batch by batch within the budget, and its history reads like a log', async () => {
    const { uid, handle, kubelet, unready } = await rollOut({ replicas: 6, maxUnavailable: 2 }, [1, 4, 6]);
    const down: number[] = [];
    while (cluster.pods(uid).some(({ revision }) => revision === 'old') || unready().length > 0) {
      await waitFor('pods to be restarted', () => unready().length > 0);
      down.push(unready().length);
      kubelet();
    }
    await handle.result();
    expect(Math.max(...down)).toBeLessThanOrEqual(2);
    expect(await handle.query('verdicts')).toMatchObject([
      { kind: 'batchDone', summary: '1 of 6 pods are of revision new' },
      { kind: 'batchDone', summary: '4 of 6 pods are of revision new' },
      { kind: 'allDone', summary: '6 of 6 pods are of revision new' },
    ]);
    const { events } = await handle.fetchHistory();
    expect(events?.length).toBeLessThan(40);
  });

  it('stops disrupting when it is paused, and goes on when it is resumed', async () => {
    const { handle, kubelet, unready, ofNew, uid } = await rollOut({ maxUnavailable: 1 }, [7]);
    await waitFor('the first restart', () => unready().length === 1);
    await handle.signal('pause');
    await waitFor('the permit to be taken back', async (see) => {
      const { events } = await handle.fetchHistory();
      return see(events?.map(({ eventType }) => eventType) ?? []).includes(16 /* ActivityTaskCanceled */);
    });
    kubelet();
    cluster.put({ uid, replicas: 7, revision: 'new', maxUnavailable: 1, minReadyMs: 0 });
    await waitFor('upkeep to go on', () => cluster.pods(uid).length === 7);
    kubelet();
    expect(ofNew()).toBe(2); // the one that was restarted, and the one that upkeep created

    await handle.signal('resume');
    await waitFor('the roll-out to end', () => {
      kubelet();
      return ofNew() === 7;
    });
    kubelet();
    await handle.result();
  });
});

describeProof('slow', 'a roll-out by permits', () => {
  it('disrupts nothing new while Temporal is away, keeps up its fleet, and goes on afterwards', async () => {
    const { handle, kubelet, unready, ofNew, uid } = await rollOut({ maxUnavailable: 1 }, [7]);
    await waitFor('the first restart', () => unready().length === 1);
    await platform.kill('temporal');
    try {
      const other = randomUUID();
      cluster.put({ uid: other, replicas: 2, revision: 'new', maxUnavailable: 1, minReadyMs: 0 });
      await waitFor('upkeep of another fleet', () => cluster.pods(other).length === 2);
      // The permit is valid until Temporal has surely taken it back, and not longer.
      const outlived = Date.now() + 4_500;
      await waitFor('the permit to run out', () => Date.now() > outlived);
      const before = ofNew();
      kubelet();
      cluster.put({ uid, replicas: 7, revision: 'new', maxUnavailable: 1, minReadyMs: 0 });
      await waitFor('upkeep of this fleet', () => cluster.pods(uid).length === 7);
      kubelet();
      queue.add(uid, 'fullPass');
      expect(ofNew()).toBe(before + 1);
    } finally {
      await platform.start('temporal');
    }
    await waitFor('the roll-out to end', () => {
      kubelet();
      return ofNew() === 7;
    });
    kubelet();
    await handle.result();
  });
});
