// Something else happens in the middle of a swap, while the new container runs and is not ready, and each role dies.
import type { Scenario } from '../campaign.ts';
import { faultScenario, hurriedFlags, inOrder, shuffled } from '../fault-plan.ts';
import { killed } from '../faults.ts';
import { type Middle, SidecarSwaps, sidecarSwaps } from '../subjects/sidecar-swaps.ts';

const middles: readonly { readonly middle: Middle; readonly name: string; readonly about: string }[] = [
  { middle: 'imageOfBefore', name: 'image-of-before', about: 'the image of before is published' },
  { middle: 'neverReady', name: 'never-ready', about: 'the new container never gets ready, until the deadline' },
  { middle: 'podDeleted', name: 'pod-deleted', about: 'the pod is deleted' },
  { middle: 'bothRestarted', name: 'both-restarted', about: 'both containers are ended, and restarted by the kubelet' },
];

const roles = ['worker', 'daemon', 'watcher', 'temporal'] as const;

export const swapScenarios: readonly Scenario[] = middles.map(({ middle, name, about }) =>
  faultScenario({
    name: `swap-${name}`,
    about: `${about} in the middle of a swap, while roles are killed`,
    setting: { watcherFlags: hurriedFlags(sidecarSwaps) },
    plan: async (world, random) => ({
      subjects: [await SidecarSwaps.prepare(world, { pods: 2, middle })],
      faultAt: inOrder(
        ...shuffled(roles, random).map((role) => ({ fault: killed(world, role), lastsSeconds: random.within(0, 3) })),
      ),
    }),
  }),
);
