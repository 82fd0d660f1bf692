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
 * lease, and with its result. Which pods may go next is answered at once, from the caches; later the roll-out is told to ask
 * again.
 */

import { setTimeout as delay } from 'node:timers/promises';
import { isFailureType } from '../../api/core/failure.ts';
import { qualifiedName } from '../../api/core/refs.ts';
import type { EngineReason } from '../../api/engine/engine-trouble.ts';
import { withGrant } from '../../api/engine/missing-right.ts';
import type { WaitingFor } from '../../api/engine/waiting-for.ts';
import { inTerm } from '../../kube/fence.ts';
import { KeyedQueue, type PassResult } from '../../kube/keyed-queue.ts';
import type { Term } from '../../kube/leader.ts';
import { mayBeMade } from '../../kube/moved-on.ts';
import type { Wait } from '../../plan/decision.ts';
import { batchesOf, type ChosenPod } from '../../plan/fleet/batch.ts';
import type {
  Answer,
  AnswerKind,
  BatchResult,
  FleetPlan,
  JustPermitted,
  Permit,
  Standing,
} from '../../plan/fleet/permit.ts';
import type { RefusedUpdates } from '../../plan/fleet/refused-updates.ts';
import { type CarriedBatches, mostInAnswer, mostInBatch } from '../../plan/permits/in-flight.ts';
import { shortened, waitWithin } from '../../plan/text-size.ts';
import type { Logger } from '../../process/log.ts';
import { Answers } from '../permits/answers.ts';
import type { PermitLife } from '../permits/held.ts';
import { type Found, WakeUps } from '../permits/wake-ups.ts';
import { type FailedStep, FailedSteps, type StepResults } from './failed-steps.ts';
import type { BatchRequest } from './held-batch.ts';
import type { FleetKind, Seen, StepPod, Together } from './kind.ts';
import { type PermitProgress, RollOutPermits } from './permits.ts';
import { Updates } from './updates.ts';

/**
 * Why a pass is made. `edited`: something has changed that may let go through what has failed, so it is tried at once; `commanded`:
 * a person has given an order, which is the same.
 */
export type PassReason = 'changed' | 'commanded' | 'due' | 'edited' | 'fullPass' | 'ownWrites' | 'permit';

export interface FleetQueueOptions<World, Step, Plan extends FleetPlan<Step> = FleetPlan<Step>> {
  readonly fleet: FleetKind<World, Step, Plan>;
  /** One queue belongs to one term and ends with it; the next term begins with a new one and a consistent list. */
  readonly term: Term;
  readonly log: Logger;
  /** Told of each pass that has ended. */
  readonly onPass?: (outcome: 'done' | 'failed') => void;
  /** After how long a batch of which nothing changes is given back. Absent: ten minutes. */
  readonly longWaitMs?: number;
  /** How many objects are worked on at once. */
  readonly concurrency: number;
  /** The namespace of an object: namespaces take turns. Absent: all objects are of one. */
  readonly shareOf?: (uid: string) => string;
  /** How many steps of one object are done at once. */
  readonly parallelSteps: number;
  /**
   * How far apart passes of an object begin that only events ask for, at least, while events go on: the first rest is
   * `shortestRestMs`, each further one twice as long up to this. Where planning takes long, it is three times that. What
   * happens to an object that has rested is looked at right away, unless planning for all takes long. Absent: passes follow
   * one upon the other.
   */
  readonly restMs?: number;
  /** The wall clock. */
  readonly nowMs: () => number;
}

/** How long a batch waits for its pods in a pending activity, which costs heartbeats. */
const longWaitMs = 600_000;

/** What happens to an object that was left alone is seldom more than one event: the next one may be what its roll-out waits for. */
const shortestRestMs = 5;
/** While events come, planning for one object takes a quarter of the time at most: it rests three times as long. */
const planningShare = 3;
/** The same of all objects of the kind together, a third of the time; so much goes through first. */
const sharedPlanning = { rest: 2, burstMs: 250 } as const;

/** An answer travels through a history: the most that a wait takes in it, and the text of a failure. */
const waitBytes = 3_600;
const longestWhyBytes = 900;
/** The same of a wait in a heartbeat. */
const shownWaitBytes = 900;

/** When a step that was due and may not be made yet is looked at again, if no event comes. */
const skippedAgainMs = 100;

/** Steps that go together. */
interface Run<Step> {
  readonly steps: readonly Step[];
  readonly together: Together;
}

export interface Question {
  /** So many pods are named at most. Absent: as many as an answer can hold. */
  readonly most?: number;
  readonly justPermitted?: readonly JustPermitted[];
  /** The batches of the run that asks that count. Absent: all that there are. */
  readonly carried?: CarriedBatches & Pick<BatchRequest, 'run'>;
}

/** What is known of the roll-out of one object in this term. */
interface RollOutOfObject<Step> {
  readonly permits: RollOutPermits;
  readonly wakeUps: WakeUps;
  readonly updates: Updates<Step>;
  /** What has failed in the last pass and is tried again, as something to wait for. */
  failure?: Wait;
  /** What the object waits for, as of the last pass. */
  wait?: Wait;
}

interface Rest {
  readonly lastsMs: number;
  readonly untilMs: number;
  wake?: NodeJS.Timeout;
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
  readonly #rollOuts = new Map<string, RollOutOfObject<Step>>();
  readonly #reasons = new Map<string, Set<PassReason>>();
  /** Disruptions that are being written, by object. */
  readonly #onTheWay = new Map<string, Map<StepPod, Promise<unknown>>>();
  /** Objects that rest: until when, and what ends it if there is something to look at. */
  readonly #rests = new Map<string, Rest>();
  /** Until when all objects would rest together, had there been no burst. */
  #sharedRestMs = 0;
  /** How many steps of an object went at once at the end of its last pass, where their number grows and none failed. */
  readonly #grown = new Map<string, number>();
  readonly #failed: FailedSteps<Step>;
  readonly #answers = new Answers<Answer>();
  readonly #stop = new AbortController();

  constructor(options: FleetQueueOptions<World, Step, Plan>) {
    this.#options = options;
    const { fleet } = options;
    this.#failed = new FailedSteps((step) => fleet.retryKey?.(step) ?? '');
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
    if (reason === 'edited' || reason === 'commanded') {
      this.#failed.forgive(uid);
      this.#rollOuts.get(uid)?.updates.refused.forgive({ byCommand: reason === 'commanded' });
    }
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
    const rest = this.#rests.get(uid) ?? { lastsMs: 0, untilMs: 0 };
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

  /** Updates of this object that the API server has refused, as input of the planner; forgets pods that are gone. */
  refused(uid: string, isThere: (uid: string) => boolean): RefusedUpdates | undefined {
    return this.#rollOuts.get(uid)?.updates.refused.refused(isThere);
  }

  /** UIDs of the pods of this object of which an update may still be made, as input of the planner. Absent: there is none. */
  inDoubt(uid: string): ReadonlySet<string> | undefined {
    const pods = this.#rollOuts.get(uid)?.updates.podsInDoubt() ?? [];
    return pods.length > 0 ? new Set(pods.map((pod) => pod.uid)) : undefined;
  }

  /**
   * Answers at once which pods of an object may go next, `most` at most, or why none may; those that were permitted a moment
   * ago are left out. Throws when the term has ended.
   */
  next(uid: string, { most = mostInAnswer, justPermitted = [], carried }: Question = {}): Answer {
    this.#stop.signal.throwIfAborted();
    if (!this.#mayWrite()) throw new Error('this watcher is not the leader');
    const { fleet, nowMs } = this.#options;
    const order = this.#answers.order();
    const world = fleet.look(uid);
    if (world === undefined) return { kind: 'withdrawn', order };
    const rollOut = this.#rollOutOf(uid);
    const { permits, wakeUps } = rollOut;
    if (carried) permits.carried(carried);
    // what needs a roll-out that has asked, as surge does, begins
    if (!wakeUps.isHeard) this.add(uid, 'permit');
    wakeUps.followed();
    const plan = fleet.plan(world, { ...permits.permit(justPermitted), isAsked: true }, nowMs());
    const found = foundIn(plan, rollOut);
    const isIdle = permits.isIdle && justPermitted.length === 0;
    const answer = this.#answerTo(plan, rollOut, { most, isIdle });
    wakeUps.answer(found);
    const { facts } = plan.rollOut ?? {};
    return { ...answer, ...(facts && { facts }), order };
  }

  #answerTo(
    { standing, named }: FleetPlan<Step>,
    rollOut: RollOutOfObject<Step>,
    { most, isIdle }: { readonly most: number; readonly isIdle: boolean },
  ): AnswerKind {
    const { permits, failure } = rollOut;
    switch (standing.kind) {
      case 'pods': {
        const { revision, pods, more } = standing;
        const batches = batchesOf(revision, pods.slice(0, most));
        const answers = batches.reduce((sum, batch) => sum + batch.pods.length, 0);
        const { of = 0, updated = 0 } = named?.progress ?? {};
        return { kind: 'pods', batches, more: more || answers < pods.length, of, updated };
      }
      case 'allDone':
        return { kind: 'done', summary: standing.summary };
      case 'aborted':
        return { kind: 'aborted', summary: standing.summary, isIdle };
      case 'withdrawn':
        return { kind: 'withdrawn' };
      default: {
        const wait = waitIn(standing, failure);
        if (wait === undefined || isOwn(wait, permits, failure)) return { kind: 'nothing' };
        return { kind: 'wait', waitingFor: this.#lasting(wait, rollOut, waitBytes) };
      }
    }
  }

  /** The wait with since when it has lasted, as far as this leader knows. */
  #lasting(wait: Wait, { permits, wakeUps, failure }: RollOutOfObject<Step>, mostBytes: number): WaitingFor {
    const lastsMs = wakeUps.waitsForMs(wait.reason, isOwn(wait, permits, failure));
    return waitWithin({ ...wait, since: new Date(this.#options.nowMs() - lastsMs).toISOString() }, mostBytes);
  }

  /**
   * Lets the pods of a batch be disrupted, and waits until each is through; answers also which pods may go next. Rejects when
   * its life or the term ends.
   */
  async carryOut(uid: string, request: BatchRequest, life: PermitLife): Promise<BatchResult> {
    this.#stop.signal.throwIfAborted();
    if (!life.isAlive()) throw life.ended.reason;
    const { permits, wakeUps } = this.#rollOutOf(uid);
    wakeUps.handedIn(request.batch.pods.map((pod) => pod.uid));
    const outcome = permits.carryOut(request, life);
    this.#answers.handedIn(uid);
    this.add(uid, 'permit');
    try {
      const outcomes = await outcome;
      return { ...outcomes, next: this.#answers.shared(uid, () => this.next(uid, { most: mostInBatch })) };
    } catch (error) {
      // its pods may go in another batch
      this.add(uid, 'permit');
      throw error;
    }
  }

  #rollOutOf(uid: string): RollOutOfObject<Step> {
    const { fleet, log } = this.#options;
    const wake = () => {
      log.debug({ kind: fleet.kind, uid }, 'Wake the roll-out');
      fleet.wake?.(uid);
    };
    const rollOut = this.#rollOuts.get(uid) ?? {
      permits: new RollOutPermits({ longWaitMs: this.#options.longWaitMs ?? longWaitMs }),
      wakeUps: new WakeUps(wake),
      updates: new Updates<Step>({
        updateIn: (step) => fleet.updateIn?.(step),
        attemptsOf: (step) => this.#failed.attemptsOf(uid, step),
      }),
    };
    this.#rollOuts.set(uid, rollOut);
    return rollOut;
  }

  /** Whether the update of each pod of a batch of this object has begun. */
  isBegun(uid: string, batch: number): boolean {
    return this.#rollOuts.get(uid)?.permits.isBegun(batch) === true;
  }

  /** A permit that has rested counts again. */
  confirmed(uid: string): void {
    this.add(uid, 'permit');
  }

  /** What people are told of a batch of this object. */
  progressOf(uid: string, batch: number): PermitProgress {
    const rollOut = this.#rollOuts.get(uid);
    if (rollOut === undefined) return {};
    const { permits, wait } = rollOut;
    return { ...permits.progressOf(batch), ...(wait && { waitingFor: this.#lasting(wait, rollOut, shownWaitBytes) }) };
  }

  /** The names of the pods of each batch of this object that is carried out, by number. */
  batchesOf(uid: string): ReadonlyMap<number, readonly ChosenPod[]> {
    return this.#rollOuts.get(uid)?.permits.pods() ?? new Map();
  }

  /** Resolves when no write of a disruption is on its way for this object; after so long with the names of those pods. */
  async quiet(uid: string, withinMs: number): Promise<readonly string[]> {
    const onTheWay = this.#onTheWay.get(uid);
    if (onTheWay === undefined) return [];
    const ended = Promise.all(onTheWay.values());
    await Promise.race([ended, delay(withinMs, undefined, { ref: false })]);
    return [...onTheWay.keys()].filter((pod) => this.#onTheWay.get(uid)?.has(pod)).map(({ name }) => name);
  }

  /** Whether a roll-out of this object is open, as far as known. */
  hasRollOut(uid: string): boolean {
    const { permits, wakeUps } = this.#rollOuts.get(uid) ?? {};
    return permits?.isIdle === false || wakeUps?.isRunning === true;
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
    for (const { permits, wakeUps } of this.#rollOuts.values()) {
      wakeUps.stop();
      permits.fail(reason);
    }
    this.#rollOuts.clear();
    void this.#keys.stop();
  }

  async #pass(uid: string): Promise<PassResult | undefined> {
    const { fleet, log, nowMs, onPass } = this.#options;
    const reasons = this.#reasons.get(uid) ?? ['due'];
    this.#reasons.delete(uid);
    const restBefore = this.#rests.get(uid);
    clearTimeout(restBefore?.wake);
    this.#rests.delete(uid);
    if (!this.#mayWrite()) return undefined;

    const begunAtMs = performance.now();
    const world = fleet.look(uid);
    if (world === undefined) {
      this.#grown.delete(uid);
      this.#failed.forget(uid);
      this.#forgetRollOut(uid);
      return undefined;
    }
    const plannedAtMs = performance.now();
    const wallMs = nowMs();
    const permit = this.#permitOf(uid);
    const plan = fleet.plan(world, permit, wallMs);
    fleet.planned?.(world, plan, wallMs);
    this.#rest(uid, restBefore, begunAtMs, [...reasons].every(mayRest));
    if (!permit && plan.disruption.length > 0)
      throw new Error(`the plan for ${fleet.kind} ${uid} disrupts without a permit`);
    log.debug(
      { kind: fleet.kind, uid, reasons: [...reasons], upkeep: plan.upkeep.length, disruption: plan.disruption.length },
      'Pass',
    );

    const begins = (step: Step) => {
      if (!this.#mayWrite()) return false;
      this.#rollOuts.get(uid)?.permits.begin(fleet.updateIn?.(step)?.pod.uid, nowMs());
      return true;
    };
    const together = fleet.together ?? (() => 'alone' as const);
    const grown = this.#grown.get(uid) ?? 1;
    this.#grown.delete(uid);
    const planned = [...plan.upkeep, ...plan.disruption];
    const updates = () => this.#rollOuts.get(uid)?.updates;
    const lost = await updates()?.lost(planned, () => this.#catchUp(uid));
    if (lost) this.add(uid, 'ownWrites');
    const lostSteps = new Set(lost?.map(({ step }) => step));
    const isWaitedOut = (step: Step) => updates()?.isWaitedOut(step) === true;
    const isDue = (step: Step) => this.#failed.isDue(uid, step) && !isWaitedOut(step) && !lostSteps.has(step);
    const upkeep = await this.#act(uid, world, runsOf(plan.upkeep.filter(isDue), together), begins, {
      grownBefore: grown,
    });
    const disruption = await this.#disrupt(uid, world, plan.disruption.filter(isDue), permit);
    if (upkeep.grown > 1) this.#grown.set(uid, upkeep.grown);
    const results = {
      done: [...upkeep.done, ...disruption.done],
      failures: [...upkeep.failures, ...disruption.failures],
    };
    const { refused, failures } = this.#noteUpdates(uid, results, lost ?? []);
    const dryRun = (step: Step) => fleet.act(step, world, this.#stop.signal, () => this.#mayWrite());
    const trialsEnd = updates()?.tryOut(plan.trials, dryRun);
    void trialsEnd?.then(() => this.add(uid, 'ownWrites'));
    const hadFailed = this.#failed.has(uid);
    const givenBack = new Set(refused.map(({ step }) => step));
    const wanted = planned.filter((step) => !givenBack.has(step));
    const failed = this.#failed.note(uid, wanted, { done: results.done, failures });
    if (failures.some(({ error }) => mayBeMade(error))) await this.#catchUp(uid);
    // The next pass reports that the failure is over.
    const isChanged = (hadFailed && failed.length === 0) || refused.length > 0;
    if (isChanged || upkeep.changes + disruption.changes > 0) this.add(uid, 'ownWrites');
    // Counted from the plan, as the pass itself may have taken long.
    const dueInMs = plan.againInMs && Math.max(Math.ceil(plannedAtMs + plan.againInMs - performance.now()), 0);
    // Timers take whole milliseconds, and must not come too early. What was due and not tried waits for its permit.
    const inMs = ({ step, retryAtMs }: FailedStep<Step>) =>
      isWaitedOut(step) ? undefined : Math.max(Math.ceil(retryAtMs - performance.now()), skippedAgainMs);
    const duesInMs = updates()?.duesInMs(plan.trials?.more ?? false) ?? [];
    const [failure] = [...failures, ...refused];
    const retry = soonest([...failed.map(inMs), ...duesInMs]);
    if (failure !== undefined) this.#tellFailure(uid, failure.error, retry?.againInMs ?? 0);
    else onPass?.('done');
    const [first] = failed;
    // Report persistent failures to the roll-out.
    const wait = first && waitAfter((failures[0] ?? first).error);
    return soonest([dueInMs, ...failed.map(inMs), ...duesInMs, this.#judgeRollOut(uid, permit, plan, wait)]);
  }

  /** Nothing is permitted before a roll-out has asked, or after it has ended. */
  #permitOf(uid: string): Permit | undefined {
    const { permits, wakeUps } = this.#rollOuts.get(uid) ?? {};
    const permit = permits?.permit();
    return wakeUps?.isHeard || permits?.isIdle === false ? permit : undefined;
  }

  #forgetRollOut(uid: string): void {
    const { permits, wakeUps } = this.#rollOuts.get(uid) ?? {};
    this.#rollOuts.delete(uid);
    wakeUps?.stop();
    permits?.withdrawn();
  }

  /** Does what the permits of the roll-out are for, as long as they live. */
  async #disrupt(
    uid: string,
    world: World,
    steps: readonly Step[],
    granted: Permit | undefined,
  ): Promise<Outcome<Step>> {
    const { fleet, nowMs } = this.#options;
    const runs = runsOf(steps, fleet.together ?? (() => 'freely' as const));
    const { permits, wakeUps } = this.#rollOuts.get(uid) ?? {};
    const outcome = await this.#act(
      uid,
      world,
      runs,
      (step) => {
        const pod = fleet.podOf(step);
        if (pod === undefined || permits === undefined || !this.#mayWrite()) return false;
        if (!permits.mayDisrupt(pod.uid, granted?.pods.get(pod.uid))) return false;
        if (fleet.isForbidden?.(uid, pod)) return false;
        permits.begin(pod.uid, nowMs());
        return true;
      },
      { onTheWay: (step, written) => this.#writing(uid, fleet.podOf(step), written) },
    );
    if (outcome.changes > 0) wakeUps?.went();
    return outcome;
  }

  #noteUpdates(
    uid: string,
    results: StepResults<Step>,
    lost: StepResults<Step>['failures'],
  ): ReturnType<Updates<Step>['note']> {
    const isUpdate = ({ step }: { readonly step: Step }) => this.#options.fleet.updateIn?.(step) !== undefined;
    if (![...results.done, ...results.failures, ...lost].some(isUpdate)) return { ...results, refused: [] };
    const { updates, permits } = this.#rollOutOf(uid);
    return updates.note(results, lost, (podUid) => permits.notBegun(podUid));
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

  /** Ends the batches that are through, and has the roll-out told to ask when it is owed that; says when to look again. */
  #judgeRollOut(
    uid: string,
    granted: Permit | undefined,
    plan: FleetPlan<Step>,
    failure: Wait | undefined,
  ): number | undefined {
    if (!this.#mayWrite() || (!this.#rollOuts.has(uid) && !plan.rollOut?.isWanted)) return undefined;
    const rollOut = this.#rollOutOf(uid);
    const { permits, wakeUps } = rollOut;
    if (failure === undefined) delete rollOut.failure;
    else rollOut.failure = failure;
    const { fleet } = this.#options;
    const begins = [...plan.disruption, ...plan.upkeep.filter((step) => fleet.updateIn?.(step) !== undefined)];
    const podsOf = (steps: readonly Step[]) => new Set(steps.flatMap((step) => fleet.podOf(step)?.uid ?? []));
    const failing = podsOf(begins.filter((step) => this.#failed.hasFailed(uid, step)));
    const waitedOut = podsOf(begins.filter((step) => rollOut.updates.isWaitedOut(step)));
    const inFlight = permits.pods().size;
    const inMs = permits.judgeBatches(granted, plan, { failing, waitedOut });
    const endsBatch = permits.isEnding || permits.pods().size < inFlight;
    const wait = waitIn(plan.standing, failure);
    if (wait === undefined) delete rollOut.wait;
    else rollOut.wait = wait;
    wakeUps.look({ ...foundIn(plan, rollOut), endsBatch });
    if (plan.standing.kind === 'allDone') rollOut.updates.refused.forget();
    const isOver = permits.isIdle && wakeUps.isOver && rollOut.updates.isEmpty;
    if (isOver && !plan.rollOut?.isWanted) this.#forgetRollOut(uid);
    return inMs;
  }

  /** Answers whether the caches show it. What goes wrong here must not stand in for what has failed. */
  async #catchUp(uid: string): Promise<boolean> {
    const { fleet, log } = this.#options;
    try {
      await fleet.catchUp(uid, this.#stop.signal, this.#rollOuts.get(uid)?.updates.podsInDoubt() ?? []);
      return true;
    } catch (error) {
      log.debug({ kind: fleet.kind, uid, err: error }, 'Cannot see whether writes without an answer were made');
      return false;
    }
  }

  #rest(uid: string, before: Rest | undefined, begunAtMs: number, isOfEvents: boolean): void {
    const { restMs } = this.#options;
    if (restMs === undefined) return;
    const tookMs = performance.now() - begunAtMs;
    const goesOn = before !== undefined && begunAtMs < before.untilMs + restMs;
    const lastsMs = goesOn ? Math.min(before.lastsMs * (isOfEvents ? 2 : 1), restMs) : shortestRestMs;
    if (isOfEvents) {
      this.#sharedRestMs = Math.max(this.#sharedRestMs, begunAtMs) + (1 + sharedPlanning.rest) * tookMs;
    }
    this.#rests.set(uid, { lastsMs, untilMs: begunAtMs + Math.max(lastsMs, planningShare * tookMs) });
  }

  /**
   * Does the runs one after the other, as long as they are allowed, and waits until all writes are seen. What fails ends
   * its own run at most: the others were planned beside it, and must not wait for what may never succeed. An update that is
   * refused ends nothing, as its pod is given back.
   */
  async #act(
    uid: string,
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
        const mayGoOn = () => allowed(step) && fleet.isCurrent?.(world) !== false;
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
          if (together !== 'freely' && !this.#rollOuts.get(uid)?.updates.isGivenBack(step, error)) batch.length = 0;
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

  /** Of a pass that could not be made at all. */
  #passFailed(uid: string, error: unknown, retryInMs: number): void {
    if (this.#stop.signal.aborted) return;
    this.#tellFailure(uid, error, retryInMs);
    const rollOut = this.#rollOuts.get(uid);
    if (rollOut === undefined) return;
    rollOut.failure = waitAfter(error);
    rollOut.permits.giveBack();
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

/** What a plan means for a roll-out that is not told of it. */
function foundIn<Step>({ standing, rollOut }: FleetPlan<Step>, { permits, failure }: RollOutOfObject<Step>): Found {
  const wait = standing.kind === 'pods' ? undefined : waitIn(standing, failure);
  // a run that is aborted ends with its last batch, whose result says so
  const isAborted = standing.kind === 'aborted' && permits.isIdle;
  const isNothingLeft = standing.kind === 'allDone' || standing.kind === 'withdrawn' || isAborted;
  return {
    isWanted: rollOut?.isWanted ?? false,
    isNothingLeft,
    mayGo: standing.kind === 'pods' ? standing.pods.map(({ uid }) => uid).filter((uid) => !permits.names(uid)) : [],
    ...(standing.kind === 'pods' && standing.more && { hasMore: true }),
    // how many pods there are is for texts only, and changes all the time
    ...(rollOut && { facts: JSON.stringify({ ...rollOut.facts, replicas: 0 }) }),
    hasRoomForBatch: permits.hasRoom,
    endsBatch: false,
    collectMs: permits.collectMs(standing),
    ...(wait && !isNothingLeft && { wait: { reason: wait.reason, isOwn: isOwn(wait, permits, failure) } }),
  };
}

/**
 * Whether batches in flight explain that no further pod may go: all that is in the way are pods of theirs, or new pods in the
 * place of those that they recreate. They do not explain what fails, or what a person has decided.
 */
function isOwn({ blockedBy, blockedCount }: Wait, permits: RollOutPermits, failure: Wait | undefined): boolean {
  if (failure !== undefined || permits.isIdle || blockedCount === 0) return false;
  const inFlight = [...permits.pods().values()].flat();
  const names = new Set(inFlight.flatMap((pod) => [pod.name, qualifiedName(pod)]));
  const strangers = blockedBy.filter((name) => !names.has(name.slice(name.indexOf('/') + 1)));
  return blockedCount <= inFlight.length && strangers.length <= inFlight.filter(({ how }) => how === 'recreate').length;
}

/** A roll-out that asks, or can be told anything, does not wait for Temporal or its workers. */
function waitIn(standing: Standing, failure: Wait | undefined): Wait | undefined {
  const wait = failure ?? (standing.kind === 'waiting' ? standing.wait : undefined);
  return wait && ofEngine.includes(wait.reason) ? undefined : wait;
}

const ofEngine: readonly string[] = [
  'EngineSilent',
  'EngineNoWorkers',
  'EngineNoFleetWorker',
  'EngineStuck',
] satisfies readonly EngineReason[];

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
