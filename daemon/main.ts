import { EventEmitter } from 'node:events';
import { containerActivities } from '../activities/cri/containers.ts';
import type { NodeProgress, StopResult } from '../activities/cri/contract.ts';
import type { NodeCredentials } from '../activities/cri/images.ts';
import { type ContainerRecreateRequest, crr } from '../api/container-recreate-request/types.ts';
import type { Node } from '../api/core/node.ts';
import type { Pod } from '../api/core/pod.ts';
import { type ObjectRef, type PodRef, qualifiedName } from '../api/core/refs.ts';
import { eventComponent, kubeResource } from '../api/core/well-known.ts';
import { type NodePodProbe, nodePodProbe } from '../api/node-pod-probe/types.ts';
import { createCache } from '../kube/cache.ts';
import { createKubeClient } from '../kube/client.ts';
import { isGone, toFailure } from '../kube/failures.ts';
import { KeyedQueue } from '../kube/keyed-queue.ts';
import { Reflector } from '../kube/reflector.ts';
import { observeActivities } from '../workers/activity-interceptor.ts';
import { loadConfig } from '../workers/config.ts';
import { compareFeatureGates } from '../workers/gate-comparison.ts';
import { serveHealth } from '../workers/health.ts';
import { createLogger } from '../workers/log.ts';
import { createMetrics } from '../workers/metrics.ts';
import { dataConverterFor } from '../workers/payload-limit.ts';
import { shutdownOnSignals } from '../workers/shutdown.ts';
import { sweepWhenQuiet } from '../workers/sweep.ts';
import { installTemporalLogger, workerConnection } from '../workers/temporal.ts';
import { systemClock } from './clock.ts';
import { ContainerMetaReporter, reportBackOffMs, reportWorkers } from './container-meta/reporter.ts';
import { nodeCredentials } from './credentials/node-credentials.ts';
import { PluginConfigError } from './credentials/plugin-config.ts';
import { RuntimeDetector, socketsToTry } from './cri/detection.ts';
import { currentAttempt } from './current-attempt.ts';
import { EventSender } from './event-sender.ts';
import { getHook } from './http-hook.ts';
import { nodeImagesOf } from './images.ts';
import { InFlight } from './in-flight.ts';
import { GateOpener, openingBackOffMs } from './in-place-gate/opener.ts';
import { NodeWorker } from './node-worker.ts';
import { podView, trimPod } from './pod-view.ts';
import { startProbes } from './probes/start.ts';
import { PullReporter } from './pull-reporter.ts';

/** Stops that are under way when the process ends get this long, of the 10 s that Kubernetes gives it. */
const endOfStopsMs = 7_500;

// The daemon: hands on the containers of one node. It creates none; the kubelet does.
const config = loadConfig('daemon');
const { nodeName } = config.daemon;
const log = createLogger('daemon', config).child({ node: nodeName });
const metrics = createMetrics('daemon');
const shutdown = shutdownOnSignals({ log });
sweepWhenQuiet();

installTemporalLogger(log);
const kube = createKubeClient({
  kubeconfig: config.kubeconfig,
  inCluster: config.inCluster,
  userAgent: 'kruise-daemon',
  qps: config.kubeQps,
  burst: config.kubeBurst,
  onCall: ({ verb, resource, status }) => metrics.kubeRequests.inc({ verb, resource, status }),
});

// What this node has: its runtimes, its pods, and its own Node.
const runtimes = new RuntimeDetector({ sockets: socketsToTry(config.daemon), log });
const onCacheError = (error: unknown) => log.error({ err: error }, 'A listener of a watch cache has failed');
const podCache = createCache<Pod>({ onError: onCacheError });
const nodeCache = createCache<Node>({ onError: onCacheError });
const podReflector = new Reflector<Pod>({
  client: kube,
  resource: kubeResource.pods,
  cache: podCache,
  log,
  fieldSelector: `spec.nodeName=${nodeName}`,
  trim: (pod) => trimPod(pod, config.featureGates),
});
const nodeReflector = new Reflector<Node>({
  client: kube,
  resource: kubeResource.nodes,
  cache: nodeCache,
  log,
  fieldSelector: `metadata.name=${nodeName}`,
  trim: ({ apiVersion, kind, metadata: { name, uid, resourceVersion, creationTimestamp } }) => ({
    apiVersion,
    kind,
    metadata: { name, uid, resourceVersion, creationTimestamp },
  }),
});
metrics.trackReflector('pods', podReflector);
metrics.trackReflector('nodes', nodeReflector);

// What it does there.
const events = new EventSender({ client: kube, component: eventComponent.daemonRecreate, nodeName, log });
const stops = new InFlight<StopResult, NodeProgress>();
const pods = podView({
  cache: podCache,
  isSynced: () => podReflector.isSynced,
  lastOutage: () => podReflector.lastOutage,
  client: kube,
});
const pullReporter = new PullReporter({ kube, monotonicMs: () => systemClock.monotonicMs(), log });
const imagesOf = nodeImagesOf({
  kube,
  runtimes,
  secretNamespace: config.images.secretNamespace,
  nodeCredentials: await readNodeCredentials(),
  reporter: pullReporter,
  pullsAtOnce: config.daemon.pullsAtOnce,
  clock: systemClock,
  attempt: currentAttempt,
  log,
});
const worker = new NodeWorker({
  nodeName,
  namespace: config.temporal.namespace,
  connect: (signal) => workerConnection({ config: config.temporal, log, signal }),
  activities: (stopping) => {
    EventEmitter.setMaxListeners(0, stopping); // one for each wait
    const images = imagesOf(stopping);
    const containers = containerActivities({
      nodeName,
      runtimes,
      pods,
      readRequest,
      readPod,
      say: (pod, container, text, component) => events.say(pod, container, text, component),
      stops,
      httpGet: getHook,
      clock: systemClock,
      attempt: currentAttempt,
      stopping,
      log,
    });
    return { ...containers, ...images };
  },
  graceMs: endOfStopsMs,
  interceptors: observeActivities({ log, metrics }),
  dataConverter: dataConverterFor({ log, metrics }),
  log,
});

const reporter = config.featureGates.DaemonWatchingPod
  ? new ContainerMetaReporter({
      pods: podCache,
      isSynced: () => podReflector.isSynced,
      runtimes,
      client: kube,
      gates: config.featureGates,
      monotonicMs: () => systemClock.monotonicMs(),
      queue: (pass) => {
        const onError = (podUid: string, error: unknown, retryInMs: number) =>
          log.warn({ podUid, err: error, retryInMs: Math.round(retryInMs) }, 'Cannot report the containers of a pod');
        const queue = new KeyedQueue({ pass, onError, concurrency: reportWorkers, backOffMs: reportBackOffMs });
        metrics.trackQueue('container-meta', () => queue.depth);
        return queue;
      },
    })
  : undefined;
const gateOpener = config.featureGates.DaemonWatchingPod
  ? new GateOpener({
      pods: podCache,
      runtimes,
      client: kube,
      clock: systemClock,
      log,
      queue: (pass) => {
        const onError = (runtime: string, error: unknown, retryInMs: number) =>
          log.warn(
            { runtime, err: error, retryInMs: Math.round(retryInMs) },
            'Cannot put pods back into service early',
          );
        return new KeyedQueue({ pass, onError, concurrency: 2, backOffMs: openingBackOffMs });
      },
    })
  : undefined;
const probeReflector = config.featureGates.PodProbeMarkerGate ? startProbing() : undefined;

function startProbing(): Reflector<NodePodProbe> {
  const cache = createCache<NodePodProbe>({ onError: onCacheError });
  const fieldSelector = `metadata.name=${nodeName}`;
  const reflector = new Reflector<NodePodProbe>({ client: kube, resource: nodePodProbe, cache, log, fieldSelector });
  metrics.trackReflector('nodepodprobes', reflector);
  const probes = startProbes({
    kube,
    cache,
    nodeName,
    runtime: () => runtimes.first,
    ipOf: (podUid) => podCache.byUid(podUid)?.status?.podIP,
    registry: metrics.registry,
    log,
  });
  shutdown.add({ name: 'probes', stop: (signal) => probes.stop(signal), deadlineMs: 1_000 });
  return reflector;
}

/** A configuration that cannot be used ends the process, as one of its options would. */
async function readNodeCredentials(): Promise<NodeCredentials> {
  const means = { monotonicMs: () => systemClock.monotonicMs(), log };
  try {
    return await nodeCredentials(config.daemon.credentials, means);
  } catch (error) {
    if (!(error instanceof PluginConfigError)) throw error;
    process.stderr.write(`windlass daemon: ${error.message}\n`);
    return process.exit(1);
  }
}

async function readRequest(ref: ObjectRef): Promise<ContainerRecreateRequest | undefined> {
  try {
    return await kube.get<ContainerRecreateRequest>(crr, ref);
  } catch (error) {
    if (isGone(error)) return undefined;
    throw toFailure(error, `Cannot read ContainerRecreateRequest "${qualifiedName(ref)}"`);
  }
}

async function readPod(ref: PodRef): Promise<Pod | undefined> {
  try {
    const pod = await kube.get<Pod>(kubeResource.pods, ref);
    return pod.metadata.uid === ref.uid ? pod : undefined;
  } catch (error) {
    if (isGone(error)) return undefined;
    throw toFailure(error, `Cannot read pod "${qualifiedName(ref)}"`);
  }
}

const health = await serveHealth({
  ...config,
  liveness: {},
  readiness: {
    pods: () => {
      if (!podReflector.isSynced) throw new Error(podReflector.trouble ?? 'the pods of this node are not listed yet');
    },
    probes: () => {
      if (probeReflector?.isSynced === false) {
        throw new Error(probeReflector.trouble ?? 'the list of probes of this node is not read yet');
      }
    },
    runtime: () => runtimes.check(),
    temporal: () => {
      if (worker.trouble !== undefined) throw new Error(worker.trouble);
    },
  },
  metrics: metrics.registry,
});

nodeCache.onChange(({ after }) => {
  // A Node that is deleted may be on its way back; until its UID changes, the queue stays the same.
  if (after !== undefined) worker.serve(after.metadata.uid);
});
shutdown.add({
  name: 'work',
  stop: async () => {
    const late = systemClock.sleep(endOfStopsMs);
    pullReporter.end();
    await Promise.all([worker.stop(), Promise.race([stops.idle(), late])]);
    if (stops.size > 0) log.warn({ stops: stops.size }, 'Exiting with container stops in progress');
  },
});
if (reporter) shutdown.add({ name: 'reports', stop: () => reporter.stop() });
if (gateOpener) shutdown.add({ name: 'gates', stop: () => gateOpener.stop() });
shutdown.add({ name: 'events', stop: (signal) => events.end(signal), deadlineMs: 1_000 });
shutdown.add({ name: 'watches', stop: () => Promise.all(watches().map((watch) => watch.stop())).then() });
shutdown.add({ name: 'connections', stop: () => Promise.all([runtimes.stop(), kube.close()]).then() });
shutdown.add({ name: 'health', stop: () => health.close() });

function watches() {
  return [podReflector, nodeReflector, ...(probeReflector ? [probeReflector] : [])];
}

void compareFeatureGates({
  kube,
  role: 'daemon',
  gates: config.featureGates,
  namespace: config.podNamespace,
  nodeName,
  log,
  signal: shutdown.signal,
});
podReflector.start();
probeReflector?.start();
runtimes.start();
// What comes before the runtime is known would only have to be tried again; a runtime that hangs is not waited for.
await Promise.race([runtimes.tried(), systemClock.sleep(5_000, shutdown.signal)]);
nodeReflector.start();
