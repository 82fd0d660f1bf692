import { spawn } from 'node:child_process';
import { createServer } from 'node:net';
import { Connection } from '@temporalio/client';
import { rareCollections } from '../../deploy/local/control-plane.ts';
import { toolPath } from '../../deploy/local/tools.ts';
import { waitFor } from './wait.ts';

/** An in-memory Temporal server for one test. */
export interface TemporalServer {
  readonly address: string;
  stop(): Promise<void>;
}

/**
 * Starts Temporal's development server with these dynamic settings, such as
 * `limit.historyCount.suggestContinueAsNew=30`.
 */
export async function startTemporal(settings: readonly string[]): Promise<TemporalServer> {
  for (let attempt = 1; ; attempt += 1) {
    const server = await startOnce(settings);
    if (server) return server;
    if (attempt === 5) throw new Error(`Temporal ended ${attempt} times before it answered`);
  }
}

/** Undefined: it has ended, for somebody else has taken its port meanwhile. */
async function startOnce(settings: readonly string[]): Promise<TemporalServer | undefined> {
  const port = await freePort();
  const argv = [
    toolPath('temporal'),
    ...['server', 'start-dev', '--headless', '--ip', '127.0.0.1', '--port', String(port), '--log-level', 'error'],
    ...settings.flatMap((setting) => ['--dynamic-config-value', setting]),
  ];
  // it is killed with this process, however that ends
  const child = spawn('setpriv', ['--pdeathsig', 'KILL', ...argv], {
    stdio: 'ignore',
    env: { ...process.env, ...rareCollections },
  });
  const hasEnded = () => child.exitCode !== null || child.signalCode !== null;
  const address = `127.0.0.1:${port}`;
  await waitFor('Temporal to answer', async () => {
    if (hasEnded()) return true;
    const connection = await Connection.connect({ address, connectTimeout: 20_000 });
    await connection.workflowService.describeNamespace({ namespace: 'default' }).finally(() => connection.close());
    return true;
  });
  if (hasEnded()) return undefined;
  return {
    address,
    async stop() {
      child.kill('SIGTERM');
      await waitFor('Temporal to end', hasEnded);
    },
  };
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' && address ? address.port : 0));
    });
  });
}
