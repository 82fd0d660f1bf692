/**
 * When an operation with many targets is to be woken by the signal `changed`.
 *
 * The leading watcher judges by what is true now, never by what was different before: it owes the signal from the earliest
 * moment at which one of five rules says so. An answer to the operation, also one that comes with the result of a batch or a
 * command, pays all that is owed at that moment. Nothing else does, a signal that was sent least of all: it may be lost.
 *
 * Of the time these functions only need the moments that they are given: a caller that has nothing to send needs one timer.
 */

/** What the leading watcher knows of one object. */
export interface Known {
  /** Something is left to do for which a run may be started. */
  readonly isWanted: boolean;
  /** A run is open, as far as known. */
  readonly isRunning: boolean;
  /** Nothing is left for a run: all is done, the operation is aborted, or the object is gone. */
  readonly isNothingLeft: boolean;
  /** Items that may go now, those of live permits left out. */
  readonly mayGo: readonly string[];
  /** Further items may go, too. Absent: these are all. */
  readonly hasMore?: boolean;
  /** What the operation has to know of its object. Absent: nothing. */
  readonly facts?: string;
  /** Since when it has to know these. Absent: for long. */
  readonly factsSinceMs?: number;
  /** For how long they have to have been these. Absent: half a second. */
  readonly factsLastMs?: number;
  /** Until when items are collected that become free together. */
  readonly collectsUntilMs: number;
  /** The operation can hand in another batch. */
  readonly hasRoomForBatch: boolean;
  /** A batch ends in this pass, so its result brings an answer. */
  readonly endsBatch: boolean;
  /** Why nothing may go; `isOwn`: batches in flight explain it. Absent: it does not wait. */
  readonly wait?: { readonly reason: string; readonly sinceMs: number; readonly isOwn: boolean };
}

/** What the answers of this leader have paid. */
export interface Paid {
  /** There was an answer. */
  readonly isAnswered?: true;
  /** When items that might go were answered last and have not been handed in since. */
  readonly answeredAtMs: ReadonlyMap<string, number>;
  /** When further items than those were answered to be free, if the last answer said so. */
  readonly moreAtMs?: number;
  /** The facts of the last answer. */
  readonly facts?: string;
  /** When it was answered that nothing is left. */
  readonly endAtMs?: number;
  /** When each reason of a wait was answered last, since an item went. */
  readonly toldAtMs: ReadonlyMap<string, number>;
  /** How many answers in a row have repeated an earlier one that came to nothing. */
  readonly fruitless: number;
}

export const nothingPaid: Paid = { answeredAtMs: new Map(), toldAtMs: new Map(), fruitless: 0 };

/** The signals of this leader to one object. */
export interface Sent {
  /** Absent: none was sent. */
  readonly lastMs?: number;
  /** How many were sent since the operation last asked or handed in anything. */
  readonly unfollowed: number;
  /** Temporal has answered again after it had not. */
  readonly isBack: boolean;
}

export const nothingSent: Sent = { unfollowed: 0, isBack: false };

const answerMs = 10_000;
const longestMs = 600_000;
const forgottenMs = 2 * longestMs;
const waitMs = 5_000;
const toldAgain = { afterMs: 24 * 3_600_000, lastingMs: 600_000 } as const;
const spacingMs = 500;
const factsMs = 500;
const lateMs = 1_000;

/** From when on `changed` is owed if nothing else happens; undefined: time alone does not change that it is not. */
export function owedFromMs(known: Known, paid: Paid): number | undefined {
  if (known.endsBatch) return undefined;
  const dues = rules.map((rule) => rule(known, paid)).filter((ms) => ms !== undefined);
  return dues.length === 0 ? undefined : Math.min(...dues);
}

type Owes = (known: Known, paid: Paid) => number | undefined;

const rules: readonly Owes[] = [itemsMayGo, waitLasts, nothingIsLeft, nothingIsAnswered, factsAreNew];

/** Without room for another batch, the result of the next that ends brings the answer. */
function itemsMayGo({ mayGo, collectsUntilMs, hasRoomForBatch }: Known, paid: Paid): number | undefined {
  if (mayGo.length === 0 || !hasRoomForBatch) return undefined;
  let fromMs = Number.POSITIVE_INFINITY;
  for (const uid of mayGo) {
    const answeredAtMs = paid.answeredAtMs.get(uid) ?? paid.moreAtMs;
    if (answeredAtMs === undefined) return collectsUntilMs;
    fromMs = Math.min(fromMs, answeredAtMs + lastsMs(paid));
  }
  return Math.max(fromMs, collectsUntilMs);
}

function waitLasts({ wait, isNothingLeft }: Known, { toldAtMs }: Paid): number | undefined {
  if (wait === undefined || wait.isOwn || isNothingLeft) return undefined;
  const told = toldAtMs.get(wait.reason);
  if (told === undefined) return wait.sinceMs + waitMs;
  return Math.max(told + toldAgain.afterMs, wait.sinceMs + toldAgain.lastingMs);
}

function nothingIsLeft({ isRunning, isNothingLeft }: Known, paid: Paid): number | undefined {
  if (!isRunning || !isNothingLeft) return undefined;
  return paid.endAtMs === undefined ? Number.NEGATIVE_INFINITY : paid.endAtMs + lastsMs(paid);
}

/** The term is new. */
function nothingIsAnswered({ isWanted, isRunning }: Known, { isAnswered }: Paid): number | undefined {
  return (isWanted || isRunning) && !isAnswered ? Number.NEGATIVE_INFINITY : undefined;
}

/** Most often the answer to the command that has changed them is about to say so. */
function factsAreNew(
  { isRunning, facts, factsSinceMs = Number.NEGATIVE_INFINITY, factsLastMs = factsMs }: Known,
  paid: Paid,
): number | undefined {
  return isRunning && facts !== undefined && facts !== paid.facts ? factsSinceMs + factsLastMs : undefined;
}

/** How long an answer is enough: an operation that does nothing about it for a good reason is not woken for ever. */
function lastsMs({ fruitless }: Paid): number {
  return doubled(answerMs, fruitless);
}

/** The operation was answered: all is paid that is owed now. */
export function answered(paid: Paid, known: Known, nowMs: number): Paid {
  const { mayGo, hasMore, facts, isNothingLeft, wait } = known;
  const isOver = (ms: number | undefined) => ms !== undefined && ms + lastsMs(paid) <= nowMs;
  const isRepeated = mayGo.some((uid) => isOver(paid.answeredAtMs.get(uid))) || (isNothingLeft && isOver(paid.endAtMs));
  return {
    isAnswered: true,
    answeredAtMs: new Map([
      ...[...paid.answeredAtMs].filter(([, ms]) => nowMs - ms < forgottenMs),
      ...mayGo.map((uid) => [uid, nowMs] as const),
    ]),
    ...(hasMore && { moreAtMs: nowMs }),
    ...(facts !== undefined && { facts }),
    ...(isNothingLeft && { endAtMs: nowMs }),
    toldAtMs: wait && !wait.isOwn ? new Map(paid.toldAtMs).set(wait.reason, nowMs) : paid.toldAtMs,
    fruitless: isRepeated ? paid.fruitless + 1 : paid.fruitless,
  };
}

/**
 * A batch of these items was handed in. If its activity was held up, an answer may have said meanwhile that it is not running:
 * then the facts are to be told again.
 */
export function handedIn(paid: Paid, uids: readonly string[], nowMs: number): Paid {
  const answeredAtMs = new Map(paid.answeredAtMs);
  const isLate = uids.some((uid) => nowMs - (answeredAtMs.get(uid) ?? nowMs) > lateMs);
  for (const uid of uids) answeredAtMs.delete(uid);
  const { facts, ...others } = paid;
  return { ...others, ...(facts !== undefined && !isLate && { facts }), answeredAtMs, fruitless: 0 };
}

/** An item has gone: what is waited for from now on is news. A write that is refused lets no item go. */
export function went(paid: Paid): Paid {
  return paid.toldAtMs.size === 0 ? paid : { ...paid, toldAtMs: new Map() };
}

/** When what is owed from then on is to be sent. */
export function sendAtMs(owedMs: number, { lastMs, unfollowed, isBack }: Sent): number {
  if (lastMs === undefined) return owedMs;
  const isFollowed = unfollowed === 0 || isBack;
  return Math.max(owedMs, lastMs + (isFollowed ? spacingMs : doubled(answerMs, unfollowed - 1)));
}

function doubled(ms: number, times: number): number {
  return Math.min(ms * 2 ** times, longestMs);
}
