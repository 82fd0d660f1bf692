/** What becomes of a command about the swap of sidecars in a pod, for its Event. */
import type { CommandAnswer, CommandName } from '../../api/engine/operations.ts';
import { backOffUntilMs, type SwapProgress } from './progress.ts';

/** What a command does that is applied to this progress. */
export function answerToSwap(progress: SwapProgress, name: CommandName): CommandAnswer {
  const { swap, isPaused, end } = progress;
  if (end) return { refused: 'the swap is at its end' };
  const hasBegun = swap !== undefined && swap.stage !== 'begin';
  switch (name) {
    case 'pause':
      return hasBegun ? { note: 'the swap has begun and is finished, and no further one begins' } : {};
    case 'resume':
      return isPaused ? {} : { refused: 'the swap is not paused' };
    case 'skip':
      if (backOffUntilMs(progress) !== undefined) return { target: 'the back-off of the kubelet' };
      return { refused: 'only the wait for the back-off of the kubelet can be skipped, and it does not wait for that' };
    case 'abort':
      return hasBegun && swap.stage !== 'starting'
        ? { note: 'the new version serves already and stays, and no further swap begins' }
        : {};
    case 'retry':
    case 'undo':
      return {};
  }
}
