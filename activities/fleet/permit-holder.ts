import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { type ObjectRef, qualifiedName } from '../../api/core/refs.ts';
import type { Answer, BatchResult } from '../../plan/fleet/permit.ts';
import { shortened } from '../../plan/text-size.ts';
import type { BatchRequest } from '../../watcher/fleet/held-batch.ts';
import type { PermitProgress } from '../../watcher/fleet/permits.ts';
import type { Question } from '../../watcher/fleet/queue.ts';
import type { PermitLife } from '../../watcher/permits/held.ts';
import { ConfirmedLife, type PermitLifeOptions, TakenBack } from './permit-life.ts';

/** Failures travel through histories. */
const longestWhyBytes = 900;

/** So long after the last confirmed heartbeat something may begin by a batch (P-6). */
export const confirmedForMs = 10_000;

/** So long the SDK's own word of a cancellation is waited for. */
const sdkWordMs = 10_000;

/** The part of the fleet queue that is needed here; no queue while this watcher does not lead. */
export interface PermitHolder {
  /** Which pods may go next. */
  next(uid: string, question?: Question): Answer;
  carryOut(uid: string, request: BatchRequest, life: PermitLife): Promise<BatchResult>;
  progressOf(uid: string, batch: number): PermitProgress;
  /** Whether the update of each pod of a batch has begun. */
  isBegun(uid: string, batch: number): boolean;
  /** A permit that has rested counts again. */
  confirmed(uid: string): void;
}

export interface FleetDependencies<Holder = PermitHolder> {
  /** What a kind hands its permits to in the present term. */
  readonly queueOf: (kind: string) => Holder | undefined;
  /** The attempt that is being executed. */
  readonly attempt: () => FleetAttempt;
  /** The run whose activity is being executed. */
  readonly runId: () => string;
}

export type FleetAttempt = Omit<PermitLifeOptions, 'progress' | 'holdsMs' | 'isBegun' | 'confirmed'>;

/** How a permit lives, and what is told of it. */
interface LifeOfPermit<Holder> extends Pick<PermitLifeOptions, 'holdsMs'> {
  readonly progress?: (holder: Holder) => unknown;
  readonly isBegun?: (holder: Holder) => boolean;
  readonly confirmed?: (holder: Holder) => void;
}

/**
 * Hands something to the fleet queue for as long as Temporal confirms that this attempt counts, and answers what comes of
 * it. It fails as `Unreachable`, which is retried, when the attempt ends before.
 */
export async function whileItCounts<Answer, Holder = PermitHolder>(
  { queueOf, attempt }: FleetDependencies<Holder>,
  { kind, target, doing }: { readonly kind: string; readonly target: ObjectRef; readonly doing: string },
  hand: (holder: Holder, life: PermitLife) => Promise<Answer>,
  { progress, isBegun, confirmed, ...others }: LifeOfPermit<Holder> = {},
): Promise<Answer> {
  const options = attempt();
  let life: ConfirmedLife | undefined;
  try {
    life = await ConfirmedLife.begin({
      ...{ ...options, ...others },
      progress: () => {
        const holder = queueOf(kind);
        return holder && progress?.(holder);
      },
      isBegun: () => {
        const holder = queueOf(kind);
        return (holder && isBegun?.(holder)) === true;
      },
      confirmed: () => {
        const holder = queueOf(kind);
        if (holder) confirmed?.(holder);
      },
    });
    const holder = queueOf(kind);
    if (!holder) throw new Error('this watcher is not the leader');
    return await hand(holder, life);
  } catch (error) {
    const { cancelled } = options;
    // Temporal's answer to a heartbeat may be here before the SDK's own word, which alone ends an attempt as cancelled.
    if (error instanceof TakenBack) await aborted(cancelled, Math.min(options.heartbeatTimeoutMs, sdkWordMs));
    if (cancelled.aborted && cancelled.reason instanceof CancelledFailure) throw cancelled.reason;
    // Lost lease, silent Temporal, a newer attempt: in every case another attempt finds out what is true now.
    const why = shortened(error instanceof Error ? error.message : String(error), longestWhyBytes);
    throw ApplicationFailure.retryable(`Cannot ${doing} ${kind} "${qualifiedName(target)}": ${why}`, 'Unreachable');
  } finally {
    life?.stop();
  }
}

/**
 * Asks the leading watcher what goes next, from what it knows at this moment. It fails as `Unreachable`, which is retried, while
 * this one does not lead.
 */
export function answeredAtOnce<Answer, Holder = PermitHolder>(
  { queueOf }: Pick<FleetDependencies<Holder>, 'queueOf'>,
  { kind, target, items }: { readonly kind: string; readonly target: ObjectRef; readonly items: string },
  ask: (holder: Holder) => Answer,
): Answer {
  try {
    const holder = queueOf(kind);
    if (!holder) throw new Error('this watcher is not the leader');
    return ask(holder);
  } catch (error) {
    const why = shortened(error instanceof Error ? error.message : String(error), longestWhyBytes);
    const attempted = `Cannot find out which ${items} of ${kind} "${qualifiedName(target)}" go next`;
    throw ApplicationFailure.retryable(`${attempted}: ${why}`, 'Unreachable');
  }
}

/** Resolves when the signal aborts, or after a time. */
function aborted(signal: AbortSignal, mostMs: number): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const timer = setTimeout(resolve, mostMs);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
