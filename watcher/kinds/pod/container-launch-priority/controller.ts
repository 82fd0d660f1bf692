// The controller of container launch priority: the containers of one pod start in an order.

import { barrierOwners, type LaunchBarrier } from '../../../../api/container-launch-priority.ts';
import type { Pod } from '../../../../api/core/pod.ts';
import { kubeResource } from '../../../../api/core/well-known.ts';
import type { Controller, ControllerContext } from '../../../controller.ts';
import { barrierIndexes, barrierSelector, barriersByPod } from './barrier.ts';
import type { LaunchPassDependencies } from './launch-pass-dependencies.ts';
import { isOrdered, passOverLaunch } from './pass.ts';

/**
 * Ensures that the containers of ordered pods start one after the other, and that barriers exist as long as their pods.
 */
export function containerLaunches({ kube, now, isLeading, cache, queue }: ControllerContext): Controller {
  const pods = cache<Pod>(kubeResource.pods);
  const barriers = cache<LaunchBarrier>(kubeResource.configMaps, barrierIndexes, { labelSelector: barrierSelector });
  const reportedMissed = new Set<string>();
  const world: LaunchPassDependencies = { kube, pods, barriers, now, reportedMissed };
  const passes = queue('launches', (podUid) => passOverLaunch(podUid, world));

  pods.onChange(({ before, after }) => {
    const uid = (after ?? before)?.metadata.uid ?? '';
    if (after === undefined) reportedMissed.delete(uid);
    if (!isLeading()) return;
    if (after === undefined ? barriers.byIndex(barriersByPod, uid).length > 0 : isOrdered(after)) passes.add(uid);
  });
  barriers.onChange(({ before, after }) => {
    if (!isLeading()) return;
    for (const barrier of [before, after]) for (const uid of barrier ? barrierOwners(barrier) : []) passes.add(uid);
  });
  return {
    wantAll() {
      for (const pod of pods.all()) if (isOrdered(pod)) passes.add(pod.metadata.uid);
    },
  };
}
