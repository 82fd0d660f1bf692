/**
 * The controller of ImageListPullJobs: it creates a job for each image, counts the jobs, and deletes them with the
 * list.
 */

import {
  type ImageListPullJob,
  type ImagePullJob,
  imageListPullJobs,
  imagePullJobs,
  isFinished,
} from '../../../api/image-pull-job/types.ts';
import type { Controller, ControllerContext } from '../../controller.ts';
import { operationState } from '../../operation-state.ts';
import { jobsByList, type ListPassDependencies, listsOfJob, passOverList } from './pass.ts';

/** Ensures that each list has its jobs. */
export function imageListPullJobRunner(context: ControllerContext): Controller {
  const { kube, config, now, isLeading, cache, queue } = context;
  const lists = cache<ImageListPullJob>(imageListPullJobs);
  const jobs = cache<ImagePullJob>(imagePullJobs, { [jobsByList]: listsOfJob });
  const isOn = config.featureGates.KruiseDaemon && config.featureGates.ImagePullJobGate;
  const world: ListPassDependencies = { kube, lists, jobs, isOn, now };
  const passes = queue('image-list-pull-jobs', (uid) => passOverList(uid, world));

  lists.onChange(({ before, after }) => {
    const uid = (after ?? before)?.metadata.uid;
    if (uid !== undefined && isLeading()) passes.add(uid);
  });
  jobs.onChange(({ before, after }) => {
    if (!isLeading()) return;
    for (const job of [before, after]) for (const uid of job ? listsOfJob(job) : []) passes.add(uid);
  });
  return {
    wantAll() {
      for (const { metadata } of lists.all()) passes.add(metadata.uid);
    },
    operations: () => ({
      kind: imageListPullJobs.kind,
      states: [...lists.all()].map((list) => operationState(isFinished(list) ? 'Completed' : 'Pulling', undefined)),
    }),
  };
}
