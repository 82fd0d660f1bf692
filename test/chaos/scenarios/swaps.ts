// Something else happens in the middle of a swap, while the new container runs and is not ready, and each role dies.
import type { Scenario } from '../campaign.ts';
import { faultScenario, hurriedFlags, shuffled } from '../fault-plan.ts';
import { killed } from '../faults.ts';
import type { Random } from '../random.ts';
import { type Middle, SidecarSwaps, sidecarSwaps } from '../subjects/sidecar-swaps.ts';

const middles: readonly { readonly middle: Middle; readonly name: string; readonly about: string }[] = [
  { middle: 'imageOfBefore', name: 'image-of-before', about: 'the image of before is published' },
  { middle: 'neverReady', name: 'never-ready', about: 'the new container never gets ready, until the deadline' },
  { middle: 'podDeleted', name: 'pod-deleted', about: 'the pod is deleted' },
  { middle: 'bothRestarted', name: 'both-restarted', about: 'both containers are ended, and restarted by the kubelet' },
];

const roles = ['worker', 'daemon', 'watcher', 'temporal'] as const;

/** On so many pods; at each of these steps another role is killed, by chance. */
function swapScenario(
  { middle, name, about }: (typeof middles)[number],
  { pods, killsAt }: { readonly pods: number; readonly killsAt: readonly number[] },
): Scenario {
  return faultScenario({
    name: `swap-${name}`,
    about: `${about} in the middle of a swap, while roles are killed`,
    setting: { watcherFlags: hurriedFlags(sidecarSwaps) },
    plan: async (world, random) => {
      const subject = await SidecarSwaps.prepare(world, { pods, middle });
      const drawn = shuffled(roles, random).map((role) => ({
        fault: killed(world, role),
        lastsSeconds: random.within(0, 3),
      }));
      const faults = new Map(killsAt.map((step, index) => [step, drawn[index]] as const));
      return { subjects: [subject], faultAt: (step) => faults.get(step) };
    },
  });
}

export const swapScenarios: readonly Scenario[] = middles.map((each) =>
  swapScenario(each, { pods: 2, killsAt: [0, 1, 2, 3] }),
);

/** One of them by chance: a role is killed in the middle, and another one before or after it. */
export function drawnSwap(random: Random): Scenario {
  return swapScenario(random.pick(middles), { pods: 2, killsAt: [2, random.pick([0, 1, 3])] });
}
