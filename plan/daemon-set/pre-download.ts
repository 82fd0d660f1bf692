/**
 * Images that are pulled ahead of the update of a DaemonSet (AD-50, AD-51): for every type of update, and for the first revision as
 * well. That is decided once for each revision, and recorded on it; the update waits for it only where that is asked for.
 */
import { countOf } from '../../api/base/int-or-percent.ts';
import { daemonSetDefault } from '../../api/daemon-set/types.ts';
import { preDownloadMark, preDownloadSettings } from '../../api/fleet/pre-download.ts';
import { isOfRevision } from '../fleet/pods.ts';
import { aheadSteps, isAwaited, prefetchOf, withoutJobs } from '../fleet/pre-download.ts';
import type { UpdateDemand } from '../fleet/scene.ts';
import type { Intention } from '../fleet/steps.ts';
import type { DaemonSetScene } from './scene.ts';

/** What to do about the jobs, and what to record on the revision. */
export function planPreDownload(scene: DaemonSetScene, { left }: UpdateDemand): readonly Intention[] {
  const { input, revisions, strategy, isUndo, ahead } = scene;
  const { labels = {} } = revisions.update.metadata;
  const isDecided = preDownloadMark.created in labels || preDownloadMark.ignored in labels;
  if (isRolledOut(scene) && (isDecided || !ahead.isOn)) return withoutJobs(input.pullJobs ?? []);
  // A revision that is being written has to be read again first.
  if (!ahead.isOn || isUndo || strategy.isOnDelete || revisions.steps.length > 0) return [];

  const prefetch = left > 0 ? prefetchOf(scene) : undefined;
  const isWorthwhile = isAwaited(prefetch) || !isOneBatch(scene);
  return aheadSteps(scene, {
    prefetch,
    decision: isDecided ? undefined : isWorthwhile ? 'created' : 'ignored',
    settings: preDownloadSettings(scene.owner, scene.replicas),
  });
}

/** Every node that should run a pod has one of the newest revision. */
function isRolledOut({ places, revisions }: DaemonSetScene): boolean {
  const running = places.filter(({ eligibility }) => eligibility === 'runs');
  return running.every(({ pods: [pod] }) => pod !== undefined && isOfRevision(pod, revisions.update.metadata.name));
}

/** All nodes may go at once, so that images pulled ahead would help none of them. */
function isOneBatch({ rollingUpdate, partition, replicas }: DaemonSetScene): boolean {
  const maxUnavailable = rollingUpdate.maxUnavailable ?? daemonSetDefault.maxUnavailable;
  return partition === 0 && (countOf(maxUnavailable, replicas, 'up') ?? 0) >= replicas;
}
