/** Runs Windlass's roles in this process, each with the rights of its own ServiceAccount. */
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Client } from '@temporalio/client';
import type { NativeConnection } from '@temporalio/worker';
import { pino } from 'pino';
import { roles as localRoles } from '../../deploy/local/roles.ts';
import { createKubeClient, type KubeClient } from '../../kube/client.ts';
import { Leader } from '../../kube/leader.ts';
import { parseConfig } from '../../process/config.ts';
import { createLogger, type Logger } from '../../process/log.ts';
import { createMetrics } from '../../process/metrics.ts';
import { installTemporalRuntime, registerSearchAttributes } from '../../process/temporal.ts';
import type { FleetWork } from '../../watcher/fleet/work.ts';
import { Watcher } from '../../watcher/watcher.ts';
import { startAdmission } from '../../webhook/admission.ts';
import { claimNamespace } from '../../workers/cluster-claim.ts';
import { createClusterWorker } from '../../workers/cluster-worker.ts';
import { fleetWorker } from '../../workers/fleet-worker.ts';
import { describeDeployment, listHeartbeats, workerVersions } from '../../workers/worker-versions.ts';
import { workflowBuildId } from '../../workers/workflow-bundle.ts';
import { makeCurrent } from './current-version.ts';
import type { TestPlatform } from './platform.ts';

/** A running role. */
export interface RunningRole {
  /** Stops it gracefully. */
  stop(): Promise<void>;
}

/** What roles in this process share. */
export interface RoleMeans {
  readonly platform: TestPlatform;
  readonly client: Client;
  readonly connection: NativeConnection;
}

/** Shorter than in production, because tests wait for them. */
const periods = ['--full-pass-period=2s', '--engine-silent-after=3s'];
const gates = '--feature-gates=SidecarTerminator=true,ImagePullJobGate=true';

/** A watcher whose worker of queue `fleet` can be stopped while it leads. */
export interface RunningWatcher extends RunningRole {
  stopFleetWorker(): Promise<void>;
  /** Starts it again in the same term. */
  startFleetWorker(): void;
}

/** How a watcher is started. */
export interface WatcherMeans {
  /** Added to those of all watchers in tests. */
  readonly options?: readonly string[];
  /** The build ID of the workflow code; absent: that of the sources. */
  readonly build?: string;
}

/** Starts a watcher in this process; it leads when no other does. */
export async function startWatcher(
  { platform, client }: RoleMeans,
  { options = [], build }: WatcherMeans = {},
): Promise<RunningWatcher> {
  const { config, kube, log } = await prepare('watcher', platform, [
    ...periods,
    gates,
    `--temporal-address=${platform.temporalAddress}`,
    ...options,
  ]);
  const leader = new Leader({
    client: kube,
    lease: { namespace: config.leaderElection.namespace, name: config.leaderElection.id },
    identity: `test-${randomUUID()}`,
    times: config.leaderElection,
    log,
  });
  const prepareTemporal = async (signal: AbortSignal) =>
    registerSearchAttributes({ config: config.temporal, log, signal, client });
  const metrics = createMetrics('watcher');
  const newFleets = () => fleetWorker({ config: config.temporal, client, log, metrics });
  let fleets = newFleets();
  let term: FleetWork | undefined;
  const workFleets = (work: FleetWork) => {
    term = work;
    fleets.work(work);
  };
  const watcher = new Watcher({
    kube,
    client,
    build: build ?? (await workflowBuildId()),
    versions: workerVersions(client),
    heartbeats: listHeartbeats(client),
    claim: async () => claimNamespace({ client, kube, log }),
    leader,
    prepareTemporal,
    workFleets,
    config,
    log,
    metrics,
  });
  watcher.start();
  return {
    stopFleetWorker: () => fleets.stop(),
    startFleetWorker() {
      fleets = newFleets();
      if (term) fleets.work(term);
    },
    async stop() {
      await fleets.stop();
      await watcher.stop();
      await leader.stop();
      await kube.close();
    },
  };
}

/** Starts a cluster worker in this process. */
export async function startWorker(
  { platform, client, connection }: RoleMeans,
  {
    isMadeCurrent = true,
  }: { /** False: the watcher alone makes its version current. */ readonly isMadeCurrent?: boolean } = {},
): Promise<RunningRole> {
  const { config, kube, log } = await prepare('worker', platform, [`--temporal-address=${platform.temporalAddress}`]);
  const { namespace } = config.temporal;
  const signal = AbortSignal.timeout(300_000);
  await registerSearchAttributes({ config: config.temporal, log, signal, client });
  expectOurs(await claimNamespace({ client, kube, log }));
  const metrics = createMetrics('worker');
  const worker = await createClusterWorker({
    ...{ connection, client, kube, namespace, log, metrics },
    isVersioned: (await describeDeployment(client)).kind !== 'unsupported',
  });
  const running = worker.run();
  if (isMadeCurrent) await makeCurrent(client, await workflowBuildId()); // also when no watcher leads
  return {
    async stop() {
      worker.shutdown();
      // on a loaded machine a task may be cut off, which the SDK reports as an error
      await running.catch(() => undefined);
      await kube.close();
    },
  };
}

/** How a webhook is started. */
export interface WebhookMeans {
  /** False: like with an API server that presents no certificate. Absent: clients are authenticated. */
  readonly knowsCaller?: boolean;
}

/** Starts admission in this process and waits until the API server calls it. */
export async function startWebhook(
  { platform }: Pick<RoleMeans, 'platform'>,
  options: readonly string[] = [],
  { knowsCaller = true }: WebhookMeans = {},
): Promise<RunningRole> {
  const { config, kube, log } = await prepare('webhook', platform, [
    ...[`--webhook-host=${platform.machine}`, `--webhook-port=${platform.webhookPort}`],
    ...['--webhook-initialize-timeout=300s', gates, ...options],
  ]);
  const { featureGates, podNamespace, webhook } = config;
  const known = knowsCaller && { clientCa: readFileSync(platform.webhookClientCa, 'utf8') };
  const admission = startAdmission({ client: kube, featureGates, podNamespace, webhook, log, ...known });
  await admission.ready;
  return {
    async stop() {
      await admission.stop(AbortSignal.timeout(5_000));
      await kube.close();
    },
  };
}

function expectOurs(foreign: string | undefined): void {
  if (foreign !== undefined) throw new Error(foreign);
}

async function prepare(name: 'watcher' | 'webhook' | 'worker', platform: TestPlatform, argv: readonly string[]) {
  const config = parseConfig(name, argv, { WINDLASS_LOG_LEVEL: 'debug' });
  const log = testLogger(name, platform);
  const kube: KubeClient = createKubeClient({
    kubeconfig: await platform.accessOf(localRoles[name]),
    userAgent: localRoles[name].serviceAccount,
    qps: config.kubeQps,
    burst: config.kubeBurst,
  });
  return { config, kube, log };
}

/** The role's log goes to a file beside the logs of the platform's parts. */
function testLogger(name: 'watcher' | 'webhook' | 'worker', { logs }: TestPlatform): Logger {
  const destination = pino.destination({ dest: join(logs, `test-${name}.log`), mkdir: true, sync: true });
  return createLogger(name, { logLevel: 'debug', ignoredFlags: [] }, destination);
}

let prepared = false;

/** To be called before the first connection: the SDK accepts a logger only once, before anything else. */
export function prepareRoles(platform: TestPlatform): void {
  if (!prepared) installTemporalRuntime(testLogger('worker', platform));
  prepared = true;
}
