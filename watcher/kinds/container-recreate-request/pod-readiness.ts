import { unlessGone } from '../../../kube/moved-on.ts';
import { despiteConflicts } from '../../../kube/retry-on-conflict.ts';

/** The shared readiness gate of pods: they become Ready only once its condition is set (PRG-6). */

import { timestamp } from '../../../api/base/time.ts';
import type { Pod, PodCondition } from '../../../api/core/pod.ts';
import { initialReadiness } from '../../../api/core/pod-readiness.ts';
import { kubeResource } from '../../../api/core/well-known.ts';
import type { KubeClient } from '../../../kube/client.ts';

/** Sets the condition to True on a pod that has the gate and no condition yet. Conditions of others are not changed. */
export async function answerReadinessGate(
  pod: Pod,
  { kube, now }: { readonly kube: PodStatusWriter; readonly now: () => number },
): Promise<void> {
  const at = timestamp(now());
  if (!initialReadiness(pod, at)) return;
  await changePodConditions(kube, pod.metadata, (live) => initialReadiness(live, at));
}

/** The client calls that read and write pod conditions. */
export type PodStatusWriter = Pick<KubeClient, 'get' | 'patch'>;

/**
 * Applies `change` to the live conditions of this pod; undefined: nothing is written. The kubelet writes them, too, so
 * a conflict is retried at once. A pod that is gone or being deleted is skipped (CRR-10, PRG-17).
 */
export async function changePodConditions(
  kube: PodStatusWriter,
  pod: { readonly namespace?: string; readonly name: string; readonly uid: string },
  change: (live: Pod) => readonly PodCondition[] | undefined,
): Promise<void> {
  const ref = { namespace: pod.namespace ?? '', name: pod.name };
  await unlessGone(
    despiteConflicts(async () => {
      const live = await kube.get<Pod>(kubeResource.pods, ref);
      if (live.metadata.uid !== pod.uid || live.metadata.deletionTimestamp !== undefined) return;
      const conditions = change(live);
      if (!conditions) return;
      const { uid, resourceVersion } = live.metadata;
      const body = { metadata: { uid, resourceVersion }, status: { conditions } };
      await kube.patch(kubeResource.pods, ref, 'merge', body, { subresource: 'status' });
    }),
  );
}
