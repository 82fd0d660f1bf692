import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import proto from '@temporalio/proto';
import { DefaultLogger, NativeConnection, Runtime } from '@temporalio/worker';
import { searchAttributes } from '../api/engine/operations.ts';
import type { TemporalPlace } from '../api/engine/temporal-place.ts';
import { backOff } from '../kube/back-off.ts';
import type { Logger } from './log.ts';
import { connectionOptions } from './temporal-client.ts';

export { temporalClient } from './temporal-client.ts';

/** Temporal may be away when a process starts: it keeps trying and logs that until the process ends. */
const retryMs = { first: 500, most: 10_000 } as const;

export interface TemporalDependencies {
  readonly config: TemporalPlace;
  readonly log: Logger;
  /** Ends the attempts. */
  readonly signal: AbortSignal;
}

/** The connection of a worker. Resolves once Temporal has answered. */
export async function workerConnection(dependencies: TemporalDependencies): Promise<NativeConnection> {
  const { config } = dependencies;
  return await untilConnected(dependencies, `Cannot connect to Temporal at "${config.address}"`, async () =>
    // compression costs a worker hundreds of megabytes, and saves nothing with payloads of a few hundred bytes
    NativeConnection.connect({ ...(await connectionOptions(config)), grpcCompression: { codec: 'none' } }),
  );
}

/** Registers the search attributes of operations; existing ones stay as they are. */
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

/**
 * Sends the SDK's log messages to our log, and heartbeats of the workers of this process to Temporal, by which the watcher
 * knows that they are alive. To be called once, before anything else of the SDK.
 */
export function installTemporalRuntime(log: Logger, heartbeatSeconds = 3): void {
  Runtime.install({
    workerHeartbeatInterval: heartbeatSeconds * 1000,
    logger: new DefaultLogger('INFO', ({ level, message, meta }) => {
      const { error, ...fields } = meta ?? {};
      const line = { ...fields, ...(error === undefined ? {} : { err: error }) };
      if (level === 'ERROR') log.error(line, message);
      else if (level === 'WARN') log.warn(line, message);
      else log.debug(line, message);
    }),
    // messages of the native part of the SDK go the same way
    telemetryOptions: { logging: { filter: { core: 'WARN', other: 'ERROR' }, forward: {} } },
    shutdownSignals: [], // the process has its own shutdown
  });
}

/** Repeats the call until Temporal has answered. */
export async function untilConnected<T>(
  { log, signal }: TemporalDependencies,
  attempted: string,
  connect: () => Promise<T>,
): Promise<T> {
  for (let failures = 0; ; failures += 1) {
    try {
      return await connect();
    } catch (error) {
      signal.throwIfAborted();
      const waitMs = backOff(retryMs, failures);
      log.warn({ retryInMs: waitMs }, `${attempted}: ${error instanceof Error ? error.message : String(error)}`);
      await delay(waitMs, undefined, { signal });
    }
  }
}
