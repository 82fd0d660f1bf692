import { referenceOf } from '../../api/core/familiar-image.ts';
import { findTag } from '../../api/node-image/types.ts';
import { Heartbeats, stoppingFailure, unlessCancelled } from './attempt.ts';
import { bytesText, type ImageRuntime, type PullBytes } from './image-runtime.ts';
import { attempted, type ImageActivityMeans, pullOnce, runtimeReferenceOf, succeeded, unreachable } from './pull.ts';
import type { PullActivities, PullInput, PullProgress, PullResult } from './pull-contract.ts';
import { CriError } from './runtime.ts';

/** The activities on the images of a node. */
export function imageActivities(means: ImageActivityMeans): PullActivities {
  return {
    async 'node.v1.pullImage'(input) {
      const attempt = means.attempt();
      const { image, always } = input;
      const reference = runtimeReferenceOf(image);
      const startedAtMs = means.clock.monotonicMs();
      let reason: PullProgress['reason'] = 'Looking';
      let bytes: PullBytes | undefined;
      const beats = new Heartbeats<PullProgress>(attempt, () => {
        const elapsedSeconds = Math.floor((means.clock.monotonicMs() - startedAtMs) / 1_000);
        if (bytes !== undefined) means.report({ ...input, bytes, elapsedSeconds });
        return { reason, image: referenceOf(image), elapsedSeconds, ...(bytes && { fetched: bytesText(bytes) }) };
      });
      try {
        const runtime = means.runtime();
        if (runtime === undefined) throw unreachable(input, means.noRuntime());
        const [nodeImage, present] = await Promise.all([
          means.readNodeImage(input.nodeImage),
          always ? undefined : presentId(runtime, input),
        ]);
        const tag = nodeImage && findTag(nodeImage, image.name, image.tag);
        if (nodeImage === undefined || tag === undefined || (tag.version ?? 0) !== input.version) {
          return { kind: 'superseded' };
        }
        if (present !== undefined) return succeeded(input, present, false);

        const pull = means.pulls.join(reference, { operation: attempt.operation, share: !always }, (run) =>
          pullOnce(means, runtime, input, nodeImage, run),
        );
        const look = setInterval(() => {
          reason = pull.hasBegun() ? 'Pulling' : 'Waiting';
          bytes = pull.bytes();
        }, 200);
        try {
          return await unlessCancelled(attempt, unlessStopping(means.stopping, input, pull.outcome));
        } finally {
          clearInterval(look);
          pull.leave();
        }
      } finally {
        beats.stop();
      }
    },
  };
}

async function presentId(runtime: ImageRuntime, input: PullInput): Promise<string | undefined> {
  try {
    return await runtime.imageId(runtimeReferenceOf(input.image));
  } catch (error) {
    if (error instanceof CriError) throw unreachable(input, `${error.call} of ${runtime.name}: ${error.message}`);
    throw error;
  }
}

async function unlessStopping(stopping: AbortSignal, input: PullInput, outcome: Promise<PullResult>) {
  const stopped = Promise.withResolvers<never>();
  const stop = () => stopped.reject(stoppingFailure(attempted(input)));
  stopping.addEventListener('abort', stop);
  if (stopping.aborted) stop();
  try {
    return await Promise.race([outcome, stopped.promise]);
  } finally {
    stopping.removeEventListener('abort', stop);
  }
}
