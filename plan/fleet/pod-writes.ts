/** Changes of pods as steps. */
import type { KubeObject, Resource } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import { controllerReference } from '../../api/core/refs.ts';
import { beforeDelete, changeWrites, enter, type PodChange, whileHeldBeforeDelete } from './lifecycle.ts';
import { type AsSeen, asSeen, type FleetPod } from './pods.ts';
import type { FleetScene } from './scene.ts';
import type { Intention, WriteReason } from './steps.ts';

/** The change of a pod as a step; empty when it changes nothing. */
export function writes({ pod }: FleetPod, why: WriteReason, change: PodChange): readonly Intention[] {
  const all = changeWrites(change);
  return all.length > 0 ? [{ kind: 'writePod', pod: asSeen(pod), why, writes: all }] : [];
}

/** CS-35, LC-40, LC-53, AS-42: the pod is deleted with these PVCs, or is held first. */
export function deletion(
  { strategy, now }: Pick<FleetScene, 'strategy' | 'now'>,
  pod: FleetPod,
  claims: readonly AsSeen[] = [],
): readonly Intention[] {
  const { lifecycle } = strategy;
  switch (beforeDelete(pod.pod, lifecycle)) {
    case 'delete':
      return [{ kind: 'deletePod', pod: asSeen(pod.pod), claims }];
    case 'prepare':
      return writes(pod, 'prepareDelete', enter('PreparingDelete', pod.pod, lifecycle, now));
    case 'wait': {
      const change = whileHeldBeforeDelete(pod.pod, lifecycle, now);
      return change ? writes(pod, 'prepareDelete', change) : [];
    }
  }
}

/** CS-10: pods that the selector no longer selects are released. */
export function releases({ metadata }: KubeObject, strays: readonly Pod[]): readonly Intention[] {
  const ownerReferences = [{ $patch: 'delete', uid: metadata.uid }];
  const patch = { metadata: { ownerReferences } };
  return strays.map((pod) => ({
    kind: 'writePod',
    pod: asSeen(pod),
    why: 'release',
    writes: [{ kind: 'pod', patch }],
  }));
}

/** The workload becomes the controller of these pods. */
export function adoptions(resource: Resource, owner: KubeObject, pods: readonly Pod[]): readonly Intention[] {
  const patch = { metadata: { ownerReferences: [{ ...controllerReference(resource, owner) }] } };
  return pods.map((pod) => ({ kind: 'adoptPod', pod: asSeen(pod), patch }));
}
