/** A roll-out of which the API server refuses updates, played on the real planner and queue with a clock of the test. */
import { jest } from '@jest/globals';
import { pino } from 'pino';
import { carryOutBatchActivity } from '../../activities/fleet/batches.ts';
import { timestamp } from '../../api/base/time.ts';
import type { Pod } from '../../api/core/pod.ts';
import type { SidecarSet } from '../../api/sidecar-set/types.ts';
import { KubeError } from '../../kube/failures.ts';
import type { CloneSetInput } from '../../plan/cloneset/input.ts';
import { planCloneSet } from '../../plan/cloneset/planner.ts';
import type { Answer, FleetPlan, Permit } from '../../plan/fleet/permit.ts';
import type { RefusedUpdates } from '../../plan/fleet/refused-updates.ts';
import type { Intention } from '../../plan/fleet/steps.ts';
import type { SidecarSetInput, SidecarSetStep } from '../../plan/sidecar-set/input.ts';
import { planSidecarSet } from '../../plan/sidecar-set/planner.ts';
import type { FleetKind, Together, UpdateInStep } from '../../watcher/fleet/kind.ts';
import { FleetQueue } from '../../watcher/fleet/queue.ts';
import { cloneSet, newName, newPodOf, pod, setUid, world } from './cloneset-world.ts';
import { type PlayedQueue, PlayedRollOut } from './played-roll-out.ts';
import { podWith, sidecarSet, storedRevision } from './sidecar-world.ts';

export const [secondMs, weekMs] = [1_000, 7 * 24 * 3_600_000];
export const noAnswer = () => new KubeError({ status: 0, message: 'no answer within 30 s' });
const refusal = () => new KubeError({ status: 403, message: 'admission webhook "guard" denied the request: frozen' });

/** Before each test: nothing but the clock of the test passes. */
export function useClockOfTest(): void {
  jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate'] });
}

/** What the queue knows of an object, as input of its planner. */
interface OfQueue {
  readonly refused: RefusedUpdates | undefined;
  readonly inDoubt: ReadonlySet<string> | undefined;
  /** UIDs of pods of which a step has failed. */
  readonly failing: ReadonlySet<string>;
}

/** The object whose pods are updated. */
export interface Subject<Input, Step extends { readonly kind: string }> {
  readonly kind: string;
  readonly uid: string;
  readonly pods: Map<string, Pod>;
  /** How its updates go. */
  readonly together: Together;
  look(of: OfQueue): Input;
  plan(input: Input, permit: Permit | undefined): FleetPlan<Step>;
  /** The pod whose update a step is, or tries. */
  updateIn(step: Step): UpdateInStep | undefined;
  /** The pod after its update, which its node has seen, or not yet. */
  updated(pod: Pod, isReady?: boolean): Pod;
  isUpdated(pod: Pod): boolean;
}

function byUid(pods: readonly Pod[]): Map<string, Pod> {
  return new Map(pods.map((one) => [one.metadata.uid, one]));
}

export function cloneSetOf(
  replicas: number,
  maxUnavailable: number | string,
  minReadySeconds = 0,
): Subject<CloneSetInput, Intention> {
  const pods = byUid(Array.from({ length: replicas }, (_, index) => pod(`web-${index + 1000}`)));
  const set = cloneSet({ replicas, minReadySeconds, rollingUpdate: { maxUnavailable } });
  return {
    ...{ kind: 'CloneSet', uid: setUid, pods, together: 'freely' },
    look: ({ refused, inDoubt }) => {
      const more = { nowMs: Date.now(), ...(refused && { refused }), ...(inDoubt && { inDoubt }) };
      return world({ set, pods: [...pods.values()], more });
    },
    plan: (given, permit) => planCloneSet({ ...given, ...(permit && { permit }) }),
    updateIn: (step) =>
      step.kind === 'updatePod' || step.kind === 'tryUpdate'
        ? { pod: step.pod, revision: step.revision, isWhole: step.kind === 'updatePod' }
        : undefined,
    updated: ({ metadata }, isReady = true) => newPodOf(metadata.name, { ready: isReady && timestamp(Date.now()) }),
    isUpdated: ({ metadata }) => metadata.labels?.['controller-revision-hash'] === newName,
  };
}

/** Its pods stand in as many namespaces, one after the other. */
export function sidecarSetOf(
  count: number,
  { maxUnavailable, namespaces = 1 }: { readonly maxUnavailable: number | string; readonly namespaces?: number },
): Subject<SidecarSetInput, SidecarSetStep> {
  const [before, owner] = [sidecarSet('log:1'), sidecarSet('log:2', { spec: { updateStrategy: { maxUnavailable } } })];
  const podOf = (set: SidecarSet, index: number) =>
    podWith(set, `web-${index + 1000}`, { namespace: `ns-${index % namespaces}` });
  const pods = byUid(Array.from({ length: count }, (_, index) => podOf(before, index)));
  const history = [storedRevision(before, 1), storedRevision(owner, 2)];
  const input = { owner, history, revisionNamespace: 'kruise-system' };
  return {
    ...{ kind: 'SidecarSet', uid: owner.metadata.uid, pods, together: 'alone' },
    look: ({ refused, inDoubt, failing }) => ({
      ...{ ...input, pods: [...pods.values()], nowMs: Date.now() },
      ...(failing.size > 0 && { failures: { pods: failing, message: 'it failed', retriedWithinMs: 0 } }),
      ...(refused && { refused }),
      ...(inDoubt && { inDoubt }),
    }),
    plan: (given, permit) => planSidecarSet({ ...given, ...(permit && { permit }) }),
    updateIn: (step) =>
      step.kind === 'updateSidecars' || step.kind === 'tryUpdate'
        ? { pod: step.pod, revision: step.revision, isWhole: step.kind === 'updateSidecars' }
        : undefined,
    updated: ({ metadata: { name } }) => podOf(owner, Number(name.slice('web-'.length)) - 1000),
    isUpdated: ({ spec }) => spec.containers.some(({ image }) => image === 'log:2'),
  };
}

/**
 * An object whose pods are updated at once, unless the API server refuses that, and the roll-out that asks which go, with the
 * heartbeats of its batches.
 */
export class RefusedPlay<Input, Step extends { readonly kind: string }> {
  /** Pods whose update is refused. */
  refuses: (name: string) => boolean = () => false;
  /** The same of dry runs. Absent: as updates. */
  refusesDryRun: ((name: string) => boolean) | undefined;
  /** What the API server says then. */
  says: () => KubeError = refusal;
  /** How long pods take to be available again. */
  startsMs = 0;
  /** Whether it shows what was written. */
  isSeen = true;
  /** Told of each write that is asked for. */
  onAttempt: (name: string) => void = () => undefined;
  /** Questions of the roll-out, each with the signal that has led to it, batches, and their heartbeats: billable actions. */
  actions = 0;
  /** Writes that were asked for, by pod. */
  readonly attempts: string[] = [];
  readonly dryRuns: string[] = [];
  lastAnswer: Answer | undefined;
  readonly #subject: Subject<Input, Step>;
  readonly #queue: FleetQueue<Input, Step>;
  readonly #rollOut: PlayedRollOut;

  constructor(subject: Subject<Input, Step>) {
    this.#subject = subject;
    const term = { isLeading: () => true, lost: new AbortController().signal };
    const options = {
      term,
      log: pino({ level: 'silent' }),
      nowMs: () => Date.now(),
      concurrency: 1,
      parallelSteps: 64,
      restMs: 50,
    };
    this.#queue = new FleetQueue({ fleet: this.#fleet(), ...options });
    const carryOut = carryOutBatchActivity({
      queueOf: () => this.#queue,
      runId: () => 'run',
      attempt: () => ({
        heartbeatTimeoutMs: 60_000,
        cancelled: new AbortController().signal,
        heartbeat: () => void this.actions++,
        confirm: async () => {
          this.actions += 1;
          return 'counts';
        },
      }),
    });
    const counting: PlayedQueue = {
      next: (uid) => this.#queue.next(uid),
      carryOut: async (uid, { number, batch }) => {
        this.actions += 1;
        const target = { namespace: 'shop', name: 'web', uid };
        const result = await carryOut({ kind: subject.kind, target, number, batch });
        this.#heard(result.next);
        return result;
      },
    };
    this.#rollOut = new PlayedRollOut(() => counting, subject.uid);
    this.#queue.add(subject.uid, 'fullPass');
  }

  updated(): readonly string[] {
    const all = [...this.#subject.pods.values()].filter((one) => this.#subject.isUpdated(one));
    return all.map(({ metadata }) => metadata.name);
  }

  /** Another run begins, as after a reset, and asks. */
  newRun(): Answer {
    return this.#queue.next(this.#subject.uid, { carried: { run: 'other', numbers: [], next: 1 } });
  }

  results() {
    return this.#rollOut.results.flatMap(({ pods }) => pods);
  }

  /** The update of a pod is made after all. */
  arrives(name: string): void {
    const { pods, updated } = this.#subject;
    for (const [uid, pod] of pods) if (pod.metadata.name === name) pods.set(uid, updated(pod));
    this.event();
  }

  /** Its updated pods become available, or not any more. */
  turns(isReady: boolean): void {
    const { pods, updated, isUpdated } = this.#subject;
    for (const [uid, pod] of pods) if (isUpdated(pod)) pods.set(uid, updated(pod, isReady));
    this.event();
  }

  /** An event of one of its pods. */
  event(): void {
    this.#queue.add(this.#subject.uid, 'changed');
  }

  edit(): void {
    this.#queue.add(this.#subject.uid, 'edited');
  }

  /** Something happens every so often, for so long. */
  async passes(ms: number, everyMs = ms, happens: () => void = () => undefined): Promise<void> {
    for (let left = ms; left > 0; left -= everyMs) {
      happens();
      await jest.advanceTimersByTimeAsync(Math.min(everyMs, left));
    }
  }

  /** As the workflow: pods of an answer that comes with a result are permitted at once. */
  #heard(answer: Answer): void {
    this.lastAnswer = answer;
    if (answer.kind === 'pods') setTimeout(() => this.#ask(), 10);
  }

  #ask(): void {
    this.lastAnswer = this.#rollOut.ask();
  }

  #fleet(): FleetKind<Input, Step> {
    const subject = this.#subject;
    const meet = (name: string, refuses: (name: string) => boolean) => {
      if (refuses(name)) throw this.says();
    };
    return {
      kind: subject.kind,
      look: (uid) =>
        subject.look({
          refused: this.#queue.refused(uid, (podUid) => subject.pods.has(podUid)),
          inDoubt: this.#queue.inDoubt(uid),
          failing: new Set(this.#queue.failedSteps(uid).flatMap(({ step }) => subject.updateIn(step)?.pod.uid ?? [])),
        }),
      plan: (given, permit) => subject.plan(given, permit),
      wake: () => {
        this.actions += 2; // the signal and the question
        setTimeout(() => this.#ask(), 10);
      },
      together: () => subject.together,
      retryKey: (step) => `${step.kind} ${subject.updateIn(step)?.pod.uid}`,
      podOf: (step) => subject.updateIn(step)?.pod,
      updateIn: (step) => subject.updateIn(step),
      act: async (step) => {
        const { pod: { name, uid } = { name: '', uid: '' }, isWhole } = subject.updateIn(step) ?? {};
        if (isWhole === undefined) return undefined;
        (isWhole ? this.attempts : this.dryRuns).push(name);
        if (isWhole) this.onAttempt(name);
        meet(name, isWhole ? this.refuses : (this.refusesDryRun ?? this.refuses));
        const before = subject.pods.get(uid);
        if (!isWhole || before === undefined) return undefined;
        subject.pods.set(uid, subject.updated(before, this.startsMs === 0));
        if (this.startsMs > 0 && this.startsMs < Number.POSITIVE_INFINITY) {
          setTimeout(() => {
            subject.pods.set(uid, subject.updated(before));
            this.event();
          }, this.startsMs);
        }
        return async () => undefined;
      },
      catchUp: async () => {
        if (!this.isSeen) throw noAnswer();
      },
    };
  }
}
