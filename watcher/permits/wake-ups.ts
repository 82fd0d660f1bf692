/**
 * When the operation of one object is told to ask which items go next. What it is owed follows from what was answered and from
 * what may go now (`plan/permits/owed.ts`); this keeps both, and sends when the time has come.
 */
import {
  answered,
  handedIn,
  type Known,
  nothingPaid,
  nothingSent,
  owedFromMs,
  sendAtMs,
  went,
} from '../../plan/permits/owed.ts';

/** What a look at the object has found. */
export interface Found extends Omit<Known, 'isRunning' | 'factsSinceMs' | 'collectsUntilMs' | 'wait'> {
  /** For how long items are collected that become free together. */
  readonly collectMs: number;
  /** Why nothing may go; `isOwn`: batches in flight explain it. Absent: it does not wait. */
  readonly wait?: { readonly reason: string; readonly isOwn: boolean };
}

/** An operation that was told that nothing is left ends within this time, unless it has not got that answer; doubled each time. */
const endsWithinMs = { first: 10_000, most: 600_000 } as const;

/** So many times in a row an operation is told once more that nothing is left: one that has a reason not to end has it still then. */
const mostReminders = 3;

/** So many signals that nobody follows go to a run that has nothing left to do: it has been ended by hand. */
const mostToNobody = 3;

/** Of one object in one term: the term before has paid nothing. */
export class WakeUps {
  readonly #send: () => void;
  #found: Found | undefined;
  #paid = nothingPaid;
  #sent = nothingSent;
  #isRunning = false;
  #isHeard = false;
  /** When it is told once more that nothing is left. */
  #remindsAtMs: number | undefined;
  #reminders = 0;
  /** Since when there have been items that may go. */
  #freeSinceMs: number | undefined;
  #facts: { readonly text: string | undefined; readonly sinceMs: number } | undefined;
  #wait: { readonly key: string; readonly sinceMs: number } | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** `send` tells the operation to ask, and starts it if there is something to do. */
  constructor(send: () => void) {
    this.#send = send;
  }

  /** Whether a run is open, as far as known. */
  get isRunning(): boolean {
    return this.#isRunning;
  }

  /** Whether no run is open, as far as known, and none is to be reminded of its end. */
  get isOver(): boolean {
    return !this.#isRunning && this.#remindsAtMs === undefined;
  }

  /** Whether a run has asked, or handed something in, and was not told that nothing is left. */
  get isHeard(): boolean {
    return this.#isHeard;
  }

  /** How long the object has waited for this, in milliseconds. */
  waitsForMs(reason: string, isOwn: boolean): number {
    return this.#wait?.key === keyOf({ reason, isOwn }) ? performance.now() - this.#wait.sinceMs : 0;
  }

  /** The object was looked at. */
  look(found: Found): void {
    this.#find(found);
    this.#plan();
  }

  /** The operation asks, or has handed in something. */
  followed(): void {
    this.#isRunning = true;
    this.#isHeard = true;
    this.#remindsAtMs = undefined;
    this.#sent = { ...this.#sent, unfollowed: 0 };
  }

  /** The operation was told what was found now. */
  answer(found: Found): void {
    const known = this.#find(found);
    this.#paid = answered(this.#paid, known, performance.now());
    this.#freeSinceMs = found.mayGo.length > 0 ? performance.now() : undefined;
    if (!found.isNothingLeft) this.#reminders = 0;
    else {
      // it ends; whatever is left to do later starts another one
      const inMs = Math.min(endsWithinMs.first * 2 ** this.#reminders, endsWithinMs.most);
      if (this.#reminders++ < mostReminders) this.#remindsAtMs = performance.now() + inMs;
      this.#isRunning = false;
      this.#isHeard = false;
      this.#paid = nothingPaid;
    }
    this.#plan();
  }

  /** The operation has handed in a batch of these items. */
  handedIn(uids: readonly string[]): void {
    this.#paid = handedIn(this.#paid, uids, performance.now());
    this.followed();
  }

  /** An item has gone. */
  went(): void {
    this.#paid = went(this.#paid);
  }

  /** Nothing is sent any more. */
  stop(): void {
    clearTimeout(this.#timer);
    this.#found = undefined;
  }

  #find(found: Found): Known {
    const nowMs = performance.now();
    this.#found = found;
    if (found.mayGo.length === 0) this.#freeSinceMs = undefined;
    else this.#freeSinceMs ??= nowMs;
    if (found.facts !== this.#facts?.text) this.#facts = { text: found.facts, sinceMs: nowMs };
    const key = found.wait && keyOf(found.wait);
    if (key !== this.#wait?.key) this.#wait = key === undefined ? undefined : { key, sinceMs: nowMs };
    return this.#known(found);
  }

  #known({ collectMs, wait, ...found }: Found): Known {
    const nowMs = performance.now();
    return {
      ...found,
      isRunning: this.#isRunning,
      ...(this.#facts && { factsSinceMs: this.#facts.sinceMs }),
      collectsUntilMs: (this.#freeSinceMs ?? nowMs) + collectMs,
      ...(wait && { wait: { ...wait, sinceMs: this.#wait?.sinceMs ?? nowMs } }),
    };
  }

  #plan(): void {
    clearTimeout(this.#timer);
    if (this.#found === undefined) return;
    if (!this.#found.isWanted && this.#sent.unfollowed >= mostToNobody) {
      this.#isRunning = false;
      this.#isHeard = false;
      this.#remindsAtMs = undefined;
    }
    const owedMs = owedFromMs(this.#known(this.#found), this.#paid);
    const isReminder = owedMs === undefined;
    const dues = [owedMs, this.#remindsAtMs].filter((ms) => ms !== undefined);
    if (dues.length === 0) return;
    const nowMs = performance.now();
    const inMs = sendAtMs(Math.min(...dues), this.#sent) - nowMs;
    if (inMs > 0) {
      this.#timer = setTimeout(() => this.#plan(), Math.ceil(inMs)).unref();
      return;
    }
    // a run that was told its end follows no more: whatever is to be done later does not wait for that
    const unfollowed = this.#sent.unfollowed + (isReminder ? 0 : 1);
    this.#sent = { lastMs: nowMs, unfollowed, isBack: false };
    this.#remindsAtMs = undefined;
    if (this.#found.isWanted) this.#isRunning = true;
    this.#send();
    this.#plan();
  }
}

function keyOf({ reason, isOwn }: NonNullable<Found['wait']>): string {
  return `${reason} ${isOwn}`;
}
