/**
 * What the roll-out of one object has handed in: the batches that it carries out, each of which names the pods that may be
 * disrupted, and its question which pods go next. All of it ends with the activities that have brought it.
 *
 * What the last question allowed holds for all batches: a pause or another revision is in force from then on, also between
 * two questions. A watcher that has not been asked yet disrupts nothing, as it does not know of a pause.
 */
import type { Wait } from '../../workflows/plan/decision.ts';
import {
  type BatchVerdict,
  type ChosenPod,
  mostInBatch,
  mostInFlight,
  type PodBatch,
  type PodOutcome,
  podsOf,
} from '../../workflows/plan/fleet/batch.ts';
import {
  type ChoiceVerdict,
  everyPod,
  type FleetPlan,
  type FleetProgress,
  type Leave,
  type NamedPods,
  type Permit,
  type Verdict,
} from '../../workflows/plan/fleet/permit.ts';
import { type Held, heldFor } from './held.ts';
import type { PermitLife } from './kind.ts';

/** A question which pods go next. */
export interface ChoiceRequest extends Leave {
  /** The numbers of the batches in flight: nothing is chosen before all of them are handed in, so that no pod is chosen twice. */
  readonly after: readonly number[];
  /** The reason of a wait that has been reported already. */
  readonly told?: string;
}

/** A permit to update the pods of one batch. */
export interface BatchRequest {
  /** From 1, in the order in which they were chosen. */
  readonly number: number;
  /** The revision of the leave under which it was chosen. */
  readonly revision: string;
  readonly batch: PodBatch;
}

/** What people see of a batch or a choice that is pending. */
export interface PermitProgress extends Partial<FleetProgress> {
  /** The first pods whose update is under way, and what happens to them. */
  readonly now?: readonly string[];
  readonly waitingFor?: string;
}

/** Something that waits, and is told so when that takes long. */
export interface Waiter {
  readonly end: (verdict: Extract<Verdict, { readonly kind: 'blocked' }>) => void;
  /** What it waits for without a break, and since when by both clocks. */
  waiting?: { readonly wait: Wait; readonly sinceMs: number; readonly startedAtMs: number };
}

interface HeldChoice extends Held<ChoiceVerdict>, Waiter {
  readonly end: (verdict: ChoiceVerdict) => void;
  readonly request: ChoiceRequest;
  /** Since when there have been pods that may go. */
  foundAtMs?: number;
}

interface HeldBatch extends Held<BatchVerdict> {
  readonly request: BatchRequest;
  readonly pods: ReadonlyMap<string, ChosenPod>;
  /** When the update of a pod began, by both clocks; by UID. */
  readonly begun: Map<string, { readonly at: string; readonly sinceMs: number }>;
  /** Since when pods have been gone, by UID. */
  readonly goneAtMs: Map<string, number>;
  readonly outcomes: Map<string, PodOutcome>;
}

/** How long pods that may go are collected before they are named, by the number of pods of the object: 2 ms each. */
const collectMs = { perPod: 2, least: 20, most: 500 } as const;

/** What a person is told at once. */
const mostNow = 5;

export class RollOutPermits {
  #leave: Leave | undefined;
  #choice: HeldChoice | undefined;
  /** The question that the last plan was made for. */
  #planned: HeldChoice | undefined;
  readonly #batches = new Map<number, HeldBatch>();
  /** Numbers of batches that have ended here, of those that the roll-out may not know to have ended. */
  #ended = new Set<number>();
  #progress: FleetProgress | undefined;
  #now = new Map<number, readonly string[]>();

  /** Whether nothing is handed in. What the last choice allowed is kept all the same. */
  get isIdle(): boolean {
    return this.#choice === undefined && this.#batches.size === 0;
  }

  /** The question that the last plan was made for, if it has no answer yet. */
  get choice(): (Waiter & { readonly request: ChoiceRequest }) | undefined {
    return this.#planned === this.#choice ? this.#planned : undefined;
  }

  /** Takes a question in; it replaces one that is there. */
  choose(request: ChoiceRequest, life: PermitLife): Promise<ChoiceVerdict> {
    this.#choice?.fail(new Error('a later attempt has asked again'));
    const { after, told: _, ...leave } = request;
    this.#leave = leave;
    this.#ended = new Set(after.filter((number) => this.#ended.has(number)));
    for (const held of [...this.#batches.values()]) {
      if (!after.includes(held.request.number))
        held.fail(new Error('the roll-out does not carry this batch out any more'));
    }
    return heldFor<ChoiceVerdict, HeldChoice>(
      life,
      (held) => {
        this.#choice = { ...held, request };
        return this.#choice;
      },
      (held) => {
        if (this.#choice === held) this.#choice = undefined;
      },
    );
  }

  /** Takes a batch in. It replaces one of the same number, and takes its pods from every other. */
  carryOut(request: BatchRequest, life: PermitLife): Promise<BatchVerdict> {
    this.#batches.get(request.number)?.fail(new Error('a later attempt has brought the batch again'));
    const pods = new Map(podsOf(request.batch).map((pod) => [pod.uid, pod]));
    for (const other of this.#batches.values()) {
      for (const uid of pods.keys()) settle(other, uid, { why: `it is in batch ${request.number}` });
    }
    return heldFor<BatchVerdict, HeldBatch>(
      life,
      (held) => {
        const batch: HeldBatch = {
          ...held,
          ...{ request, pods, begun: new Map(), goneAtMs: new Map(), outcomes: new Map() },
        };
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
    return { ...leave, batch: everyPod, pods, chooses };
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

  /** Takes in where the pods stood that were granted, and ends the batches of which each pod is through. */
  judgeBatches(granted: Permit | undefined, { standing, named }: Pick<FleetPlan<unknown>, 'standing' | 'named'>): void {
    if (standing.kind === 'superseded') {
      for (const held of [...this.#batches.values()]) this.#endBatch(held, 'another revision is asked for');
      return;
    }
    for (const held of [...this.#batches.values()]) {
      const isOther = this.#leave !== undefined && held.request.revision !== this.#leave.revision;
      if (isOther) this.#endBatch(held, 'another revision is asked for');
    }
    if (named === undefined) return;
    this.#progress = named.progress;
    // What was handed in after the pass had begun is not judged by it.
    const judged = granted?.pods;
    if (judged === undefined) return;
    const gone = [...this.#batches.values()].flatMap((held) => this.#judgePods(held, judged, named));
    // A pod that is recreated is through once another one is available in its place: those that went first come first.
    const through = gone
      .toSorted((one, other) => one.sinceMs - other.sinceMs)
      .slice(0, Math.max(gone.length - named.awaited, 0));
    for (const { held, uid } of through) settle(held, uid, {});
    for (const held of [...this.#batches.values()]) {
      if (held.outcomes.size === held.pods.size) this.#endBatch(held, '');
    }
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
      case 'batchDone':
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
            now.push(`${name} being recreated`);
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
          now.push(`${name} ${pod.doing}`);
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

/** Notes what has become of a pod, once. `why` is empty, or missing, when it was updated. */
function settle(held: HeldBatch, uid: string, { why = '' }: { readonly why?: string }): void {
  const pod = held.pods.get(uid);
  if (pod === undefined || held.outcomes.has(uid)) return;
  const begun = held.begun.get(uid);
  const { namespace } = held.request.batch;
  held.outcomes.set(uid, {
    pod: pod.namespace === namespace ? pod.name : `${pod.namespace}/${pod.name}`,
    how: pod.how,
    ...(begun && { at: begun.at }),
    ...(begun && why === '' && { ms: Math.round(performance.now() - begun.sinceMs) }),
    ...(why !== '' && { why }),
  });
}
