import { beginProcess, serveParts } from '../process/role-process.ts';
import { installTemporalRuntime } from '../process/temporal.ts';
import { startWatcherPart } from '../workers/start-watcher-part.ts';

// The watcher: starts operations for objects. There may be several; one leads.
const process = beginProcess('watcher', 'windlass-watcher');
installTemporalRuntime(process.log, process.config.heartbeatSeconds);
await serveParts(process, [await startWatcherPart(process)]);
