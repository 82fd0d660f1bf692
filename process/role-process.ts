import { createKubeClient, type KubeClient } from '../kube/client.ts';
import { type Config, loadConfig, type Role } from './config.ts';
import { compareFeatureGates } from './gate-comparison.ts';
import { type Check, serveHealth } from './health.ts';
import { createLogger, type Logger } from './log.ts';
import { createMetrics, type Metrics } from './metrics.ts';
import { type Shutdown, shutdownOnSignals } from './shutdown.ts';
import { sweepWhenQuiet } from './sweep.ts';

/** What every process of Windlass has, in any role. */
export interface RoleProcess {
  readonly config: Config;
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly shutdown: Shutdown;
  /** One client, and one set of connections, for the whole process. */
  readonly kube: KubeClient;
}

/** A started part of a process, with its health checks by name. */
export interface StartedPart {
  readonly readiness: Readonly<Record<string, Check>>;
}

/** Starts a process: reads its options, or exits with the errors in them. */
export function beginProcess(role: Role, userAgent: string): RoleProcess {
  const config = loadConfig(role);
  const log = createLogger(role, config);
  const metrics = createMetrics(role);
  const shutdown = shutdownOnSignals({ log });
  sweepWhenQuiet();
  const kube = createKubeClient({
    kubeconfig: config.kubeconfig,
    inCluster: config.inCluster,
    userAgent,
    qps: config.kubeQps,
    burst: config.kubeBurst,
    onCall: ({ verb, resource, status }) => metrics.kubeRequests.inc({ verb, resource, status }),
  });
  const { featureGates: gates, podNamespace: namespace } = config;
  void compareFeatureGates({ kube, role, gates, namespace, log, signal: shutdown.signal });
  return { config, log, metrics, shutdown, kube };
}

/** Serves health and metrics of the parts, and stops what they share after they have stopped. */
export async function serveParts(
  { config, metrics, shutdown, kube }: RoleProcess,
  parts: readonly StartedPart[],
): Promise<void> {
  const health = await serveHealth({
    ...config,
    liveness: {},
    readiness: Object.assign({}, ...parts.map(({ readiness }) => readiness)) as Record<string, Check>,
    metrics: metrics.registry,
  });
  shutdown.add({ name: 'API client', stop: () => kube.close() });
  shutdown.add({ name: 'health', stop: () => health.close() });
}
