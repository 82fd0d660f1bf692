import { startAdmissionPart } from '../watcher/admission/start.ts';
import { startWatcher } from '../watcher/start-watcher.ts';
import { beginProcess, serveParts } from './role-process.ts';
import { startClusterWorker } from './start-cluster-worker.ts';
import { installTemporalLogger, temporalClient } from './temporal.ts';

// Watcher, webhook and cluster worker in one process, for small clusters and development.
const process = beginProcess('all', 'windlass');
installTemporalLogger(process.log);
const client = await temporalClient({ config: process.config.temporal });
await serveParts(process, [
  startAdmissionPart(process),
  startWatcher(process, client),
  await startClusterWorker(process),
]);
