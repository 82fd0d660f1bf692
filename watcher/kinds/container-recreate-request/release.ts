/**
 * What completed requests hold: the readiness key of their pod, the finalizer, and the label that selects them for
 * nodes.
 */

import { timestamp } from '../../../api/base/time.ts';
import { type ContainerRecreateRequest, crr, isCompleted } from '../../../api/container-recreate-request/types.ts';
import type { Pod } from '../../../api/core/pod.ts';
import { heldKeys, recreateKey, requestOfKey, withoutReadinessKey } from '../../../api/core/pod-readiness.ts';
import { crrLabel, crrUnreadyFinalizer } from '../../../api/core/well-known.ts';
import { unlessMovedOn } from '../../../kube/moved-on.ts';
import { changePodConditions } from './pod-readiness.ts';
import { nameOf, podUidOf } from './request.ts';
import type { RequestPassDependencies } from './request-pass-dependencies.ts';

/** Whether something has to be released: the request is completed and still has its finalizer or label. */
export function holds(request: ContainerRecreateRequest): boolean {
  const { deletionTimestamp, finalizers, labels } = request.metadata;
  const over = deletionTimestamp !== undefined || isCompleted(request);
  const marked = finalizers?.includes(crrUnreadyFinalizer) || (isCompleted(request) && labels?.[crrLabel.active]);
  return over && Boolean(marked);
}

/** CRR-10: first the pod's key, then the finalizer that guarantees its release, and the label for nodes. */
export async function release(request: ContainerRecreateRequest, world: RequestPassDependencies): Promise<void> {
  const { namespace = '', uid, resourceVersion, finalizers = [], labels } = request.metadata;
  if (finalizers.includes(crrUnreadyFinalizer)) {
    await releaseKey({ namespace, name: request.spec.podName, uid: podUidOf(request) }, nameOf(request), world);
  }
  const body = {
    metadata: {
      uid,
      resourceVersion,
      finalizers: finalizers.filter((finalizer) => finalizer !== crrUnreadyFinalizer),
      ...(labels?.[crrLabel.active] && isCompleted(request) ? { labels: { [crrLabel.active]: null } } : {}),
    },
  };
  await unlessMovedOn(world.kube.patch(crr, nameOf(request), 'merge', body));
}

/** Removes the key of a request from its pod, if the pod still exists and has it. */
async function releaseKey(
  pod: { readonly namespace?: string; readonly name: string; readonly uid: string },
  request: { readonly namespace: string; readonly name: string },
  { kube, now }: Pick<RequestPassDependencies, 'kube' | 'now'>,
): Promise<void> {
  await changePodConditions(kube, pod, (live) => withoutReadinessKey(live, recreateKey(request), timestamp(now())));
}

/** Removes the keys of completed or deleted requests from pods, whatever has left them there (PRG-21). */
export async function releaseDeadKeys(
  pod: Pod,
  world: Pick<RequestPassDependencies, 'kube' | 'requests' | 'now'>,
): Promise<void> {
  for (const key of heldKeys(pod.status?.conditions)) {
    const holder = requestOfKey(key);
    if (!holder) continue;
    const request = world.requests.byName(holder.namespace, holder.name);
    const alive = request && !isCompleted(request) && podUidOf(request) === pod.metadata.uid;
    // with its finalizer, the pass over requests does it, and removes the finalizer afterwards
    if (!alive && !request?.metadata.finalizers?.includes(crrUnreadyFinalizer)) {
      await releaseKey(pod.metadata, holder, world);
    }
  }
}
