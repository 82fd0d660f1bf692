/** The pods of one object whose update the API server has refused, and when the next dry run of each is due (P-7). */
import { failureTypeOf } from '../../api/core/failure.ts';
import { hasMovedOn, mayBeMade } from '../../kube/moved-on.ts';
import type { RefusedUpdate, RefusedUpdates } from '../../plan/fleet/refused-updates.ts';
import { messageOf } from './failed-steps.ts';

/**
 * First and longest pause before a pod is tried again; it doubles in between. `mostOfBudget`: one that a budget refuses; `mostMisled`:
 * before any is tried, where dry runs are accepted and updates are not, so that these cost less than 600 actions a week.
 */
const pauseMs = { first: 5_000, most: 3_600_000, mostOfBudget: 300_000, mostMisled: 7_200_000 } as const;
/** Dry runs of one object begin so far apart, however many pods are due; and after something has changed. */
const betweenTrialsMs = { usually: 5_000, least: 1_000 } as const;
/** After so many refusals in a row no pod is updated before a dry run was accepted. */
const mostInARow = 5;

interface RefusedPod extends Omit<RefusedUpdate, 'isDue'> {
  /** So often in a row. */
  readonly refusals: number;
  readonly dueAtMs: number;
}

/** What became of the updates of a pass, by the UIDs of their pods. */
export interface UpdateResults {
  readonly done: readonly string[];
  readonly refused: readonly { readonly uid: string; readonly error: unknown }[];
}

/** A dry run of the update of a pod, which throws what refuses it. */
export interface Trial {
  readonly uid: string;
  readonly dryRun: () => Promise<void>;
}

export class RefusedPods {
  readonly #pods = new Map<string, RefusedPod>();
  /** Without one that was accepted in between, dry runs excepted. */
  #inARow = 0;
  /** How often in a row an update was refused after its dry run had been accepted. */
  #misled = 0;
  #triedAtMs = Number.NEGATIVE_INFINITY;
  #trialsFromMs = Number.NEGATIVE_INFINITY;
  #isTrying = false;

  /** As input of the planner; nothing when nothing is refused. Forgets pods that are gone. */
  refused(isThere: (uid: string) => boolean): RefusedUpdates | undefined {
    for (const uid of [...this.#pods.keys()]) if (!isThere(uid)) this.#pods.delete(uid);
    const isGeneral = this.#inARow >= mostInARow;
    if (this.#pods.size === 0 && !isGeneral) return undefined;
    const nowMs = performance.now();
    const pods = [...this.#pods].map(([uid, pod]) => [uid, { ...pod, isDue: pod.dueAtMs <= nowMs }] as const);
    return { pods: new Map(pods), isGeneral, mayTry: this.#trialsFromMs <= nowMs };
  }

  /** Updates were made, or refused. */
  note({ done, refused }: UpdateResults): void {
    const isMisled = refused.some(({ uid }) => this.#pods.get(uid)?.isAccepted);
    if (isMisled) this.#wait(pauseAfter(++this.#misled, pauseMs.mostMisled));
    for (const { uid, error } of refused) this.#refuse(uid, error);
    if (done.length > 0) this.#went(done);
    else this.#inARow += refused.filter(({ error }) => failureTypeOf(error) !== 'Held').length;
  }

  #went(uids: readonly string[]): void {
    this.#inARow = 0;
    this.#misled = 0;
    // what has stood in the way of one may have stood in the way of all
    if (uids.some((uid) => isRefusedBefore(this.#pods.get(uid)))) this.forgive();
    for (const uid of uids) this.#pods.delete(uid);
    for (const [uid, pod] of this.#pods) if (!isRefusedBefore(pod)) this.#pods.delete(uid);
  }

  /** Makes dry runs, and resolves when they have ended. Undefined: there are none, or others are on their way. */
  tryOut(trials: readonly Trial[]): Promise<void> | undefined {
    if (trials.length === 0 || this.#isTrying) return undefined;
    this.#isTrying = true;
    this.#triedAtMs = performance.now();
    this.#wait(betweenTrialsMs.usually);
    const ended = Promise.all(trials.map((trial) => this.#try(trial)));
    return ended.then(() => {
      this.#isTrying = false;
    });
  }

  async #try({ uid, dryRun }: Trial): Promise<void> {
    try {
      await dryRun();
      this.#accept(uid);
    } catch (error) {
      // a pod that has changed meanwhile is looked at anew
      if (!hasMovedOn(error)) this.#refuse(uid, error);
    }
  }

  #accept(uid: string): void {
    const { refusals = 0, error: before } = this.#pods.get(uid) ?? {};
    const accepted = { isAccepted: true, triedAtMs: performance.now(), dueAtMs: 0, pauseMs: 0 };
    this.#pods.set(uid, { refusals, ...(before && { error: before }), ...accepted });
  }

  /** Something has changed that may let them through: all are tried at once, and then as if for the first time. */
  forgive(): void {
    this.#trialsFromMs = this.#triedAtMs + betweenTrialsMs.least;
    for (const [uid, pod] of this.#pods) {
      if (!pod.isAccepted) this.#pods.set(uid, { ...pod, refusals: 0, dueAtMs: Number.NEGATIVE_INFINITY });
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
    return Math.ceil(Math.max(dueAtMs, this.#trialsFromMs) - nowMs);
  }

  #refuse(uid: string, error: unknown): void {
    const type = failureTypeOf(error);
    const refusals = (this.#pods.get(uid)?.refusals ?? 0) + 1;
    const nowMs = performance.now();
    const pause = pauseAfter(refusals, type === 'Held' ? pauseMs.mostOfBudget : pauseMs.most);
    this.#pods.set(uid, {
      ...{ refusals, isAccepted: false, triedAtMs: nowMs, dueAtMs: nowMs + pause, pauseMs: pause },
      error: { message: messageOf(error), ...(type && { type }) },
    });
  }

  #wait(ms: number): void {
    this.#trialsFromMs = Math.max(this.#trialsFromMs, performance.now() + ms);
  }
}

/** It was not only tried in a dry run. */
function isRefusedBefore(pod: RefusedPod | undefined): boolean {
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
