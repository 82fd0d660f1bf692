/**
 * The batches that the roll-out of one object has handed in: each names the pods that may be disrupted, until each of them is
 * through, and ends with the activity that has brought it. A batch of which nothing changes for long is given back, so that a
 * long wait costs the roll-out no activity.
 */
import type { WaitingFor } from '../../api/engine/waiting-for.ts';
import { type BatchOutcome, type ChosenPod, podsOf } from '../../plan/fleet/batch.ts';
import type { FleetPlan, FleetProgress, JustPermitted, NamedPods, Permit } from '../../plan/fleet/permit.ts';
import { mostInBatch } from '../../plan/permits/in-flight.ts';
import type { PermitLife } from '../permits/held.ts';
import { HeldBatches } from '../permits/held-batches.ts';
import { type BatchRequest, giveUp, type HeldBatch, heldBatch, restsForMs, settle } from './held-batch.ts';

/** What people see of a batch that is pending. */
export interface PermitProgress extends Partial<FleetProgress> {
  /** What the object waits for. Absent: nothing, or that is not known. */
  readonly waitingFor?: WaitingFor;
  /** The first pods whose update is under way, and what happens to them. */
  readonly now?: readonly string[];
}

export interface RollOutPermitsOptions {
  /** After how long a batch of which nothing has changed is given back. */
  readonly longWaitMs: number;
}

/** How long pods that come free together are collected before they are named, by the number of pods of the object: 2 ms each. */
const collectMs = { perPod: 2, least: 20, most: 500 } as const;

/** What a person is told at once. */
const mostNow = 5;

export class RollOutPermits {
  readonly #options: RollOutPermitsOptions;
  readonly #batches = new HeldBatches<BatchOutcome, HeldBatch>({
    names: ({ pods }, uid) => pods.has(uid),
    moved: (held, uid, to) => settle(held, uid, { why: `it is in batch ${to}` }),
    left: ({ request }) => this.#now.delete(request.number),
  });
  #progress: FleetProgress | undefined;
  #now = new Map<number, readonly string[]>();

  constructor(options: RollOutPermitsOptions) {
    this.#options = options;
  }

  /** Whether nothing is handed in. */
  get isIdle(): boolean {
    return this.#batches.size === 0;
  }

  /** Whether another batch may be handed in. */
  get hasRoom(): boolean {
    return this.#batches.hasRoom;
  }

  /** Whether pods of a batch are through, so that its result is about to say which ones go next. */
  get isEnding(): boolean {
    return this.#batches.all().some(({ endsAtMs }) => endsAtMs !== undefined);
  }

  /** The pods of each batch that is carried out, by its number. */
  pods(): ReadonlyMap<number, readonly ChosenPod[]> {
    return new Map(this.#batches.all().map(({ request, pods }) => [request.number, [...pods.values()]]));
  }

  /** Takes a batch in. */
  carryOut(request: BatchRequest, life: PermitLife): Promise<BatchOutcome> {
    const uids = podsOf(request.batch).map(({ uid }) => uid);
    return this.#batches.take(request, uids, life, (held) => heldBatch(held, request));
  }

  /** The run asks, and these of its batches count: all others were taken back. */
  carried(carried: Parameters<HeldBatches<BatchOutcome, HeldBatch>['carried']>[0]): void {
    this.#batches.carried(carried);
  }

  /** What may be disrupted now, as input of the planner; with pods of batches that are on their way here. */
  permit(onTheirWay: readonly JustPermitted[] = []): Permit {
    const pods = new Map(onTheirWay.flatMap(({ revision, uids }) => uids.map((uid) => [uid, revision] as const)));
    const inPlaceOnly = new Set<string>();
    for (const { request, pods: named, outcomes } of this.#batches.all()) {
      for (const [uid, { how }] of named) {
        if (outcomes.has(uid)) continue;
        pods.set(uid, request.batch.revision);
        if (how === 'inPlace') inPlaceOnly.add(uid);
      }
    }
    return { pods, inPlaceOnly, chooses: this.hasRoom };
  }

  /** Whether a batch that is carried out names this pod, and it is not through. */
  names(uid: string): boolean {
    return this.#batchOf(uid) !== undefined;
  }

  /** Whether the pod may be disrupted at this moment, for this revision. */
  mayDisrupt(uid: string, revision: string | undefined): boolean {
    const held = this.#batchOf(uid);
    return held?.request.batch.revision === revision && held?.life.isAlive() === true;
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

  /** What people are told of a batch. */
  progressOf(number: number): PermitProgress {
    const now = this.#now.get(number);
    return { ...this.#progress, ...(now && { now }) };
  }

  /** Whether the update of each pod of a batch has begun, so that nothing is disrupted under it any more. */
  isBegun(number: number): boolean {
    const held = this.#batches.of(number);
    return held !== undefined && [...held.pods.keys()].every((uid) => held.outcomes.has(uid) || held.underWay.has(uid));
  }

  /** Ends everything: the object is gone. */
  withdrawn(): void {
    for (const held of this.#batches.all()) this.#endBatch(held, 'the object is gone');
  }

  /** Ends everything without an answer. */
  fail(reason: unknown): void {
    this.#batches.fail(reason);
  }

  /**
   * Takes in where the pods stood that were granted, and ends the batches of which each pod is through, or of which nothing
   * changes any more; says when to judge again, if that is not by an event. `failing`: UIDs of pods whose update could not
   * be begun; `waitedOut`: of those whose update may have been made, and is not sent any more.
   */
  judgeBatches(
    granted: Permit | undefined,
    { standing, named }: Pick<FleetPlan<unknown>, 'standing' | 'named'>,
    { failing = new Set(), waitedOut = new Set() }: FailingPods = {},
  ): number | undefined {
    if (standing.kind === 'withdrawn') {
      for (const held of this.#batches.all()) this.#endBatch(held, 'the object is being deleted');
      return undefined;
    }
    if (named !== undefined) this.#judgeNamed(granted, named, waitedOut);
    return soonest([this.#endThrough(standing), this.giveBack(failing)]);
  }

  #judgeNamed(granted: Permit | undefined, named: NamedPods, waitedOut: ReadonlySet<string>): void {
    this.#progress = named.progress;
    // What was handed in after the pass had begun is not judged by it.
    if (granted === undefined) return;
    for (const held of this.#batches.all()) {
      const isJudged = [...held.pods.keys()].some((uid) => granted.pods.has(uid));
      if (isJudged && held.request.batch.revision !== named.to) this.#endBatch(held, 'another revision is asked for');
    }
    const gone = this.#batches
      .all()
      .flatMap((held) => this.#judgePods(held, { judged: granted.pods, waitedOut }, named));
    // A pod that is recreated is through once another one is available in its place: those that went first come first.
    const through = gone
      .toSorted((one, other) => one.sinceMs - other.sinceMs)
      .slice(0, Math.max(gone.length - named.awaited, 0));
    for (const { held, uid } of through) settle(held, uid, {});
  }

  /** Ends the batches of which all pods are through, once those are collected that come free with them; says when. */
  #endThrough(standing: FleetPlan<unknown>['standing']): number | undefined {
    const inMs = this.collectMs(standing);
    const left: number[] = [];
    for (const held of this.#batches.all()) {
      if (held.outcomes.size < held.pods.size) continue;
      held.endsAtMs ??= performance.now() + inMs;
      const leftMs = inMs === 0 ? 0 : held.endsAtMs - performance.now();
      if (leftMs > 0) left.push(leftMs);
      else this.#endBatch(held, '');
    }
    return soonest(left);
  }

  /** For how long pods that come free are collected: not at all when that many may go, or none is under way. */
  collectMs(standing: FleetPlan<unknown>['standing']): number {
    const isUnderWay = this.#batches.all().some(({ outcomes, pods }) => outcomes.size < pods.size);
    if (!isUnderWay || (standing.kind === 'pods' && standing.pods.length >= mostInBatch)) return 0;
    const { of = 0 } = this.#progress ?? {};
    return Math.min(Math.max(of * collectMs.perPod, collectMs.least), collectMs.most);
  }

  /** Ends the batches of which nothing has changed for long; says when the next one is due. */
  giveBack(failing: ReadonlySet<string> = new Set()): number | undefined {
    const { longWaitMs } = this.#options;
    const left: number[] = [];
    for (const held of this.#batches.all()) {
      const isBusy = [...held.pods.keys()].some((uid) => failing.has(uid) && !held.outcomes.has(uid));
      const leftMs = longWaitMs - restsForMs(held, isBusy);
      if (leftMs > 0) left.push(leftMs);
      else {
        giveUp(held, longWaitMs);
        this.#endBatch(held, '');
      }
    }
    return soonest(left);
  }

  #batchOf(uid: string): HeldBatch | undefined {
    return this.#batches.all().find(({ pods, outcomes }) => pods.has(uid) && !outcomes.has(uid));
  }

  /** Settles the pods of a batch that are through; answers those that are gone and for which another is to come. */
  #judgePods(
    held: HeldBatch,
    { judged, waitedOut }: { readonly judged: ReadonlyMap<string, string>; readonly waitedOut: ReadonlySet<string> },
    { pods }: NamedPods,
  ): readonly Gone[] {
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
          if (waitedOut.has(uid)) doing(uid, name, 'without an answer of the API server');
          break;
      }
    }
    this.#now.set(held.request.number, now.slice(0, mostNow));
    return gone;
  }

  #endBatch(held: HeldBatch, why: string): void {
    for (const uid of held.pods.keys()) settle(held, uid, { why });
    const { of, updated, ready } = this.#progress ?? {};
    const summary = of === undefined ? '' : `${updated} of ${of} pods are updated, ${ready} of these are available`;
    held.end({ summary, pods: [...held.pods.keys()].flatMap((uid) => held.outcomes.get(uid) ?? []) });
  }
}

interface FailingPods {
  readonly failing?: ReadonlySet<string>;
  readonly waitedOut?: ReadonlySet<string>;
}

interface Gone {
  readonly held: HeldBatch;
  readonly uid: string;
  readonly sinceMs: number;
}

function soonest(dues: readonly (number | undefined)[]): number | undefined {
  const known = dues.filter((ms) => ms !== undefined);
  return known.length === 0 ? undefined : Math.min(...known);
}
