/**
 * Images that are pulled ahead of the update of a DaemonSet (AD-50, AD-51): for every type of update, and for the first revision as
 * well. That is decided once for each revision, and recorded on it; the update does not wait for it.
 */
import { countOf } from '../../api/base/int-or-percent.ts';
import { daemonSetDefault } from '../../api/daemon-set/types.ts';
import { preDownloadMark, preDownloadSettings } from '../../api/fleet/pre-download.ts';
import { asSeen, isOfRevision } from '../fleet/pods.ts';
import { imagesBeside, imagesOf, jobFor, withoutJobs } from '../fleet/pre-download.ts';
import { aheadJobName, type ChangedImage } from '../fleet/prefetch.ts';
import type { Intention } from '../fleet/steps.ts';
import type { DaemonSetScene } from './scene.ts';

/** What to do about the jobs, and what to record on the revision. */
export function planPreDownload(scene: DaemonSetScene): readonly Intention[] {
  const { input, revisions, strategy, isUndo } = scene;
  const { update, steps } = revisions;
  const { labels = {} } = update.metadata;
  const { pullJobs = [] } = input;
  const isDecided = preDownloadMark.created in labels || preDownloadMark.ignored in labels;
  if (isRolledOut(scene) && (isDecided || !isOn(scene))) return withoutJobs(pullJobs);
  // A revision that is being written has to be read again first.
  if (isDecided || !isOn(scene) || isUndo || strategy.isOnDelete || steps.length > 0) return [];

  const revision = asSeen(update);
  const marks = (mark: keyof typeof preDownloadMark) => ({ metadata: { labels: { [preDownloadMark[mark]]: 'true' } } });
  if (isOneBatch(scene)) return [{ kind: 'patchRevision', revision, patch: marks('ignored') }];
  const settings = preDownloadSettings(scene.owner, scene.replicas);
  const there = new Set(pullJobs.map(({ metadata }) => metadata.name));
  const jobs = newImages(scene)
    .filter((changed) => !there.has(aheadJobName(update, changed)))
    .map((changed) => jobFor(scene, changed, settings));
  return jobs.length > 0
    ? [{ kind: 'preDownload', jobs, revision, marks: marks('created') }]
    : [{ kind: 'patchRevision', revision, patch: marks('created') }];
}

function isOn({ input }: DaemonSetScene): boolean {
  const { PreDownloadImageForDaemonSetUpdate, KruiseDaemon, ImagePullJobGate } = input.gates;
  return PreDownloadImageForDaemonSetUpdate && KruiseDaemon && ImagePullJobGate;
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

/** The images that any of the older revisions does not have; all of the first revision. */
function newImages({ revisions: { all, update } }: DaemonSetScene): readonly ChangedImage[] {
  const older = all.filter(({ metadata }) => metadata.name !== update.metadata.name);
  if (older.length === 0) return imagesOf(update);
  const changed = older.flatMap((revision) => imagesBeside(update, revision));
  return imagesOf(update).filter(({ container }) => changed.some((one) => one.container === container));
}
