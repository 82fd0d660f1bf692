import { criLabel, newestByName, type RuntimeContainer } from '../../activities/cri/runtime.ts';
import type { ProbeRuntime } from './runtime.ts';
import type { ProbeClock } from './schedule.ts';

/** The newest instance of a container. */
export interface Instance {
  readonly id: string;
  readonly isRunning: boolean;
  /** By the clock of the node; undefined while it does not run. */
  readonly startedAtMs: number | undefined;
}

/**
 * The maximum age of a list of containers. All probes share it, so that their number does not increase the load on the
 * runtime.
 */
const freshMs = 500;

/** The containers of the node; callers at about the same time share one list call. */
export class Instances {
  readonly #runtime: () => ProbeRuntime | undefined;
  readonly #clock: ProbeClock;
  #list:
    | { readonly atMs: number; readonly byPod: Promise<ReadonlyMap<string, readonly RuntimeContainer[]>> }
    | undefined;
  /** By ID: when instances were started, which does not change. */
  readonly #startedAtMs = new Map<string, number>();

  constructor(runtime: () => ProbeRuntime | undefined, clock: ProbeClock) {
    this.#runtime = runtime;
    this.#clock = clock;
  }

  /** Undefined when the runtime has no container of this name in the pod, or there is no runtime. */
  async find(podUid: string, container: string): Promise<Instance | undefined> {
    const runtime = this.#runtime();
    if (runtime === undefined) return undefined;
    const newest = newestByName((await this.#containers(runtime)).get(podUid) ?? []).get(container);
    if (newest === undefined) return undefined;
    if (newest.state !== 'running') return { id: newest.id, isRunning: false, startedAtMs: undefined };
    return { id: newest.id, isRunning: true, startedAtMs: await this.#startOf(newest.id, runtime) };
  }

  async #containers(runtime: ProbeRuntime): Promise<ReadonlyMap<string, readonly RuntimeContainer[]>> {
    const nowMs = this.#clock.monotonicMs();
    if (this.#list && nowMs - this.#list.atMs < freshMs) return await this.#list.byPod;
    const list = { atMs: nowMs, byPod: this.#listAll(runtime) };
    this.#list = list;
    try {
      return await list.byPod;
    } catch (error) {
      if (this.#list === list) this.#list = undefined;
      throw error;
    }
  }

  async #listAll(runtime: ProbeRuntime): Promise<ReadonlyMap<string, readonly RuntimeContainer[]>> {
    const byPod = new Map<string, RuntimeContainer[]>();
    const ids = new Set<string>();
    for (const container of await runtime.listContainers({})) {
      const podUid = container.labels[criLabel.podUid];
      ids.add(container.id);
      if (podUid === undefined) continue;
      const others = byPod.get(podUid);
      if (others) others.push(container);
      else byPod.set(podUid, [container]);
    }
    for (const id of this.#startedAtMs.keys()) if (!ids.has(id)) this.#startedAtMs.delete(id);
    return byPod;
  }

  async #startOf(id: string, runtime: ProbeRuntime): Promise<number | undefined> {
    const known = this.#startedAtMs.get(id);
    if (known !== undefined) return known;
    const status = await runtime.containerStatus(id);
    if (status === undefined || status.startedAtNs === 0n) return undefined;
    const startedAtMs = Number(status.startedAtNs / 1_000_000n);
    this.#startedAtMs.set(id, startedAtMs);
    return startedAtMs;
  }
}
