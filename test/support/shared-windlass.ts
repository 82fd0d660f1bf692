// Watcher, worker and webhook with their defaults in a process of their own, for test files that share them. It sends a
// message when they run, and stops gracefully on request.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { startWindlass } from './windlass.ts';

/** What can be ended. */
export interface SharedWindlass {
  stop(): Promise<void>;
}

/** Starts them with an instance of the local platform. They end with this process, however that ends. */
export async function startSharedWindlass(instance: string): Promise<SharedWindlass> {
  const child = spawn('setpriv', ['--pdeathsig', 'KILL', process.execPath, fileURLToPath(import.meta.url)], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    env: { ...process.env, WINDLASS_INSTANCE: instance },
  });
  const ended = once(child, 'exit');
  await Promise.race([once(child, 'message'), ended.then(failed)]);
  return {
    async stop() {
      child.kill('SIGTERM');
      await ended;
    },
  };
}

function failed([code]: readonly unknown[]): never {
  throw new Error(`the Windlass that tests share ended with ${String(code)} before it was ready`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const windlass = await startWindlass();
  process.once('SIGTERM', () => {
    void windlass.stop().finally(() => process.exit());
  });
  process.send?.('ready');
}
