/**
 * Which workers are alive, by the heartbeats that they send to Temporal every few seconds (`--heartbeat-period`). The
 * server keeps them in memory. The leading watcher lists those of the queues that something waits for. A worker counts as
 * alive until two looks at its queue, some of its periods apart by the watcher's own clock, have found the same heartbeat: no
 * clocks are compared, and a queue that waits for its turn stays as it was. What follows is reported on objects and has no other effect: a stall of the whole machine makes all workers look
 * dead for a moment.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { timestamp } from '../api/base/time.ts';
import { type EngineTrouble, engineNoDaemon, engineNoFleetWorker } from '../api/engine/engine-trouble.ts';
import { queues } from '../api/engine/operations.ts';
import type { Logger } from '../process/log.ts';
import type { Poller } from './engine-versions.ts';

/** The last heartbeat of a worker, as Temporal has it. */
export interface Heartbeat extends Pick<Poller, 'build' | 'isVersioned'> {
  readonly queue: string;
  /** Unique for each start of a worker. */
  readonly worker: string;
  /** By the clock of the worker. */
  readonly atMs: number;
  /** The time between its last two heartbeats. 0: it has sent only one. */
  readonly periodMs: number;
}

/**
 * The last heartbeats of the running workers of these queues, by one call; undefined: the server keeps none. Temporal
 * counts it as a query of its visibility store, of which a namespace has ten a second by default.
 */
export type ListHeartbeats = (queues: readonly string[]) => Promise<readonly Heartbeat[] | undefined>;

/** Whom an operation needs besides a cluster worker. */
export interface NeedsOfOperation {
  /** The node whose daemon has to act now. Without a UID it is looked up. */
  readonly node?: { readonly name: string; readonly uid?: string };
  /** Whether the leading watcher has to take activities of queue `fleet`. */
  readonly fleet?: boolean;
}

export interface HeartbeatsOptions {
  /** Absent: there is no such signal. */
  readonly list?: ListHeartbeats;
  readonly temporalNamespace: string;
  /** The UID of a node by its name, where it is known. */
  readonly uidOf?: (node: string) => string | undefined;
  /** Called when the troubles that objects have to report have changed. */
  readonly onChange: () => void;
  /** Called after each look at queue `cluster`; see `isHeard`. */
  readonly onLook: (isHeard: IsHeard) => void;
  readonly log: Logger;
  /** A monotonic clock. Absent: that of this process. */
  readonly nowMs?: () => number;
  /** The wall clock, for people to read. Absent: that of this process. */
  readonly date?: () => number;
}

/** Whether a worker like this one is alive; undefined: not known. */
export type IsHeard = (isWanted: (worker: Poller) => boolean) => boolean | undefined;

/** The time between two looks, and the most time that looks may fail or be late before all is forgotten. */
const lookMs = 2_000;
const forgetMs = 6_000;

/** The time between two looks that have heard nothing: at least this long, and this many periods of the worker. */
const silentMs = 8_000;
const silentPeriods = 2.5;

/** Nodes in one look, whose cost at Temporal grows with their number; the others follow in the next looks. */
const mostNodes = 40;

/** Between two reports of changes, each of which is a pass over everything. */
const tellMs = 5_000;

/** A node that nobody has asked about for this long is not looked at: a full pass asks every minute. */
const unaskedMs = 150_000;

/** A queue as this watcher sees it. */
interface SeenQueue {
  /** The first look at it. */
  readonly sinceMs: number;
  readonly sinceDate: number;
  readonly workers: ReadonlyMap<string, SeenWorker>;
  /** The last look at it. */
  readonly lookedAtMs: number;
}

interface SeenWorker extends Heartbeat {
  /** When its heartbeat was seen to change, or it to be gone. */
  readonly heardMs: number;
  readonly heardDate: number;
}

export class Heartbeats {
  readonly #options: HeartbeatsOptions;
  readonly #queues = new Map<string, SeenQueue>();
  /** By UID of the node: those that something waits for. */
  readonly #nodes = new Map<string, { readonly name: string; readonly askedMs: number }>();
  /** The queues on which nothing was heard, and since when, to be read by people. */
  #silent: ReadonlyMap<string, string> = new Map();
  #lookedAtMs: number | undefined;
  #toldMs = Number.NEGATIVE_INFINITY;
  #isUntold = false;

  constructor(options: HeartbeatsOptions) {
    this.#options = options;
  }

  /** Which part an operation waits for because it does not answer; undefined when they all do, as far as is known. */
  trouble({ node, fleet = false }: NeedsOfOperation): EngineTrouble | undefined {
    const { temporalNamespace } = this.#options;
    const noFleet = fleet ? this.#silent.get(queues.fleet) : undefined;
    if (noFleet !== undefined) return engineNoFleetWorker(temporalNamespace, noFleet);
    const uid = node?.uid ?? this.#options.uidOf?.(node?.name ?? '');
    if (node === undefined || uid === undefined) return undefined;
    this.#nodes.set(uid, { name: node.name, askedMs: this.#nowMs() });
    const since = this.#silent.get(queues.node(uid));
    return since === undefined ? undefined : engineNoDaemon(node.name, since);
  }

  /** Looks until the signal aborts. */
  async watch(ended: AbortSignal): Promise<void> {
    let said = '';
    while (this.#options.list !== undefined && !ended.aborted) {
      try {
        await this.look(ended);
        said = '';
      } catch (error) {
        const text = error instanceof Error ? error.message : String(error);
        if (text !== said) this.#options.log.debug({ err: error }, 'Cannot list the heartbeats of workers');
        said = text;
      }
      await delay(lookMs, undefined, { signal: ended }).catch(() => undefined);
    }
  }

  /** Forgets everything: another watcher may lead from now on. */
  reset(): void {
    this.#queues.clear();
    this.#nodes.clear();
    this.#silent = new Map();
    this.#lookedAtMs = undefined;
    this.#toldMs = Number.NEGATIVE_INFINITY;
    this.#isUntold = false;
  }

  /** Looks once. */
  async look(ended?: AbortSignal): Promise<void> {
    const looks = [queues.cluster, queues.fleet, ...this.#nextNodes().map((uid) => queues.node(uid))];
    const { list, onLook } = this.#options;
    const found = await list?.(looks);
    if (ended?.aborted) return;
    const nowMs = this.#nowMs();
    // this process has stood still, or Temporal was away: others may have been, too
    if (nowMs - (this.#lookedAtMs ?? nowMs) > forgetMs) this.#queues.clear();
    this.#lookedAtMs = nowMs;
    const byQueue = Map.groupBy(found ?? [], ({ queue }) => queue);
    if (found === undefined) this.#queues.clear();
    else for (const queue of looks) this.#take(queue, byQueue.get(queue) ?? [], nowMs);
    onLook((isWanted) => this.#isHeard(queues.cluster, isWanted));
    this.#tell();
  }

  /** Those that were looked at longest ago. */
  #nextNodes(): readonly string[] {
    const nowMs = this.#nowMs();
    for (const [uid, { askedMs }] of this.#nodes) {
      if (nowMs - askedMs <= unaskedMs) continue;
      this.#nodes.delete(uid);
      this.#queues.delete(queues.node(uid));
    }
    const lookedAt = (uid: string) => this.#queues.get(queues.node(uid))?.lookedAtMs ?? Number.NEGATIVE_INFINITY;
    const nodes = [...this.#nodes.keys()];
    if (nodes.length <= mostNodes) return nodes;
    return nodes.toSorted((left, right) => Math.sign(lookedAt(left) - lookedAt(right)) || 0).slice(0, mostNodes);
  }

  #take(queue: string, heartbeats: readonly Heartbeat[], nowMs: number): void {
    const { date = Date.now } = this.#options;
    const before = this.#queues.get(queue);
    const [heardMs, heardDate] = [nowMs, date()];
    const workers = heartbeats.map((heartbeat): SeenWorker => {
      const known = before?.workers.get(heartbeat.worker);
      return known?.atMs === heartbeat.atMs ? known : { ...heartbeat, heardMs, heardDate };
    });
    // another one may come at once
    const ended = [...(before?.workers.values() ?? [])]
      .filter((known) => before && isAlive(known, before) && workers.every(({ worker }) => worker !== known.worker))
      .map((known) => (known.atMs === goneMs ? known : { ...known, atMs: goneMs, heardMs, heardDate }));
    this.#queues.set(queue, {
      sinceMs: before?.sinceMs ?? nowMs,
      sinceDate: before?.sinceDate ?? heardDate,
      workers: new Map([...ended, ...workers].map((worker) => [worker.worker, worker])),
      lookedAtMs: nowMs,
    });
  }

  #isHeard(queue: string, isWanted: (worker: Poller) => boolean): boolean | undefined {
    const seen = this.#queues.get(queue);
    const isLate = this.#nowMs() - (this.#lookedAtMs ?? Number.NEGATIVE_INFINITY) > forgetMs;
    if (isLate || seen === undefined || seen.lookedAtMs - seen.sinceMs < silentMs) return undefined;
    return [...seen.workers.values()].some((worker) => isWanted(worker) && isAlive(worker, seen));
  }

  #tell(): void {
    const { log, onChange } = this.#options;
    const before = this.#silent;
    const others = [...this.#queues.keys()].filter((queue) => queue !== queues.cluster);
    const silent = others.filter((queue) => this.#isHeard(queue, () => true) === false);
    this.#silent = new Map(silent.map((queue) => [queue, before.get(queue) ?? this.#lastHeard(queue)]));
    this.#isUntold ||= silent.length !== before.size || silent.some((queue) => !before.has(queue));
    if (!this.#isUntold || this.#nowMs() - this.#toldMs < tellMs) return;
    this.#isUntold = false;
    this.#toldMs = this.#nowMs();
    const nodes = [...this.#nodes].flatMap(([uid, { name }]) => (this.#silent.has(queues.node(uid)) ? name : []));
    const fields = { fleetWorker: !this.#silent.has(queues.fleet), nodes: nodes.slice(0, mostNodes) };
    log.info(fields, 'Other workers are alive than before: whether a fleet worker is, and nodes whose daemons are not');
    onChange();
  }

  #lastHeard(queue: string): string {
    const seen = this.#queues.get(queue);
    const heard = [...(seen?.workers.values() ?? [])].map(({ heardDate }) => heardDate);
    return timestamp(Math.max(seen?.sinceDate ?? 0, ...heard));
  }

  #nowMs(): number {
    return this.#options.nowMs?.() ?? performance.now();
  }
}

/** The time of the heartbeat of a worker that is listed no more. */
const goneMs = Number.POSITIVE_INFINITY;

function isAlive({ heardMs, periodMs }: SeenWorker, { lookedAtMs }: Pick<SeenQueue, 'lookedAtMs'>): boolean {
  return lookedAtMs - heardMs < Math.max(silentMs, silentPeriods * periodMs);
}
