import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { type NativeConnection, Worker } from '@temporalio/worker';
import { currentAttempt, currentRunId } from '../activities/fleet/attempt.ts';
import { awaitHandOver } from '../activities/fleet/await-hand-over.ts';
import { carryOutBatchActivity, nextActivity } from '../activities/fleet/batches.ts';
import { applyCommandActivity } from '../activities/fleet/commands.ts';
import type { EarlierFleetActivities, FleetActivities } from '../activities/fleet/contract.ts';
import { recordOrdersActivity } from '../activities/fleet/earlier-orders.ts';
import { awaitNodesActivity, nextNodesActivity } from '../activities/fleet/nodes.ts';
import { awaitSwapActivity, lookAtSwapActivity, swapStepActivity } from '../activities/fleet/swaps.ts';
import type { Resource } from '../api/core/meta.ts';
import { queues } from '../api/engine/operations.ts';
import type { TemporalPlace } from '../api/engine/temporal-place.ts';
import { fleetResource } from '../api/fleet/fleet-kinds.ts';
import { backOff } from '../kube/back-off.ts';
import { mostInBatch } from '../plan/permits/in-flight.ts';

import { observeActivities } from '../process/activity-interceptor.ts';
import type { Logger } from '../process/log.ts';
import type { Metrics } from '../process/metrics.ts';
import { dataConverterFor } from '../process/payload-limit.ts';
import { workerConnection } from '../process/temporal.ts';
import type { FleetWork, WorkFleets } from '../watcher/fleet/work.ts';

export interface FleetWorkerDependencies {
  readonly config: TemporalPlace;
  /** Sends the heartbeats by which permits live. */
  readonly client: Client;
  readonly log: Logger;
  readonly metrics: Metrics;
  /** How the API server addresses a kind; those that are rolled out, unless a test has others. */
  readonly resourceOf?: (kind: string) => Resource | undefined;
}

/** The pauses before a worker that has failed is recreated. */
const restartMs = { first: 1_000, most: 30_000 } as const;

/**
 * The worker of queue `fleet`, in the process of the watcher: it polls while that leads, and is made again as soon as
 * Temporal can be reached. `stop` resolves when no activity runs any more.
 */
export function fleetWorker(dependencies: FleetWorkerDependencies): {
  readonly work: WorkFleets;
  readonly stop: () => Promise<void>;
} {
  const end = new AbortController();
  const terms = new Set<Promise<void>>();
  return {
    work(work) {
      const term = workUntil(AbortSignal.any([work.ended, end.signal]), work, dependencies);
      terms.add(term);
      void term.finally(() => terms.delete(term));
    },
    async stop() {
      end.abort(new Error('the fleet worker is stopped'));
      await Promise.all(terms);
    },
  };
}

async function workUntil(ended: AbortSignal, work: FleetWork, dependencies: FleetWorkerDependencies): Promise<void> {
  const { config, log } = dependencies;
  for (let restarts = 0; !ended.aborted; restarts += 1) {
    let connection: NativeConnection | undefined;
    try {
      connection = await workerConnection({ config, log, signal: ended });
      const workers = await createFleetWorkers(connection, work, dependencies);
      if (ended.aborted) return;
      log.info({ queues: [queues.fleet, queues.fleetCommands] }, 'Polling');
      await runTogether(workers, ended);
    } catch (error) {
      if (ended.aborted) return;
      // Without it nothing new is disrupted; the watcher keeps everything up meanwhile.
      const waitMs = backOff(restartMs, restarts);
      log.warn({ err: error, retryInMs: waitMs }, 'The fleet worker has failed');
      await delay(waitMs, undefined, { signal: ended }).catch(() => undefined);
    } finally {
      await connection?.close().catch(() => undefined);
    }
  }
}

/** Runs workers until the term ends, or one of them does: then all do. */
async function runTogether(workers: readonly Worker[], ended: AbortSignal): Promise<void> {
  const shutdown = () => {
    for (const worker of workers) if (worker.getState() === 'RUNNING') worker.shutdown();
  };
  ended.addEventListener('abort', shutdown, { once: true });
  const runs = workers.map((worker) => worker.run().finally(shutdown));
  try {
    await Promise.all(runs);
  } finally {
    await Promise.allSettled(runs);
    ended.removeEventListener('abort', shutdown);
  }
}

/** What operations of this release ask of the leading watcher, and those of release 0.1.0. */
export function fleetActivities(
  { permitHolder, commandHolder, nodeHolder, swapHolder, kube }: Omit<FleetWork, 'ended'>,
  { client, resourceOf = fleetResource }: Pick<FleetWorkerDependencies, 'client' | 'resourceOf'>,
): FleetActivities & EarlierFleetActivities {
  const fleets = { queueOf: permitHolder, attempt: () => currentAttempt(client), runId: currentRunId };
  const nodes = { ...fleets, queueOf: nodeHolder };
  const swaps = { ...fleets, queueOf: swapHolder };
  const recordOrders = recordOrdersActivity({ kube, resourceOf });
  return {
    'fleet.v1.next': nextActivity(fleets),
    'fleet.v1.carryOutBatch': carryOutBatchActivity(fleets),
    'fleet.v1.applyCommand': applyCommandActivity({
      ...{ client, resourceOf, holderOf: commandHolder },
      nextOf: (kind, uid) => permitHolder(kind)?.next(uid, { most: mostInBatch }),
    }),
    'fleet.v1.nextNodes': nextNodesActivity(nodes),
    'fleet.v1.awaitNodes': awaitNodesActivity(nodes),
    'fleet.v1.lookAtSwap': lookAtSwapActivity(swaps),
    'fleet.v1.swapStep': swapStepActivity(swaps),
    'fleet.v1.awaitSwap': awaitSwapActivity(swaps),
    ...{ advance: awaitHandOver, recordOrders },
  };
}

async function createFleetWorkers(
  connection: NativeConnection,
  work: FleetWork,
  dependencies: FleetWorkerDependencies,
): Promise<readonly Worker[]> {
  const { config, log, metrics } = dependencies;
  const shared = {
    connection,
    namespace: config.namespace,
    dataConverter: dataConverterFor({ log, metrics }),
    activities: { ...fleetActivities(work, dependencies) },
    interceptors: { activity: [observeActivities({ log, metrics })] },
  };
  const ofBatches = await Worker.create({
    ...shared,
    taskQueue: queues.fleet,
    activityTaskPollerBehavior: { type: 'simple-maximum', maximum: 4 },
    // some for each roll-out and pull job that is under way, and each waits for hours
    maxConcurrentActivityTaskExecutions: 10_000,
    // what Temporal says to a heartbeat has to be heard soon: it may be that the permit was taken back
    maxHeartbeatThrottleInterval: '1s',
    defaultHeartbeatThrottleInterval: '1s',
    // permits are given back at once: the next leader gets them
    shutdownGraceTime: 0,
    shutdownForceTime: '5s',
  });
  const ofCommands = await Worker.create({
    ...shared,
    taskQueue: queues.fleetCommands,
    activityTaskPollerBehavior: { type: 'simple-maximum', maximum: 2 },
    maxConcurrentActivityTaskExecutions: 200,
    ...{ shutdownGraceTime: 0, shutdownForceTime: '5s' },
  });
  return [ofBatches, ofCommands];
}
