import { pino } from 'pino';
import { FleetQueue, type FleetQueueOptions } from '../../watcher/fleet/queue.ts';
import type { TrivialCluster, TrivialStep, TrivialWorld } from './trivial-fleet.ts';

/** A queue that works on these fleets, and hears of what their cache shows; for ever, unless `term` ends. */
export function trivialQueue(
  cluster: TrivialCluster,
  options: Partial<FleetQueueOptions<TrivialWorld, TrivialStep>> = {},
): FleetQueue<TrivialWorld, TrivialStep> {
  const queue = new FleetQueue({
    ...{ fleet: cluster.fleet(), log: pino({ level: 'silent' }), nowMs: () => Date.now() },
    term: { isLeading: () => true, lost: new AbortController().signal },
    ...{ concurrency: 4, parallelSteps: 4 },
    ...options,
  });
  cluster.onShown = (changed) => queue.add(changed, 'changed');
  return queue;
}
