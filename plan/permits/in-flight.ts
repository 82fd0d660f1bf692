/**
 * The batches that an operation with many targets has permitted, as its run keeps them: those of an answer are permitted unless they
 * are already, and those that an earlier leader has named are handed in again (docs/adr/0017-ask-without-waiting.md). A batch names
 * items: the pods of a roll-out, or the nodes of a pull job.
 */
import type { WaitingFor } from '../../api/engine/waiting-for.ts';

/** Tells which of two answers of one term is the later one. */
export interface AnswerOrder {
  /** Of a leading watcher: no other has the same. */
  readonly term: string;
  /** Grows with each answer of the term. */
  readonly nth: number;
}

/** A batch that is carried out. */
export interface InFlight<Batch> {
  readonly number: number;
  readonly batch: Batch;
  readonly startedAtMs: number;
  /** The leading watcher that has named its items. Absent: unknown. */
  readonly term?: string;
  /** Since when the leading watcher has named its items once more, as if it had not received it. Absent: it has not. */
  readonly namedAgainAtMs?: number;
}

/** What a run has permitted, and what it has to ask. */
export interface Permitting<Batch> {
  /** The number of the next batch, from 1. */
  readonly next: number;
  /** The batches that are carried out, in the order of their numbers. */
  readonly inFlight: readonly InFlight<Batch>[];
  /** It is to be asked which items may go next. */
  readonly mustAsk: boolean;
  /** It has heard no answer yet. */
  readonly isNew?: true;
  /** Of the last answer, if it is known. */
  readonly order?: AnswerOrder;
}

/** What an operation hears of its questions and its batches. */
export type PermitNews<Answer, Result> =
  /** It is to be asked: something has changed, or the pause after a refusal is over. */
  | { readonly kind: 'changed' }
  | { readonly kind: 'answer'; readonly answer: Answer; readonly atMs: number }
  /** The question has failed. It is asked again after a pause. */
  | { readonly kind: 'notAnswered'; readonly waitingFor: WaitingFor }
  | { readonly kind: 'carriedOut'; readonly number: number; readonly result: Result; readonly atMs: number }
  /** A batch came to no result: its activity was ended by hand, or its permit was taken back. */
  | { readonly kind: 'lost'; readonly number: number; readonly why: string };

/** The batches of a run that count when it asks. */
export interface CarriedBatches {
  /** In flight. */
  readonly numbers: readonly number[];
  /** The number of the next one: those from it on are handed in later. */
  readonly next: number;
}

/** The items of batches of one kind. */
export interface BatchItems<Batch> {
  readonly idsOf: (batch: Batch) => readonly string[];
  /** The batch without these; undefined: nothing is left of it. */
  readonly without: (batch: Batch, ids: ReadonlySet<string>) => Batch | undefined;
}

/** So many batches of an operation are in flight at once. */
export const mostInFlight = 25;

/** The most items that an answer names, in batches of 40, and the most bytes of its batches as JSON. */
export const mostInAnswer = 200;
export const mostInBatch = 40;
export const answerBytes = 32 * 1024;

/** A batch gets to the leading watcher within this time, unless its activity is held up. */
const handInMs = 5_000;

/** So long a batch is on its way there. One that takes longer is named again. */
const onTheWayMs = 1_000;

/** So many of the batches in flight are named. */
export const mostShown = 5;

/**
 * Whether an answer can be used. `stale`: a later one of the same leader is known. `ofAnother`: it comes with the result of a batch,
 * which may be late, and of another leader than the last one; only a question finds out who leads.
 */
export function standingOf(
  { order: known }: Pick<Permitting<unknown>, 'order'>,
  order: AnswerOrder | undefined,
  { isAsked }: { readonly isAsked: boolean },
): 'usable' | 'stale' | 'ofAnother' {
  if (order === undefined || known === undefined) return 'usable';
  if (known.term !== order.term) return isAsked ? 'usable' : 'ofAnother';
  return known.nth > order.nth ? 'stale' : 'usable';
}

/**
 * The batches in flight after an answer that names these items: a new run has handed in its batches to whoever answers it first, and
 * of what is named again the leading watcher has not received the batch.
 */
export function afterAnswer<Batch>(
  { inFlight, isNew }: Permitting<Batch>,
  { order, named, atMs }: { readonly order?: AnswerOrder; readonly named: ReadonlySet<string>; readonly atMs: number },
  { idsOf }: BatchItems<Batch>,
): readonly InFlight<Batch>[] {
  return inFlight.map(({ namedAgainAtMs = atMs, ...one }) => ({
    ...one,
    ...(isNew && order && { term: order.term }),
    ...(idsOf(one.batch).some((id) => named.has(id)) && { namedAgainAtMs }),
  }));
}

/** The items that are in no batch yet go in further ones, as many as may be in flight; `begun` are these. */
export function withBatches<Batch>(
  { inFlight, next, order }: Permitting<Batch>,
  batches: readonly Batch[],
  { idsOf, without }: BatchItems<Batch>,
  atMs: number,
): { readonly begun: readonly InFlight<Batch>[]; readonly hasRoom: boolean } {
  const own = new Set(inFlight.flatMap(({ batch }) => idsOf(batch)));
  const begun = batches
    .map((batch) => without(batch, own))
    .filter((batch) => batch !== undefined)
    .slice(0, Math.max(mostInFlight - inFlight.length, 0))
    .map((batch, index) => ({ number: next + index, batch, startedAtMs: atMs, ...(order && { term: order.term }) }));
  return { begun, hasRoom: inFlight.length + begun.length < mostInFlight };
}

/** The number of the next batch of a run that continues with these: none is given twice, whatever was handed over. */
export function nextAfter(inFlight: readonly InFlight<unknown>[], next: number): number {
  return Math.max(next, ...inFlight.map(({ number }) => number + 1));
}

/** The batches that the leading watcher should have received by now, and names again. */
export function notReceived<Batch>(inFlight: readonly InFlight<Batch>[], atMs: number): readonly InFlight<Batch>[] {
  return inFlight.filter(({ namedAgainAtMs = atMs }) => atMs - namedAgainAtMs >= handInMs);
}

/** The wait for batches whose activities do not run. `name`: what people call one of them. */
export function notRunning(
  stuck: readonly InFlight<unknown>[],
  { reason, name, unblock }: { readonly reason: string; readonly name: string; readonly unblock: string },
): WaitingFor {
  return {
    reason,
    since: new Date(Math.min(...stuck.map(({ startedAtMs }) => startedAtMs))).toISOString(),
    blockedBy: stuck.slice(0, mostShown).map(({ number }) => `${name}/${number}`),
    blockedCount: stuck.length,
    unblock,
  };
}

/**
 * Batches that an earlier leader has named are handed in again, under numbers of their own: this may know nothing of them. To be asked
 * when all news are folded: a result of such a batch may be among them. Undefined: there are none. `called`: what people call these.
 */
export function handedInAnew<Batch>(
  { inFlight, next, order }: Permitting<Batch>,
  called: string,
  atMs: number,
): { readonly next: number; readonly inFlight: readonly InFlight<Batch>[]; readonly line: string } | undefined {
  if (order === undefined) return undefined;
  const isOfAnother = ({ term }: InFlight<Batch>) => term !== undefined && term !== order.term;
  const stale = inFlight.filter(isOfAnother);
  if (stale.length === 0) return undefined;
  const again = stale.map(
    ({ batch }, index): InFlight<Batch> => ({ number: next + index, batch, startedAtMs: atMs, term: order.term }),
  );
  return {
    next: next + again.length,
    inFlight: [...inFlight.filter((one) => !isOfAnother(one)), ...again],
    line: `another watcher leads: handed in again are ${called} ${numbersIn(stale)}, as ${numbersIn(again)}`,
  };
}

function numbersIn(batches: readonly InFlight<unknown>[]): string {
  const shown = batches.slice(0, mostShown).map(({ number }) => number);
  return `${shown.join(', ')}${batches.length > mostShown ? ` and ${batches.length - mostShown} more` : ''}`;
}

/** The last batches, if the leading watcher may not have these yet when it is asked: a new run brings them all. */
export function onTheirWay<Batch>({ inFlight, isNew }: Permitting<Batch>, nowMs: number): readonly Batch[] {
  return inFlight
    .filter(({ startedAtMs }) => isNew || nowMs - startedAtMs < onTheWayMs)
    .slice(-mostInAnswer / mostInBatch)
    .map(({ batch }) => batch);
}

/** Which batches count, for the leading watcher to drop those that were taken back. */
export function carriedIn({ inFlight, next }: Permitting<unknown>): CarriedBatches {
  return { numbers: inFlight.map(({ number }) => number), next };
}
