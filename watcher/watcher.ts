/**
 * The watcher: caches of what matters, and while it leads, passes over what has changed. A pass looks at the whole of
 * one pod's affairs and is harmless to repeat, so events only say where to look, a full pass every minute finds what
 * events have missed, and a new leader begins with a pass over everything.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import type { KubeClient } from '../activities/kube/client.ts';
import { type ContainerRecreateRequest, crr } from '../api/container-recreate-request.ts';
import type { KubeObject, Resource } from '../api/meta.ts';
import type { Node } from '../api/node.ts';
import { restartContainersType } from '../api/operations.ts';
import type { Pod } from '../api/pod.ts';
import { hasReadinessGate } from '../api/pod-readiness.ts';
import { kubeResource } from '../api/well-known.ts';
import type { Config } from '../workers/config.ts';
import type { Logger } from '../workers/log.ts';
import type { Metrics, OperationState } from '../workers/metrics.ts';
import { type Cache, createCache, type IndexFunction } from './cache.ts';
import { fenced, NotLeading } from './fence.ts';
import { KeyedQueue } from './keyed-queue.ts';
import {
  passOverRequests,
  podUidOf,
  type RequestPassDependencies,
  releaseDeadKeys,
  requestIndexes,
  tellWithdrawn,
} from './kinds/container-recreate-request.ts';
import { answerReadinessGate, trimPod } from './kinds/pod-readiness.ts';
import type { Leader, Term } from './leader.ts';
import { Reflector } from './reflector.ts';
import { Starter } from './starter.ts';

export interface WatcherDependencies {
  readonly kube: KubeClient;
  readonly client: Client;
  readonly leader: Pick<Leader, 'campaign'>;
  /** Makes sure that Temporal has what starts need: its search attributes. Called in each full pass. */
  readonly prepareTemporal: (signal: AbortSignal) => Promise<void>;
  readonly config: Pick<Config, 'namespace' | 'fullPassSeconds' | 'engineSilentSeconds'>;
  readonly log: Logger;
  readonly metrics: Metrics;
}

/** How many pods are worked on at once; a pass is a few calls at most. */
const concurrency = 16;

/** One watcher, from `start` to `stop`. */
export class Watcher {
  readonly #deps: WatcherDependencies;
  readonly #stop = new AbortController();
  readonly #reflectors: Reflector<never>[] = [];
  readonly #requests: Cache<ContainerRecreateRequest>;
  readonly #pods: Cache<Pod>;
  readonly #nodes: Cache<Node>;
  readonly #starter: Starter;
  readonly #requestQueue: KeyedQueue;
  readonly #gateQueue: KeyedQueue;
  readonly #world: RequestPassDependencies;
  #term: Term | undefined;
  #running: Promise<void> | undefined;

  constructor(deps: WatcherDependencies) {
    this.#deps = deps;
    const { config, log, client } = deps;
    this.#requests = this.#reflect<ContainerRecreateRequest>(crr, { indexes: requestIndexes });
    this.#pods = this.#reflect<Pod>(kubeResource.pods, { trim: trimPod });
    this.#nodes = this.#reflect<Node>(kubeResource.nodes, { trim: trimNode });

    this.#starter = new Starter({
      client,
      mayStart: () => this.isLeading,
      silentAfterMs: config.engineSilentSeconds * 1000,
      onError: (operationId, error, retryInMs) =>
        log.warn({ operationId, err: error, retryInMs }, 'Cannot tell Temporal of an operation'),
      onSilence: (silent) => {
        log.warn({ silent }, silent ? 'Temporal does not answer' : 'Temporal answers again');
        this.#wantAll();
      },
    });
    deps.metrics.trackQueue('starts', () => this.#starter.depth);
    const kube = fenced(deps.kube, () => this.isLeading);
    const now = () => Date.now();
    this.#world = { kube, requests: this.#requests, pods: this.#pods, nodes: this.#nodes, starter: this.#starter, now };

    this.#requestQueue = this.#queue('requests', async (podUid) => passOverRequests(podUid, this.#world));
    this.#gateQueue = this.#queue('readiness-gates', async (podUid) => {
      const pod = this.#pods.byUid(podUid);
      if (!pod) return undefined;
      await answerReadinessGate(pod, { kube, now });
      await releaseDeadKeys(pod, this.#world);
      return undefined;
    });
  }

  /** Whether this watcher may write at this moment. */
  get isLeading(): boolean {
    return this.#term?.isLeading() ?? false;
  }

  /** Why the caches are not usable, or nothing when they are. */
  get unready(): string | undefined {
    const behind = this.#reflectors.find((reflector) => !reflector.isSynced);
    return behind ? `a cache is still being filled${behind.trouble ? `: ${behind.trouble}` : ''}` : undefined;
  }

  /** Begins to watch, and to lead whenever it is this watcher's turn. */
  start(): void {
    this.#listen();
    for (const reflector of this.#reflectors) reflector.start();
    this.#running ??= this.#run();
  }

  /** Finishes the passes that run and ends. */
  async stop(): Promise<void> {
    this.#stop.abort(new Error('the watcher is stopped'));
    await Promise.all([this.#requestQueue.stop(), this.#gateQueue.stop(), this.#starter.stop()]);
    await Promise.all(this.#reflectors.map((reflector) => reflector.stop()));
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    const { log, metrics, leader } = this.#deps;
    try {
      await Promise.all(this.#reflectors.map((reflector) => reflector.synced()));
      while (!signal.aborted) {
        const term = await leader.campaign(signal);
        this.#term = term;
        metrics.isLeader.set(1);
        log.info('Leading');
        await this.#lead(AbortSignal.any([signal, term.lost]));
        metrics.isLeader.set(0);
        metrics.reportOperations(crr.kind, [], Date.now()); // whoever leads now tells of them
        this.#starter.reset();
        log.info('No longer leading');
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  async #lead(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      this.#wantAll();
      this.#report();
      // not waited for: with Temporal away it may take long, and nothing here needs Temporal
      void this.#catchUp(signal);
      await delay(this.#deps.config.fullPassSeconds * 1000, undefined, { signal }).catch(() => undefined);
    }
  }

  /** Finds what Temporal has lost: operations that were ended by hand, or all of them with its database. */
  async #catchUp(signal: AbortSignal): Promise<void> {
    try {
      await this.#deps.prepareTemporal(signal);
      await this.#starter.restartMissing(restartContainersType);
    } catch (error) {
      if (!signal.aborted) this.#deps.log.warn({ err: error }, 'Cannot prepare Temporal');
    }
  }

  #listen(): void {
    this.#requests.onChange(({ before, after }) => {
      const request = after ?? before;
      if (!request || !this.isLeading) return;
      this.#requestQueue.add(podUidOf(request));
      const goes = after === undefined || after.metadata.deletionTimestamp !== undefined;
      if (before && goes && before.metadata.deletionTimestamp === undefined) void tellWithdrawn(before, this.#world);
      if (after === undefined) this.#gateQueue.add(podUidOf(request)); // it may have left a key behind
    });
    this.#pods.onChange(({ before, after }) => {
      const pod = after ?? before;
      if (!pod || !this.isLeading) return;
      const { uid } = pod.metadata;
      const goes = after === undefined || after.metadata.deletionTimestamp !== undefined;
      if (goes && this.#requests.byIndex('podUid', uid).length > 0) this.#requestQueue.add(uid);
      if (after && hasReadinessGate(after)) this.#gateQueue.add(uid);
    });
    this.#nodes.onChange(({ before, after }) => {
      if (!this.isLeading || before?.metadata.uid === after?.metadata.uid) return;
      this.#wantAll(); // rare: a node came, went, or came back as another
    });
  }

  #wantAll(): void {
    if (!this.isLeading) return;
    for (const request of this.#requests.all()) this.#requestQueue.add(podUidOf(request));
    for (const pod of this.#pods.all()) if (hasReadinessGate(pod)) this.#gateQueue.add(pod.metadata.uid);
  }

  #report(): void {
    const operations: OperationState[] = [...this.#requests.all()].map(({ status }) => ({
      phase: status?.phase || 'New',
      ...(status?.waitingFor
        ? { waiting: { reason: status.waitingFor.reason, sinceMs: Date.parse(status.waitingFor.since) } }
        : {}),
    }));
    this.#deps.metrics.reportOperations(crr.kind, operations, Date.now());
  }

  #reflect<T extends KubeObject>(
    resource: Resource,
    options: { readonly trim?: (object: T) => T; readonly indexes?: Readonly<Record<string, IndexFunction<T>>> },
  ): Cache<T> {
    const { kube, log, metrics, config } = this.#deps;
    const cache = createCache<T>({
      ...(options.indexes ? { indexes: options.indexes } : {}),
      onError: (error, { kind, metadata }) => log.error({ err: error, kind, name: metadata.name }, 'A listener failed'),
    });
    const reflector = new Reflector<T>({
      client: kube,
      resource,
      cache,
      log,
      namespace: resource.namespaced ? config.namespace : '',
      ...(options.trim ? { trim: options.trim } : {}),
    });
    metrics.trackReflector(resource.plural, reflector);
    this.#reflectors.push(reflector as unknown as Reflector<never>);
    return cache;
  }

  #queue(name: string, pass: (key: string) => Promise<{ readonly againInMs?: number } | undefined>): KeyedQueue {
    const { log, metrics } = this.#deps;
    const queue: KeyedQueue = new KeyedQueue({
      concurrency,
      pass: async (key) => (key === '' || !this.isLeading ? undefined : await pass(key)),
      onError: (key, error, retryInMs) => {
        if (error instanceof NotLeading) return;
        log.warn({ queue: name, podUid: key, err: error, retryInMs: Math.round(retryInMs) }, 'A pass failed');
      },
    });
    metrics.trackQueue(name, () => queue.depth);
    return queue;
  }
}

/** What the watcher keeps of a node: that it is there, and as which one. */
function trimNode({ metadata }: Node): Node {
  const { name, uid, resourceVersion, creationTimestamp } = metadata;
  return { apiVersion: 'v1', kind: 'Node', metadata: { name, uid, resourceVersion, creationTimestamp } };
}
