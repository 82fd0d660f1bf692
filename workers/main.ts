import { beginProcess, serveParts } from '../process/role-process.ts';
import { installTemporalRuntime } from '../process/temporal.ts';
import { startClusterWorker } from './start-cluster-worker.ts';

// The cluster worker: workflows, and activities on the API server. Any number of them may run.
const process = beginProcess('worker', 'windlass-worker');
installTemporalRuntime(process.log, process.config.heartbeatSeconds);
await serveParts(process, [await startClusterWorker(process)]);
