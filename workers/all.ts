import { startAdmissionPart } from '../watcher/admission/start.ts';
import { startWatcher } from '../watcher/start-watcher.ts';
import { beginProcess, serveParts } from './role-process.ts';
import { startClusterWorker } from './start-cluster-worker.ts';
import { installTemporalLogger, registerSearchAttributes, temporalClient } from './temporal.ts';

// Watcher, webhook and cluster worker in one process, for small clusters and development.
const process = beginProcess('all', 'windlass');
installTemporalLogger(process.log);
const { config, log } = process;
const client = await temporalClient({ config: config.temporal });
const prepare = async (signal: AbortSignal) =>
  registerSearchAttributes({ config: config.temporal, log, signal, client });
await serveParts(process, [
  startAdmissionPart(process),
  startWatcher(process, client, prepare),
  await startClusterWorker(process),
]);
