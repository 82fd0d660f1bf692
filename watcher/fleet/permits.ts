/**
 * What the roll-out of one object has handed in: the batches that it carries out, each of which names the pods that may be
 * disrupted, and its question which pods go next. All of it ends with the activities that have brought it.
 *
 * What the last question allowed holds for all batches: a pause or another revision is in force from then on, also between
 * two questions. A watcher that has not been asked yet disrupts nothing, as it does not know of a pause.
 *
 * A long wait costs the roll-out no activity: a batch of which nothing changes is given back, and a question that is
 * answered with a parked wait is remembered here, as if it were still pending, until the answer would be another one. Then
 * the roll-out is woken, and asks again.
 */
import type { Wait } from '../../plan/decision.ts';
import {
  type BatchVerdict,
  type ChosenPod,
  mostInBatch,
  mostInFlight,
  type PodBatch,
  podsOf,
} from '../../plan/fleet/batch.ts';
import type { ChoiceVerdict, FleetPlan, FleetProgress, Leave, NamedPods, Permit } from '../../plan/fleet/permit.ts';
import { type Held, heldFor } from './held.ts';
import { type BatchRequest, giveUp, type HeldBatch, heldBatch, restsForMs, settle } from './held-batch.ts';
import type { PermitLife } from './kind.ts';

/** A question which pods go next. */
export interface ChoiceRequest extends Leave {
  /** The numbers of the batches in flight: nothing is chosen before all of them are handed in, so that no pod is chosen twice. */
  readonly after: readonly number[];
  /** The reason of a wait that has been reported already. */
  readonly told?: string;
  /** The roll-out was parked before it asked, and is parked again as soon as a wait is reported. */
  readonly parked?: true;
}

/** What people see of a batch or a choice that is pending. */
export interface PermitProgress extends Partial<FleetProgress> {
  /** The first pods whose update is under way, and what happens to them. */
  readonly now?: readonly string[];
  readonly waitingFor?: string;
}

/** Something that waits, and is told so when that takes long. */
export interface Waiter {
  readonly end: (verdict: Extract<ChoiceVerdict, { readonly kind: 'blocked' }>) => void;
  /** What it waits for without a break, and since when by both clocks. */
  waiting?: { readonly wait: Wait; readonly sinceMs: number; readonly startedAtMs: number };
}

interface HeldChoice extends Held<ChoiceVerdict>, Waiter {
  readonly end: (verdict: ChoiceVerdict) => void;
  readonly request: ChoiceRequest;
  /** It was answered with a parked wait, and is remembered. */
  readonly isParked?: true;
  /** Since when there have been pods that may go. */
  foundAtMs?: number;
}

/** What becomes of a wait that the roll-out knows: it is reported as parked after a while, or it is not reported again. */
export type WhenTold = 'parks' | 'waits';

export interface RollOutPermitsOptions {
  /** After how long a wait is parked, and a batch of which nothing has changed is given back. */
  readonly longWaitMs: number;
  /** Tells the roll-out to ask again. Answers false when nobody has received that. */
  readonly wake: () => Promise<boolean>;
}

/** How long pods that may go are collected before they are named, by the number of pods of the object: 2 ms each. */
const collectMs = { perPod: 2, least: 20, most: 500 } as const;

/** What a person is told at once. */
const mostNow = 5;

/** What is remembered for a roll-out lasts until it asks again, or the term ends. */
const untilAsked: PermitLife = { isAlive: () => true, ended: new AbortController().signal };

export class RollOutPermits {
  readonly #options: RollOutPermitsOptions;
  #leave: Leave | undefined;
  #choice: HeldChoice | undefined;
  /** What the last question waited for when it was answered: the next one goes on waiting for it. */
  #waited: Waiter['waiting'];
  /** The question that the last plan was made for. */
  #planned: HeldChoice | undefined;
  readonly #batches = new Map<number, HeldBatch>();
  /** Numbers of batches that have ended here, of those that the roll-out may not know to have ended. */
  #ended = new Set<number>();
  #progress: FleetProgress | undefined;
  #now = new Map<number, readonly string[]>();

  constructor(options: RollOutPermitsOptions) {
    this.#options = options;
  }

  /** Whether nothing is handed in. What the last choice allowed is kept all the same. */
  get isIdle(): boolean {
    return this.#choice === undefined && this.#batches.size === 0;
  }

  /** The pods of each batch that is carried out, by its number. */
  pods(): ReadonlyMap<number, readonly ChosenPod[]> {
    return new Map([...this.#batches].map(([number, { pods }]) => [number, [...pods.values()]]));
  }

  /** The question that the last plan was made for, if it has no answer yet. */
  get choice(): (Waiter & { readonly request: ChoiceRequest }) | undefined {
    return this.#planned === this.#choice ? this.#planned : undefined;
  }

  /** Takes a question in; it replaces one that is there. */
  choose(request: ChoiceRequest, life: PermitLife): Promise<ChoiceVerdict> {
    this.#choice?.fail(new Error('a later attempt has asked again'));
    const { after, told, parked: _, ...leave } = request;
    const waited = told === undefined ? undefined : this.#waited;
    this.#waited = undefined;
    this.#leave = leave;
    this.#ended = new Set(after.filter((number) => this.#ended.has(number)));
    for (const held of [...this.#batches.values()]) {
      if (!after.includes(held.request.number))
        held.fail(new Error('the roll-out does not carry this batch out any more'));
    }
    return heldFor<ChoiceVerdict, HeldChoice>(
      life,
      (held) => {
        const choice: HeldChoice = {
          ...held,
          request,
          ...(waited && { waiting: waited }),
          end: (verdict) => {
            this.#waited = choice.waiting;
            held.end(verdict);
            if (verdict.kind === 'blocked' && verdict.parked) this.#park(choice);
          },
        };
        this.#choice = choice;
        return choice;
      },
      (held) => {
        if (this.#choice === held) this.#choice = undefined;
      },
    );
  }

  /** Takes a batch in. It replaces one of the same number, and takes its pods from every other. */
  carryOut(request: BatchRequest, life: PermitLife): Promise<BatchVerdict> {
    this.#batches.get(request.number)?.fail(new Error('a later attempt has brought the batch again'));
    for (const other of this.#batches.values()) {
      for (const { uid } of podsOf(request.batch)) settle(other, uid, { why: `it is in batch ${request.number}` });
    }
    return heldFor<BatchVerdict, HeldBatch>(
      life,
      (held) => {
        const batch = heldBatch(held, request);
        this.#batches.set(request.number, batch);
        this.#ended.delete(request.number);
        return batch;
      },
      (held) => {
        if (this.#batches.get(request.number) === held) this.#batches.delete(request.number);
        this.#now.delete(request.number);
      },
    );
  }

  /** What may be disrupted now, as input of the planner; undefined while nothing is handed in. */
  permit(): Permit | undefined {
    this.#dropDead();
    this.#planned = this.#choice;
    const leave = this.#leave;
    if (leave === undefined || this.isIdle) return undefined;
    const pods = new Map<string, string>();
    for (const { request, pods: named, outcomes } of this.#batches.values()) {
      if (request.revision !== leave.revision) continue;
      for (const uid of named.keys()) if (!outcomes.has(uid)) pods.set(uid, request.batch.revision);
    }
    const chooses = this.#choice !== undefined && this.#missing().length === 0 && this.#batches.size < mostInFlight;
    return { ...leave, pods, chooses };
  }

  /** Whether the pod may be disrupted at this moment. */
  mayDisrupt(uid: string | undefined): boolean {
    return uid !== undefined && this.#batchOf(uid)?.life.isAlive() === true;
  }

  /** The update of a pod begins; it counts from now. */
  begin(uid: string | undefined, nowMs: number): void {
    const batch = uid === undefined ? undefined : this.#batchOf(uid);
    if (uid === undefined || batch === undefined || batch.begun.has(uid)) return;
    batch.begun.set(uid, { at: new Date(nowMs).toISOString(), sinceMs: performance.now() });
  }

  /** The update of a pod could not be begun. */
  notBegun(uid: string | undefined): void {
    if (uid !== undefined) this.#batchOf(uid)?.begun.delete(uid);
  }

  /** What people are told of a batch; of the choice when no number is given. */
  progressOf(number?: number): PermitProgress {
    const now = number === undefined ? undefined : this.#now.get(number);
    const reason = number === undefined ? this.#choice?.waiting?.wait.reason : undefined;
    return { ...this.#progress, ...(now && { now }), ...(reason !== undefined && { waitingFor: reason }) };
  }

  /** Ends everything: the object is gone. */
  superseded(): void {
    this.#choice?.end({ kind: 'superseded' });
    for (const held of [...this.#batches.values()]) this.#endBatch(held, 'the object is gone');
  }

  /** Ends everything without an answer. */
  fail(reason: unknown): void {
    this.#choice?.fail(reason);
    for (const held of [...this.#batches.values()]) held.fail(reason);
  }

  /**
   * Takes in where the pods stood that were granted, and ends the batches of which each pod is through, or of which nothing
   * changes any more; says when to judge again, if that is not by an event. `failing`: UIDs of pods whose update could not
   * be begun and is tried again.
   */
  judgeBatches(
    granted: Permit | undefined,
    { standing, named }: Pick<FleetPlan<unknown>, 'standing' | 'named'>,
    failing: ReadonlySet<string> = new Set(),
  ): number | undefined {
    if (standing.kind === 'superseded') {
      for (const held of [...this.#batches.values()]) this.#endBatch(held, 'another revision is asked for');
      return undefined;
    }
    for (const held of [...this.#batches.values()]) {
      const isOther = this.#leave !== undefined && held.request.revision !== this.#leave.revision;
      if (isOther) this.#endBatch(held, 'another revision is asked for');
    }
    if (named !== undefined) this.#judgeNamed(granted, named);
    return this.giveBack(failing);
  }

  #judgeNamed(granted: Permit | undefined, named: NamedPods): void {
    this.#progress = named.progress;
    // What was handed in after the pass had begun is not judged by it.
    if (granted === undefined) return;
    const gone = [...this.#batches.values()].flatMap((held) => this.#judgePods(held, granted.pods, named));
    // A pod that is recreated is through once another one is available in its place: those that went first come first.
    const through = gone
      .toSorted((one, other) => one.sinceMs - other.sinceMs)
      .slice(0, Math.max(gone.length - named.awaited, 0));
    for (const { held, uid } of through) settle(held, uid, {});
    for (const held of [...this.#batches.values()]) {
      if (held.outcomes.size === held.pods.size) this.#endBatch(held, '');
    }
  }

  /** Ends the batches of which nothing has changed for long; says when the next one is due. */
  giveBack(failing: ReadonlySet<string> = new Set()): number | undefined {
    const { longWaitMs } = this.#options;
    const left: number[] = [];
    for (const held of [...this.#batches.values()]) {
      const isBusy = [...held.pods.keys()].some((uid) => failing.has(uid) && !held.outcomes.has(uid));
      const leftMs = longWaitMs - restsForMs(held, isBusy);
      if (leftMs > 0) left.push(leftMs);
      else {
        giveUp(held, longWaitMs);
        this.#endBatch(held, '');
      }
    }
    return left.length === 0 ? undefined : Math.min(...left);
  }

  /** What becomes of a wait of the question that the roll-out knows: nothing is parked while batches are in flight. */
  get whenTold(): WhenTold {
    const isInFlight = this.#batches.size > 0 || this.#missing().length > 0;
    return isInFlight || this.#choice?.isParked ? 'waits' : 'parks';
  }

  /** Remembers a question that was answered with a parked wait. It is answered by waking the roll-out, which asks again. */
  #park({ request, waiting }: HeldChoice): void {
    let isWaking = false;
    const wake = async () => {
      if (isWaking) return;
      isWaking = true;
      this.#waited = parked.waiting;
      const isTold = await this.#options.wake();
      isWaking = false;
      if (isTold) forget();
    };
    const forget = () => {
      if (this.#choice === parked) this.#choice = undefined;
    };
    const parked: HeldChoice = {
      ...{ life: untilAsked, isParked: true, end: () => void wake(), fail: forget },
      request: { ...request, ...(waiting && { told: waiting.wait.reason }) },
      ...(waiting && { waiting }),
    };
    this.#choice = parked;
  }

  /**
   * Answers the question if its time has come; else says when to judge again, if that is not by an event. Pods are collected
   * for a moment while others are under way, since those come free one after the other.
   */
  judgeChoice(standing: FleetPlan<unknown>['standing'], hasFailed: boolean): number | 'waits' | undefined {
    const choice = this.#choice;
    if (choice === undefined || choice !== this.#planned) return undefined;
    if (standing.kind !== 'pods') delete choice.foundAtMs;
    switch (standing.kind) {
      case 'pods': {
        delete choice.waiting;
        choice.foundAtMs ??= performance.now();
        const dueMs = choice.foundAtMs + this.#collectMs(standing.batch) - performance.now();
        if (dueMs > 0) return dueMs;
        const { of = 0, updated = 0 } = this.#progress ?? {};
        choice.end({ kind: 'batch', batch: standing.batch, of, updated });
        return undefined;
      }
      case 'allDone':
      case 'superseded':
        choice.end(standing);
        return undefined;
      case 'waiting':
        return 'waits';
      case 'working':
        if (!hasFailed && this.#missing().length === 0) delete choice.waiting;
        return undefined;
    }
  }

  /** What the choice waits for besides the cluster. */
  ownWait(): Wait | undefined {
    const missing = this.#missing();
    if (missing.length === 0) return undefined;
    const blockedBy = missing.slice(0, 10).map((number) => `batch/${number}`);
    const unblock = 'The next pods are chosen once these batches are carried out: unpause or reset their activities';
    return { reason: 'BatchNotRunning', blockedBy, blockedCount: missing.length, unblock };
  }

  #collectMs({ pods }: PodBatch): number {
    if (this.#batches.size === 0 || pods.length >= mostInBatch) return 0;
    const { of = 0 } = this.#progress ?? {};
    return Math.min(Math.max(of * collectMs.perPod, collectMs.least), collectMs.most);
  }

  /** Batches that the roll-out carries out and that are not here: they will be, or their activity is held up. */
  #missing(): readonly number[] {
    const { after = [] } = this.#choice?.request ?? {};
    return after.filter((number) => !this.#batches.has(number) && !this.#ended.has(number));
  }

  #batchOf(uid: string): HeldBatch | undefined {
    for (const held of this.#batches.values()) if (held.pods.has(uid) && !held.outcomes.has(uid)) return held;
    return undefined;
  }

  #dropDead(): void {
    for (const held of [this.#choice, ...this.#batches.values()]) {
      if (held !== undefined && !held.life.isAlive()) held.fail(held.life.ended.reason);
    }
  }

  /** Settles the pods of a batch that are through; answers those that are gone and for which another is to come. */
  #judgePods(held: HeldBatch, judged: ReadonlyMap<string, string>, { pods }: NamedPods): readonly Gone[] {
    const now: string[] = [];
    const gone: Gone[] = [];
    const doing = (uid: string, name: string, what: string) => {
      now.push(`${name} ${what}`);
      held.underWay.set(uid, what);
    };
    held.underWay.clear();
    for (const [uid, { name, how }] of held.pods) {
      if (held.outcomes.has(uid) || !judged.has(uid)) continue;
      const pod = pods.get(uid);
      switch (pod?.state) {
        case undefined: {
          // Whoever has deleted it, and whichever attempt: another pod takes its place.
          if (how !== 'recreate') settle(held, uid, { why: 'it is gone' });
          else {
            const sinceMs = held.goneAtMs.get(uid) ?? performance.now();
            held.goneAtMs.set(uid, sinceMs);
            gone.push({ held, uid, sinceMs });
            doing(uid, name, 'being recreated');
          }
          break;
        }
        case 'done':
          settle(held, uid, {});
          break;
        case 'skipped':
          settle(held, uid, { why: 'an operator leaves it out' });
          break;
        case 'notNow':
          settle(held, uid, { why: `not now: ${pod.why}` });
          break;
        case 'underWay':
          doing(uid, name, pod.doing);
          break;
        case 'next':
          break;
      }
    }
    this.#now.set(held.request.number, now.slice(0, mostNow));
    return gone;
  }

  #endBatch(held: HeldBatch, why: string): void {
    for (const uid of held.pods.keys()) settle(held, uid, { why });
    this.#ended.add(held.request.number);
    const { of, updated, ready } = this.#progress ?? {};
    const summary = of === undefined ? '' : `${updated} of ${of} pods are updated, ${ready} of these are available`;
    held.end({ summary, pods: [...held.pods.keys()].flatMap((uid) => held.outcomes.get(uid) ?? []) });
  }
}

interface Gone {
  readonly held: HeldBatch;
  readonly uid: string;
  readonly sinceMs: number;
}
