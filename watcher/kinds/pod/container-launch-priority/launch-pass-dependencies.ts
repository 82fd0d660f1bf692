import type { LaunchBarrier } from '../../../../api/container-launch-priority.ts';
import type { Pod } from '../../../../api/core/pod.ts';
import type { Cache } from '../../../../kube/cache.ts';
import type { KubeWriter } from '../../../../kube/fence.ts';

export interface LaunchPassDependencies {
  readonly kube: KubeWriter;
  readonly pods: Pick<Cache<Pod>, 'byUid'>;
  readonly barriers: Pick<Cache<LaunchBarrier>, 'byName' | 'byIndex' | 'seen'>;
  readonly now: () => number;
  /** UIDs of pods for which the Event that admission has missed them was written. */
  readonly reportedMissed: Set<string>;
}
