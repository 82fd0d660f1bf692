import type { RoleProcess, StartedPart } from '../process/role-process.ts';
import { registerSearchAttributes, temporalClient } from '../process/temporal.ts';
import { startWatcher } from '../watcher/start-watcher.ts';
import { claimNamespace } from './cluster-claim.ts';
import { fleetWorker } from './fleet-worker.ts';
import { listHeartbeats, workerVersions } from './worker-versions.ts';
import { workflowBuildId } from './workflow-bundle.ts';

/** Starts the watcher in this process, and the worker of queue `fleet` for the terms in which it leads. */
export async function startWatcherPart(process: RoleProcess): Promise<StartedPart> {
  const { config, log, metrics, shutdown, kube } = process;
  const temporal = { config: config.temporal, log };
  const client = await temporalClient({ ...temporal, metrics });
  const fleets = fleetWorker({ ...temporal, client, metrics });
  shutdown.add({ name: 'fleet worker', stop: fleets.stop });
  return startWatcher(process, {
    client,
    build: await workflowBuildId(),
    versions: workerVersions(client),
    heartbeats: listHeartbeats(client),
    claim: () => claimNamespace({ client, kube, log }),
    prepareTemporal: (signal) => registerSearchAttributes({ ...temporal, signal, client }),
    workFleets: fleets.work,
  });
}
