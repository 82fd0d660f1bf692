import { type ContainerRecreateRequest, crr } from '../../api/container-recreate-request.ts';
import type { Pod } from '../../api/pod.ts';
import { hasReadinessGate } from '../../api/pod-readiness.ts';
import { kubeResource } from '../../api/well-known.ts';
import type { Controller, WatcherHouse } from '../controller.ts';
import { podUidOf, releaseDeadKeys } from './container-recreate-request.ts';
import { answerReadinessGate } from './pod-readiness.ts';

/** Answers for the shared readiness gate of new pods, and takes keys off it that nobody holds any more. */
export function readinessGates({ kube, now, isLeading, cache, queue }: WatcherHouse): Controller {
  const pods = cache<Pod>(kubeResource.pods);
  const requests = cache<ContainerRecreateRequest>(crr);
  const passes = queue('readiness-gates', async (podUid) => {
    const pod = pods.byUid(podUid);
    if (!pod) return undefined;
    await answerReadinessGate(pod, { kube, now });
    await releaseDeadKeys(pod, { kube, requests, now });
    return undefined;
  });

  pods.onChange(({ after }) => {
    if (after && isLeading() && hasReadinessGate(after)) passes.add(after.metadata.uid);
  });
  requests.onChange(({ before, after }) => {
    // it may have left a key behind
    if (before && after === undefined && isLeading()) passes.add(podUidOf(before));
  });
  return {
    wantAll() {
      for (const pod of pods.all()) if (hasReadinessGate(pod)) passes.add(pod.metadata.uid);
    },
  };
}
