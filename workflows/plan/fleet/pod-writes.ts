/** Changes of pods as steps. */
import type { KubeObject, Resource } from '../../../api/core/meta.ts';
import type { Pod } from '../../../api/core/pod.ts';
import { controllerReference } from '../../../api/core/refs.ts';
import { changeWrites, type PodChange } from './lifecycle.ts';
import { asSeen, type FleetPod } from './pods.ts';
import type { Intention, WriteReason } from './steps.ts';

/** The change of a pod as a step; empty when it changes nothing. */
export function writes({ pod }: FleetPod, why: WriteReason, change: PodChange): readonly Intention[] {
  const all = changeWrites(change);
  return all.length > 0 ? [{ kind: 'writePod', pod: asSeen(pod), why, writes: all }] : [];
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
