import { pino } from 'pino';
import { apiVersionOf, type KubeObject, type Resource } from '../../api/core/meta.ts';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import { createCache, type IndexFunction, type WritableCache } from '../../kube/cache.ts';
import { EventBudget } from '../../kube/events.ts';
import { KeyedQueue } from '../../kube/keyed-queue.ts';
import { Reflector } from '../../kube/reflector.ts';
import { createMetrics } from '../../process/metrics.ts';
import type { Controller, ControllerContext, ControllerOf, LateCache } from '../../watcher/controller.ts';
import { trimOf } from '../../watcher/trim.ts';
import { type Meet, MemoryCluster, type SeenCall } from './fake-api/memory-cluster.ts';

/** One controller as the watcher runs it, with an API server in memory: real reflectors, caches, trims and queues. */
export interface RunningController {
  readonly cluster: MemoryCluster;
  readonly controller: Controller;
  /** Every write so far. */
  readonly writes: readonly SeenCall[];
  /** Errors of passes, as text. */
  readonly failures: readonly string[];
  /** Warnings and errors in the log: text, and error if there is one. */
  readonly warnings: readonly string[];
  stop(): Promise<void>;
}

export interface ControllerContextOptions {
  readonly cluster?: MemoryCluster;
  readonly gates?: string;
  readonly temporal?: ControllerContext['config']['temporal'];
  readonly now?: () => number;
  /** Called before each write. Absent: this process leads. */
  readonly isLeading?: () => boolean;
  /** Absent: no operation is ever started. */
  readonly starter?: Partial<ControllerContext['starter']>;
  /** Absent: all daemons answer. */
  readonly daemonTrouble?: ControllerContext['daemonTrouble'];
  /** Called before each call takes effect, which waits for it; the call fails with what it throws. */
  readonly meet?: Meet;
}

/** Starts a controller, which leads at once. */
export async function runController(
  controllerOf: ControllerOf,
  {
    cluster = new MemoryCluster(),
    gates = '',
    temporal = { address: '127.0.0.1:7233', namespace: 'default' },
    now = () => Date.parse('2026-01-01T00:01:00Z'),
    starter = {},
    daemonTrouble = () => undefined,
    isLeading = () => true,
    meet,
  }: ControllerContextOptions = {},
): Promise<RunningController> {
  const writes: SeenCall[] = [];
  const failures: string[] = [];
  const client = cluster.client();
  const kube = cluster.client(async (call, about) => {
    await meet?.(call, about);
    if (call.verb !== 'get' && call.verb !== 'list' && !about.isDryRun) writes.push(call);
  });
  const warnings: string[] = [];
  const write = (line: string) => {
    const { msg, err } = JSON.parse(line) as { readonly msg: string; readonly err?: { readonly message: string } };
    warnings.push(err === undefined ? msg : `${msg}: ${err.message}`);
  };
  const log = pino({ level: 'warn' }, { write });
  const metrics = createMetrics('watcher');
  const caches = new Map<string, WritableCache<KubeObject>>();
  const reflectors: Reflector<KubeObject>[] = [];
  const queues: KeyedQueue[] = [];
  const begun = Promise.withResolvers<void>();

  function cacheOf(resource: Resource): WritableCache<KubeObject> {
    const key = `${apiVersionOf(resource)}/${resource.plural}`;
    const known = caches.get(key);
    if (known) return known;
    const { cache, reflector } = newCache(resource);
    reflectors.push(reflector);
    caches.set(key, cache);
    return cache;
  }

  function newCache(resource: Resource) {
    const cache = createCache<KubeObject>({ onError: (error) => void failures.push(String(error)) });
    const trim = trimOf(resource);
    return { cache, reflector: new Reflector({ client, resource, cache, log, ...(trim && { trim }) }) };
  }

  const context: ControllerContext = {
    kube,
    starter: { ...noStarter, ...starter },
    config: {
      namespace: '',
      podNamespace: 'kruise-system',
      temporal,
      featureGates: parseFeatureGates(gates),
      images: { nodeImageDelaySeconds: 30, tagTtlSeconds: 300, secretNamespace: 'kruise-daemon-config' },
    },
    log,
    metrics,
    now,
    commandEvents: new EventBudget(now),
    daemonTrouble,
    isLeading,
    cache<T extends KubeObject>(resource: Resource, indexes: Readonly<Record<string, IndexFunction<T>>> = {}) {
      const cache = cacheOf(resource) as unknown as WritableCache<T>;
      for (const [name, of] of Object.entries(indexes)) cache.addIndex(name, of);
      return cache;
    },
    lateCache<T extends KubeObject>(resource: Resource) {
      const { cache, reflector } = newCache(resource);
      const begin = () => {
        if (reflectors.includes(reflector)) return;
        reflectors.push(reflector);
        reflector.start();
      };
      return Object.assign(cache, { begin }) as unknown as LateCache<T>;
    },
    queue(name, pass) {
      const onError = (key: string, error: unknown) => void failures.push(`${name} ${key}: ${String(error)}`);
      const filled = (key: string) => begun.promise.then(() => pass(key));
      const queue = new KeyedQueue({ concurrency: 4, pass: filled, onError });
      queues.push(queue);
      return queue;
    },
  };
  const controller = controllerOf(context);
  for (const reflector of reflectors) reflector.start();
  await Promise.all(reflectors.map((reflector) => reflector.synced()));
  controller.begin?.({ isLeading, lost: new AbortController().signal });
  begun.resolve();
  controller.wantAll();
  return {
    cluster,
    controller,
    writes,
    failures,
    warnings,
    async stop() {
      await Promise.all(queues.map((queue) => queue.stop()));
      await controller.stop?.();
      await Promise.all(reflectors.map((reflector) => reflector.stop()));
    },
  };
}

const noStarter: ControllerContext['starter'] = {
  want: () => undefined,
  forget: () => undefined,
  dismiss: () => undefined,
  tell: () => Promise.resolve(true),
  command: () => Promise.resolve(),
  isSent: () => false,
  trouble: () => undefined,
};
