/**
 * The updates of pods of one object to which a request got no answer, so that each may still be made (P-7). Whatever is decided
 * meanwhile, such a pod counts as disrupted.
 */
import type { StepPod } from './kind.ts';

/** So long requests for a pod are sent of which none gets an answer. */
const sentForMs = 60_000;
/** So long after it was given up the API server may work on a request, by its default for `--request-timeout`. */
export const requestMs = 60_000;

interface Unanswered {
  readonly pod: StepPod;
  readonly revision: string;
  /** Since when no request for this revision got an answer. */
  readonly sinceMs: number;
  /** Until when the last one may be made. */
  readonly untilMs: number;
  readonly error: unknown;
}

export class UnansweredUpdates {
  /** By UID. */
  readonly #pods = new Map<string, Unanswered>();

  get isEmpty(): boolean {
    return this.#pods.size === 0;
  }

  /** Pods whose update may still be made. */
  pods(): readonly StepPod[] {
    return [...this.#pods.values()].map(({ pod }) => pod);
  }

  /** A request to update the pod got no answer. `isLast`: no other one is sent. */
  note(pod: StepPod, revision: string, { error, isLast }: { readonly error: unknown; readonly isLast: boolean }): void {
    const nowMs = performance.now();
    const known = this.#pods.get(pod.uid);
    const firstMs = known?.revision === revision ? known.sinceMs : nowMs;
    const sinceMs = isLast ? nowMs - sentForMs : firstMs;
    this.#pods.set(pod.uid, { pod, revision, sinceMs, untilMs: nowMs + requestMs, error });
  }

  /** The pod was updated, so what was requested before finds another version of it; or nothing can be made any more. */
  settle(uid: string): void {
    this.#pods.delete(uid);
  }

  /** Whether further requests are of no use: those of a minute got no answer, and the last one is waited out. */
  isWaitedOut(uid: string, revision: string): boolean {
    const known = this.#pods.get(uid);
    return known?.revision === revision && performance.now() - known.sinceMs >= sentForMs;
  }

  /** Those of which no request can be made any more, by the UID of the pod. */
  over(): ReadonlyMap<string, Pick<Unanswered, 'revision' | 'error'>> {
    return new Map([...this.#pods].filter(([, { untilMs }]) => untilMs <= performance.now()));
  }

  /** Nothing can be seen of these pods, so nothing can be said of them. */
  waitAgain(uids: readonly string[]): void {
    for (const uid of uids) {
      const known = this.#pods.get(uid);
      if (known) this.#pods.set(uid, { ...known, untilMs: performance.now() + requestMs });
    }
  }

  /** In how many milliseconds the first of them cannot be made any more. Undefined: there is none. */
  dueInMs(): number | undefined {
    if (this.isEmpty) return undefined;
    const untilMs = Math.min(...[...this.#pods.values()].map((known) => known.untilMs));
    return Math.max(Math.ceil(untilMs - performance.now()), 0);
  }
}
