import { beginProcess, serveParts } from '../process/role-process.ts';
import { installTemporalRuntime, registerSearchAttributes, temporalClient } from '../process/temporal.ts';
import { claimNamespace } from '../workers/cluster-claim.ts';
import { fleetWorker } from '../workers/fleet-worker.ts';
import { listHeartbeats, workerVersions } from '../workers/worker-versions.ts';
import { workflowBuildId } from '../workers/workflow-bundle.ts';
import { startWatcher } from './start-watcher.ts';

// The watcher: starts operations for objects. There may be several; one leads.
const process = beginProcess('watcher', 'windlass-watcher');
const { config, log, metrics, shutdown } = process;
installTemporalRuntime(log, config.heartbeatSeconds);
const client = await temporalClient({ config: config.temporal, log, metrics });
const prepare = async (signal: AbortSignal) =>
  registerSearchAttributes({ config: config.temporal, log, signal, client });
const fleets = fleetWorker({ config: config.temporal, client, log, metrics });
shutdown.add({ name: 'fleet worker', stop: fleets.stop });
const claim = async () => claimNamespace({ client, kube: process.kube, log: process.log });
const build = await workflowBuildId();
const versions = workerVersions(client);
const heartbeats = listHeartbeats(client);
await serveParts(process, [
  startWatcher(process, {
    client,
    build,
    versions,
    heartbeats,
    claim,
    prepareTemporal: prepare,
    workFleets: fleets.work,
  }),
]);
