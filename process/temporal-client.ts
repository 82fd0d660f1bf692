// Clients of Temporal. Nothing here loads the native part of the SDK, which only workers need.
import { readFile } from 'node:fs/promises';
import { Client, Connection } from '@temporalio/client';
import type { TemporalPlace } from '../api/engine/temporal-place.ts';
import { dataConverterFor, type PayloadObserver } from './payload-limit.ts';

/**
 * gRPC's default back-off to a server that is away grows to two minutes; a permit that cannot be confirmed is worthless
 * for that long.
 */
const channelArgs = { 'grpc.initial_reconnect_backoff_ms': 200, 'grpc.max_reconnect_backoff_ms': 3_000 };

/** A client that connects at its first call, so that it can be created while Temporal is away. */
export async function temporalClient({
  config,
  ...observer
}: PayloadObserver & { readonly config: TemporalPlace }): Promise<Client> {
  const options = await connectionOptions(config);
  const connection = Connection.lazy({ ...options, channelArgs, connectTimeout: '10s' });
  return new Client({ connection, namespace: config.namespace, dataConverter: dataConverterFor(observer) });
}

/** The SDK's connection options. Reads the files that they name. */
export async function connectionOptions(
  config: TemporalPlace,
): Promise<{ address: string; apiKey?: string; tls?: TlsOptions }> {
  return {
    address: config.address,
    ...(config.tls ? { tls: await tlsOptions(config.tls) } : {}),
    ...(config.apiKeyFile === undefined ? {} : { apiKey: (await readFile(config.apiKeyFile, 'utf8')).trim() }),
  };
}

interface TlsOptions {
  serverNameOverride?: string;
  serverRootCACertificate?: Buffer;
  clientCertPair?: { crt: Buffer; key: Buffer };
}

async function tlsOptions(tls: NonNullable<TemporalPlace['tls']>): Promise<TlsOptions> {
  return {
    ...(tls.serverName === undefined ? {} : { serverNameOverride: tls.serverName }),
    ...(tls.ca === undefined ? {} : { serverRootCACertificate: Buffer.from(tls.ca) }),
    ...(tls.caFile === undefined ? {} : { serverRootCACertificate: await readFile(tls.caFile) }),
    ...(tls.certFile === undefined || tls.keyFile === undefined
      ? {}
      : { clientCertPair: { crt: await readFile(tls.certFile), key: await readFile(tls.keyFile) } }),
  };
}
