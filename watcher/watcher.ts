/**
 * The watcher: it keeps watch caches and, while it leads, makes passes over what has changed. A pass looks at the whole
 * state of one thing and is harmless to repeat. So events only say where to look, a full pass every minute finds what
 * events have missed, and a new leader begins with a fresh list and a pass over everything.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import type { NodeHolder } from '../activities/fleet/nodes.ts';
import type { PermitHolder } from '../activities/fleet/permit-holder.ts';
import type { SwapHolder } from '../activities/fleet/swaps.ts';
import { fnv1a } from '../api/base/fnv.ts';
import { apiVersionOf, type KubeObject, type Resource } from '../api/core/meta.ts';
import { eventComponent, installation, kubeResource } from '../api/core/well-known.ts';
import { createCache, type IndexFunction, type WritableCache } from '../kube/cache.ts';
import type { KubeClient } from '../kube/client.ts';
import { EventBudget, tellEvent } from '../kube/events.ts';
import { fenced, inTerm, NotLeading, termOfWork } from '../kube/fence.ts';
import { KeyedQueue, type PassResult } from '../kube/keyed-queue.ts';
import type { Leader, Term } from '../kube/leader.ts';
import { Reflector } from '../kube/reflector.ts';
import type { Config } from '../process/config.ts';
import type { Logger } from '../process/log.ts';
import type { Metrics } from '../process/metrics.ts';
import type { Controller, ControllerContext, ControllerOf, LateCache } from './controller.ts';
import { controllers } from './controllers.ts';
import { keepVersions, versionTimes, type WorkerVersions } from './engine-versions.ts';
import type { WorkFleets } from './fleet/work.ts';
import { Heartbeats, type ListHeartbeats } from './heartbeats.ts';
import { Starter } from './starter.ts';
import { StuckRuns } from './stuck-runs.ts';
import { trimOf } from './trim.ts';
import { UnservedRuns } from './unserved-runs.ts';

export interface WatcherDependencies {
  readonly kube: KubeClient;
  readonly client: Client;
  /** The build ID of the workflow code of this release. */
  readonly build: string;
  readonly leader: Pick<Leader, 'campaign'> & Partial<Pick<Leader, 'resign'>>;
  /** Ensures that Temporal has what starts need: the search attributes. Called in each full pass. */
  readonly prepareTemporal: (signal: AbortSignal) => Promise<void>;
  /**
   * Claims the Temporal namespace for this cluster; resolves with why it must not be used. Rejects when that is not known.
   * Absent: it is ours.
   */
  readonly claim?: () => Promise<string | undefined>;
  /** Serves the calls of roll-outs from the beginning of a term to its end. */
  readonly workFleets: WorkFleets;
  /** The versions of the cluster worker; absent: they are not maintained. */
  readonly versions?: WorkerVersions;
  /** The heartbeats of workers, in Temporal; absent: their polls alone say who is alive. */
  readonly heartbeats?: ListHeartbeats;
  readonly config: ControllerContext['config'] &
    Pick<Config, 'fullPassSeconds' | 'engineSilentSeconds' | 'engineStuckSeconds' | 'manageWorkerDeployment'>;
  readonly log: Logger;
  readonly metrics: Metrics;
  /** The controllers; absent: all registered ones. */
  readonly controllers?: readonly ControllerOf[];
  /** How long a leader that can do nothing keeps the lease; 5 minutes when absent. */
  readonly uselessAfterSeconds?: number;
  /** After how long without its own writes a cache is filled again; 1 minute when absent. */
  readonly unseenAfterSeconds?: number;
}

/** How many keys of one queue are processed at the same time; a pass makes a few calls at most. */
const concurrency = 16;

/** How long caches may take to fill before a watcher that can work without some of them counts as ready. */
const fillPatienceMs = 60_000;

/** The default of how long a leader that can do nothing keeps the lease. */
const uselessAfterSeconds = 300;

/** The default of how long caches may lack own writes: a pass waits for these, and its object with it. */
const unseenAfterSeconds = 60;

/** A watched resource: one reflector, for all controllers that use it. */
interface Followed {
  readonly plural: string;
  readonly cache: WritableCache<KubeObject>;
  readonly reflector: Filler;
  isListedAgain: boolean;
}

/** A controller and the resources that it needs. */
interface Part {
  readonly controller: Controller;
  /** It begins when these are filled, independently of others. */
  readonly needs: ReadonlySet<Followed>;
  /** The last term in which it has begun. */
  readonly begun: { term?: Term };
}

/** One watcher, from `start` to `stop`. */
export class Watcher {
  readonly #deps: WatcherDependencies;
  readonly #stop = new AbortController();
  readonly #followed = new Map<string, Followed>();
  /** What nobody has needed yet. */
  readonly #late = new Map<string, Followed>();
  readonly #starter: Starter;
  readonly #stuckRuns: StuckRuns;
  readonly #unserved: UnservedRuns;
  readonly #heartbeats: Heartbeats;
  readonly #queues: KeyedQueue[] = [];
  readonly #parts: readonly Part[];
  #term: Term | undefined;
  #startedAtMs = Number.POSITIVE_INFINITY;
  /** Nothing has changed, and everything is looked at nevertheless. */
  #isFullPass = false;
  #isCatchingUp = false;
  /** Why this watcher must not lead: Temporal's namespace belongs to another cluster. */
  #foreign: string | undefined;
  #running: Promise<void> | undefined;

  constructor(deps: WatcherDependencies) {
    this.#deps = deps;
    const { config, log, client, metrics } = deps;
    this.#starter = new Starter({
      build: deps.build,
      client,
      mayStart: () => this.isLeading,
      silentAfterMs: config.engineSilentSeconds * 1000,
      stuck: (workflowId, shown, needs = {}) =>
        this.#unserved.trouble(workflowId, shown) ??
        this.#stuckRuns.trouble(workflowId, shown) ??
        this.#heartbeats.trouble(needs),
      onError: (operationId, error, retryInMs) =>
        log.warn({ operationId, err: error, retryInMs }, 'Cannot start or signal an operation'),
      onSilence: (silent) => {
        log.warn({ silent }, silent ? 'Temporal does not answer' : 'Temporal answers again');
        this.#wantAll();
      },
    });
    this.#stuckRuns = new StuckRuns({
      ...{ client, build: deps.build, log, gauge: metrics.stuckOperations },
      temporalNamespace: config.temporal.namespace,
      patienceMs: config.engineStuckSeconds * 1000,
      mayAct: () => this.isLeading,
      beginAnew: (run) => this.#starter.beginAnew(run),
      onChange: () => this.#wantAll(),
    });
    this.#unserved = new UnservedRuns({
      ...{ temporalNamespace: config.temporal.namespace, patienceMs: config.engineSilentSeconds * 1000, log },
      onChange: () => this.#wantAll(),
    });
    this.#heartbeats = new Heartbeats({
      ...(deps.heartbeats && { list: deps.heartbeats }),
      ...{ temporalNamespace: config.temporal.namespace, log },
      uidOf: (node) => this.#uidOfNode(node),
      onLook: (isHeard) => this.#unserved.hear(isHeard),
      onChange: () => this.#wantAll(),
    });
    metrics.trackQueue('starts', () => this.#starter.depth);
    this.#parts = (deps.controllers ?? controllers).map((controllerOf) => this.#part(controllerOf));
  }

  /** Whether this watcher may write now. */
  get isLeading(): boolean {
    return this.#term?.isLeading() ?? false;
  }

  /**
   * Why nothing can be done; undefined when something can: a resource that cannot be listed stops only the controllers
   * that need it, and is reported by `caveat`.
   */
  get unready(): string | undefined {
    const unfilled = this.#unfilled;
    if (unfilled.length === 0) return undefined;
    const isPatient = performance.now() - this.#startedAtMs > fillPatienceMs;
    const canWork = this.#parts.some((part) => part.needs.size > 0 && isFilled(part));
    return isPatient && canWork ? undefined : `a cache is still being filled: ${troubles(unfilled)}`;
  }

  /** The problems of a watcher that is ready, for people; undefined when there are none. */
  get caveat(): string | undefined {
    const unfilled = this.#unfilled;
    const skipped = [...this.#followed.values()].flatMap(({ plural, reflector }) =>
      reflector.tooLarge.length === 0 ? [] : `${plural} ${reflector.tooLarge.slice(0, 5).join(', ')}`,
    );
    const behind = this.#behind;
    const parts = [
      ...(this.#foreign === undefined ? [] : [this.#foreign]),
      ...(unfilled.length > 0 ? [`cannot list ${troubles(unfilled)}`] : []),
      ...(behind.length > 0 ? [`own writes are not seen: ${troubles(behind)}`] : []),
      ...(skipped.length > 0 ? [`too large to be read: ${skipped.join('; ')}`] : []),
    ];
    return parts.length === 0 ? undefined : parts.join('; ');
  }

  /** Where roll-outs of a kind submit their permits; undefined while this watcher does not lead. */
  permitHolder(kind: string): PermitHolder | undefined {
    return this.#fleetOf(kind)?.queue();
  }

  #fleetOf(kind: string): Controller['fleet'] {
    return this.#parts.find(({ controller }) => controller.fleet?.kind === kind)?.controller.fleet;
  }

  /** Where pull jobs hand in their waves; undefined while this watcher does not lead. */
  nodeHolder(): NodeHolder | undefined {
    return this.#parts.find(({ controller }) => controller.nodes)?.controller.nodes?.();
  }

  /** Where swaps of sidecars hand in their steps; undefined while this watcher does not lead. */
  swapHolder(): SwapHolder | undefined {
    return this.#parts.find(({ controller }) => controller.swaps)?.controller.swaps?.();
  }

  /** Starts watching, and leads whenever it gets the lease. */
  start(): void {
    this.#startedAtMs = performance.now();
    for (const reflector of this.#reflectors) reflector.start();
    this.#running ??= this.#run();
  }

  /** Waits for the passes that run, and stops. */
  async stop(): Promise<void> {
    this.#stop.abort(new Error('the watcher is stopped'));
    await Promise.all([
      ...this.#queues.map((queue) => queue.stop()),
      ...this.#parts.map(({ controller }) => controller.stop?.()),
      this.#starter.stop(),
    ]);
    await Promise.all(this.#reflectors.map((reflector) => reflector.stop()));
    await this.#running;
  }

  get #reflectors(): readonly Filler[] {
    return [...this.#followed.values()].map(({ reflector }) => reflector);
  }

  get #unfilled(): readonly Followed[] {
    return [...this.#followed.values()].filter(({ reflector }) => !reflector.isSynced);
  }

  /** What lacks own writes although these were made long ago: its watch may be silent. */
  get #behind(): readonly Followed[] {
    const { unseenAfterSeconds: seconds = unseenAfterSeconds } = this.#deps;
    return [...this.#followed.values()].filter(({ cache }) => cache.unseenMs > seconds * 1000);
  }

  /** From the cache of nodes, which nobody has to wait for. */
  #uidOfNode(name: string): string | undefined {
    const nodes = [...this.#followed.values()].find(({ plural }) => plural === kubeResource.nodes.plural);
    return nodes?.cache.byName('', name)?.metadata.uid;
  }

  get #working(): readonly Part[] {
    return this.#parts.filter(({ begun }) => begun.term !== undefined && begun.term === this.#term);
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    const { log, metrics, leader } = this.#deps;
    try {
      // A leader that can do nothing gives up the lease.
      const filled = ({ needs }: Part) => Promise.all([...needs].map(({ reflector }) => reflector.synced()));
      await Promise.any(this.#parts.filter(({ needs }) => needs.size > 0).map(filled));
      while (!signal.aborted) {
        await this.#untilOurs(signal);
        const term = await leader.campaign(signal);
        const ended = AbortSignal.any([signal, term.lost]);
        this.#term = term;
        metrics.isLeader.set(1);
        log.info({ build: this.#deps.build }, 'Leading');
        this.#beginAll(term, ended);
        void this.#keepVersions(ended);
        void this.#heartbeats.watch(ended);
        await this.#lead(ended);
        metrics.isLeader.set(0);
        for (const kind of this.#kinds()) metrics.reportOperations(kind, [], Date.now()); // whoever leads now reports
        this.#starter.reset();
        this.#stuckRuns.reset();
        this.#unserved.reset();
        this.#heartbeats.reset();
        log.info('No longer leading');
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  /** Waits while Temporal's namespace is another cluster's. Without Temporal it leads: upkeep of fleets does not need it. */
  async #untilOurs(signal: AbortSignal): Promise<void> {
    while ((await this.#isForeign()) && !signal.aborted) {
      await delay(this.#deps.config.fullPassSeconds * 1000, undefined, { signal });
    }
  }

  async #isForeign(): Promise<boolean> {
    const { claim, log, kube, config } = this.#deps;
    try {
      this.#foreign = await claim?.();
    } catch (error) {
      log.debug({ err: error }, "Cannot find out whose Temporal's namespace is");
    }
    if (this.#foreign === undefined) return false;
    log.error(this.#foreign);
    const metadata = { namespace: config.podNamespace, name: installation.recordConfigMap, uid: '' };
    await tellEvent(kube, {
      about: {
        ...{ apiVersion: 'v1', kind: kubeResource.configMaps.kind },
        metadata: { ...metadata, resourceVersion: '', creationTimestamp: '' },
      },
      component: eventComponent.clusterClaim,
      ...{ type: 'Warning', reason: 'TemporalNamespaceTaken', message: this.#foreign },
      atMs: Date.now(),
      key: fnv1a(this.#foreign).toString(16),
    });
    return true;
  }

  /** Starts each controller as soon as its own caches hold everything that was true at the beginning of the term. */
  #beginAll(term: Term, ended: AbortSignal): void {
    // Another leader may have written what these caches do not show yet.
    const lists = new Map([...this.#followed.values()].map((each) => [each, each.reflector.relist()]));
    for (const list of lists.values()) list.catch(() => undefined); // they end with the watcher
    let hasFleets = false;
    for (const part of this.#parts) {
      const begin = () => {
        if (ended.aborted) return;
        part.begun.term = term;
        part.controller.begin?.(term);
        part.controller.wantAll();
        const { fleet, nodes, swaps } = part.controller;
        const isFleet = fleet !== undefined || nodes !== undefined || swaps !== undefined;
        if (isFleet && !hasFleets) this.#workFleets(term, ended);
        hasFleets ||= isFleet;
      };
      void Promise.all([...part.needs].map((needed) => lists.get(needed))).then(begin, () => undefined);
    }
  }

  #workFleets(term: Term, ended: AbortSignal): void {
    this.#deps.workFleets({
      ended,
      permitHolder: (kind) => this.permitHolder(kind),
      commandHolder: (kind) => this.#fleetOf(kind)?.commands(),
      nodeHolder: () => this.nodeHolder(),
      swapHolder: () => this.swapHolder(),
      kube: fenced(this.#deps.kube, () => term),
    });
  }

  async #keepVersions(ended: AbortSignal): Promise<void> {
    const { versions, build, config, log, metrics } = this.#deps;
    if (!versions) return;
    const types = () => this.#types();
    const restart = (workflowId: string) => this.#starter.startAgain(workflowId);
    const manages = config.manageWorkerDeployment;
    const times = versionTimes(config.fullPassSeconds);
    const unserved = this.#unserved;
    await keepVersions({ versions, own: build, manages, types, unserved, restart, log, metrics, times }, ended);
  }

  async #lead(signal: AbortSignal): Promise<void> {
    const begunAtMs = performance.now();
    while (!signal.aborted) {
      this.#isFullPass = true;
      this.#wantAll();
      this.#isFullPass = false;
      this.#report();
      // not awaited: without Temporal it may take long, and nothing here needs Temporal
      void this.#catchUp(signal);
      await delay(this.#deps.config.fullPassSeconds * 1000, undefined, { signal }).catch(() => undefined);
      if (!signal.aborted) this.#judgeItself(begunAtMs);
    }
  }

  /**
   * Logs the resources that cannot be listed. A leader that can do nothing although it can renew its lease gives the
   * lease up: another one may have a working connection to the API server.
   */
  #judgeItself(begunAtMs: number): void {
    this.#listAgain();
    const { log, leader, uselessAfterSeconds: seconds = uselessAfterSeconds } = this.#deps;
    const unfilled = this.#unfilled;
    if (unfilled.length > 0) {
      const resources = unfilled.map(({ plural }) => plural);
      log.warn({ resources }, `Cannot list ${troubles(unfilled)}: what needs it waits`);
    }
    const heardMsAgo = Math.min(...this.#reflectors.map(({ ageMs }) => ageMs));
    const canWork = this.#working.some(({ needs }) => needs.size > 0);
    const isUseless = !canWork || heardMsAgo > seconds * 1000;
    if (!isUseless || performance.now() - begunAtMs < seconds * 1000) return;
    void leader.resign?.(`it could not list or watch any resource for ${seconds} s`);
  }

  /** Objects whose own writes are not seen wait for them: a list shows them also where a watch stays silent. */
  #listAgain(): void {
    for (const followed of this.#behind) {
      const { plural, cache, reflector } = followed;
      const [unseenSeconds, waits] = [Math.round(cache.unseenMs / 1000), cache.waits.slice(0, 10)];
      this.#deps.log.warn({ resource: plural, unseenSeconds, waits }, 'Own writes are not seen: listing again');
      if (followed.isListedAgain) continue;
      followed.isListedAgain = true;
      const done = () => {
        followed.isListedAgain = false;
      };
      reflector.relist().then(done, done);
    }
  }

  /** Finds what Temporal has lost: operations that were ended manually, or all of them with its database. */
  async #catchUp(signal: AbortSignal): Promise<void> {
    void this.#starter.probe();
    // It waits for Temporal for as long as necessary, and one waiting call is enough.
    if (this.#isCatchingUp) return;
    this.#isCatchingUp = true;
    try {
      await this.#deps.prepareTemporal(signal);
      if (await this.#isForeign()) {
        await this.#deps.leader.resign?.("Temporal's namespace belongs to another cluster");
        return;
      }
      const types = this.#types();
      for (const type of types) await this.#starter.restartMissing(type);
      await this.#stuckRuns.pass(types);
    } catch (error) {
      if (!signal.aborted) this.#deps.log.warn({ err: error }, 'Cannot prepare Temporal');
    } finally {
      this.#isCatchingUp = false;
    }
  }

  /** The workflow types of the operations that this leader starts. */
  #types(): readonly string[] {
    return [...new Set(this.#working.flatMap(({ controller }) => controller.workflowTypes ?? []))];
  }

  #wantAll(): void {
    if (!this.isLeading) return;
    for (const { controller } of this.#working) controller.wantAll();
  }

  #report(): void {
    for (const { controller } of this.#working) {
      const operations = controller.operations?.();
      if (operations) this.#deps.metrics.reportOperations(operations.kind, operations.states, Date.now());
    }
  }

  #kinds(): readonly string[] {
    return this.#parts.flatMap(({ controller }) => controller.operations?.().kind ?? []);
  }

  #part(controllerOf: ControllerOf): Part {
    const { kube, config, log, metrics } = this.#deps;
    const needs = new Set<Followed>();
    const begun: Part['begun'] = {};
    const controller = controllerOf({
      kube: fenced(kube, () => begun.term),
      starter: this.#starter,
      daemonTrouble: (name) => this.#heartbeats.trouble({ node: { name } }),
      config,
      log,
      metrics,
      now: () => Date.now(),
      commandEvents: new EventBudget(() => Date.now()),
      isLeading: () => termOfWork(begun.term)?.isLeading() ?? false,
      cache: (resource, indexes, selection) => {
        const needed = this.#follow(resource, selection?.labelSelector);
        needs.add(needed);
        return cacheOf(needed, indexes);
      },
      lateCache: (resource) => this.#followLate(resource),
      queue: (name, pass) => this.#queue(name, pass, { needs, begun }),
    });
    return { controller, needs, begun };
  }

  #follow(resource: Resource, labelSelector = ''): Followed {
    const key = followedKey(resource, labelSelector);
    const followed = this.#followed.get(key) ?? this.#late.get(key) ?? this.#reflect(resource, labelSelector);
    this.#begin(key, followed);
    return followed;
  }

  #followLate<T extends KubeObject>(resource: Resource): LateCache<T> {
    const key = followedKey(resource);
    // With the group: workloads of ours have the same names.
    const named = () => ({ ...this.#reflect(resource), plural: `${resource.plural}.${resource.group}` });
    const followed = this.#followed.get(key) ?? this.#late.get(key) ?? named();
    this.#late.set(key, followed);
    const cache = cacheOf<T>(followed);
    return {
      byName: (namespace, name) => cache.byName(namespace, name),
      onChange: (listener) => cache.onChange(listener),
      begin: () => this.#begin(key, followed),
    };
  }

  /** Before the watcher has started, its reflectors are started together with it. */
  #begin(key: string, followed: Followed): void {
    if (this.#followed.has(key) || this.#stop.signal.aborted) return;
    this.#followed.set(key, followed);
    this.#deps.metrics.trackReflector(followed.plural, followed.reflector);
    if (this.#running !== undefined) followed.reflector.start();
  }

  #reflect(resource: Resource, labelSelector = ''): Followed {
    if (this.#running !== undefined)
      throw new Error(`The watcher runs already and cannot begin to watch ${resource.plural}`);
    const { kube, log, config } = this.#deps;
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
    return { plural: resource.plural, cache, reflector, isListedAgain: false };
  }

  #queue(
    name: string,
    pass: (key: string) => Promise<PassResult | undefined>,
    { needs, begun }: Pick<Part, 'needs' | 'begun'>,
  ): Pick<KeyedQueue, 'add' | 'addAfter' | 'remind'> {
    const { log, metrics } = this.#deps;
    const queue: KeyedQueue = new KeyedQueue({
      concurrency,
      pass: async (key) => {
        const { term } = begun;
        return key === '' || !term?.isLeading() ? undefined : await inTerm(term, () => pass(key));
      },
      shareOf: (key) => namespaceOf(key, needs),
      onError: (key, error, retryInMs) => {
        if (error instanceof NotLeading) return;
        log.warn({ queue: name, key, err: error, retryInMs: Math.round(retryInMs) }, 'A reconcile failed');
      },
    });
    metrics.trackQueue(name, () => queue.depth);
    this.#queues.push(queue);
    return {
      add: (key) => (this.#isFullPass ? queue.remind(key) : queue.add(key)),
      addAfter: (key, ms) => queue.addAfter(key, ms),
      remind: (key) => queue.remind(key),
    };
  }
}

function followedKey(resource: Resource, labelSelector = ''): string {
  return `${apiVersionOf(resource)}/${resource.plural}?${labelSelector}`;
}

type Filler = Pick<
  Reflector<KubeObject>,
  'start' | 'stop' | 'synced' | 'relist' | 'isSynced' | 'trouble' | 'ageMs' | 'tooLarge' | 'counts'
>;

function cacheOf<T extends KubeObject>(
  { cache }: Followed,
  indexes: Readonly<Record<string, IndexFunction<T>>> = {},
): WritableCache<T> {
  // The caller that requests a resource knows the type of its objects.
  const found = cache as unknown as WritableCache<T>;
  for (const [name, of] of Object.entries(indexes)) found.addIndex(name, of);
  return found;
}

function isFilled({ needs }: Part): boolean {
  return [...needs].every(({ reflector }) => reflector.isSynced);
}

function troubles(followed: readonly Followed[]): string {
  return followed
    .map(({ plural, reflector }) => (reflector.trouble ? `${plural} (${reflector.trouble})` : plural))
    .join(', ');
}

/** The namespace of a queue's key: the UID of an object, or its namespace and name. */
function namespaceOf(key: string, needs: Iterable<Followed>): string {
  const slash = key.indexOf('/');
  if (slash >= 0) return key.slice(0, slash);
  for (const { cache } of needs) {
    const found = cache.byUid(key);
    if (found) return found.metadata.namespace ?? '';
  }
  return '';
}
