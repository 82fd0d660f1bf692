/** The pods of one object whose update the API server has refused, and when the next dry run of each is due (P-7). */
import { failureTypeOf } from '../../api/core/failure.ts';
import { KubeError } from '../../kube/failures.ts';
import { hasMovedOn, mayBeMade } from '../../kube/moved-on.ts';
import type { RefusedUpdate, RefusedUpdates } from '../../plan/fleet/refused-updates.ts';
import { messageOf } from './failed-steps.ts';
import type { StepPod } from './kind.ts';

/**
 * First and longest pause before a pod is tried again; it doubles in between. `mostForShort`: where what refuses it may end by itself.
 * `mostMisled`: before any pod is tried of the namespaces in which dry runs are accepted and updates are not, so that these together
 * cost less than 600 actions a week.
 */
const pauseMs = { first: 5_000, most: 3_600_000, mostForShort: 300_000, mostMisled: 7_200_000 } as const;
/** Dry runs of one object begin so far apart, however many pods are due. */
const betweenTrialsMs = 5_000;
/** The most dry runs that are made together. */
const mostTrials = 16;
/** After so many refusals in a row no pod of the namespace, or of all, is updated before a dry run was accepted. */
const mostInARow = { ofNamespace: 5, inAll: 25 } as const;
/** So many namespaces are remembered. */
const mostNamespaces = 1_000;

/** No write can update the pod as it is: nothing was sent, and what is tried again comes to the same. */
export class ImpossibleUpdate extends KubeError {
  constructor(why: string) {
    super({ status: 422, message: why });
  }
}

interface RefusedPod extends Omit<RefusedUpdate, 'isDue'> {
  readonly namespace: string;
  /** So often in a row. */
  readonly refusals: number;
  readonly dueAtMs: number;
  /** The pause before that. */
  readonly pauseMs: number;
}

/** What became of the updates of a pass. */
export interface UpdateResults {
  readonly done: readonly StepPod[];
  readonly refused: readonly { readonly pod: StepPod; readonly error: unknown }[];
}

export interface Trial {
  readonly pod: StepPod;
  readonly revision: string;
  /** Throws what refuses the update. */
  readonly dryRun: () => Promise<unknown>;
}

/** Of one object, and of the revision to which its pods are being updated: another one begins anew. */
export class RefusedPods {
  readonly #pods = new Map<string, RefusedPod>();
  #revision = '';
  /** Refusals without an update that was made in between, dry runs excepted. */
  #inARow = 0;
  readonly #namespaces = new Map<string, OfNamespace>();
  #misled = notMisled;
  /** When the last dry runs began. */
  #triedAtMs = Number.NEGATIVE_INFINITY;
  /** What was due by then is known to the planner. */
  #lookedAtMs = Number.NEGATIVE_INFINITY;
  #error: RefusedUpdates['error'];
  #isTrying = false;

  /** Whether no update is refused. */
  get isEmpty(): boolean {
    return this.#pods.size === 0;
  }

  /** Whether an update of the pod was refused, also if a dry run of it was accepted since. */
  knows(uid: string): boolean {
    return wasRefused(this.#pods.get(uid));
  }

  /** Nothing is left to update. */
  forget(): void {
    this.#turnTo('');
  }

  /** As input of the planner; nothing when nothing is refused. Forgets pods that are gone. */
  refused(isThere: (uid: string) => boolean): RefusedUpdates | undefined {
    for (const uid of [...this.#pods.keys()]) if (!isThere(uid)) this.#pods.delete(uid);
    const isGeneral = this.#inARow >= mostInARow.inAll;
    const nowMs = performance.now();
    this.#lookedAtMs = nowMs;
    if (this.#pods.size === 0 && !isGeneral && ![...this.#namespaces.values()].some(isGeneralIn)) return undefined;
    const pods = [...this.#pods].map(([uid, pod]) => [uid, { ...pod, isDue: pod.dueAtMs <= nowMs }] as const);
    const namespaces = [...this.#namespaces].map(([namespace, of]) => {
      return [namespace, { ...of, isGeneral: isGeneralIn(of) }] as const;
    });
    return {
      ...{ revision: this.#revision, pods: new Map(pods), isGeneral, namespaces: new Map(namespaces) },
      ...{ error: this.#error, mostTrials: this.#triedAtMs + betweenTrialsMs > nowMs ? 0 : mostTrials },
      mostMisledTrials: this.#misled.untilMs > nowMs ? 0 : this.#misled.pods,
      retriedWithinMs: pods.reduce((longest, [, pod]) => Math.max(longest, pod.pauseMs), this.#misled.pauseMs),
    };
  }

  /** Updates to this revision were made, or refused. */
  note(revision: string, { done, refused }: UpdateResults): void {
    this.#turnTo(revision);
    const went = new Set(done.map(({ namespace }) => namespace));
    let misled = 0;
    for (const { pod, error } of refused) {
      const { uid, namespace } = pod;
      if (!went.has(namespace)) {
        const isMisled = this.#pods.get(uid)?.isAccepted === true;
        if (isMisled) misled++;
        this.#know(namespace, (of) => ({ ...of, inARow: of.inARow + 1, isMisled: of.isMisled || isMisled }));
      }
      this.#refuse(pod, error);
    }
    for (const namespace of went) this.#know(namespace, (of) => ({ ...of, inARow: 0, isMisled: false }));
    this.#inARow = done.length > 0 ? 0 : this.#inARow + refused.length;
    if (misled > 0) this.#mislead(misled);
    else if (![...this.#namespaces.values()].some(({ isMisled }) => isMisled)) this.#misled = notMisled;
    if (done.length > 0) this.#went(done);
  }

  /** Where dry runs say little there is one batch in each pause, of as many pods as were refused, and all have their turn. */
  #mislead(pods: number): void {
    const times = this.#misled.times + 1;
    this.#misled = { ...this.#misled, times, pods, pauseMs: pauseAfter(times, pauseMs.mostMisled) };
    this.#restMisled();
    for (const [uid, pod] of this.#pods) {
      if (pod.isAccepted && this.#namespaces.get(pod.namespace)?.isMisled) {
        this.#pods.set(uid, { ...pod, isAccepted: false });
      }
    }
  }

  #restMisled(): void {
    this.#misled = { ...this.#misled, untilMs: performance.now() + this.#misled.pauseMs };
  }

  #know(namespace: string, change: (of: OfNamespace) => OfNamespace): void {
    const known = this.#namespaces.get(namespace) ?? { inARow: 0, isMisled: false, triedAtMs: 0 };
    this.#namespaces.delete(namespace);
    this.#namespaces.set(namespace, change(known));
    if (this.#namespaces.size <= mostNamespaces) return;
    const [oldest] = this.#namespaces.keys();
    const settled = [...this.#namespaces].find(([, of]) => !of.isMisled && !isGeneralIn(of))?.[0];
    this.#namespaces.delete(settled ?? oldest ?? namespace);
  }

  #went(pods: readonly StepPod[]): void {
    // what has stood in the way of one may have stood in the way of all
    if (pods.some(({ uid }) => wasRefused(this.#pods.get(uid)))) this.forgive();
    for (const { uid } of pods) this.#pods.delete(uid);
    for (const [uid, pod] of this.#pods) {
      const of = this.#namespaces.get(pod.namespace);
      if (!wasRefused(pod) && !(of && isGeneralIn(of))) this.#pods.delete(uid);
    }
  }

  /** Makes dry runs, and resolves when they have ended. Undefined: there are none, or others are on their way. */
  tryOut(trials: readonly Trial[]): Promise<void> | undefined {
    const nowMs = performance.now();
    const made = trials.filter(({ pod: { namespace } }) => this.#restsUntilMs(namespace) <= nowMs);
    const [first] = made;
    if (first === undefined || this.#isTrying) return undefined;
    this.#turnTo(first.revision);
    this.#isTrying = true;
    this.#triedAtMs = nowMs;
    for (const { pod } of made) this.#know(pod.namespace, (of) => ({ ...of, triedAtMs: nowMs }));
    return Promise.all(made.map((trial) => this.#try(trial))).then(() => {
      this.#isTrying = false;
    });
  }

  async #try({ pod, revision, dryRun }: Trial): Promise<void> {
    const isMeant = () => revision === this.#revision;
    try {
      await dryRun();
      if (isMeant()) this.#accept(pod);
    } catch (error) {
      if (isMeant()) this.#refuse(pod, error);
    }
  }

  #accept({ uid, namespace }: StepPod): void {
    const { refusals = 0, error, refusedAtMs = 0 } = this.#pods.get(uid) ?? {};
    const accepted = { namespace, isAccepted: true, dueAtMs: 0, pauseMs: 0 };
    this.#pods.set(uid, { refusals, ...(error && { error }), refusedAtMs, ...accepted });
    // what becomes of its update may be known late, when no request gets an answer
    if (this.#namespaces.get(namespace)?.isMisled) this.#restMisled();
  }

  /**
   * Something has changed that may let them through: all are tried at once, and then as if for the first time. `byCommand`: a person
   * wants it, so that dry runs are not waited for either.
   */
  forgive({ byCommand = false } = {}): void {
    if (byCommand) {
      for (const [namespace, of] of this.#namespaces) this.#namespaces.set(namespace, { ...of, isMisled: false });
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
    const waiting = [...this.#pods.values()].filter(({ isAccepted }) => !isAccepted);
    const dues = waiting.map(({ dueAtMs, namespace }) => Math.max(dueAtMs, this.#restsUntilMs(namespace)));
    // those as well that were never tried
    const later = [...dues, this.#misled.untilMs].filter((ms) => ms > this.#lookedAtMs);
    if (later.length === 0 && !more) return undefined;
    const nowMs = performance.now();
    const dueAtMs = more ? nowMs : later.reduce((first, ms) => Math.min(first, ms));
    return Math.max(Math.ceil(Math.max(dueAtMs, this.#triedAtMs + betweenTrialsMs) - nowMs), 0);
  }

  /** Until when no pod of a namespace is tried, as dry runs say little there. */
  #restsUntilMs(namespace: string): number {
    return this.#namespaces.get(namespace)?.isMisled ? this.#misled.untilMs : 0;
  }

  #refuse({ uid, namespace }: StepPod, error: unknown): void {
    const { refusals: before = 0, error: said } = this.#pods.get(uid) ?? {};
    const refusals = before + 1;
    const type = failureTypeOf(error);
    const pause = pauseAfter(refusals, type === 'Denied' || type === 'Invalid' ? pauseMs.most : pauseMs.mostForShort);
    const nowMs = performance.now();
    // that its pod has changed meanwhile is no reason that would help anybody
    const says = {
      ...{ message: messageOf(error), ...(type && { type }) },
      ...(error instanceof ImpossibleUpdate && { isImpossible: true as const }),
    };
    this.#error = hasMovedOn(error) && said ? said : says;
    this.#pods.set(uid, {
      ...{ namespace, refusals, isAccepted: false, refusedAtMs: nowMs, dueAtMs: nowMs + pause, pauseMs: pause },
      error: this.#error,
    });
  }

  #turnTo(revision: string): void {
    if (revision === this.#revision) return;
    this.#revision = revision;
    this.#pods.clear();
    this.#namespaces.clear();
    this.#inARow = 0;
    this.#misled = notMisled;
  }
}

interface OfNamespace {
  /** As in all. */
  readonly inARow: number;
  /** Updates were refused after their dry runs had been accepted, and none was made since. */
  readonly isMisled: boolean;
  /** When dry runs of its pods began last. */
  readonly triedAtMs: number;
}

function isGeneralIn({ inARow }: OfNamespace): boolean {
  return inARow >= mostInARow.ofNamespace;
}

/** How often in a row the namespaces that are misled were, by how many pods the last time, and for how long they rest therefore. */
const notMisled = { times: 0, pods: 0, pauseMs: 0, untilMs: Number.NEGATIVE_INFINITY };

function wasRefused(pod: RefusedPod | undefined): boolean {
  return pod?.error !== undefined;
}

function pauseAfter(refusals: number, most: number): number {
  return Math.min(pauseMs.first * 2 ** (refusals - 1), most);
}

/** How often a write is tried again as such where the API server asks for another time or another version, and not for something else. */
const mostAttempts = 5;

/** Whether the API server has refused an update, so that its pod is given back. `attempts`: how often in a row it has failed. */
export function isRefused(error: unknown, attempts: number): boolean {
  const type = failureTypeOf(error);
  const isForNow = type === 'Throttled' || type === 'Conflict';
  return !mayBeMade(error) && (!isForNow || attempts >= mostAttempts);
}
