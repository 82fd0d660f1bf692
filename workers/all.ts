import { beginProcess, serveParts } from '../process/role-process.ts';
import { installTemporalRuntime, registerSearchAttributes, temporalClient } from '../process/temporal.ts';
import { startWatcher } from '../watcher/start-watcher.ts';
import { startAdmissionPart } from '../webhook/start.ts';
import { claimNamespace } from './cluster-claim.ts';
import { fleetWorker } from './fleet-worker.ts';
import { startClusterWorker } from './start-cluster-worker.ts';
import { listHeartbeats, workerVersions } from './worker-versions.ts';
import { workflowBuildId } from './workflow-bundle.ts';

// Watcher, webhook and cluster worker in one process, for small clusters and development.
const process = beginProcess('all', 'windlass');
installTemporalRuntime(process.log, process.config.heartbeatSeconds);
const { config, log, metrics, shutdown } = process;
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
  startAdmissionPart(process),
  startWatcher(process, {
    client,
    build,
    versions,
    heartbeats,
    claim,
    prepareTemporal: prepare,
    workFleets: fleets.work,
  }),
  await startClusterWorker(process),
]);
