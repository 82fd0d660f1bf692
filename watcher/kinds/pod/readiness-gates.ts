import { type ContainerRecreateRequest, crr } from '../../../api/container-recreate-request/types.ts';
import type { Pod } from '../../../api/core/pod.ts';
import { heldKeys, lacksReadiness } from '../../../api/core/pod-readiness.ts';
import { kubeResource } from '../../../api/core/well-known.ts';
import type { Controller, ControllerContext } from '../../controller.ts';
import { isOfFleet } from '../../fleet/owned.ts';
import { answerReadinessGate } from '../container-recreate-request/pod-readiness.ts';
import { releaseDeadKeys } from '../container-recreate-request/release.ts';
import { podUidOf } from '../container-recreate-request/request.ts';

/**
 * A fleet sets the condition of its new pods itself, in the write that brings them into service, which takes some time
 * on a busy cluster. A pod whose condition is still missing after this time is no longer left to the fleet.
 */
const leftToFleetMs = 120_000;

/** Sets the condition of the shared readiness gate on new pods, and removes keys from it whose holder is gone. */
export function readinessGates({ kube, now, isLeading, cache, queue }: ControllerContext): Controller {
  const pods = cache<Pod>(kubeResource.pods);
  const requests = cache<ContainerRecreateRequest>(crr);
  const passes = queue('readiness-gates', async (podUid) => {
    const pod = pods.byUid(podUid);
    if (!pod) return undefined;
    await answerReadinessGate(pod, { kube, now });
    await releaseDeadKeys(pod, { kube, requests, now });
    return undefined;
  });

  function wantPass(pod: Pod): void {
    const { uid } = pod.metadata;
    if (heldKeys(pod.status?.conditions).length > 0) passes.add(uid);
    else if (lacksReadiness(pod)) passes.addAfter(uid, isOfFleet(pod) ? leftToFleetMs : 0);
  }

  pods.onChange(({ after }) => {
    if (after && isLeading()) wantPass(after);
  });
  requests.onChange(({ before, after }) => {
    // it may have left a key behind
    if (before && after === undefined && isLeading()) passes.add(podUidOf(before));
  });
  return {
    wantAll() {
      for (const pod of pods.all()) wantPass(pod);
    },
  };
}
