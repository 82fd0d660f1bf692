import {
  CancellationScope,
  condition,
  defineQuery,
  defineSignal,
  isCancellation,
  proxyActivities,
  setHandler,
} from '@temporalio/workflow';
import type { AdvanceInput } from '../../activities/fleet/advance.ts';
import type { ObjectRef } from '../../api/core/refs.ts';
import type { Verdict } from '../../plan/fleet/permit.ts';

const { advanceTrivial } = proxyActivities<{ advanceTrivial(input: AdvanceInput): Promise<Verdict> }>({
  startToCloseTimeout: '10 minutes',
  heartbeatTimeout: '4 seconds',
  retry: { initialInterval: '100 milliseconds', maximumInterval: '1 second' },
});

export const pause = defineSignal('pause');
export const resume = defineSignal('resume');
export const verdicts = defineQuery<readonly Verdict[]>('verdicts');

/** Rolls out a trivial fleet, batch by batch, as a roll-out of any kind will: permits out, verdicts in, never a pod. */
export async function rollOutTrivial(target: ObjectRef, revision: string, batches: readonly number[]): Promise<void> {
  const seen: Verdict[] = [];
  let paused = false;
  let advancing: CancellationScope | undefined;
  setHandler(verdicts, () => seen);
  setHandler(pause, () => {
    paused = true;
    advancing?.cancel();
  });
  setHandler(resume, () => {
    paused = false;
  });

  for (const batch of batches) {
    for (let verdict: Verdict | undefined; verdict?.kind !== 'batchDone' && verdict?.kind !== 'allDone'; ) {
      await condition(() => !paused);
      advancing = new CancellationScope();
      try {
        verdict = await advancing.run(() =>
          advanceTrivial({ kind: 'TrivialFleet', target, permit: { revision, paused, skip: [], batch } }),
        );
        seen.push(verdict);
      } catch (error) {
        // Cancelled by `pause`, which takes the permit back.
        if (!isCancellation(error)) throw error;
      }
    }
  }
}
