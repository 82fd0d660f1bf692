import { readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import proto from '@temporalio/proto';
import { DefaultLogger, NativeConnection, Runtime } from '@temporalio/worker';
import { searchAttributes } from '../api/operations.ts';
import type { TemporalConfig } from './config.ts';
import type { Logger } from './log.ts';
import { dataConverter } from './payload-limit.ts';

/** Temporal may be away when a process starts: it keeps trying, says so, and gives up only when the process ends. */
const retryMs = { first: 500, most: 10_000 } as const;

export interface TemporalDependencies {
  readonly config: TemporalConfig;
  readonly log: Logger;
  /** Ends the attempts. */
  readonly signal: AbortSignal;
}

/** A client whose connection is made at its first call, so that it exists while Temporal is away. */
export async function temporalClient({ config }: Pick<TemporalDependencies, 'config'>): Promise<Client> {
  const connection = Connection.lazy({ ...(await connectionOptions(config)), connectTimeout: '10s' });
  return new Client({ connection, namespace: config.namespace, dataConverter });
}

/** The connection of a worker. Resolves once Temporal has answered. */
export async function workerConnection(dependencies: TemporalDependencies): Promise<NativeConnection> {
  const { config } = dependencies;
  return await untilConnected(dependencies, `Cannot connect to Temporal at "${config.address}"`, async () =>
    // compression costs a worker hundreds of megabytes and saves nothing on payloads of a few hundred bytes
    NativeConnection.connect({ ...(await connectionOptions(config)), grpcCompression: { codec: 'none' } }),
  );
}

/** Makes sure that the search attributes of operations exist; those that exist already stay. */
export async function registerSearchAttributes(dependencies: TemporalDependencies & { client: Client }): Promise<void> {
  const { client, config } = dependencies;
  const keyword = proto.temporal.api.enums.v1.IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD;
  await untilConnected(dependencies, 'Cannot register the search attributes', async () => {
    const operator = client.connection.operatorService;
    const { customAttributes } = await operator.listSearchAttributes({ namespace: config.namespace });
    const missing = Object.values(searchAttributes).filter((name) => customAttributes[name] === undefined);
    if (missing.length === 0) return;
    await operator.addSearchAttributes({
      namespace: config.namespace,
      searchAttributes: Object.fromEntries(missing.map((name) => [name, keyword])),
    });
  });
}

/** Sends what the SDK has to say to our log. To be called once, before anything else of the SDK. */
export function installTemporalLogger(log: Logger): void {
  Runtime.install({
    logger: new DefaultLogger('INFO', ({ level, message, meta }) => {
      const { error, ...fields } = meta ?? {};
      const line = { ...fields, ...(error === undefined ? {} : { err: error }) };
      if (level === 'ERROR') log.error(line, message);
      else if (level === 'WARN') log.warn(line, message);
      else log.debug(line, message);
    }),
    // what the native part of the SDK has to say goes the same way
    telemetryOptions: { logging: { filter: { core: 'WARN', other: 'ERROR' }, forward: {} } },
    shutdownSignals: [], // the process ends in an order of its own
  });
}

async function connectionOptions(
  config: TemporalConfig,
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

async function tlsOptions(tls: NonNullable<TemporalConfig['tls']>): Promise<TlsOptions> {
  return {
    ...(tls.serverName === undefined ? {} : { serverNameOverride: tls.serverName }),
    ...(tls.caFile === undefined ? {} : { serverRootCACertificate: await readFile(tls.caFile) }),
    ...(tls.certFile === undefined || tls.keyFile === undefined
      ? {}
      : { clientCertPair: { crt: await readFile(tls.certFile), key: await readFile(tls.keyFile) } }),
  };
}

async function untilConnected<T>(
  { log, signal }: TemporalDependencies,
  attempted: string,
  connect: () => Promise<T>,
): Promise<T> {
  for (let waitMs: number = retryMs.first; ; waitMs = Math.min(waitMs * 2, retryMs.most)) {
    try {
      return await connect();
    } catch (error) {
      signal.throwIfAborted();
      log.warn({ retryInMs: waitMs }, `${attempted}: ${error instanceof Error ? error.message : String(error)}`);
      await delay(waitMs, undefined, { signal });
    }
  }
}
