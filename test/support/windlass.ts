import { type Client, Client as TemporalClient } from '@temporalio/client';
import type { NativeConnection } from '@temporalio/worker';
import { crr } from '../../api/container-recreate-request/types.ts';
import { dataConverter } from '../../workers/payload-limit.ts';
import { type Cluster, connectToCluster, servedBy } from './cluster.ts';
import { NodePlayer, type PlayedPod, type PodOptions } from './kubelet-player.ts';
import { type TestPlatform, testPlatform } from './platform.ts';
import { createRequest, type RequestOptions, type TestRequest } from './requests.ts';
import { prepareRoles, type RunningRole, startWatcher, startWebhook, startWorker, type WebhookMeans } from './roles.ts';
import { connectToTemporal, connectWorkersToTemporal } from './temporal-connection.ts';

/** Windlass on a real API server and a real Temporal, with one node that is played. */
export interface Windlass {
  readonly platform: TestPlatform;
  readonly cluster: Cluster;
  readonly client: Client;
  /** Of workers: those of roles and of played nodes. */
  readonly connection: NativeConnection;
  readonly node: NodePlayer;
  /** A pod in a namespace of its own unless one is given, all of its containers running and ready. */
  runPod(containers: readonly string[], options?: Partial<PodOptions>): Promise<PlayedPod>;
  /** A request that has passed admission. */
  request(options: RequestOptions): Promise<TestRequest>;
  /** Ends admission, and starts it again with these options. */
  restartWebhook(options: readonly string[], means?: WebhookMeans): Promise<void>;
  stopWebhook(): Promise<void>;
  stop(): Promise<void>;
}

/** Roles that run in this process; a test that starts and kills them itself leaves them out. */
export interface WindlassOptions {
  readonly watcher?: boolean;
  readonly worker?: boolean;
  readonly webhook?: boolean;
  /** Absent: true. False: somebody else has installed it. */
  readonly install?: boolean;
  /** Absent: the instance that WINDLASS_INSTANCE names. */
  readonly instance?: string;
  /** Absent: the Temporal of the instance. */
  readonly temporalAddress?: string;
}

/** A Windlass whose roles run elsewhere, on the platform that this run was given. The played node is the caller's own. */
export function joinWindlass(): Promise<Windlass> {
  return startWindlass({ watcher: false, worker: false, webhook: false, install: false });
}

/** Installs Windlass into the platform that this run was given, and starts it. */
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
