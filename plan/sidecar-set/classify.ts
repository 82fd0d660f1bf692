// Where each managed pod of a SidecarSet stands towards a target (SCS-150, SCS-151, SCS-153, SCS-190).

import { labelMatcher } from '../../api/core/label-selector.ts';
import type { Pod } from '../../api/core/pod.ts';
import type { SidecarContent } from '../../api/sidecar-set/types.ts';
import { consistencyOf, isSidecarReady, namesInPod, recordedHash, recordedRevision } from './pods.ts';
import { firstImmutableDifference, isAtGoal, type SidecarTarget } from './target.ts';

export type PodPlace =
  /** It has the content of the target; during an undo any content but the one that is taken back. */
  | { readonly kind: 'updated' }
  /** `updateStrategy.selector` does not select it. */
  | { readonly kind: 'notSelected' }
  /** More than images differ. `path`: the first such field; absent: the content of the pod is not stored any more. */
  | { readonly kind: 'notUpgradable'; readonly path?: string }
  /** The kubelet has not finished an earlier update of these containers (SCS-151). */
  | { readonly kind: 'inProgress'; readonly containers: readonly string[] }
  | { readonly kind: 'waiting' };

export interface ClassifiedPod {
  readonly pod: Pod;
  readonly place: PodPlace;
  /** SCS-153. */
  readonly isSidecarReady: boolean;
  /** SCS-190, of all sidecars of the SidecarSet. */
  readonly isConsistent: boolean;
  /** Until when it counts as being started or updated; absent when it is done, or something is wrong with it. */
  readonly startingUntilMs?: number;
}

/**
 * The managed pods with their places, in the order given. `contentOf` gives the content of a ControllerRevision by its name;
 * it is asked once about each.
 */
export function classifyPods(
  target: SidecarTarget,
  managed: readonly Pod[],
  contentOf: (revision: string) => SidecarContent | undefined,
): readonly ClassifiedPod[] {
  const names = (target.content.containers ?? []).flatMap(namesInPod);
  const sidecars = new Set(names);
  const isSelected = selectedBy(target.strategy);
  const paths = new Map<string, string | undefined>();
  const pathFrom = (revision: string) => {
    if (!paths.has(revision)) {
      const content = contentOf(revision);
      paths.set(revision, content && firstImmutableDifference(content, target.content));
    }
    return paths.get(revision);
  };
  const placeOf = (pod: Pod, areConsistent: Consistency): PodPlace => {
    if (isAtGoal(target, pod)) return { kind: 'updated' };
    if (!isSelected(pod)) return { kind: 'notSelected' };
    if (!isUpgradable(target, pod)) {
      const path = pathFrom(recordedRevision(pod, target.setName) ?? '');
      return { kind: 'notUpgradable', ...(path !== undefined && { path }) };
    }
    const containers = inProgress(names, pod, areConsistent);
    return containers.length > 0 ? { kind: 'inProgress', containers } : { kind: 'waiting' };
  };
  return managed.map((pod) => {
    const areConsistent = consistencyOf(pod, [target.setName]);
    return {
      pod,
      place: placeOf(pod, areConsistent),
      isSidecarReady: isSidecarReady({ spec: target.content }, pod),
      isConsistent: areConsistent((name) => sidecars.has(name)),
    };
  });
}

type Consistency = ReturnType<typeof consistencyOf>;

/** Whether nothing but images differs between the pod and the target (SCS-151). */
export function isUpgradable({ setName, hashes }: SidecarTarget, pod: Pod): boolean {
  return recordedHash(pod, setName, 'withoutImage') === hashes.withoutImage;
}

/** The sidecars of a pod that are Ready while the kubelet has not finished their update (SCS-151). */
export function containersInProgress({ setName, content }: SidecarTarget, pod: Pod): readonly string[] {
  return inProgress((content.containers ?? []).flatMap(namesInPod), pod, consistencyOf(pod, [setName]));
}

function inProgress(names: readonly string[], { status }: Pod, areConsistent: Consistency): readonly string[] {
  const ready = new Set((status?.containerStatuses ?? []).flatMap((state) => (state.ready ? [state.name] : [])));
  return names.filter((name) => ready.has(name) && !areConsistent((container) => container === name));
}

/** A strategy without selector selects all pods, one with a malformed selector none (SCS-150). */
function selectedBy({ selector }: SidecarTarget['strategy']): (pod: Pod) => boolean {
  if (selector === undefined) return () => true;
  const matches = labelMatcher(selector);
  return ({ metadata }) => matches?.(metadata.labels) ?? false;
}
