import { type Client, Client as TemporalClient } from '@temporalio/client';
import type { NativeConnection } from '@temporalio/worker';
import { crr } from '../../api/container-recreate-request/types.ts';
import { dataConverter } from '../../process/payload-limit.ts';
import { type Cluster, connectToCluster, servedBy } from './cluster.ts';
import { NodePlayer, type PlayedPod, type PodOptions } from './kubelet-player.ts';
import { type TestPlatform, testPlatform } from './platform.ts';
import { createRequest, type RequestOptions, type TestRequest } from './requests.ts';
import { prepareRoles, type RunningRole, startWatcher, startWebhook, startWorker, type WebhookMeans } from './roles.ts';
import { connectToTemporal, connectWorkersToTemporal } from './temporal-connection.ts';

/** Windlass with a real API server and a real Temporal server, and one simulated node. */
export interface Windlass {
  readonly platform: TestPlatform;
  readonly cluster: Cluster;
  readonly client: Client;
  /** The connection of workers: those of roles and of simulated nodes. */
  readonly connection: NativeConnection;
  readonly node: NodePlayer;
  /** A pod in a new namespace by default, with all containers running and ready. */
  runPod(containers: readonly string[], options?: Partial<PodOptions>): Promise<PlayedPod>;
  /** A request that has passed admission. */
  request(options: RequestOptions): Promise<TestRequest>;
  /** Restarts admission with these options. */
  restartWebhook(options: readonly string[], means?: WebhookMeans): Promise<void>;
  stopWebhook(): Promise<void>;
  stop(): Promise<void>;
}

/** The roles in this process; a test that starts and stops them itself leaves them out. */
export interface WindlassOptions {
  readonly watcher?: boolean;
  readonly worker?: boolean;
  readonly webhook?: boolean;
  /** Absent: true. False: it is installed already. */
  readonly install?: boolean;
  /** Absent: the instance of WINDLASS_INSTANCE. */
  readonly instance?: string;
  /** Absent: the Temporal of the instance. */
  readonly temporalAddress?: string;
}

/** Windlass whose roles run elsewhere, on the platform of this run. The simulated node belongs to the caller. */
export function joinWindlass(): Promise<Windlass> {
  return startWindlass({ watcher: false, worker: false, webhook: false, install: false });
}

/** Installs Windlass on the platform of this run, and starts it. */
export async function startWindlass({
  watcher = true,
  worker = true,
  webhook: hasWebhook = true,
  install = true,
  instance,
  temporalAddress,
}: WindlassOptions = {}): Promise<Windlass> {
  const given = testPlatform(instance);
  const platform = { ...given, temporalAddress: temporalAddress ?? given.temporalAddress };
  prepareRoles(platform);
  const [connection, clientConnection] = await Promise.all([
    connectWorkersToTemporal(platform.temporalAddress),
    connectToTemporal(platform.temporalAddress),
    install && platform.install(),
  ]);
  const client = new TemporalClient({ connection: clientConnection, dataConverter, identity: 'operator@test' });
  const cluster = connectToCluster(platform);
  await servedBy(cluster, crr);

  const means = { platform, client, connection };
  const node = await NodePlayer.join(cluster);
  let webhook: RunningRole | undefined;
  const [, ...running] = await Promise.all([
    hasWebhook && restartWebhook([]),
    ...(watcher ? [startWatcher(means)] : []),
    ...(worker ? [startWorker(means)] : []),
    node.startDaemon(connection).then(() => ({ stop: () => node.stopDaemon() })),
  ]);

  async function stopWebhook(): Promise<void> {
    await webhook?.stop();
    webhook = undefined;
  }

  async function restartWebhook(options: readonly string[], webhookMeans?: WebhookMeans): Promise<void> {
    await stopWebhook();
    webhook = await startWebhook(means, options, webhookMeans);
  }

  return {
    platform,
    cluster,
    client,
    connection,
    node,
    async runPod(containers, options = {}) {
      const namespace = options.namespace ?? (await cluster.newNamespace());
      return await node.runPod({ ...options, namespace, containers });
    },
    request: (options) => createRequest({ cluster, client }, options),
    restartWebhook,
    stopWebhook,
    async stop() {
      await Promise.all([stopWebhook(), ...running.map((role) => role.stop())]);
      await cluster.close();
      await clientConnection.close();
      await connection.close();
    },
  };
}
