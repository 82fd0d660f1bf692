/**
 * The progress of the swap of sidecars in one pod, as a plain value: each event leads to the next one, and the value says
 * what is to be done now (docs/adr/0003).
 */
import type { CommandName } from '../../api/engine/operations.ts';
import type { WaitingFor } from '../../api/engine/waiting-for.ts';
import type { OpenSwap, SwapAwaitAnswer, SwapFailure, SwapGoal, SwapLook, SwapStep, SwapStepAnswer } from './model.ts';

export interface SwapProgress {
  readonly pod: string;
  /** How many looks are wanted. */
  readonly looks: number;
  /** Answers of the watcher so far: a look that began before the last one is older than it. */
  readonly answers: number;
  /** Absent: there was no look yet. */
  readonly swap?: OpenSwap;
  readonly isPaused: boolean;
  readonly isAborted: boolean;
  /** The new containers were not ready in time. */
  readonly isOverdue: boolean;
  /** The old version is restored because of this. */
  readonly goesBack?: SwapFailure;
  /** The back-off of the kubelet is not waited for. */
  readonly skipsBackOff: boolean;
  /** What the step in progress waits for, and how many waits of it were reported. */
  readonly waitingFor?: WaitingFor;
  readonly reports: number;
  /** Steps differ that are asked for again. */
  readonly round: number;
  /** A step was refused, and is not tried before `again`. */
  readonly isParked: boolean;
  /** What was refused. */
  readonly refused: Readonly<Partial<Record<'look' | 'step', WaitingFor>>>;
  /** How often in a row there was nothing to write where a look had found something: the next look follows after a pause. */
  readonly misses: number;
  readonly rests: boolean;
  /** What was done, for people. */
  readonly log: readonly string[];
  readonly end?: SwapEnd;
}

/** How the operation ends. */
export interface SwapEnd {
  readonly kind: 'Completed' | SwapFailure;
  readonly reason: string;
  readonly message: string;
}

/** What is handed over to the next run; everything else is on the pod. */
export type KeptProgress = Pick<SwapProgress, 'isPaused' | 'isAborted' | 'goesBack' | 'skipsBackOff'>;

export type SwapNews =
  | { readonly kind: 'changed' }
  | { readonly kind: 'command'; readonly id?: number; readonly name: CommandName }
  /** `nth` and `answers`: the looks and answers of the progress when it began. */
  | {
      readonly kind: 'looked';
      readonly look: SwapLook;
      readonly nth: number;
      readonly answers: number;
      readonly atMs: number;
    }
  | { readonly kind: 'stepped'; readonly step: SwapStep; readonly answer: SwapStepAnswer }
  | { readonly kind: 'awaited'; readonly until: SwapGoal; readonly answer: SwapAwaitAnswer }
  /** A write was taken back, and has ended; it may have been made all the same. */
  | { readonly kind: 'withdrawn' }
  /** A step was refused. */
  | { readonly kind: 'parked'; readonly waitingFor: WaitingFor }
  /** A look was refused, and is repeated; it was allowed. */
  | { readonly kind: 'refused'; readonly waitingFor: WaitingFor }
  | { readonly kind: 'allowed' }
  /** A pause is over. */
  | { readonly kind: 'again' }
  /** The back-off of the kubelet is over. */
  | { readonly kind: 'backOffOver' }
  | { readonly kind: 'deadlineOver' };

const logLines = 12;

/** An operation that has just begun, or continues where an earlier run ended. */
export function begunSwap(pod: string, before: Partial<KeptProgress> = {}): SwapProgress {
  return {
    ...{ pod, looks: 1, answers: 0, isPaused: false, isAborted: false, isOverdue: false, skipsBackOff: false },
    ...{ reports: 0, round: 0, isParked: false, refused: {}, misses: 0, rests: false, log: [] },
    ...before,
  };
}

/** The progress after one event. */
export function afterNews(progress: SwapProgress, news: SwapNews): SwapProgress {
  if (progress.end) return progress;
  switch (news.kind) {
    case 'changed':
    case 'withdrawn':
      return lookAgain(progress);
    case 'command':
      return commanded(progress, news.name);
    case 'looked':
      return ended(looked(progress, news));
    case 'stepped':
      return stepped(progress, news.step, news.answer);
    case 'awaited':
      return awaited(progress, news.until, news.answer);
    case 'parked':
      return { ...progress, isParked: true, refused: { ...progress.refused, step: news.waitingFor } };
    case 'refused':
      return { ...progress, refused: { ...progress.refused, look: news.waitingFor } };
    case 'allowed': {
      const { look: _, ...refused } = progress.refused;
      return { ...progress, refused };
    }
    case 'again':
      return progress.rests ? lookAgain(progress) : unparked(progress);
    case 'backOffOver':
      return { ...progress, skipsBackOff: true };
    case 'deadlineOver':
      return { ...progress, isOverdue: true };
  }
}

function lookAgain(progress: SwapProgress): SwapProgress {
  return { ...unparked(progress), rests: false, looks: progress.looks + 1 };
}

function unparked(progress: SwapProgress): SwapProgress {
  if (!progress.isParked) return progress;
  const { step: _, ...refused } = progress.refused;
  return { ...progress, isParked: false, refused, round: progress.round + 1 };
}

function commanded(progress: SwapProgress, name: CommandName): SwapProgress {
  switch (name) {
    case 'pause':
      return { ...progress, isPaused: true };
    case 'resume':
      return { ...progress, isPaused: false };
    case 'retry':
      return progress.rests ? lookAgain(progress) : unparked(progress);
    case 'skip':
      return backOffUntilMs(progress) === undefined ? progress : { ...progress, skipsBackOff: true };
    case 'abort':
      // a look says whether anything has begun
      return lookAgain({ ...progress, isAborted: true });
    case 'undo':
      return progress;
  }
}

function looked(
  progress: SwapProgress,
  { look, nth, answers, atMs }: Extract<SwapNews, { kind: 'looked' }>,
): SwapProgress {
  // something has changed since it began: the next look counts
  if (nth !== progress.looks) return progress;
  if (answers !== progress.answers) return { ...progress, looks: progress.looks + 1 };
  const { goesBack, ...others } = progress;
  switch (look.kind) {
    case 'gone':
      return withEnd(progress, { kind: 'Completed', reason: 'Deleted', message: look.why });
    case 'done':
      return withEnd(progress, goesBack ? wentBack(progress, goesBack) : swapped(progress));
    case 'open':
      if (goesBack && look.stage === 'begin') return withEnd(progress, wentBack(progress, goesBack));
      // nothing but the idle container is left of what was undone
      return seen(look.stage === 'resetting' ? progress : others, look, atMs);
  }
}

function seen(progress: SwapProgress, swap: OpenSwap, atMs: number): SwapProgress {
  const { swap: before } = progress;
  const after = { ...progress, isOverdue: (deadlineOf(swap) ?? Number.POSITIVE_INFINITY) <= atMs };
  if (before?.stage === swap.stage && before.target === swap.target && !progress.rests) return { ...after, swap };
  const isNext = before !== undefined && before.stage !== 'begin' && swap.stage === 'begin';
  return { ...entered(after, swap), rests: false, ...(isNext && { skipsBackOff: false }) };
}

/** The swap is somewhere else: what was waited for before is over. */
function entered(progress: SwapProgress, swap: OpenSwap): SwapProgress {
  const { waitingFor: _, ...others } = progress;
  return { ...others, swap, reports: 0, round: progress.round + 1 };
}

function stepped(progress: SwapProgress, step: SwapStep, answer: SwapStepAnswer): SwapProgress {
  const { swap } = progress;
  if (swap === undefined) return progress;
  if (answer.kind === 'blocked') return blocked(progress, answer.waitingFor);
  const answered = { ...progress, answers: progress.answers + 1 };
  if (answer.kind === 'nothing') {
    if (step === 'begin') return withEnd(answered, notDue(progress, answer.why));
    return { ...entered(answered, swap), misses: progress.misses + 1, rests: true };
  }
  const after = { ...answered, misses: 0 };
  switch (step) {
    case 'begin':
      return logged(entered(after, { ...swap, stage: 'starting', begunAt: answer.at }), `${answer.at}: begun`);
    case 'reset':
      return logged(entered(after, { ...swap, stage: 'resetting' }), `${answer.at}: the new version serves`);
    case 'cancel': {
      const why = failureOf(progress);
      const back: OpenSwap = { ...swap, stage: 'resetting', outgoing: swap.incoming };
      const line = `${answer.at}: undone${why ? ` (${why})` : ''}`;
      return logged({ ...entered(after, back), isAborted: false, ...(why && { goesBack: why }) }, line);
    }
  }
}

function awaited(progress: SwapProgress, until: SwapGoal, answer: SwapAwaitAnswer): SwapProgress {
  const { swap, goesBack } = progress;
  if (swap === undefined) return progress;
  if (answer.kind === 'blocked') return blocked(progress, answer.waitingFor);
  const answered = { ...progress, answers: progress.answers + 1 };
  if (answer.kind === 'changed') return lookAgain(answered);
  if (until === 'ready') return entered({ ...answered, misses: 0 }, { ...swap, stage: 'reset' });
  if (goesBack) return withEnd(answered, wentBack(progress, goesBack));
  // another image may have been published meanwhile
  return lookAgain(answered);
}

function blocked(progress: SwapProgress, waitingFor: WaitingFor): SwapProgress {
  return { ...progress, waitingFor, reports: progress.reports + 1, round: progress.round + 1 };
}

/** What an operator has aborted ends where a look finds that nothing has begun. */
function ended(progress: SwapProgress): SwapProgress {
  const { isAborted, swap, end, pod } = progress;
  if (end || !isAborted || swap?.stage !== 'begin') return progress;
  const message = `Aborted by an operator before anything was changed in pod "${pod}"`;
  return withEnd(progress, { kind: 'Aborted', reason: 'Aborted', message });
}

function withEnd(progress: SwapProgress, end: SwapEnd): SwapProgress {
  return { ...progress, end };
}

function swapped({ pod, log }: SwapProgress): SwapEnd {
  const message = `The sidecars of pod "${pod}" run what they should, beside idle containers`;
  return { kind: 'Completed', reason: log.length > 0 ? 'Swapped' : 'NothingToSwap', message };
}

function notDue({ pod }: SwapProgress, why: string): SwapEnd {
  return { kind: 'Completed', reason: 'NothingToSwap', message: `Nothing is to be swapped in pod "${pod}": ${why}` };
}

function wentBack({ pod }: SwapProgress, why: SwapFailure): SwapEnd {
  const cause = why === 'Aborted' ? 'Aborted by an operator' : 'The new version was not ready in time';
  return { kind: why, reason: why, message: `${cause}: the old version serves in pod "${pod}"` };
}

function logged(progress: SwapProgress, line: string): SwapProgress {
  return { ...progress, log: [...progress.log, line].slice(-logLines) };
}

/** Why the old version is restored where the new one does not work; undefined: it is not, or it is wanted again. */
function failureOf({ swap, isAborted, isOverdue }: SwapProgress): SwapFailure | undefined {
  if (swap?.stage !== 'starting') return undefined;
  if (isAborted) return 'Aborted';
  return isOverdue ? 'DeadlineExceeded' : undefined;
}

/** What is asked of the leading watcher now; undefined: nothing. Another key: something else, or once more. */
export type SwapWork = { readonly key: string } & (
  | { readonly kind: 'write'; readonly step: SwapStep; readonly why?: SwapFailure }
  | { readonly kind: 'await'; readonly until: SwapGoal }
);

export function wantedWork(progress: SwapProgress): SwapWork | undefined {
  const { swap, end, isParked, rests, isPaused, isAborted, round } = progress;
  if (!swap || end || isParked || rests) return undefined;
  const key = (what: string) => ({ key: `${what} ${round}` });
  switch (swap.stage) {
    case 'begin':
      if (isPaused || isAborted || backOffUntilMs(progress) !== undefined) return undefined;
      return { ...key('begin'), kind: 'write', step: 'begin' };
    case 'starting': {
      const why = failureOf(progress);
      if (why === undefined) return { ...key('ready'), kind: 'await', until: 'ready' };
      return { ...key('cancel'), kind: 'write', step: 'cancel', why };
    }
    case 'reset':
      return { ...key('reset'), kind: 'write', step: 'reset' };
    case 'resetting':
      return { ...key('idle'), kind: 'await', until: 'idle' };
  }
}

/** Until when the new images are not written because of the kubelet's back-off; undefined: they may be. */
export function backOffUntilMs({ swap, skipsBackOff }: SwapProgress): number | undefined {
  if (swap?.stage !== 'begin' || skipsBackOff || swap.backOffUntil === undefined) return undefined;
  return Date.parse(swap.backOffUntil);
}

/** When the new containers have to be ready; undefined: nobody waits for that, or it may take as long as it takes. */
export function deadlineMs({ swap, isOverdue }: SwapProgress): number | undefined {
  return swap?.stage === 'starting' && !isOverdue ? deadlineOf(swap) : undefined;
}

function deadlineOf({ stage, begunAt, deadlineMs: most }: OpenSwap): number | undefined {
  if (stage !== 'starting' || begunAt === undefined || most === undefined) return undefined;
  return Date.parse(begunAt) + most;
}

const restMs = { first: 1_000, most: 60_000 } as const;

/** How long it rests before the next look; undefined: it does not. */
export function restOf({ rests, misses }: SwapProgress): number | undefined {
  return rests ? Math.min(restMs.first * 2 ** Math.max(misses - 1, 0), restMs.most) : undefined;
}
