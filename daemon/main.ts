import type { NodeProgress, StopResult } from '../activities/cri/contract.ts';
import type { NodeCredentials } from '../activities/cri/pull.ts';
import { eventComponent } from '../api/core/well-known.ts';
import { createKubeClient } from '../kube/client.ts';
import { joinActivities } from '../process/activity-groups.ts';
import { observeActivities } from '../process/activity-interceptor.ts';
import { loadConfig } from '../process/config.ts';
import { compareFeatureGates } from '../process/gate-comparison.ts';
import { serveHealth } from '../process/health.ts';
import { createLogger } from '../process/log.ts';
import { createMetrics } from '../process/metrics.ts';
import { dataConverterFor } from '../process/payload-limit.ts';
import { shutdownOnSignals } from '../process/shutdown.ts';
import { sweepWhenQuiet } from '../process/sweep.ts';
import { installTemporalRuntime, workerConnection } from '../process/temporal.ts';
import { systemClock } from './clock.ts';
import { nodeCredentials } from './credentials/node-credentials.ts';
import { PluginConfigError } from './credentials/plugin-config.ts';
import { RuntimeDetector, socketsToTry } from './cri/detection.ts';
import { EventSender } from './event-sender.ts';
import { InFlight } from './in-flight.ts';
import { NodeWorker } from './node-worker.ts';
import { openGates, reportContainers } from './pod-loops.ts';
import { startProbes } from './probes/start.ts';
import { PullReporter } from './pull-reporter.ts';
import { readinessOf } from './readiness.ts';
import { reflectorsOf, watchNode } from './watches.ts';
import { nodeWork } from './work.ts';

/** The time for stops in progress when the process ends, of the 10 s that Kubernetes gives it. */
const endOfStopsMs = 7_500;

// The daemon: acts on the containers of one node. It creates none; the kubelet does.
const config = loadConfig('daemon');
const { featureGates: gates, daemon } = config;
const { nodeName } = daemon;
const log = createLogger('daemon', config).child({ node: nodeName });
const metrics = createMetrics('daemon');
const shutdown = shutdownOnSignals({ log });
sweepWhenQuiet();

installTemporalRuntime(log, config.heartbeatSeconds);
const kube = createKubeClient({
  kubeconfig: config.kubeconfig,
  inCluster: config.inCluster,
  userAgent: 'kruise-daemon',
  qps: config.kubeQps,
  burst: config.kubeBurst,
  onCall: ({ verb, resource, status }) => metrics.kubeRequests.inc({ verb, resource, status }),
});

// The state of this node: its runtimes, pods, Node object and probes.
const runtimes = new RuntimeDetector({ sockets: socketsToTry(daemon), log });
const watches = watchNode({ kube, nodeName, gates, metrics, log });

// What workflows request from this node.
const events = new EventSender({ client: kube, component: eventComponent.daemonRecreate, nodeName, log });
const stops = new InFlight<StopResult, NodeProgress>();
const pullReporter = new PullReporter({ kube, monotonicMs: () => systemClock.monotonicMs(), log });
const work = nodeWork({
  ...{ kube, nodeName, watches, runtimes, stops, events, pullReporter, log },
  nodeCredentials: await readNodeCredentials(),
  secretNamespace: config.images.secretNamespace,
  pullsAtOnce: daemon.pullsAtOnce,
});
const worker = new NodeWorker({
  nodeName,
  namespace: config.temporal.namespace,
  connect: (signal) => workerConnection({ config: config.temporal, log, signal }),
  activities: (stopping) => joinActivities(work(stopping)),
  graceMs: endOfStopsMs,
  interceptors: observeActivities({ log, metrics }),
  dataConverter: dataConverterFor({ log, metrics }),
  log,
});

// What the daemon does by itself.
const loops = { kube, watches, runtimes, gates, metrics, log };
const reporter = gates.DaemonWatchingPod ? reportContainers(loops) : undefined;
const gateOpener = gates.DaemonWatchingPod ? openGates(loops) : undefined;
const probes =
  watches.probes &&
  startProbes({
    kube,
    cache: watches.probes.cache,
    nodeName,
    runtime: () => runtimes.first,
    ipOf: (podUid) => watches.pods.cache.byUid(podUid)?.status?.podIP,
    registry: metrics.registry,
    log,
  });
if (probes) shutdown.add({ name: 'probes', stop: (signal) => probes.stop(signal), deadlineMs: 1_000 });

const health = await serveHealth({
  ...config,
  liveness: {},
  readiness: readinessOf({ watches, runtimes, worker }),
  metrics: metrics.registry,
});

watches.node.cache.onChange(({ after }) => {
  // A deleted Node may be created again; until its UID changes, the task queue stays the same.
  if (after !== undefined) worker.serve(after.metadata.uid);
});
shutdown.add({ name: 'work', stop: endWork });
if (reporter) shutdown.add({ name: 'reports', stop: () => reporter.stop() });
if (gateOpener) shutdown.add({ name: 'gates', stop: () => gateOpener.stop() });
shutdown.add({ name: 'events', stop: (signal) => events.end(signal), deadlineMs: 1_000 });
shutdown.add({ name: 'watches', stop: () => Promise.all(reflectorsOf(watches).map((watch) => watch.stop())).then() });
shutdown.add({ name: 'connections', stop: () => Promise.all([runtimes.stop(), kube.close()]).then() });
shutdown.add({ name: 'health', stop: () => health.close() });

void compareFeatureGates({
  kube,
  role: 'daemon',
  gates,
  namespace: config.podNamespace,
  nodeName,
  log,
  signal: shutdown.signal,
});
watches.pods.reflector.start();
watches.probes?.reflector.start();
runtimes.start();
// Tasks that arrive before a runtime is known would only fail and be retried; a hanging runtime is not waited for.
await Promise.race([runtimes.tried(), systemClock.sleep(5_000, shutdown.signal)]);
watches.node.reflector.start();

/** An invalid configuration ends the process, like an invalid option. */
async function readNodeCredentials(): Promise<NodeCredentials> {
  const means = { monotonicMs: () => systemClock.monotonicMs(), log };
  try {
    return await nodeCredentials(daemon.credentials, means);
  } catch (error) {
    if (!(error instanceof PluginConfigError)) throw error;
    process.stderr.write(`windlass daemon: ${error.message}\n`);
    return process.exit(1);
  }
}

async function endWork(): Promise<void> {
  const late = systemClock.sleep(endOfStopsMs);
  pullReporter.end();
  await Promise.all([worker.stop(), Promise.race([stops.idle(), late])]);
  if (stops.size > 0) log.warn({ stops: stops.size }, 'Exiting with container stops in progress');
}
