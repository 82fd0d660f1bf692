import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Client } from '@temporalio/client';
import { installation } from '../api/core/well-known.ts';
import { Leader, type Term } from '../kube/leader.ts';
import type { RoleProcess, StartedPart } from '../process/role-process.ts';
import { Watcher, type WatcherDependencies } from './watcher.ts';

/** Starts the watcher in this process. Temporal may be away: upkeep of fleets and holds work without it. */
export function startWatcher(
  { config, log, metrics, shutdown, kube }: RoleProcess,
  {
    client,
    ...given
  }: { readonly client: Client } & Pick<
    WatcherDependencies,
    'build' | 'prepareTemporal' | 'workFleets' | 'versions' | 'heartbeats' | 'claim'
  >,
): StartedPart {
  const { enabled, namespace, id } = config.leaderElection;
  const candidate = new Leader({
    client: kube,
    lease: { namespace, name: id },
    identity: `${hostname()}_${randomUUID()}`,
    yieldTo: [{ namespace, name: installation.foreignLease, owner: "OpenKruise's manager" }],
    times: config.leaderElection,
    log,
  });
  const leader = enabled ? candidate : { campaign: async () => alone };
  const watcher = new Watcher({ ...given, kube, client, leader, config, log, metrics });
  watcher.start();

  shutdown.add({ name: 'watcher', stop: () => watcher.stop() });
  shutdown.add({ name: 'leader', stop: () => candidate.stop() });
  shutdown.add({ name: 'Temporal client', stop: () => client.connection.close() });
  return {
    readiness: {
      caches: () => {
        if (watcher.unready !== undefined) throw new Error(watcher.unready);
        return watcher.caveat;
      },
    },
  };
}

/** The term of a watcher that runs without leader election. */
const alone: Term = { isLeading: () => true, lost: new AbortController().signal };
