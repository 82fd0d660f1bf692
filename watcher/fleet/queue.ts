/**
 * The single writer of fleet objects: everything that changes the pods, revisions or status of one goes through the queue
 * of the leading watcher, one pass at a time for each object.
 *
 * A pass looks at the whole object in the caches, asks the planner, acts, and waits until the caches show its own writes,
 * so that the next pass never decides on a world that lacks them. Events of thousands of pods are not as many passes: an
 * object rests a little between two that only events ask for, and longer the longer it takes to plan for it, or for all
 * objects together.
 *
 * Upkeep needs nothing more. Disruption needs a permit, which its workflow hands in and waits on; the permit is an input
 * of the planner, is asked for again before each disruptive step, and dies with the activity that handed it in, with the
 * lease, and with its verdict.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { isFailureType } from '../../api/core/failure.ts';
import { withGrant } from '../../api/engine/missing-right.ts';
import { inTerm } from '../../kube/fence.ts';
import { KeyedQueue, type PassResult } from '../../kube/keyed-queue.ts';
import type { Term } from '../../kube/leader.ts';
import { mayBeMade } from '../../kube/moved-on.ts';
import type { Wait } from '../../plan/decision.ts';
import type { BatchVerdict, ChosenPod } from '../../plan/fleet/batch.ts';
import type { FleetPlan, Permit, ToldVerdict } from '../../plan/fleet/permit.ts';
import { shortened, waitWithin } from '../../plan/text-size.ts';
import type { Logger } from '../../process/log.ts';
import { type FailedStep, FailedSteps, type StepResults } from './failed-steps.ts';
import type { BatchRequest } from './held-batch.ts';
import type { FleetKind, PermitLife, Seen, StepPod, Together } from './kind.ts';
import { type ChoiceRequest, type PermitProgress, RollOutPermits } from './permits.ts';

/** Why a pass is made. `edited`: something has changed that may let go through what has failed, so it is tried at once. */
export type PassReason = 'changed' | 'due' | 'edited' | 'fullPass' | 'ownWrites' | 'permit';

export interface FleetQueueOptions<World, Step, Plan extends FleetPlan<Step> = FleetPlan<Step>> {
  readonly fleet: FleetKind<World, Step, Plan>;
  /** One queue belongs to one term and ends with it; the next term begins with a new one and a consistent list. */
  readonly term: Term;
  readonly log: Logger;
  /** Told of each pass that has ended. */
  readonly onPass?: (outcome: 'done' | 'failed') => void;
  /** A question that has waited for one thing so long is answered with `blocked`. */
  readonly blockedAfterMs: number;
  /**
   * After how long a wait that was reported is parked, and a batch of which nothing changes is given back. Absent: ten
   * minutes.
   */
  readonly longWaitMs?: number;
  /** How many objects are worked on at once. */
  readonly concurrency: number;
  /** The namespace of an object: namespaces take turns. Absent: all objects are of one. */
  readonly shareOf?: (uid: string) => string;
  /** How many steps of one object are done at once. */
  readonly parallelSteps: number;
  /**
   * How far apart passes of an object begin that only events ask for, at least; where planning takes long, it is three times
   * that. What happens to an object that has rested is looked at right away, unless planning for all takes long. Absent:
   * passes follow one upon the other.
   */
  readonly restMs?: number;
  /** The wall clock. */
  readonly nowMs: () => number;
}

/** How long a roll-out waits for the same thing, and a batch for its pods, in a pending activity, which costs heartbeats. */
const longWaitMs = 600_000;

/** When a roll-out could not be woken, it is tried again after so long. */
const wakeAgainMs = 10_000;

/** While events come, planning for one object takes a quarter of the time at most: it rests three times as long. */
const planningShare = 3;
/** The same of all objects of the kind together, a third of the time; so much goes through first. */
const sharedPlanning = { rest: 2, burstMs: 250 } as const;

/** A verdict travels through a history: the most that a wait takes in it, and the text of a failure. */
const verdictBytes = 3_600;
const longestWhyBytes = 900;

/** Steps that go together. */
interface Run<Step> {
  readonly steps: readonly Step[];
  readonly together: Together;
}

interface Outcome<Step> extends StepResults<Step> {
  /** Writes, without those that only report. */
  readonly changes: number;
  /** How many steps may go at once in the next pass, where their number grows; 1: it starts again. */
  readonly grown: number;
}

/** Works on all objects of one fleet kind. */
export class FleetQueue<World, Step, Plan extends FleetPlan<Step> = FleetPlan<Step>> {
  readonly #options: FleetQueueOptions<World, Step, Plan>;
  readonly #keys: KeyedQueue;
  readonly #rollOuts = new Map<string, RollOutPermits>();
  readonly #reasons = new Map<string, Set<PassReason>>();
  /** Disruptions that are being written, by object. */
  readonly #onTheWay = new Map<string, Map<StepPod, Promise<unknown>>>();
  /** Objects that rest: until when, and what ends it if there is something to look at. */
  readonly #rests = new Map<string, { readonly untilMs: number; wake?: NodeJS.Timeout }>();
  /** Until when all objects would rest together, had there been no burst. */
  #sharedRestMs = 0;
  /** How many steps of an object went at once at the end of its last pass, where their number grows and none failed. */
  readonly #grown = new Map<string, number>();
  readonly #failed: FailedSteps<Step>;
  readonly #stop = new AbortController();

  constructor(options: FleetQueueOptions<World, Step, Plan>) {
    this.#options = options;
    const { fleet } = options;
    this.#failed = new FailedSteps(
      (step) => fleet.retryKey?.(step) ?? '',
      fleet.asideForMs && ((error, attempts) => fleet.asideForMs?.(error, attempts)),
    );
    this.#keys = new KeyedQueue({
      concurrency: options.concurrency,
      ...(options.shareOf && { shareOf: options.shareOf }),
      pass: (uid) => inTerm(options.term, () => this.#pass(uid)),
      onError: (uid, error, retryInMs) => this.#passFailed(uid, error, retryInMs),
    });
    const { lost } = options.term;
    if (lost.aborted) this.#end(lost.reason);
    else lost.addEventListener('abort', () => this.#end(lost.reason), { once: true });
  }

  /** Objects that wait for a pass now. */
  get depth(): number {
    return this.#keys.depth;
  }

  /** Requests a pass over this object. Requests before it begins are one pass; one during a pass is kept for the next. */
  add(uid: string, reason: PassReason): void {
    if (this.#stop.signal.aborted) return;
    if (reason === 'edited') this.#failed.forgive(uid);
    this.#reasons.set(uid, (this.#reasons.get(uid) ?? new Set()).add(reason));
    if (reason === 'fullPass') {
      this.#keys.remind(uid);
      return;
    }
    if (mayRest(reason)) this.#addRested(uid);
    else this.#keys.add(uid);
  }

  /** Others may have taken their time meanwhile: then it goes on resting. */
  #addRested(uid: string): void {
    const rest = this.#rests.get(uid) ?? { untilMs: 0 };
    const shared = this.#sharedRestMs - sharedPlanning.burstMs * (1 + sharedPlanning.rest);
    const leftMs = Math.max(rest.untilMs, shared) - performance.now();
    if (leftMs <= 0) {
      this.#keys.add(uid);
      return;
    }
    this.#rests.set(uid, rest);
    rest.wake ??= setTimeout(() => {
      delete rest.wake;
      this.#addRested(uid);
    }, leftMs).unref();
  }

  /** What has failed of this object and is still wanted, the longest first. */
  failedSteps(uid: string): readonly FailedStep<Step>[] {
    return this.#failed.of(uid);
  }

  /** The longest pause that may follow if all fails once more what has failed of this object; 0: nothing has. */
  longestPauseMs(uid: string): number {
    return this.#failed.longestPauseMs(uid);
  }

  /**
   * Answers which pods of an object go next; waits while none may go. Rejects when its life or the term ends. `told`: the
   * reason of a wait that has been reported.
   */
  async choose(uid: string, request: ChoiceRequest, life: PermitLife): Promise<ToldVerdict> {
    const isNews = request.told === undefined;
    const verdict = await this.#take(uid, life, (rollOut) => rollOut.choose(request, life), isNews);
    const orders = this.#options.fleet.ordersOf?.(uid);
    return { ...verdict, ...(orders && { orders }) };
  }

  /** Lets the pods of a batch be disrupted, and waits until each is through. Rejects when its life or the term ends. */
  carryOut(uid: string, request: BatchRequest, life: PermitLife): Promise<BatchVerdict> {
    return this.#take(uid, life, (rollOut) => rollOut.carryOut(request, life), false);
  }

  /** What people are told of a batch of this object, or of the question which pods go next. */
  progressOf(uid: string, batch?: number): PermitProgress {
    return this.#rollOuts.get(uid)?.progressOf(batch) ?? {};
  }

  /** The names of the pods of each batch of this object that is carried out, by number. */
  batchesOf(uid: string): ReadonlyMap<number, readonly ChosenPod[]> {
    return this.#rollOuts.get(uid)?.pods() ?? new Map();
  }

  /** Resolves when no write of a disruption is on its way for this object; after so long with the names of those pods. */
  async quiet(uid: string, withinMs: number): Promise<readonly string[]> {
    const onTheWay = this.#onTheWay.get(uid);
    if (onTheWay === undefined) return [];
    const ended = Promise.all(onTheWay.values());
    await Promise.race([ended, delay(withinMs, undefined, { ref: false })]);
    return [...onTheWay.keys()].filter((pod) => this.#onTheWay.get(uid)?.has(pod)).map(({ name }) => name);
  }

  /** Whether the roll-out of this object has handed in anything. */
  hasRollOut(uid: string): boolean {
    return this.#rollOuts.get(uid)?.isIdle === false;
  }

  async #take<Answer>(
    uid: string,
    life: PermitLife,
    take: (rollOut: RollOutPermits) => Promise<Answer>,
    isNews: boolean,
  ): Promise<Answer> {
    this.#stop.signal.throwIfAborted();
    if (!life.isAlive()) throw life.ended.reason;
    const rollOut =
      this.#rollOuts.get(uid) ??
      new RollOutPermits({ longWaitMs: this.#longWaitMs, wake: async () => await this.#wake(uid) });
    this.#rollOuts.set(uid, rollOut);
    const answer = take(rollOut);
    // an operator or a change of the object has caused it: what has failed is tried again at once
    if (isNews && this.#options.fleet.asideForMs === undefined) this.#failed.forgive(uid);
    this.add(uid, 'permit');
    try {
      return await answer;
    } catch (error) {
      // What ends without an answer may be what the question waits for.
      this.add(uid, 'permit');
      throw error;
    }
  }

  get #longWaitMs(): number {
    return this.#options.longWaitMs ?? longWaitMs;
  }

  /** Has the parked roll-out of an object ask again. Answers false when nobody has received that; then it is tried again. */
  async #wake(uid: string): Promise<boolean> {
    const { fleet, log } = this.#options;
    log.debug({ kind: fleet.kind, uid }, 'Wake the roll-out');
    const isTold = (await fleet.wake?.(uid)) ?? true;
    if (!isTold) setTimeout(() => this.add(uid, 'permit'), wakeAgainMs).unref();
    return isTold;
  }

  /** Ends all permits and takes nothing new; resolves when no pass runs. */
  async stop(): Promise<void> {
    this.#end(new Error('the fleet queue was stopped'));
    await this.#keys.stop();
  }

  #end(reason: unknown): void {
    if (this.#stop.signal.aborted) return;
    this.#stop.abort(reason);
    for (const { wake } of this.#rests.values()) clearTimeout(wake);
    this.#rests.clear();
    for (const rollOut of this.#rollOuts.values()) rollOut.fail(reason);
    this.#rollOuts.clear();
    void this.#keys.stop();
  }

  async #pass(uid: string): Promise<PassResult | undefined> {
    const { fleet, log, nowMs, onPass } = this.#options;
    const reasons = this.#reasons.get(uid) ?? ['due'];
    this.#reasons.delete(uid);
    clearTimeout(this.#rests.get(uid)?.wake);
    this.#rests.delete(uid);
    if (!this.#mayWrite()) return undefined;

    const begunAtMs = performance.now();
    const world = fleet.look(uid);
    if (world === undefined) {
      this.#grown.delete(uid);
      this.#failed.forget(uid);
      this.#rollOuts.get(uid)?.superseded();
      this.#rollOuts.delete(uid);
      return undefined;
    }
    const plannedAtMs = performance.now();
    const wallMs = nowMs();
    const rollOut = this.#rollOuts.get(uid);
    const permit = rollOut?.permit();
    const plan = fleet.plan(world, permit, wallMs);
    fleet.planned?.(world, plan, wallMs);
    this.#rest(uid, begunAtMs, [...reasons].every(mayRest));
    if (!permit && plan.disruption.length > 0)
      throw new Error(`the plan for ${fleet.kind} ${uid} disrupts without a permit`);
    log.debug(
      { kind: fleet.kind, uid, reasons: [...reasons], upkeep: plan.upkeep.length, disruption: plan.disruption.length },
      'Pass',
    );

    const mayWrite = () => this.#mayWrite();
    const together = fleet.together ?? (() => 'alone' as const);
    const grown = this.#grown.get(uid) ?? 1;
    this.#grown.delete(uid);
    const isDue = (step: Step) => this.#failed.isDue(uid, step);
    const upkeep = await this.#act(world, runsOf(plan.upkeep.filter(isDue), together), mayWrite, {
      grownBefore: grown,
    });
    const disruption = await this.#disrupt(uid, world, plan.disruption.filter(isDue));
    if (upkeep.grown > 1) this.#grown.set(uid, upkeep.grown);
    const failures = [...upkeep.failures, ...disruption.failures];
    const hadFailed = this.#failed.has(uid);
    const { planned: failed, others } = this.#failed.note(uid, [...plan.upkeep, ...plan.disruption], {
      done: [...upkeep.done, ...disruption.done],
      failures,
    });
    if (failures.some(({ error }) => mayBeMade(error))) await this.#catchUp(uid);
    // The next pass reports that the failure is over.
    const isOver = hadFailed && failed.length + others.length === 0;
    const isAside = ({ error }: { readonly error: unknown }) => others.some((one) => one.error === error);
    if (isOver || failures.some(isAside) || upkeep.changes + disruption.changes > 0) this.add(uid, 'ownWrites');
    // Counted from the plan, as the pass itself may have taken long.
    const againAtMs = plan.againInMs === undefined ? [] : [plannedAtMs + plan.againInMs];
    const dueAtMs = Math.min(
      ...againAtMs,
      ...others.map(({ retryAtMs }) => retryAtMs).filter((ms) => ms > performance.now()),
    );
    const dueInMs = Number.isFinite(dueAtMs) ? Math.max(Math.ceil(dueAtMs - performance.now()), 0) : undefined;
    // Timers take whole milliseconds, and must not come too early.
    const inMs = ({ retryAtMs }: FailedStep<Step>) => Math.ceil(retryAtMs - performance.now());
    const [failure] = failures;
    if (failure !== undefined) this.#tellFailure(uid, failure.error, Math.min(...[...failed, ...others].map(inMs)));
    else onPass?.('done');
    const [first] = failed;
    const retryInMs = first && Math.min(...failed.map(inMs));
    // Report persistent failures to the roll-out.
    const wait = first && waitAfter((failures.find((one) => !isAside(one)) ?? first).error);
    const choiceInMs = rollOut && this.#judgeRollOut(uid, rollOut, permit, plan, wait);
    return soonest([dueInMs, retryInMs, choiceInMs]);
  }

  /** Does what the permits of the roll-out are for, as long as they live. */
  async #disrupt(uid: string, world: World, steps: readonly Step[]): Promise<Outcome<Step>> {
    const { fleet, nowMs } = this.#options;
    const runs = runsOf(steps, fleet.together ?? (() => 'freely' as const));
    const rollOut = this.#rollOuts.get(uid);
    const outcome = await this.#act(
      world,
      runs,
      (step) => {
        const pod = fleet.podOf(step);
        if (pod === undefined || rollOut === undefined || !this.#mayWrite() || !rollOut.mayDisrupt(pod.uid))
          return false;
        if (fleet.isForbidden?.(uid, pod)) return false;
        rollOut.begin(pod.uid, nowMs());
        return true;
      },
      { onTheWay: (step, written) => this.#writing(uid, fleet.podOf(step), written) },
    );
    for (const { step, error } of outcome.failures) if (!mayBeMade(error)) rollOut?.notBegun(fleet.podOf(step)?.uid);
    return outcome;
  }

  /** A disruption is on its way until it has an answer. */
  #writing(uid: string, pod: StepPod | undefined, written: Promise<unknown>): void {
    if (pod === undefined) return;
    const all = this.#onTheWay.get(uid) ?? new Map<StepPod, Promise<unknown>>();
    this.#onTheWay.set(uid, all);
    const ended = written
      .catch(() => undefined)
      .finally(() => {
        all.delete(pod);
        if (all.size === 0) this.#onTheWay.delete(uid);
      });
    all.set(pod, ended);
  }

  /** Answers what the roll-out has handed in, as far as there is an answer; says when to judge again otherwise. */
  #judgeRollOut(
    uid: string,
    rollOut: RollOutPermits,
    granted: Permit | undefined,
    plan: FleetPlan<Step>,
    failure: Wait | undefined,
  ): number | undefined {
    const failing = plan.disruption.filter((step) => this.#failed.hasFailed(uid, step));
    const pods = new Set(failing.flatMap((step) => this.#options.fleet.podOf(step)?.uid ?? []));
    const batchInMs = rollOut.judgeBatches(granted, plan, pods);
    const choiceInMs = this.#judgeChoice(rollOut, plan, failure);
    const dues = [batchInMs, choiceInMs].filter((ms) => ms !== undefined);
    return dues.length === 0 ? undefined : Math.min(...dues);
  }

  #judgeChoice(rollOut: RollOutPermits, plan: FleetPlan<Step>, failure: Wait | undefined): number | undefined {
    const judged = rollOut.judgeChoice(plan.standing, failure !== undefined);
    if (typeof judged === 'number') return judged;
    const standing = judged === 'waits' && plan.standing.kind === 'waiting' ? plan.standing.wait : undefined;
    const wait = failure ?? rollOut.ownWait() ?? standing;
    return wait && this.#judgeWait(rollOut, wait);
  }

  /** What goes wrong here must not stand in for what has failed. */
  async #catchUp(uid: string): Promise<void> {
    const { fleet, log } = this.#options;
    try {
      await fleet.catchUp(uid, this.#stop.signal);
    } catch (error) {
      log.debug({ kind: fleet.kind, uid, err: error }, 'Cannot see whether writes without an answer were made');
    }
  }

  #rest(uid: string, begunAtMs: number, isOfEvents: boolean): void {
    const { restMs } = this.#options;
    if (restMs === undefined) return;
    const tookMs = performance.now() - begunAtMs;
    if (isOfEvents) {
      this.#sharedRestMs = Math.max(this.#sharedRestMs, begunAtMs) + (1 + sharedPlanning.rest) * tookMs;
    }
    this.#rests.set(uid, { untilMs: begunAtMs + Math.max(restMs, planningShare * tookMs) });
  }

  /**
   * Does the runs one after the other, as long as they are allowed, and waits until all writes are seen. What fails ends
   * its own run at most: the others were planned beside it, and must not wait for what may never succeed.
   */
  async #act(
    world: World,
    runs: readonly Run<Step>[],
    allowed: (step: Step) => boolean,
    {
      grownBefore = 1,
      onTheWay,
    }: {
      readonly grownBefore?: number;
      readonly onTheWay?: (step: Step, written: Promise<unknown>) => void;
    } = {},
  ): Promise<Outcome<Step>> {
    const { fleet, parallelSteps } = this.#options;
    const { signal } = this.#stop;
    const writes: Seen[] = [];
    const done: { readonly step: Step; readonly isChange: boolean }[] = [];
    const failures: { readonly step: Step; readonly error: unknown }[] = [];
    let changes = 0;
    let grown = 1;

    const work = async (batch: Step[], together: Together): Promise<void> => {
      for (let step = batch.shift(); step !== undefined; step = batch.shift()) {
        if (!allowed(step)) continue;
        const mayGoOn = () => allowed(step);
        try {
          const written = fleet.act(step, world, signal, mayGoOn);
          onTheWay?.(step, written);
          const seen = await written;
          if (seen) writes.push(seen);
          const isChange = seen !== undefined && !fleet.tells?.(step);
          if (isChange) changes += 1;
          done.push({ step, isChange });
        } catch (error) {
          failures.push({ step, error });
          if (together !== 'freely') batch.length = 0;
        }
      }
    };
    for (const { steps, together } of runs) {
      const before = failures.length;
      const waiting = [...steps];
      for (
        let atOnce = grownBefore;
        waiting.length > 0 && failures.length === before && this.#mayWrite();
        atOnce *= 2
      ) {
        const batch = together === 'growing' ? waiting.splice(0, Math.min(atOnce, parallelSteps)) : waiting.splice(0);
        const workers = together === 'alone' ? 1 : Math.min(parallelSteps, batch.length);
        await Promise.all(Array.from({ length: workers }, () => work(batch, together)));
        if (together === 'growing') grown = failures.length > before ? 1 : Math.min(atOnce * 2, parallelSteps);
      }
    }
    // However long it takes: a pass over a world without our own writes would repeat them.
    await Promise.all(writes.map((seen) => seen(signal)));
    return { changes, done, failures, grown };
  }

  /** Answers the question with this wait if that has lasted; else says when to judge again, if that is not by an event. */
  #judgeWait({ choice, whenTold }: RollOutPermits, wait: Wait): number | undefined {
    if (choice === undefined) return undefined;
    const { request: asked, waiting } = choice;
    const goesOn = waiting?.wait.reason === wait.reason ? waiting : undefined;
    const { sinceMs, startedAtMs } = goesOn ?? { sinceMs: this.#options.nowMs(), startedAtMs: performance.now() };
    choice.waiting = { wait, sinceMs, startedAtMs };
    const isKnown = wait.reason === asked.told;
    if (isKnown && whenTold === 'waits') return undefined;
    const leftMs = startedAtMs + this.#patienceMs(asked, isKnown) - performance.now();
    if (leftMs > 0) return leftMs;
    const waitingFor = waitWithin({ ...wait, since: new Date(sinceMs).toISOString() }, verdictBytes);
    const parks = whenTold === 'parks' && (isKnown || asked.parked === true);
    choice.end({ kind: 'blocked', waitingFor, ...(parks && { parked: true }) });
    return undefined;
  }

  /** A pause is reported at once; a wait that has been reported does not change by waiting. */
  #patienceMs({ paused, parked }: ChoiceRequest, isKnown: boolean): number {
    if (isKnown && !parked) return this.#longWaitMs;
    return paused && !isKnown ? 0 : this.#options.blockedAfterMs;
  }

  /** Of a pass that could not be made at all. */
  #passFailed(uid: string, error: unknown, retryInMs: number): void {
    if (this.#stop.signal.aborted) return;
    this.#tellFailure(uid, error, retryInMs);
    const rollOut = this.#rollOuts.get(uid);
    rollOut?.giveBack();
    if (rollOut) this.#judgeWait(rollOut, waitAfter(error));
  }

  #tellFailure(uid: string, error: unknown, retryInMs: number): void {
    const { fleet, log, onPass } = this.#options;
    onPass?.('failed');
    log.warn({ kind: fleet.kind, uid, err: error, retryInMs: Math.round(retryInMs) }, 'Reconcile failed');
  }

  #mayWrite(): boolean {
    return !this.#stop.signal.aborted && this.#options.term.isLeading();
  }
}

/** Whether a pass is only asked for by an event. */
function mayRest(reason: PassReason): boolean {
  return reason === 'changed' || reason === 'edited';
}

/** The steps in their order, neighbours that go alike in one run. */
function runsOf<Step>(steps: readonly Step[], together: (step: Step) => Together): readonly Run<Step>[] {
  const runs: { steps: Step[]; together: Together }[] = [];
  for (const step of steps) {
    const how = together(step);
    const last = runs.at(-1);
    if (last?.together === how) last.steps.push(step);
    else runs.push({ steps: [step], together: how });
  }
  return runs;
}

function soonest(dues: readonly (number | undefined)[]): PassResult | undefined {
  const known = dues.filter((ms) => ms !== undefined);
  return known.length === 0 ? undefined : { againInMs: Math.min(...known) };
}

/** A failure as something to wait for, named by what happens next. */
function waitAfter(error: unknown): Wait {
  const type = error instanceof Error && 'type' in error ? String(error.type) : undefined;
  const reason = isFailureType(type) ? type : 'Failed';
  const message = error instanceof Error ? error.message : String(error);
  const unblock = shortened(reason === 'Denied' ? withGrant(message) : message, longestWhyBytes);
  return { reason, blockedBy: [], blockedCount: 0, unblock };
}
