/**
 * The watcher: caches of what matters, and while it leads, passes over what has changed. A pass looks at the whole of
 * one thing's affairs and is harmless to repeat, so events only say where to look, a full pass every minute finds what
 * events have missed, and a new leader begins with a fresh list and a pass over everything.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import type { PermitHolder } from '../activities/fleet/advance.ts';
import type { KubeClient } from '../activities/kube/client.ts';
import { apiVersionOf, type KubeObject, type Resource } from '../api/meta.ts';
import type { Config } from '../workers/config.ts';
import type { Logger } from '../workers/log.ts';
import type { Metrics } from '../workers/metrics.ts';
import { createCache, type IndexFunction, type WritableCache } from './cache.ts';
import type { Controller, WatcherHouse } from './controller.ts';
import { controllers } from './controllers.ts';
import { fenced, inTerm, NotLeading, termOfWork } from './fence.ts';
import type { WorkFleets } from './fleet/work.ts';
import { KeyedQueue, type PassResult } from './keyed-queue.ts';
import type { Leader, Term } from './leader.ts';
import { Reflector } from './reflector.ts';
import { Starter } from './starter.ts';
import { trimOf } from './trim.ts';

export interface WatcherDependencies {
  readonly kube: KubeClient;
  readonly client: Client;
  readonly leader: Pick<Leader, 'campaign'>;
  /** Makes sure that Temporal has what starts need: its search attributes. Called in each full pass. */
  readonly prepareTemporal: (signal: AbortSignal) => Promise<void>;
  /** Takes what roll-outs ask of the leader, from the beginning of a term to its end. */
  readonly workFleets: WorkFleets;
  readonly config: WatcherHouse['config'] & Pick<Config, 'fullPassSeconds' | 'engineSilentSeconds'>;
  readonly log: Logger;
  readonly metrics: Metrics;
}

/** How many things of one queue are worked on at once; a pass is a few calls at most. */
const concurrency = 16;

/** One watcher, from `start` to `stop`. */
export class Watcher {
  readonly #deps: WatcherDependencies;
  readonly #stop = new AbortController();
  readonly #caches = new Map<string, { readonly cache: WritableCache<KubeObject>; readonly reflector: Filler }>();
  readonly #starter: Starter;
  readonly #queues: KeyedQueue[] = [];
  readonly #house: WatcherHouse;
  readonly #controllers: readonly Controller[];
  #term: Term | undefined;
  #running: Promise<void> | undefined;

  constructor(deps: WatcherDependencies) {
    this.#deps = deps;
    const { config, log, client, metrics } = deps;
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
    metrics.trackQueue('starts', () => this.#starter.depth);

    this.#house = {
      kube: fenced(deps.kube, () => this.#term),
      starter: this.#starter,
      config,
      log,
      metrics,
      now: () => Date.now(),
      isLeading: () => termOfWork(this.#term)?.isLeading() ?? false,
      cache: (resource, indexes, selection) => this.#cache(resource, indexes, selection?.labelSelector),
      queue: (name, pass) => this.#queue(name, pass),
    };
    this.#controllers = controllers.map((controllerOf) => controllerOf(this.#house));
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

  /** Where roll-outs of a kind hand in their permits; undefined while this watcher does not lead. */
  permitHolder(kind: string): PermitHolder | undefined {
    return this.#controllers.find(({ fleet }) => fleet?.kind === kind)?.fleet?.queue();
  }

  /** Begins to watch, and to lead whenever it is this watcher's turn. */
  start(): void {
    for (const reflector of this.#reflectors) reflector.start();
    this.#running ??= this.#run();
  }

  /** Finishes the passes that run and ends. */
  async stop(): Promise<void> {
    this.#stop.abort(new Error('the watcher is stopped'));
    await Promise.all([
      ...this.#queues.map((queue) => queue.stop()),
      ...this.#controllers.map((controller) => controller.stop?.()),
      this.#starter.stop(),
    ]);
    await Promise.all(this.#reflectors.map((reflector) => reflector.stop()));
    await this.#running;
  }

  get #reflectors(): readonly Filler[] {
    return [...this.#caches.values()].map(({ reflector }) => reflector);
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    const { log, metrics, leader } = this.#deps;
    try {
      await Promise.all(this.#reflectors.map((reflector) => reflector.synced()));
      while (!signal.aborted) {
        const term = await leader.campaign(signal);
        const ended = AbortSignal.any([signal, term.lost]);
        // Another leader may have written what these caches do not show yet.
        if (!(await this.#relist(ended))) continue;
        this.#term = term;
        for (const controller of this.#controllers) controller.begin?.(term);
        this.#deps.workFleets({
          ended,
          permitHolder: (kind) => this.permitHolder(kind),
          kube: fenced(this.#deps.kube, () => term),
          seen: (resource, uid, version, signal) => this.#cache(resource).seen(uid, version, signal),
        });
        metrics.isLeader.set(1);
        log.info('Leading');
        await this.#lead(ended);
        metrics.isLeader.set(0);
        for (const kind of this.#kinds()) metrics.reportOperations(kind, [], Date.now()); // whoever leads now tells
        this.#starter.reset();
        log.info('No longer leading');
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  /** Lists everything anew; false when the term ended before that was done. */
  async #relist(ended: AbortSignal): Promise<boolean> {
    const over = Promise.withResolvers<boolean>();
    const end = () => over.resolve(false);
    ended.addEventListener('abort', end, { once: true });
    if (ended.aborted) end();
    try {
      const listed = Promise.all(this.#reflectors.map((reflector) => reflector.relist())).then(() => true);
      return await Promise.race([listed, over.promise]);
    } finally {
      ended.removeEventListener('abort', end);
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
      // It waits for Temporal as long as it takes, and nothing else may have a reason to ask.
      this.#starter.expectAnswer();
      await this.#deps.prepareTemporal(signal);
      const types = new Set(this.#controllers.flatMap(({ workflowTypes = [] }) => workflowTypes));
      for (const type of types) await this.#starter.restartMissing(type);
    } catch (error) {
      if (!signal.aborted) this.#deps.log.warn({ err: error }, 'Cannot prepare Temporal');
    }
  }

  #wantAll(): void {
    if (!this.isLeading) return;
    for (const controller of this.#controllers) controller.wantAll();
  }

  #report(): void {
    for (const controller of this.#controllers) {
      const operations = controller.operations?.();
      if (operations) this.#deps.metrics.reportOperations(operations.kind, operations.states, Date.now());
    }
  }

  #kinds(): readonly string[] {
    return this.#controllers.flatMap((controller) => controller.operations?.().kind ?? []);
  }

  #cache<T extends KubeObject>(
    resource: Resource,
    indexes: Readonly<Record<string, IndexFunction<T>>> = {},
    labelSelector = '',
  ): WritableCache<T> {
    const key = `${apiVersionOf(resource)}/${resource.plural}?${labelSelector}`;
    const { cache } = this.#caches.get(key) ?? this.#reflect(key, resource, labelSelector);
    // Whoever asks for a resource knows what its objects look like.
    const found = cache as unknown as WritableCache<T>;
    for (const [name, of] of Object.entries(indexes)) found.addIndex(name, of);
    return found;
  }

  #reflect(key: string, resource: Resource, labelSelector: string) {
    if (this.#running !== undefined)
      throw new Error(`The watcher runs already and cannot begin to watch ${resource.plural}`);
    const { kube, log, metrics, config } = this.#deps;
    const cache = createCache<KubeObject>({
      onError: (error, { kind, metadata }) => log.error({ err: error, kind, name: metadata.name }, 'A listener failed'),
    });
    const trim = trimOf(resource);
    const reflector = new Reflector({
      client: kube,
      resource,
      cache,
      log,
      namespace: resource.namespaced ? config.namespace : '',
      ...(labelSelector !== '' && { labelSelector }),
      ...(trim && { trim }),
    });
    metrics.trackReflector(resource.plural, reflector);
    const entry = { cache, reflector };
    this.#caches.set(key, entry);
    return entry;
  }

  #queue(name: string, pass: (key: string) => Promise<PassResult | undefined>): KeyedQueue {
    const { log, metrics } = this.#deps;
    const queue: KeyedQueue = new KeyedQueue({
      concurrency,
      pass: async (key) => {
        const term = this.#term;
        return key === '' || !term?.isLeading() ? undefined : await inTerm(term, () => pass(key));
      },
      onError: (key, error, retryInMs) => {
        if (error instanceof NotLeading) return;
        log.warn({ queue: name, key, err: error, retryInMs: Math.round(retryInMs) }, 'A pass failed');
      },
    });
    metrics.trackQueue(name, () => queue.depth);
    this.#queues.push(queue);
    return queue;
  }
}

type Filler = Pick<Reflector<KubeObject>, 'start' | 'stop' | 'synced' | 'relist' | 'isSynced' | 'trouble'>;
