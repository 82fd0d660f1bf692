import { findCondition } from '../../api/core/conditions.ts';
import { isControlledBy } from '../../api/core/refs.ts';
import {
  type ImageListPullJob,
  type ImagePullJob,
  imageListPullJobs,
  imagePullJobs,
  isFinished,
} from '../../api/image-pull-job/types.ts';
import { listAll, readingInto } from '../reads.ts';
import type { Explainer } from './explanation.ts';
import { readObject, staleNotes, waitIn } from './read.ts';

/** ImageListPullJobs: the state of each of their jobs, which have workflows of their own. */
export const imageListPullJobExplainer: Explainer = {
  versions: [imageListPullJobs, { ...imageListPullJobs, version: 'v1alpha1' }],
  shortNames: [],
  explain: async (asked, means) => {
    const list = await readObject<ImageListPullJob>(means.kube, asked);
    const { namespace = '', name } = list.metadata;
    const notes: string[] = [];
    const ofNamespace = await readingInto(notes)('the ImagePullJobs of the list', [], () =>
      listAll<ImagePullJob>(means.kube, imagePullJobs, { namespace }),
    );
    const jobs = ofNamespace.filter((job) => isControlledBy(list, job));
    const open = jobs.filter((job) => !isFinished(job));
    const { desired = 0, completed = 0, succeeded = 0, conditions } = list.status ?? {};
    const end = ['Complete', 'Failed'].find((type) => findCondition(conditions, type)?.status === 'True');
    return {
      kind: imageListPullJobs.kind,
      namespace,
      name,
      summary: `${end === undefined ? '' : `${end}: `}${succeeded} of ${desired} images are on every node, ${completed} have ended`,
      waits: isFinished(list) ? [] : waitIn(list.status),
      steps: [...open, ...jobs.filter(isFinished)].map((job) => ({
        step: job.spec.image,
        state: isFinished(job) ? 'Ended' : (job.status?.waitingFor?.reason ?? 'Pending'),
        detail: `${job.metadata.name}: ${job.status?.succeeded ?? 0} of ${job.status?.desired ?? 0} nodes`,
      })),
      commands: open.slice(0, 1).map(({ metadata, spec }) => ({
        command: `kubectl kruise -n ${namespace} explain imagepulljob/${metadata.name}`,
        effect: `explains the job of ${spec.image}; commands are given to the jobs`,
      })),
      notes: [...staleNotes(list), ...notes],
    };
  },
};
