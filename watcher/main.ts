import { beginProcess, serveParts } from '../workers/role-process.ts';
import { installTemporalLogger, registerSearchAttributes, temporalClient } from '../workers/temporal.ts';
import { startWatcher } from './start-watcher.ts';

// The watcher: turns objects into operations. Several may run; one leads.
const process = beginProcess('watcher', 'windlass-watcher');
const { config, log, shutdown } = process;
installTemporalLogger(log);
const client = await temporalClient({ config: config.temporal });
await serveParts(process, [startWatcher(process, client)]);

try {
  await registerSearchAttributes({ config: config.temporal, log, signal: shutdown.signal, client });
} catch (error) {
  if (!shutdown.signal.aborted) throw error;
}
