/** What people see of the swap of sidecars in one pod. */
import { timestamp } from '../../api/base/time.ts';
import type { WaitingFor } from '../../api/engine/waiting-for.ts';
import { type SwapOperation, type SwapWaitReason, swapWaits } from '../../api/sidecar-set/swap.ts';
import { shortened, summaryBytes } from '../text-size.ts';
import type { OpenSwap, SwapSlot } from './model.ts';
import { backOffUntilMs, type SwapProgress, type SwapWork } from './progress.ts';

/** What an activity does: `write app:v2 into web-0 mesh-2`, `wait until mesh-1 of web-0 is idle`. */
export function workText({ pod }: SwapOperation, { incoming, outgoing }: OpenSwap, work: SwapWork): string {
  return shortened(textOf(), summaryBytes);

  function textOf(): string {
    const name = pod.name;
    if (work.kind === 'await') {
      return work.until === 'ready'
        ? `wait until ${containersOf(incoming)} of ${name} is ready`
        : `wait until ${containersOf(outgoing)} of ${name} is idle`;
    }
    switch (work.step) {
      case 'begin':
        return `write ${shortened(incoming[0]?.image ?? 'images', imageBytes)} into ${name} ${containersOf(incoming)}`;
      case 'reset':
        return `reset ${containersOf(outgoing)} of ${name}`;
      case 'cancel':
        return `undo ${containersOf(incoming)} of ${name}`;
    }
  }
}

const imageBytes = 90;

function containersOf(slots: readonly SwapSlot[]): string {
  const [first, ...others] = slots.map(({ container }) => container);
  return `${first ?? 'the containers'}${others.length > 0 ? ` and ${others.length} more` : ''}`;
}

/** The phase in which people find it. */
export function swapPhaseOf({ isPaused, swap, goesBack }: SwapProgress): string {
  if (goesBack) return 'Undoing';
  return isPaused && swap?.stage === 'begin' ? 'Paused' : 'Swapping';
}

/** What it waits for; undefined while it waits for nothing that has taken long. */
export function swapWaitOf(progress: SwapProgress): Pick<WaitingFor, 'reason' | 'blockedBy' | 'unblock'> | undefined {
  const { refused, isPaused, isAborted, swap, waitingFor } = progress;
  if (refused.look) return refused.look;
  if (swap?.stage === 'begin' && isPaused && !isAborted) return wait('PausedByOperator');
  if (refused.step) return refused.step;
  const untilMs = backOffUntilMs(progress);
  if (untilMs === undefined) return waitingFor;
  const { unblock, ...others } = wait('KubeletBackOff');
  return { ...others, unblock: `It begins at ${timestamp(untilMs)}. ${unblock}` };
}

function wait(reason: SwapWaitReason): Pick<WaitingFor, 'reason' | 'blockedBy' | 'unblock'> {
  return { reason, blockedBy: [], unblock: swapWaits[reason] };
}

/** All that there is to say, in lines. */
export function swapDetailsOf({ set }: SwapOperation, progress: SwapProgress): string {
  const { swap, log } = progress;
  const waiting = swapWaitOf(progress);
  return [
    `${swapPhaseOf(progress)}: SidecarSet ${set.name}`,
    ...(waiting ? [waitText(waiting)] : []),
    ...(swap ? [slotsText('new', swap.incoming), slotsText('old', swap.outgoing)] : []),
    ...log,
  ]
    .filter((line) => line !== '')
    .join('\n\n');
}

const mostSlots = 5;

function slotsText(what: string, slots: readonly SwapSlot[]): string {
  const shown = slots.slice(0, mostSlots).map(({ container, image }) => `${container}: ${image}`);
  const more = slots.length > mostSlots ? ` and ${slots.length - mostSlots} more` : '';
  return shown.length === 0 ? '' : `${what}: ${shown.join(', ')}${more}`;
}

function waitText({ reason, blockedBy, unblock }: Pick<WaitingFor, 'reason' | 'blockedBy' | 'unblock'>): string {
  const by = blockedBy.length === 0 ? '' : ` (${blockedBy.slice(0, mostSlots).join(', ')})`;
  return `${reason}${by}: ${unblock}`;
}
