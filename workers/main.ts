import { beginProcess, serveParts } from './role-process.ts';
import { startClusterWorker } from './start-cluster-worker.ts';
import { installTemporalRuntime } from './temporal.ts';

// The cluster worker: workflows, and activities on the API server. Any number of them may run.
const process = beginProcess('worker', 'windlass-worker');
installTemporalRuntime(process.log, process.config.heartbeatSeconds);
await serveParts(process, [await startClusterWorker(process)]);
