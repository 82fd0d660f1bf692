/**
 * Runs the probes in this node's NodePodProbe, as a local loop without workflows. Each probe of each container has its
 * own due time in one schedule; a run waits for a free slot, finds the newest instance of its container, probes it, and
 * stores the result. Only results that are worth reporting are passed on.
 */

import { CriError } from '../../activities/cri/runtime.ts';
import { sameJson } from '../../api/base/json.ts';
import { timestamp } from '../../api/base/time.ts';
import type { EventText } from '../../api/core/event.ts';
import { handlerHash, type Probe, type ProbePace, paceOf } from '../../api/core/probe.ts';
import type { PodRef } from '../../api/core/refs.ts';
import {
  type ContainerProbe,
  type ContainerProbeState,
  type NodePodProbe,
  type NodePodProbeStatus,
  type PodProbe,
  type ProbeVerdict,
  probeEvent,
} from '../../api/node-pod-probe/types.ts';
import { runCheck } from './checks.ts';
import { type Instance, Instances } from './instances.ts';
import type { ProbeRuntime } from './runtime.ts';
import { type ProbeClock, Schedule } from './schedule.ts';
import { Turns } from './turns.ts';
import { afterRun, isEvent, isWorthTelling, newInstance, notRunning, type Standing, type Told } from './verdict.ts';

export interface ProberOptions {
  /** The runtime of the node; undefined while there is none. */
  readonly runtime: () => ProbeRuntime | undefined;
  /** The IP of a pod of this node, for lists that do not say it. */
  readonly ipOf: (podUid: string) => string | undefined;
  /** Writes an Event on the pod about its container. */
  readonly say: (pod: PodRef, container: string, text: EventText) => void;
  /** Called when `status` has changed and should be reported. */
  readonly changed: () => void;
  readonly clock: ProbeClock;
  /** A random number between 0 and 1. */
  readonly random?: () => number;
  readonly log: { warn(fields: object, message: string): void };
  /** Called for each run: its delay and its result. */
  readonly observe?: (run: ProbeRun) => void;
  /** How many runs of each kind are allowed at the same time. */
  readonly limits?: ProbeLimits;
}

/** The maximum number of concurrent runs of each kind. */
export interface ProbeLimits {
  /** Commands. */
  readonly exec: number;
  /** Connections and requests. */
  readonly network: number;
  /**
   * Runs of either kind that may take longer than a minute: they have slots of their own, so that they do not block
   * others.
   */
  readonly long: number;
  /** Commands that have printed much before: the runtime returns the whole output at once, up to 16 MiB. */
  readonly loud: number;
}

/** One run, for metrics. */
export interface ProbeRun {
  readonly handler: 'exec' | 'http' | 'tcp';
  readonly outcome: 'success' | 'failure' | 'none';
  readonly lagMs: number;
}

const usualLimits: ProbeLimits = { exec: 32, network: 128, long: 32, loud: 4 };

/** Runs with a longer timeout do not occupy the slots of others. */
const longSeconds = 60;

/** One probe of one container. */
interface Worker {
  readonly key: string;
  readonly pod: PodRef;
  readonly container: string;
  readonly name: string;
  ip: string;
  probe: Probe;
  pace: ProbePace;
  handler: string;
  /** Incremented at each change of the handler, so that a run of the old one is ignored. */
  version: number;
  isRunning: boolean;
  /** Its command has printed much; stays true until the command changes. */
  isLoud: boolean;
  /** When the last run was due, by the monotonic clock; undefined before the first. */
  dueMs: number | undefined;
  /** It was unknown when it was added, together with others. */
  readonly isNew: boolean;
  /** Undefined until an instance has been seen. */
  standing: Standing | undefined;
  told: (Told & { readonly handler: string }) | undefined;
  /** In milliseconds since 1970. */
  transitionMs: number;
}

/** Runs the probes of one node, from the first list to `stop`. */
export class Prober {
  readonly #options: ProberOptions;
  readonly #random: () => number;
  readonly #schedule: Schedule;
  readonly #instances: Instances;
  readonly #execTurns: Turns;
  readonly #networkTurns: Turns;
  readonly #longTurns: Turns;
  readonly #loudTurns: Turns;
  readonly #startedAtMs: number;
  readonly #workers = new Map<string, Worker>();
  #list: NodePodProbe | undefined;
  #isStopped = false;

  constructor(options: ProberOptions) {
    const { clock, limits = usualLimits } = options;
    this.#options = options;
    this.#random = options.random ?? Math.random;
    this.#schedule = new Schedule(clock);
    this.#instances = new Instances(options.runtime, clock);
    this.#execTurns = new Turns(limits.exec);
    this.#networkTurns = new Turns(limits.network);
    this.#longTurns = new Turns(limits.long);
    this.#loudTurns = new Turns(limits.loud);
    this.#startedAtMs = clock.monotonicMs();
  }

  /** The number of probes. */
  get size(): number {
    return this.#workers.size;
  }

  /** Applies the current list; undefined: there is none, so nothing is probed. */
  update(list: NodePodProbe | undefined): void {
    if (this.#isStopped) return;
    const isAnother = this.#list?.metadata.uid !== list?.metadata.uid;
    this.#list = list;
    const wanted = new Set<string>();
    for (const pod of list?.spec.podProbes ?? []) {
      for (const probe of pod.probes ?? []) wanted.add(this.#want(pod, probe, list));
    }
    let isLess = false;
    for (const [key] of this.#workers) {
      if (wanted.has(key)) continue;
      this.#workers.delete(key);
      this.#schedule.cancel(key);
      isLess = true;
    }
    // Probes that were removed are removed from the status, too (NPP-21); a new list object needs all results.
    if (list && (isLess || (isAnother && this.#differsFrom(list.status)))) this.#options.changed();
  }

  /** All results, as the status of the list; undefined while there is no list. */
  get status(): NodePodProbeStatus | undefined {
    if (this.#list === undefined) return undefined;
    const podProbeStatuses = (this.#list.spec.podProbes ?? []).flatMap((pod) => {
      const probeStates = (pod.probes ?? []).flatMap((probe) => {
        const worker = this.#workers.get(keyOf(pod, probe));
        return worker?.told ? [stateOf(worker, worker.told)] : [];
      });
      const { name, namespace, uid } = pod;
      return probeStates.length > 0 ? [{ name, namespace, uid, probeStates }] : [];
    });
    return { podProbeStatuses };
  }

  /** The UID of the list that `status` belongs to. */
  get listUid(): string | undefined {
    return this.#list?.metadata.uid;
  }

  /** Stops probing. Runs in progress end without effect. */
  stop(): void {
    this.#isStopped = true;
    this.#schedule.clear();
    this.#workers.clear();
  }

  #want(pod: PodProbe, { name, containerName, probe }: ContainerProbe, list: NodePodProbe | undefined): string {
    const key = keyOf(pod, { name, containerName });
    const known = this.#workers.get(key);
    if (known) {
      this.#change(known, pod.IP ?? '', probe);
      return key;
    }
    const restored = restoredFrom(pod.uid, name, handlerHash(probe), list?.status, this.#options.clock.nowMs());
    const worker: Worker = {
      key,
      pod: { namespace: pod.namespace, name: pod.name, uid: pod.uid },
      container: containerName,
      name,
      ip: pod.IP ?? '',
      probe,
      pace: paceOf(probe),
      handler: handlerHash(probe),
      version: 0,
      isRunning: false,
      isLoud: false,
      dueMs: undefined,
      isNew: restored === undefined,
      standing: undefined,
      told: undefined,
      transitionMs: this.#options.clock.nowMs(),
      ...restored,
    };
    this.#workers.set(key, worker);
    const delayMs = this.#firstDelayMs(worker);
    this.#scheduleRun(worker, this.#options.clock.monotonicMs() + delayMs);
    if (worker.isNew && delayMs > 0) void this.#introduce(worker);
    return key;
  }

  /** NPP-31a: a probe that waits for its first run reports at once that it has no result yet. */
  async #introduce(worker: Worker): Promise<void> {
    try {
      await this.#look(worker);
    } catch (error) {
      this.#failed(worker, error);
    }
  }

  /** NPP-22: right after the start of the daemon, a probe with a long period begins at a random time within it. */
  #firstDelayMs({ pace }: Worker): number {
    const periodMs = pace.periodSeconds * 1_000;
    const uptimeMs = this.#options.clock.monotonicMs() - this.#startedAtMs;
    return periodMs > uptimeMs ? this.#random() * periodMs : 0;
  }

  /** NPP-20: from the next run on. With another handler the previous results are void. */
  #change(worker: Worker, ip: string, probe: Probe): void {
    worker.ip = ip;
    if (sameJson(worker.probe, probe)) return;
    const handler = handlerHash(probe);
    const isAnother = handler !== worker.handler;
    const isOtherPeriod = paceOf(probe).periodSeconds !== worker.pace.periodSeconds;
    Object.assign(worker, { probe, pace: paceOf(probe), handler });
    if (isAnother) {
      worker.version += 1;
      worker.isLoud = false;
      if (worker.standing) this.#keep(worker, newInstance(worker.standing.instance));
    }
    if (worker.isRunning) return;
    const nowMs = this.#options.clock.monotonicMs();
    if (isAnother) this.#scheduleRun(worker, nowMs);
    else if (isOtherPeriod) {
      // Not at once: the last run counts for this period, too (NPP-33).
      const dueMs = worker.dueMs === undefined ? nowMs : worker.dueMs + worker.pace.periodSeconds * 1_000;
      this.#scheduleRun(worker, Math.max(nowMs, dueMs));
    }
  }

  #scheduleRun(worker: Worker, dueMs: number): void {
    this.#schedule.at(worker.key, dueMs, (due) => void this.#runAt(worker, due));
  }

  async #runAt(worker: Worker, dueMs: number): Promise<void> {
    const { clock } = this.#options;
    const isFirst = worker.dueMs === undefined;
    worker.isRunning = true;
    worker.dueMs = dueMs;
    try {
      await this.#run(worker, dueMs);
    } catch (error) {
      this.#failed(worker, error);
    } finally {
      worker.isRunning = false;
    }
    if (this.#workers.get(worker.key) !== worker) return;
    const periodMs = worker.pace.periodSeconds * 1_000;
    const nowMs = clock.monotonicMs();
    // Probes that begin together are spread at once, to spread the load on their targets. They are moved later, never
    // earlier, and by less than a period: so each period since the first run has one run (NPP-33).
    const stepMs = isFirst && worker.isNew ? periodMs * (1 + this.#random() / 2) : periodMs;
    const missed = Math.max(0, Math.ceil((nowMs - dueMs - stepMs) / periodMs));
    this.#scheduleRun(worker, dueMs + stepMs + missed * periodMs);
  }

  /** A runtime that does not answer is no result, for as long as that lasts. */
  #failed(worker: Worker, error: unknown): void {
    if (error instanceof CriError) return;
    this.#options.log.warn({ err: error, probe: worker.name, pod: worker.pod.name }, 'A probe has failed to run');
  }

  /** NPP-23. Looking up the instance needs no slot, so its state is known without delay. */
  async #run(worker: Worker, dueMs: number): Promise<void> {
    const { clock } = this.#options;
    const { version } = worker;
    const instance = await this.#look(worker);
    if (!instance?.isRunning) return;
    const uptimeMs = clock.nowMs() - (instance.startedAtMs ?? clock.nowMs());
    if (Math.floor(uptimeMs / 1_000) < worker.pace.initialDelaySeconds) return;
    await this.#turnsOf(worker).take(worker.pod.namespace, async () => {
      // While it waited for a slot the probe may have been removed or changed.
      if (this.#isWanted(worker, version)) await this.#ask(worker, instance.id, dueMs);
    });
  }

  /** Finds the newest instance, and stores what its state alone shows. */
  async #look(worker: Worker): Promise<Instance | undefined> {
    const { version } = worker;
    if (!this.#isWanted(worker, version)) return undefined;
    const instance = await this.#instances.find(worker.pod.uid, worker.container);
    if (instance === undefined || !this.#isWanted(worker, version)) return undefined;
    if (worker.standing?.instance !== instance.id) this.#keep(worker, newInstance(instance.id));
    const standing = worker.standing ?? newInstance(instance.id);
    if (!instance.isRunning) this.#keep(worker, notRunning(standing, worker.container));
    return instance;
  }

  async #ask(worker: Worker, containerId: string, dueMs: number): Promise<void> {
    const { clock, runtime, ipOf, observe } = this.#options;
    const { version, probe, pace } = worker;
    const lagMs = clock.monotonicMs() - dueMs;
    const ip = worker.ip || ipOf(worker.pod.uid) || '';
    const check = { probe, containerId, ip, timeoutSeconds: pace.timeoutSeconds };
    const outcome = await runCheck(check, runtime());
    observe?.({ handler: probe.exec ? 'exec' : probe.httpGet ? 'http' : 'tcp', outcome: outcome.kind, lagMs });
    if (!this.#isWanted(worker, version)) return;
    if (outcome.kind !== 'none' && outcome.printsMuch) worker.isLoud = true;
    if (worker.standing?.instance !== containerId) return;
    this.#keep(worker, afterRun(worker.standing, outcome, worker.pace));
  }

  #turnsOf({ probe, pace, isLoud }: Worker): Turns {
    if (isLoud) return this.#loudTurns;
    if (pace.timeoutSeconds > longSeconds) return this.#longTurns;
    return probe.exec ? this.#execTurns : this.#networkTurns;
  }

  #isWanted(worker: Worker, version: number): boolean {
    return this.#workers.get(worker.key) === worker && worker.version === version;
  }

  /** Stores the result, and passes it on if it is worth reporting. */
  #keep(worker: Worker, standing: Standing): void {
    const { clock, say, changed } = this.#options;
    const nowMs = clock.nowMs();
    const before = worker.told?.verdict;
    worker.standing = standing;
    if (!isWorthTelling(standing, worker.told, nowMs)) return;
    if (standing.verdict !== before) worker.transitionMs = nowMs;
    const { verdict, message, instance } = standing;
    worker.told = { verdict, message, instance, atMs: nowMs, handler: worker.handler };
    if (isEvent(verdict, before)) say(worker.pod, worker.container, probeEvent(worker.name, verdict, message));
    changed();
  }

  #differsFrom(status: NodePodProbeStatus | undefined): boolean {
    return !sameJson(this.status?.podProbeStatuses ?? [], status?.podProbeStatuses ?? []);
  }
}

/** NPP-20, NPP-28: each probe of each container of each pod on its own. */
function keyOf(
  { namespace, name, uid }: Pick<PodProbe, 'namespace' | 'name' | 'uid'>,
  probe: Pick<ContainerProbe, 'name' | 'containerName'>,
): string {
  return [namespace, name, uid, probe.containerName, probe.name].join('/');
}

function stateOf({ name, transitionMs }: Worker, told: NonNullable<Worker['told']>): ContainerProbeState {
  return {
    name,
    state: told.verdict,
    lastProbeTime: timestamp(told.atMs),
    lastTransitionTime: timestamp(transitionMs),
    message: told.message,
    containerID: told.instance,
    handlerHash: told.handler,
  };
}

/**
 * Results of a previous daemon are kept, if they are about the same instance: so nothing changes when a daemon is
 * replaced (NPP-31). Whether the instance is the same shows at the first run; if the probe's handler has changed, there
 * is no result yet.
 */
function restoredFrom(
  podUid: string,
  name: string,
  handler: string,
  status: NodePodProbeStatus | undefined,
  nowMs: number,
): Pick<Worker, 'standing' | 'told' | 'transitionMs'> | undefined {
  const ofPod = status?.podProbeStatuses?.find(({ uid }) => uid === podUid);
  const found = ofPod?.probeStates?.find((state) => state.name === name);
  const verdict = found && verdicts.find((known) => known === found.state);
  if (!found?.containerID || !verdict) return undefined;
  const { containerID: instance, message = '', lastProbeTime = '', lastTransitionTime = '' } = found;
  if (found.handlerHash !== handler) {
    const told = { verdict: 'Unknown', message: '', instance, atMs: nowMs, handler } as const;
    return { standing: newInstance(instance), told, transitionMs: nowMs };
  }
  return {
    standing: { instance, verdict, message, streak: undefined },
    told: { verdict, message, instance, atMs: Date.parse(lastProbeTime) || 0, handler },
    transitionMs: Date.parse(lastTransitionTime) || nowMs,
  };
}

const verdicts: readonly ProbeVerdict[] = ['Succeeded', 'Failed', 'Unknown'];
