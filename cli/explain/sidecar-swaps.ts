// The swaps of HotUpgrade sidecars in running pods, as `kubectl kruise explain` shows them: what the pods themselves say.

import type { Pod } from '../../api/core/pod.ts';
import { type SwapWaitReason, swapSidecarId, swapWaits } from '../../api/sidecar-set/swap.ts';
import { hotSidecars } from '../../plan/sidecar-set/hot.ts';
import { nameOf, type SidecarSetScene } from '../../plan/sidecar-set/scene.ts';
import type { OpenSwap, SwapSlot } from '../../plan/sidecar-swap/model.ts';
import { type SwapStanding, swapStanding } from '../../plan/sidecar-swap/standing.ts';
import type { ExplainedWait, ExplainMeans, HelpfulCommand } from './explanation.ts';
import { signalCommand } from './operations.ts';

/** A swap that has not ended, and what the kubelet is waited for. */
export interface OpenSwapStanding extends SwapStanding {
  readonly look: OpenSwap;
}

/** The swaps that have begun, and those that the back-off of the kubelet holds back. */
export function swapsIn(scene: SidecarSetScene, nowMs: number): ReadonlyMap<Pod, OpenSwapStanding> {
  const { owner: set, target } = scene;
  return new Map(
    scene.pods.flatMap(({ pod, place }) => {
      if (hotSidecars(target, pod).length === 0) return [];
      const { look, wait } = swapStanding({ set, target, pod, nowMs });
      if (look.kind !== 'open') return [];
      const isHeld = place.kind === 'waiting' && look.backOffUntil !== undefined;
      return look.stage !== 'begin' || isHeld ? [[pod, { look, ...(wait && { wait }) }] as const] : [];
    }),
  );
}

/** How far a swap is, for people. */
export function swapText({ stage, incoming, outgoing }: OpenSwap): string {
  switch (stage) {
    case 'begin':
      return `${slotsText(incoming)} to be written`;
    case 'starting':
      return `${slotsText(incoming)} starts; the old version serves`;
    case 'reset':
      return `${slotsText(incoming)} serves; ${slotsText(outgoing)} to be written`;
    case 'resetting':
      return `the new version serves; ${slotsText(outgoing)} starts`;
  }
}

function slotsText(slots: readonly SwapSlot[]): string {
  const [first, ...others] = slots;
  if (first === undefined) return 'an image';
  return `${first.image} in ${first.container}${others.length > 0 ? ` and ${others.length} more` : ''}`;
}

const mostNamed = 10;

/** What swaps wait for, by the reason. */
export function swapWaitsOf(swaps: ReadonlyMap<Pod, OpenSwapStanding>): readonly ExplainedWait[] {
  const found = [...swaps].flatMap(([pod, { look, wait }]) => {
    if (wait) return [{ pod, reason: wait.reason, unblock: wait.unblock }];
    if (look.backOffUntil === undefined) return [];
    const unblock = `It begins at ${look.backOffUntil}. ${swapWaits.KubeletBackOff}`;
    return [{ pod, reason: 'KubeletBackOff' satisfies SwapWaitReason, unblock }];
  });
  return [...Map.groupBy(found, ({ reason }) => reason)].map(([reason, waits]) => ({
    reason,
    blockedBy: waits.slice(0, mostNamed).map(({ pod }) => `pod/${nameOf(pod)}`),
    blockedCount: waits.length,
    unblock: waits[0]?.unblock ?? '',
    from: 'planner',
  }));
}

/** Commands for the first swap that does not come to its end by itself. */
export function swapCommands(
  swaps: ReadonlyMap<Pod, OpenSwapStanding>,
  { engine }: Pick<ExplainMeans, 'engine'>,
): readonly HelpfulCommand[] {
  const [held] = [...swaps].filter(([, { look, wait }]) => wait !== undefined || look.backOffUntil !== undefined);
  if (held === undefined) return [];
  const [pod, { look }] = held;
  const id = swapSidecarId(pod.metadata);
  const pods = `${nameOf(pod)}${swaps.size > 1 ? ', and likewise for other pods' : ''}`;
  return [
    ...(look.stage === 'begin'
      ? [{ command: signalCommand(id, 'skip', { engine }), effect: `does not wait for the back-off in ${pods}` }]
      : []),
    ...(look.stage === 'starting'
      ? [{ command: signalCommand(id, 'abort', { engine }), effect: `returns to the old version in ${pods}` }]
      : []),
  ];
}
