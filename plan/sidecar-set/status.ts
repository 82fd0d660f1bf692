import type { Pod } from '../../api/core/pod.ts';
import { currentContent } from '../../api/sidecar-set/injection/choose.ts';
import type { SidecarSet, SidecarSetStatus } from '../../api/sidecar-set/types.ts';
import { keptMissed } from './missing.ts';
import { isConsistent, isSidecarReady, recordedHash } from './pods.ts';

/** What the status of a SidecarSet is computed from. */
export interface SidecarSetFacts {
  /** The pods that it manages. */
  readonly pods: readonly Pod[];
  readonly latestRevision: string;
  readonly collisionCount: number;
}

/** The status of a SidecarSet (SCS §3). */
export function sidecarSetStatus(set: SidecarSet, facts: SidecarSetFacts): SidecarSetStatus {
  const { whole } = currentContent(set).hashes;
  const updated = facts.pods.filter((pod) => recordedHash(pod, set.metadata.name) === whole);
  const ready = new Set(facts.pods.filter((pod) => isConsistent(set, pod) && isSidecarReady(set, pod)));
  return {
    observedGeneration: Math.max(set.metadata.generation ?? 0, set.status?.observedGeneration ?? 0),
    matchedPods: facts.pods.length,
    updatedPods: updated.length,
    readyPods: ready.size,
    updatedReadyPods: updated.filter((pod) => ready.has(pod)).length,
    latestRevision: facts.latestRevision,
    collisionCount: facts.collisionCount,
    ...keptMissed(set.status),
  };
}
