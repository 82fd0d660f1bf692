/** The pods of one object whose update the API server has refused, and when the next dry run of each is due (P-7). */
import { failureTypeOf } from '../../api/core/failure.ts';
import { hasMovedOn, mayBeMade } from '../../kube/moved-on.ts';
import type { RefusedUpdate, RefusedUpdates } from '../../plan/fleet/refused-updates.ts';
import type { UpdateTrial } from '../../plan/fleet/steps.ts';
import { messageOf } from './failed-steps.ts';

/**
 * First and longest pause before a pod is tried again; it doubles in between. `mostForShort`: where what refuses it may end by itself.
 * `mostMisled`: before any is tried, where dry runs are accepted and updates are not, so that these cost less than 600 actions a week.
 */
const pauseMs = { first: 5_000, most: 3_600_000, mostForShort: 300_000, mostMisled: 7_200_000 } as const;
/** Dry runs of one object begin so far apart, however many pods are due. */
const betweenTrialsMs = 5_000;
/** The most dry runs that are made together. */
const mostTrials = 16;
/** After so many refusals in a row no pod is updated before a dry run was accepted. */
const mostInARow = 5;

interface RefusedPod extends Omit<RefusedUpdate, 'isDue'> {
  /** So often in a row. */
  readonly refusals: number;
  readonly dueAtMs: number;
  /** The pause before that. */
  readonly pauseMs: number;
}

/** What became of the updates of a pass, by the UIDs of their pods. */
export interface UpdateResults {
  readonly done: readonly string[];
  readonly refused: readonly { readonly uid: string; readonly error: unknown }[];
}

/** Of one object, and of the revision to which its pods are being updated: another one begins anew. */
export class RefusedPods {
  readonly #dryRun: (trial: UpdateTrial) => Promise<void>;
  readonly #pods = new Map<string, RefusedPod>();
  #revision = '';
  /** Without one that was accepted in between, dry runs excepted. */
  #inARow = 0;
  #misled: Misled = notMisled;
  /** When the last dry runs began. */
  #triedAtMs = Number.NEGATIVE_INFINITY;
  #error: RefusedUpdates['error'];
  #isTrying = false;

  /** `dryRun` throws what refuses an update. */
  constructor(dryRun: (trial: UpdateTrial) => Promise<void>) {
    this.#dryRun = dryRun;
  }

  /** As input of the planner; nothing when nothing is refused. Forgets pods that are gone. */
  refused(isThere: (uid: string) => boolean): RefusedUpdates | undefined {
    for (const uid of [...this.#pods.keys()]) if (!isThere(uid)) this.#pods.delete(uid);
    const isGeneral = this.#inARow >= mostInARow;
    if (this.#pods.size === 0 && !isGeneral) return undefined;
    const nowMs = performance.now();
    const pods = [...this.#pods].map(([uid, pod]) => [uid, { ...pod, isDue: pod.dueAtMs <= nowMs }] as const);
    const retriedWithinMs = Math.max(this.#misled.pauseMs, ...pods.map(([, { pauseMs: pause }]) => pause));
    const most = this.#trialsFromMs() > nowMs ? 0 : Math.min(this.#misled.pods, mostTrials);
    return {
      ...{ revision: this.#revision, pods: new Map(pods), isGeneral, mostTrials: most },
      ...{ error: this.#error, retriedWithinMs },
    };
  }

  /** Updates to this revision were made, or refused. */
  note(revision: string, { done, refused }: UpdateResults): void {
    this.#turnTo(revision);
    const misled = refused.filter(({ uid }) => this.#pods.get(uid)?.isAccepted).length;
    for (const { uid, error } of refused) this.#refuse(uid, error);
    if (done.length > 0) this.#went(done);
    else {
      this.#inARow += refused.length;
      if (misled > 0) this.#mislead(misled);
    }
  }

  /** Dry runs say little: then there is one batch in each pause, of as many pods as were refused, and all have their turn. */
  #mislead(pods: number): void {
    const times = this.#misled.times + 1;
    const pause = pauseAfter(times, pauseMs.mostMisled);
    this.#misled = { times, pods, pauseMs: pause, untilMs: performance.now() + pause };
    for (const [uid, pod] of this.#pods) if (pod.isAccepted) this.#pods.set(uid, { ...pod, isAccepted: false });
  }

  #went(uids: readonly string[]): void {
    this.#inARow = 0;
    this.#misled = notMisled;
    // what has stood in the way of one may have stood in the way of all
    if (uids.some((uid) => wasRefused(this.#pods.get(uid)))) this.forgive();
    for (const uid of uids) this.#pods.delete(uid);
    for (const [uid, pod] of this.#pods) if (!wasRefused(pod)) this.#pods.delete(uid);
  }

  /** Makes dry runs, and resolves when they have ended. Undefined: there are none, or others are on their way. */
  tryOut(trials: readonly UpdateTrial[]): Promise<void> | undefined {
    const [first] = trials;
    if (first === undefined || this.#isTrying) return undefined;
    this.#turnTo(first.revision);
    this.#isTrying = true;
    this.#triedAtMs = performance.now();
    return Promise.all(trials.map((trial) => this.#try(trial))).then(() => {
      this.#isTrying = false;
    });
  }

  async #try(trial: UpdateTrial): Promise<void> {
    const { uid } = trial.pod;
    const isMeant = () => trial.revision === this.#revision;
    try {
      await this.#dryRun(trial);
      if (isMeant()) this.#accept(uid);
    } catch (error) {
      if (isMeant()) this.#refuse(uid, error);
    }
  }

  #accept(uid: string): void {
    const { refusals = 0, error, refusedAtMs = 0 } = this.#pods.get(uid) ?? {};
    const accepted = { isAccepted: true, dueAtMs: 0, pauseMs: 0 };
    this.#pods.set(uid, { refusals, ...(error && { error }), refusedAtMs, ...accepted });
  }

  /**
   * Something has changed that may let them through: all are tried at once, and then as if for the first time. `byCommand`: a person
   * wants it, so that dry runs are not waited for either.
   */
  forgive({ byCommand = false } = {}): void {
    if (byCommand) {
      this.#misled = notMisled;
      this.#triedAtMs = Number.NEGATIVE_INFINITY;
    }
    for (const [uid, pod] of this.#pods) {
      if (!pod.isAccepted) this.#pods.set(uid, { ...pod, refusals: 0, dueAtMs: 0 });
    }
  }

  /**
   * In how many milliseconds the next dry run is due. `more`: of pods that are due already. Undefined: none is, or dry runs are on
   * their way, whose end is a reason to look.
   */
  dueInMs(more: boolean): number | undefined {
    if (this.#isTrying) return undefined;
    const nowMs = performance.now();
    const later = [...this.#pods.values()].filter(({ isAccepted, dueAtMs }) => !isAccepted && dueAtMs > nowMs);
    if (later.length === 0 && !more) return undefined;
    const dueAtMs = more ? nowMs : Math.min(...later.map((pod) => pod.dueAtMs));
    return Math.ceil(Math.max(dueAtMs, this.#trialsFromMs()) - nowMs);
  }

  #trialsFromMs(): number {
    return Math.max(this.#triedAtMs + betweenTrialsMs, this.#misled.untilMs);
  }

  #refuse(uid: string, error: unknown): void {
    const { refusals: before = 0, error: said } = this.#pods.get(uid) ?? {};
    const refusals = before + 1;
    const type = failureTypeOf(error);
    const pause = pauseAfter(refusals, type === 'Denied' || type === 'Invalid' ? pauseMs.most : pauseMs.mostForShort);
    const nowMs = performance.now();
    // that its pod has changed meanwhile is no reason that would help anybody
    this.#error = hasMovedOn(error) && said ? said : { message: messageOf(error), ...(type && { type }) };
    this.#pods.set(uid, {
      ...{ refusals, isAccepted: false, refusedAtMs: nowMs, dueAtMs: nowMs + pause, pauseMs: pause },
      error: this.#error,
    });
  }

  #turnTo(revision: string): void {
    if (revision === this.#revision) return;
    this.#revision = revision;
    this.#pods.clear();
    this.#inARow = 0;
    this.#misled = notMisled;
  }
}

/** Updates that were refused after their dry runs had been accepted. */
interface Misled {
  /** So often in a row. */
  readonly times: number;
  /** So many the last time. */
  readonly pods: number;
  /** Until when there are no other dry runs therefore, and how long that is in all. */
  readonly untilMs: number;
  readonly pauseMs: number;
}

const notMisled: Misled = { times: 0, pods: Number.POSITIVE_INFINITY, untilMs: 0, pauseMs: 0 };

function wasRefused(pod: RefusedPod | undefined): boolean {
  return pod?.error !== undefined;
}

function pauseAfter(refusals: number, most: number): number {
  return Math.min(pauseMs.first * 2 ** (refusals - 1), most);
}

/** How often a write that is throttled is tried again as such: the API server asks for later, and not for something else. */
const mostThrottled = 5;

/** Whether the API server has refused an update, so that its pod is given back. `attempts`: how often in a row it has failed. */
export function isRefused(error: unknown, attempts: number): boolean {
  return !mayBeMade(error) && (failureTypeOf(error) !== 'Throttled' || attempts >= mostThrottled);
}
