import { Connection } from '@temporalio/client';
import { NativeConnection } from '@temporalio/worker';
import { waitFor } from './wait.ts';

/** A connection for clients, once Temporal answers: by default the SDK gives up after ten seconds. */
export async function connectToTemporal(address: string): Promise<Connection> {
  return await waitFor('Temporal to answer a client', () => Connection.connect({ address, connectTimeout: '60s' }));
}

/** A connection for workers, once Temporal answers. */
export async function connectWorkersToTemporal(address: string): Promise<NativeConnection> {
  return await waitFor('Temporal to answer a worker', () => NativeConnection.connect({ address }));
}
