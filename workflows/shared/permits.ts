/**
 * How an operation with many targets asks the leading watcher which ones may go next, and permits them
 * (docs/adr/0017-ask-without-waiting.md). What comes of both is an event.
 */
import { isCancellation, sleep } from '@temporalio/workflow';
import type { InFlight, PermitNews } from '../../plan/permits/in-flight.ts';
import { refusedPauseMs } from '../../plan/refused-pause.ts';
import type { Inbox } from './inbox.ts';
import { asRefusal, reasonOf, refusedWait } from './refusals.ts';
import { type Revocable, revocable } from './revocable.ts';

type News<Answer, Result> = Pick<Inbox<PermitNews<Answer, Result>>, 'put'>;

/** An answer takes milliseconds; a watcher that hangs is not waited for. */
export const questionTimeout = { startToCloseTimeout: '5s' } as const;

/** Of batches that do not fit into the payload of a hand-over the items are named again, unless they are through by then. */
export const mostCarriedBytes = 24 * 1024;

/** The question which items may go next, once at a time. */
export interface Question {
  readonly isOpen: () => boolean;
  /** How many questions in a row have come to nothing: each pause after one is longer than the one before. */
  readonly refusals: () => number;
  readonly ask: () => void;
}

export function newQuestion<Answer>(
  inbox: News<Answer, never>,
  call: () => Promise<Answer>,
  refusalsBefore = 0,
): Question {
  let isOpen = false;
  let refusals = refusalsBefore;
  let pause: Revocable<void> | undefined;

  return {
    isOpen: () => isOpen,
    refusals: () => refusals,
    ask() {
      isOpen = true;
      pause?.revoke();
      void revocable(call).result.then(answered, refused);
    },
  };

  function answered(answer: Answer): void {
    isOpen = false;
    refusals = 0;
    inbox.put({ kind: 'answer', answer, atMs: Date.now() });
  }

  function refused(error: unknown): void {
    isOpen = false;
    const refusal = asRefusal(reasonOf(error));
    inbox.put({ kind: 'notAnswered', waitingFor: refusedWait(refusal) });
    const ms = refusedPauseMs(refusal.reason, refusals++);
    pause = revocable(() => sleep(ms, { summary: 'retry after a refusal' }));
    void pause.result.then(
      () => inbox.put({ kind: 'changed' }),
      () => undefined, // it was asked before that
    );
  }
}

/** Sees that each batch in flight is carried out, once, and no other. */
export interface Carrier<Batch> {
  /** The batches in flight, and those of them that may be handed in now. Absent: all. */
  readonly carryOut: (inFlight: readonly InFlight<Batch>[], mayBegin?: readonly InFlight<Batch>[]) => void;
  /** Takes back the permits of all batches. What has begun is finished without them. */
  readonly withdraw: () => void;
}

export function newCarrier<Batch, Result>(
  inbox: News<never, Result>,
  begin: (batch: InFlight<Batch>) => Promise<Result>,
): Carrier<Batch> {
  const handedIn = new Set<number>();
  const permits = new Map<number, Revocable<unknown>>();

  return {
    carryOut(inFlight, mayBegin = inFlight) {
      const wanted = new Set(inFlight.map(({ number }) => number));
      for (const [number, permit] of permits) if (!wanted.has(number)) permit.revoke();
      for (const one of mayBegin) {
        const { number } = one;
        if (handedIn.has(number)) continue;
        handedIn.add(number);
        const permit = revocable(() => begin(one));
        permits.set(number, permit);
        void permit.result
          .then(
            (result) => inbox.put({ kind: 'carriedOut', number, result, atMs: Date.now() }),
            (error: unknown) => inbox.put({ kind: 'lost', number, why: whyLost(error) }),
          )
          .finally(() => permits.delete(number));
      }
    },
    withdraw() {
      for (const permit of permits.values()) permit.revoke();
    },
  };
}

function whyLost(error: unknown): string {
  return isCancellation(error) ? 'taken back, as an operator holds it' : asRefusal(reasonOf(error)).message;
}
