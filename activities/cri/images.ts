import { referenceOf } from '../../api/core/familiar-image.ts';
import type { NodeRef } from '../../api/core/refs.ts';
import { findTag, type NodeImage, type PullSecretRef } from '../../api/node-image/types.ts';
import { type Attempt, type Clock, Heartbeats, stoppingFailure, unlessCancelled } from './attempt.ts';
import { bytesText, type ImageRuntime, type PullBytes } from './image-runtime.ts';
import { attempted, type PullRun, pullOnce, runtimeReferenceOf, succeeded, unreachable } from './pull.ts';
import type { PullActivities, PullInput, PullProgress, PullResult } from './pull-contract.ts';
import type { Keyring, PullSecret } from './registry-credentials.ts';
import { CriError } from './runtime.ts';

/** Pulls in progress, by reference. */
export interface SharedPulls {
  /**
   * Joins the pull of this reference, or begins one when a slot is free. Without `share`, a pull that another operation
   * began is waited for, and then a new one follows. The same operation always joins its own pull when it comes back.
   */
  join(
    reference: string,
    who: { readonly operation: string; readonly share: boolean },
    begin: (run: PullRun) => Promise<PullResult>,
  ): PullAttachment;
}

/** A caller's view of a pull. */
export interface PullAttachment {
  readonly outcome: Promise<PullResult>;
  /** Whether it has a slot. */
  hasBegun(): boolean;
  /** Its progress; undefined while unknown. */
  bytes(): PullBytes | undefined;
  /** Stops waiting. A pull without callers is abandoned a moment later. */
  leave(): void;
}

/** The node's own credentials for registries, besides the Secrets that a NodeImage names (NP-13). */
export interface NodeCredentials {
  /**
   * Never fails: errors are reported in `troubles`, without secrets. `repository` has the registry's host and no tag.
   */
  find(repository: string): Promise<FoundCredentials>;
  /** The registry refused these credentials: cached ones are dropped. */
  forget(repository: string): void;
}

/** Credentials for one image; equally specific ones are tried in this order. */
export interface FoundCredentials {
  readonly keyrings: readonly Keyring[];
  readonly troubles: readonly string[];
  /** Whether a part comes from a cache. */
  readonly remembered: boolean;
}

/** The progress of one pull. */
export interface PullReport extends Pick<PullInput, 'nodeImage' | 'image' | 'version'> {
  readonly bytes: PullBytes;
  readonly elapsedSeconds: number;
}

export interface ImageActivityMeans {
  /** The runtime that pulls, or why there is none. */
  readonly runtime: () => ImageRuntime | undefined;
  readonly noRuntime: () => string;
  /** Undefined when there is no NodeImage of this UID. Throws a failure for Temporal. */
  readonly readNodeImage: (nodeImage: NodeRef) => Promise<NodeImage | undefined>;
  /**
   * Undefined when it does not exist, or is in another namespace than the one for copies (SEC-8). Throws a failure for
   * Temporal.
   */
  readonly readSecret: (secret: PullSecretRef) => Promise<PullSecret | 'denied' | undefined>;
  readonly nodeCredentials: NodeCredentials;
  /** Free bytes where images are stored; undefined when unknown. */
  readonly freeBytes: (folder: string) => Promise<number | undefined>;
  readonly pulls: SharedPulls;
  /** Records the progress of a pull on the NodeImage. Returns at once, and is called more often than it writes. */
  readonly report: (progress: PullReport) => void;
  readonly clock: Pick<Clock, 'monotonicMs'>;
  readonly attempt: () => Attempt<PullProgress>;
  /** Aborts when this worker shuts down. */
  readonly stopping: AbortSignal;
}

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
