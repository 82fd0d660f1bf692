import { ApplicationFailure } from '@temporalio/common';
import { referenceOf } from '../../api/familiar-image.ts';
import { findTag, imageEntry, type NodeImage, type PullSecretRef } from '../../api/node-image.ts';
import type { NodeRef } from '../../api/refs.ts';
import { shortened } from '../../workflows/plan/size.ts';
import { type Attempt, type Clock, Heartbeats, stoppingFailure, unlessCancelled } from './attempt.ts';
import { type ImageRuntime, PullError, type RegistryAuth } from './image-runtime.ts';
import type { PullActivities, PullInput, PullProgress, PullResult } from './pull-contract.ts';
import { credentialsFor, type Keyring, keyringOf, MalformedSecret, type PullSecret } from './registry-credentials.ts';
import { CriError } from './runtime.ts';

/** Pulls that are under way, each under its reference. */
export interface SharedPulls {
  /**
   * Joins the pull of this reference, or begins one when there is none and its turn has come. Without `share` a pull that
   * somebody else began is waited for, and then another one follows. The same operation, coming back, always joins.
   */
  join(
    reference: string,
    who: { readonly operation: string; readonly share: boolean },
    begin: (run: PullRun) => Promise<PullResult>,
  ): PullAttachment;
}

/** A pull as it sees itself. */
export interface PullRun {
  /** Aborts when nobody wants it any more. */
  readonly signal: AbortSignal;
}

/** A pull as one of those sees it who wait for it. */
export interface PullAttachment {
  readonly outcome: Promise<PullResult>;
  /** Whether its turn has come. */
  hasBegun(): boolean;
  /** Waits no longer. A pull that everybody has left is abandoned a moment later. */
  leave(): void;
}

export interface ImageActivityMeans {
  /** The runtime that pulls, or why there is none. */
  readonly runtime: () => ImageRuntime | undefined;
  readonly noRuntime: () => string;
  /** Undefined when there is none of this UID. Fails with a failure of an activity. */
  readonly readNodeImage: (nodeImage: NodeRef) => Promise<NodeImage | undefined>;
  /** Undefined when it is not there, or may not be read (SEC-8). Fails with a failure of an activity. */
  readonly readSecret: (secret: PullSecretRef) => Promise<PullSecret | undefined>;
  /** Bytes left where images are kept; undefined when nobody can tell. */
  readonly freeBytes: (folder: string) => Promise<number | undefined>;
  readonly pulls: SharedPulls;
  readonly clock: Pick<Clock, 'monotonicMs'>;
  readonly attempt: () => Attempt<PullProgress>;
  /** Aborts when this worker ends. */
  readonly stopping: AbortSignal;
}

/** With less than this left, a pull is not begun: it would only take the rest from what runs. */
export const leastFreeBytes = 64 * 1024 * 1024;

/** The annotation by which a runtime can tell these pulls from the kubelet's (NP-12). */
const pulledBy = { 'apps.kruise.io/pulling-image-by': 'kruise-daemon' } as const;

/** Messages travel through Temporal and into a status, both of which want them short. */
const longestMessageBytes = 600;

/** The daemon's hands on the images of its node. */
export function imageActivities(means: ImageActivityMeans): PullActivities {
  return {
    async 'node.v1.pullImage'(input) {
      const attempt = means.attempt();
      const { image, always } = input;
      const reference = referenceOf(image);
      const startedAtMs = means.clock.monotonicMs();
      let reason: PullProgress['reason'] = 'Looking';
      const beats = new Heartbeats<PullProgress>(attempt, () => ({
        reason,
        image: reference,
        elapsedSeconds: Math.floor((means.clock.monotonicMs() - startedAtMs) / 1_000),
      }));
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

        const pull = means.pulls.join(reference, { operation: attempt.operation, share: !always }, ({ signal }) =>
          pullOnce(means, runtime, input, nodeImage, signal),
        );
        const look = setInterval(() => {
          reason = pull.hasBegun() ? 'Pulling' : 'Waiting';
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
    return await runtime.imageId(referenceOf(input.image));
  } catch (error) {
    if (error instanceof CriError) throw unreachable(input, `${error.call} of ${runtime.name}: ${error.message}`);
    throw error;
  }
}

/** One pull from beginning to end: what speaks against it first, then one credential after the other (NP-13). */
async function pullOnce(
  means: ImageActivityMeans,
  runtime: ImageRuntime,
  input: PullInput,
  nodeImage: NodeImage,
  signal: AbortSignal,
): Promise<PullResult> {
  const { image, timeoutSeconds } = input;
  const reference = referenceOf(image);
  const entry = imageEntry(nodeImage.spec, image.name);
  const endsAtMs = means.clock.monotonicMs() + timeoutSeconds * 1_000;

  const full = await fullDisk(means, runtime);
  if (full !== undefined) return failed(new PullError('diskFull', full), false);
  let credentials: readonly RegistryAuth[];
  try {
    credentials = credentialsFor(reference, await keyrings(means, entry?.pullSecrets ?? []));
  } catch (error) {
    if (!(error instanceof MalformedSecret)) throw error;
    return failed(new PullError('authentication', error.message), false);
  }

  let last = new PullError('timeout', `there was no answer within ${timeoutSeconds}s`);
  for (const auth of credentials.length === 0 ? [undefined] : credentials) {
    const timeoutMs = endsAtMs - means.clock.monotonicMs();
    if (timeoutMs <= 0) break;
    try {
      const id = await runtime.pullImage({
        reference,
        ...(auth && { auth }),
        labels: entry?.sandboxConfig?.labels ?? {},
        annotations: { ...entry?.sandboxConfig?.annotations, ...pulledBy },
        timeoutMs,
        signal,
      });
      return succeeded(input, (await runtime.imageId(reference).catch(() => undefined)) ?? id, true);
    } catch (error) {
      if (!(error instanceof PullError)) throw error;
      if (error.failure === 'runtimeUnreachable') {
        throw unreachable(input, `PullImage of ${runtime.name}: ${error.message}`);
      }
      last = error;
      if (error.failure !== 'authentication' && error.failure !== 'notFound') break;
    }
  }
  return failed(last, credentials.length > 0);
}

async function fullDisk(means: ImageActivityMeans, runtime: ImageRuntime): Promise<string | undefined> {
  try {
    const folder = await runtime.imageFolder();
    const free = folder === undefined ? undefined : await means.freeBytes(folder);
    if (free === undefined || free >= leastFreeBytes) return undefined;
    const [left, least] = [free, leastFreeBytes].map((bytes) => `${Math.floor(bytes / 1024 / 1024)} MiB`);
    return `only ${left} are left in ${folder}, and a pull is begun with ${least} at least`;
  } catch (error) {
    if (error instanceof CriError) return undefined; // the pull itself will tell better
    throw error;
  }
}

async function keyrings(means: ImageActivityMeans, refs: readonly PullSecretRef[]): Promise<readonly Keyring[]> {
  const secrets = await Promise.all(
    refs.map(async (ref) => ({
      name: `${ref.namespace ?? ''}/${ref.name ?? ''}`,
      secret: await means.readSecret(ref),
    })),
  );
  return secrets.flatMap(({ name, secret }) => (secret === undefined ? [] : [keyringOf(name, secret)]));
}

function succeeded({ image }: PullInput, id: string, pulled: boolean): PullResult {
  return { kind: 'succeeded', imageId: `${image.name}@${id}`, pulled };
}

/**
 * What no further attempt can mend is final: an image that does not exist, a reference that no registry takes, and
 * credentials that were refused. Who was refused without any may still be given some (SEC-4).
 */
function failed(error: PullError, hadCredentials: boolean): PullResult {
  const { failure } = error;
  const isFinal = failure === 'notFound' || failure === 'invalid' || (failure === 'authentication' && hadCredentials);
  return { kind: 'failed', failure, final: isFinal, message: shortened(error.message, longestMessageBytes) };
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

function unreachable(input: PullInput, why: string): ApplicationFailure {
  return ApplicationFailure.create({ type: 'Unreachable', message: `${attempted(input)}: ${why}` });
}

function attempted({ image }: PullInput): string {
  return `Cannot pull image "${referenceOf(image)}"`;
}
