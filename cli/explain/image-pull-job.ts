import { findCondition } from '../../api/core/conditions.ts';
import { pullOnNodesId } from '../../api/image-pull-job/operation.ts';
import { pullJobCondition } from '../../api/image-pull-job/texts.ts';
import { type ImagePullJob, imagePullJobs, isFinished } from '../../api/image-pull-job/types.ts';
import type { Explainer, HelpfulCommand } from './explanation.ts';
import { askEngine, distinct, mayRun, steeringCommands, stuckCommands } from './operations.ts';
import { readObject, staleNotes, waitIn } from './read.ts';

/** ImagePullJobs: their counts, the nodes that failed, and the workflow that hands out the nodes. */
export const imagePullJobExplainer: Explainer = {
  versions: [imagePullJobs, { ...imagePullJobs, version: 'v1alpha1' }],
  shortNames: [],
  explain: async (asked, means) => {
    const job = await readObject<ImagePullJob>(means.kube, asked);
    const { namespace = '', name } = job.metadata;
    const operation = await askEngine(pullOnNodesId(job.metadata), means);
    const waits = isFinished(job) ? [] : waitIn(job.status);
    const isSteered = !isFinished(job) && mayRun(operation);
    const effects = {
      pause: 'lets no further node pull',
      retry: 'lets nodes pull again that have failed',
      abort: 'ends the job; nodes that pull stop',
    };
    const isPaused = findCondition(job.status?.conditions, pullJobCondition.paused)?.status === 'True';
    const annotate = `-n ${namespace} annotate imagepulljob ${name}`;
    return {
      kind: imagePullJobs.kind,
      namespace,
      name,
      summary: summaryOf(job),
      waits,
      steps: (job.status?.failedNodes ?? []).map((node) => ({ step: `pull on ${node}`, state: 'Failed', detail: '' })),
      operation,
      commands: distinct([
        ...waits.flatMap(({ reason, blockedBy }) => [
          ...nodeCommands(blockedBy),
          ...(reason === 'EngineStuck' ? stuckCommands(operation.workflowId, means) : []),
        ]),
        ...nodeCommands((job.status?.failedNodes ?? []).map((node) => `node/${node}`)),
        ...(isSteered ? steeringCommands(operation, means, { isPaused, effects, annotate }) : []),
      ]),
      notes: staleNotes(job),
    };
  },
};

function summaryOf({ spec, status }: ImagePullJob): string {
  const { desired = 0, active = 0, succeeded = 0, failed = 0, conditions, message = '' } = status ?? {};
  const counts = `${spec.image} is on ${succeeded} of ${desired} nodes, ${active} pull, ${failed} failed`;
  const end = ['Complete', 'Failed'].find((type) => findCondition(conditions, type)?.status === 'True');
  return end === undefined ? counts : `${end}: ${message}; ${counts}`;
}

/** The first node in the way says itself what its pull waits for. */
function nodeCommands(blockedBy: readonly string[]): readonly HelpfulCommand[] {
  const [kind, node] = blockedBy[0]?.split('/') ?? [];
  if (node === undefined || (kind !== 'node' && kind !== 'nodeimage')) return [];
  return [{ command: `kubectl kruise explain nodeimage/${node}`, effect: `explains what ${node} pulls` }];
}
