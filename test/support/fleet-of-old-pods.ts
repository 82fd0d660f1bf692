import { TrivialCluster, type TrivialFleet } from './trivial-fleet.ts';
import { trivialQueue } from './trivial-queue.ts';

/**
 * A fleet whose ready pods are of the revision `old`, while it asks for another one, and the queue of one term. `pass` lets
 * everything happen that needs no more time.
 */
export async function fleetWithOldPods(fleet: TrivialFleet, pass: () => Promise<void>) {
  const cluster = new TrivialCluster();
  const newTerm = () => trivialQueue(cluster);
  const queue = newTerm();
  cluster.put({ ...fleet, revision: 'old' });
  await pass();
  for (const { name } of cluster.pods(fleet.uid)) cluster.makeReady(fleet.uid, name, Date.now() - 1e6);
  cluster.put(fleet);
  await pass();
  cluster.steps.length = 0;
  return { cluster, fleet, queue, newTerm };
}
