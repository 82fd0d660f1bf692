import { beginProcess, serveParts } from '../process/role-process.ts';
import { installTemporalRuntime } from '../process/temporal.ts';
import { startAdmissionPart } from '../webhook/start.ts';
import { startClusterWorker } from './start-cluster-worker.ts';
import { startWatcherPart } from './start-watcher-part.ts';

// Watcher, webhook and cluster worker in one process, for small clusters and development.
const process = beginProcess('all', 'windlass');
installTemporalRuntime(process.log, process.config.heartbeatSeconds);
await serveParts(process, [
  startAdmissionPart(process),
  await startWatcherPart(process),
  await startClusterWorker(process),
]);
