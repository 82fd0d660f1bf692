import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { type ObjectRef, qualifiedName } from '../../api/core/refs.ts';
import type { PermitLife } from '../../watcher/fleet/kind.ts';
import type { Permit, Verdict } from '../../workflows/plan/fleet/permit.ts';
import { shortened } from '../../workflows/plan/text-size.ts';
import { ConfirmedLife, type PermitLifeOptions, TakenBack } from './permit-life.ts';

/** Failures travel through histories. */
const longestWhyBytes = 900;

export interface AdvanceInput {
  /** `CloneSet` */
  readonly kind: string;
  readonly target: ObjectRef;
  readonly permit: Permit;
}

/** The part of the fleet queue that is needed here; no queue while this watcher does not lead. */
export interface PermitHolder {
  hand(uid: string, permit: Permit, life: PermitLife): Promise<Verdict>;
}

export interface AdvanceDependencies {
  /** The queue of a kind in the present term. */
  readonly queueOf: (kind: string) => PermitHolder | undefined;
  /** The attempt that is being executed. */
  readonly attempt: () => PermitLifeOptions;
}

/**
 * Hands a permit to the fleet queue and waits, heartbeating, for what it comes to. The permit ends with the attempt; a
 * further attempt hands it in anew, which is harmless, as all progress is in the cluster.
 */
export function advanceActivity(dependencies: AdvanceDependencies): (input: AdvanceInput) => Promise<Verdict> {
  return async ({ kind, target, permit }) => {
    const { queueOf, attempt } = dependencies;
    const attempted = `Cannot advance ${kind} "${qualifiedName(target)}"`;
    const options = attempt();
    let life: ConfirmedLife | undefined;
    try {
      life = await ConfirmedLife.begin(options);
      const holder = queueOf(kind);
      if (!holder) throw new Error('this watcher is not the leader');
      return await holder.hand(target.uid, permit, life);
    } catch (error) {
      const { cancelled } = options;
      // Temporal's answer to a heartbeat may be here before the SDK's own word, which alone ends an attempt as cancelled.
      if (error instanceof TakenBack) await aborted(cancelled, options.heartbeatTimeoutMs);
      if (cancelled.aborted && cancelled.reason instanceof CancelledFailure) throw cancelled.reason;
      // Lost lease, silent Temporal, a newer attempt: in every case another attempt finds out what is true now.
      const why = shortened(error instanceof Error ? error.message : String(error), longestWhyBytes);
      throw ApplicationFailure.retryable(`${attempted}: ${why}`, 'Unreachable');
    } finally {
      life?.stop();
    }
  };
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
