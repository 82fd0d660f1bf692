import { spawn } from 'node:child_process';
import { createServer } from 'node:net';
import { Connection } from '@temporalio/client';
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
  const port = await freePort();
  const argv = [
    toolPath('temporal'),
    ...['server', 'start-dev', '--headless', '--ip', '127.0.0.1', '--port', String(port), '--log-level', 'error'],
    ...settings.flatMap((setting) => ['--dynamic-config-value', setting]),
  ];
  // it is killed with this process, however that ends
  const child = spawn('setpriv', ['--pdeathsig', 'KILL', ...argv], { stdio: 'ignore' });
  const address = `127.0.0.1:${port}`;
  await waitFor('Temporal to answer', async () => {
    const connection = await Connection.connect({ address, connectTimeout: 20_000 });
    await connection.workflowService.describeNamespace({ namespace: 'default' }).finally(() => connection.close());
    return true;
  });
  return {
    address,
    async stop() {
      child.kill('SIGTERM');
      await waitFor('Temporal to end', () => child.exitCode !== null || child.signalCode !== null);
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
