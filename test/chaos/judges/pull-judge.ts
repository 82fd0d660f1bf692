// The verdict about pulls, from what the witnesses say: the log of the registry, the events and the list of the runtime,
// and every version of our own objects. Pure, so that the judge can be judged.
import { findCondition } from '../../../api/core/conditions.ts';
import type { ImagePullJob } from '../../../api/image-pull-job/types.ts';
import { type ImageTagStatus, outcomeOf } from '../../../api/node-image/types.ts';
import type { RegistryCall } from '../../support/test-registry.ts';
import type { Judge } from './judge.ts';

/** What is known about one image on one node, on which it was not before. */
export interface PullEvidence {
  /** `registry:5000/app:1@node-1` */
  readonly subject: string;
  /** What the node asked the registry for. */
  readonly calls: readonly RegistryCall[];
  /** Since when the runtime has it, by its own word. */
  readonly arrivedAtMs?: number | undefined;
  /** The runtime lists it now, and it is the right one. */
  readonly isListed: boolean;
  /** The registry may be asked again whether there is a newer one. */
  readonly always: boolean;
  /** What the NodeImage said of it, oldest first. */
  readonly statuses: readonly { readonly seenAtMs: number; readonly status: ImageTagStatus }[];
}

/** Everything about one image on one node that is not as promised. */
export const pullViolations: Judge<PullEvidence> = (evidence) => {
  const { subject, arrivedAtMs, isListed } = evidence;
  const found = [
    ...(arrivedAtMs === undefined ? ['never came to the node'] : []),
    ...(isListed ? [] : ['is not on the node now']),
    ...(evidence.calls.some(({ what, end }) => what === 'layer' && end?.whole) ? [] : ['never left the registry']),
    ...twiceAtOnce(evidence.calls),
    ...inVain(evidence),
    ...statusViolations(evidence),
  ];
  return found.map((text) => `${subject} ${text}`);
};

/** A pull asks for its manifest first and for its layer last, so whoever asks while a layer is under way is another one. */
function twiceAtOnce(calls: readonly RegistryCall[]): readonly string[] {
  return calls
    .filter(({ what }) => what === 'layer')
    .flatMap((layer) =>
      calls
        .filter((call) => call !== layer && call.beganAtMs > layer.beganAtMs)
        .filter(({ beganAtMs }) => layer.end === undefined || beganAtMs < layer.end.atMs)
        .map(({ what }) => `was pulled twice at once: its ${what} was asked for while its layer was under way`),
    );
}

function inVain({ calls, arrivedAtMs, always }: PullEvidence): readonly string[] {
  if (arrivedAtMs === undefined) return [];
  return calls
    .filter(({ beganAtMs }) => beganAtMs > arrivedAtMs)
    .filter(({ what }) => what === 'layer' || !always)
    .map(({ what, beganAtMs }) => `was there, and its ${what} was asked for ${beganAtMs - arrivedAtMs} ms later`);
}

function statusViolations({ statuses, arrivedAtMs = Number.POSITIVE_INFINITY }: PullEvidence): readonly string[] {
  const last = statuses.at(-1);
  const ended = statuses.findIndex(({ status }) => outcomeOf(status) !== undefined);
  const early = statuses.filter(({ seenAtMs, status }) => status.phase === 'Succeeded' && seenAtMs < arrivedAtMs);
  const reopened = ended < 0 ? [] : statuses.slice(ended).filter(({ status }) => outcomeOf(status) === undefined);
  return [
    ...(last && outcomeOf(last.status) === 'Succeeded' ? [] : [`ends as ${JSON.stringify(last?.status)}`]),
    ...(early.length > 0 ? ['was said to be there before it was'] : []),
    ...(reopened.length > 0 ? [`was over, and then ${reopened[0]?.status.phase}`] : []),
    ...(statuses.some(({ status }) => status.phase === 'Failed') ? ['was said to have failed'] : []),
    ...(statuses.some(({ status }) => (status.version ?? 0) > 0) ? ['was asked of the node a second time'] : []),
  ];
}

/** Everything about a job that is not as promised, from all of its versions, oldest first. */
export function jobViolations(
  versions: readonly ImagePullJob[],
  expected: { readonly nodes: number; readonly parallelism: number },
): readonly string[] {
  const last = versions.at(-1);
  if (last === undefined) return ['a job was never there'];
  const { metadata, status } = last;
  const { nodes, parallelism } = expected;
  const counts = [status?.desired, status?.succeeded, status?.failed, status?.active];
  const ends = new Set(versions.flatMap(({ status: then }) => then?.completionTime ?? []));
  const least = versions.map(({ status: then }) => then?.succeeded ?? 0);
  const found = [
    ...(status?.completionTime === undefined ? [`has not completed: ${JSON.stringify(status)}`] : []),
    ...(counts.join() === [nodes, nodes, 0, 0].join() ? [] : [`counts ${counts.join()}`]),
    ...(status?.message === 'job has completed' ? [] : [`says "${status?.message}"`]),
    ...(findCondition(status?.conditions, 'Complete')?.status === 'True' ? [] : ['lacks condition Complete']),
    ...(status?.waitingFor ? [`still waits for ${status.waitingFor.reason}`] : []),
    ...((metadata.finalizers ?? []).length > 0 ? [`holds finalizers ${metadata.finalizers?.join()}`] : []),
    ...(ends.size > 1 ? ['completed twice'] : []),
    ...(least.some((count, index) => count < (least[index - 1] ?? 0)) ? ['lost a node that had succeeded'] : []),
    ...(versions.some(({ status: then }) => (then?.failed ?? 0) > 0) ? ['counted a node as failed'] : []),
    ...(versions.some(({ status: then }) => (then?.active ?? 0) > parallelism)
      ? [`had more than ${parallelism} nodes pull at once`]
      : []),
  ];
  return found.map((text) => `job ${metadata.name} (${last.spec.image}) ${text}`);
}
