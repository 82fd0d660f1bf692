import { ApplicationFailure } from '@temporalio/common';
import { sameJson } from '../../api/base/json.ts';
import { type FamiliarImage, referenceOf } from '../../api/core/familiar-image.ts';
import { normalizedImage } from '../../api/core/image-reference.ts';
import type { NodeRef } from '../../api/core/refs.ts';
import { findTag, imageEntry, type NodeImage, type PullSecretRef } from '../../api/node-image/types.ts';
import { mostImageSecrets } from '../../api/node-image/validate.ts';
import { shortened } from '../../workflows/plan/text-size.ts';
import { type Attempt, type Clock, Heartbeats, stoppingFailure, unlessCancelled } from './attempt.ts';
import { bytesText, type ImageRuntime, type PullBytes, PullError, type RegistryAuth } from './image-runtime.ts';
import type { PullActivities, PullInput, PullProgress, PullResult } from './pull-contract.ts';
import { whyOf } from './refusals.ts';
import {
  credentialsFor,
  type Keyring,
  keyringOf,
  MalformedSecret,
  type PullSecret,
  repositoryOf,
} from './registry-credentials.ts';
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
  /** Says how far it is, to all who wait for it. */
  readonly tell: (bytes: PullBytes) => void;
}

/** A pull as one of those sees it who wait for it. */
export interface PullAttachment {
  readonly outcome: Promise<PullResult>;
  /** Whether its turn has come. */
  hasBegun(): boolean;
  /** How far it is; undefined while nobody knows. */
  bytes(): PullBytes | undefined;
  /** Waits no longer. A pull that everybody has left is abandoned a moment later. */
  leave(): void;
}

/** What a node has for registries by itself, beside the Secrets that a NodeImage names (NP-13). */
export interface NodeCredentials {
  /**
   * Never fails: what could not be had is told in `troubles`, in words without a secret. `repository` has the registry's
   * host and no tag.
   */
  find(repository: string): Promise<FoundCredentials>;
  /** What was found was refused: nothing of it is answered from memory any more. */
  forget(repository: string): void;
}

/** Credentials for one image, in the order in which they are tried where they are equally close. */
export interface FoundCredentials {
  readonly keyrings: readonly Keyring[];
  readonly troubles: readonly string[];
  /** Some were answered from memory. */
  readonly remembered: boolean;
}

/** How far one pull of a node is. */
export interface PullReport extends Pick<PullInput, 'nodeImage' | 'image' | 'version'> {
  readonly bytes: PullBytes;
  readonly elapsedSeconds: number;
}

export interface ImageActivityMeans {
  /** The runtime that pulls, or why there is none. */
  readonly runtime: () => ImageRuntime | undefined;
  readonly noRuntime: () => string;
  /** Undefined when there is none of this UID. Fails with a failure of an activity. */
  readonly readNodeImage: (nodeImage: NodeRef) => Promise<NodeImage | undefined>;
  /** Undefined when it is not there, or in a namespace of others (SEC-8). Fails with a failure of an activity. */
  readonly readSecret: (secret: PullSecretRef) => Promise<PullSecret | 'denied' | undefined>;
  readonly nodeCredentials: NodeCredentials;
  /** Bytes left where images are kept; undefined when nobody can tell. */
  readonly freeBytes: (folder: string) => Promise<number | undefined>;
  readonly pulls: SharedPulls;
  /** Says on the NodeImage how far a pull is. Returns at once, and is called more often than it writes. */
  readonly report: (progress: PullReport) => void;
  readonly clock: Pick<Clock, 'monotonicMs'>;
  readonly attempt: () => Attempt<PullProgress>;
  /** Aborts when this worker ends. */
  readonly stopping: AbortSignal;
}

/** How often the runtime is asked how far a pull is. */
const lookMs = 3_000;

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

/**
 * One pull from beginning to end: what speaks against it first, then one credential after the other (NP-13). The node's own
 * are asked for when those of Secrets have not done it, and only where there are none at all is it tried without.
 */
async function pullOnce(
  means: ImageActivityMeans,
  runtime: ImageRuntime,
  input: PullInput,
  nodeImage: NodeImage,
  { signal, tell }: PullRun,
): Promise<PullResult> {
  const { image, timeoutSeconds } = input;
  const reference = runtimeReferenceOf(image);
  const entry = imageEntry(nodeImage.spec, image.name);
  const endsAtMs = means.clock.monotonicMs() + timeoutSeconds * 1_000;

  const full = await fullDisk(means, runtime);
  if (full !== undefined) return failed(new PullError('diskFull', full), false);
  let named: readonly RegistryAuth[];
  let denied: readonly string[];
  try {
    const read = await keyringsOf(means, entry?.pullSecrets ?? []);
    named = credentialsFor(reference, read.keyrings);
    denied = read.denied;
  } catch (error) {
    if (!(error instanceof MalformedSecret)) throw error;
    return failed(new PullError('authentication', error.message), false);
  }

  const byNamed = await tryEach(named);
  if (byNamed !== undefined && !mayBeForWantOfRights(byNamed)) return ending(byNamed, true);
  const repository = repositoryOf(reference) ?? '';
  const {
    keyrings: found,
    troubles: onNode,
    remembered,
  } = await findOnNode(means.nodeCredentials, repository, signal, leftMs());
  const own = credentialsFor(reference, found).filter((auth) => !named.some((other) => sameJson(other, auth)));
  const byOwn = (await tryEach(own)) ?? byNamed ?? (await tryEach([undefined])) ?? silent();
  if (!mayBeForWantOfRights(byOwn)) return ending(byOwn, true);
  if (own.length > 0) means.nodeCredentials.forget(repository);
  // what was remembered may have been withdrawn since, a plugin may do better the next time, and a right may come
  const troubles = [...denied, ...onNode];
  const mayDoBetter = remembered || troubles.length > 0;
  const why = troubles.length > 0 ? [shortened(byOwn.message, longestMessageBytes / 2), ...troubles] : [byOwn.message];
  const told = new PullError(byOwn.failure, why.join('; '));
  return failed(told, named.length + own.length > 0, mayDoBetter);

  /** Until one works, or fails for another reason than rights; undefined when there is none. */
  async function tryEach(auths: readonly (RegistryAuth | undefined)[]): Promise<PulledImage | PullError | undefined> {
    let last: PullError | undefined;
    for (const auth of auths) {
      const timeoutMs = leftMs();
      if (timeoutMs <= 0) return last ?? silent();
      const watch = watched(runtime, reference, tell);
      try {
        const id = await runtime.pullImage({
          reference,
          ...(auth && { auth }),
          labels: entry?.sandboxConfig?.labels ?? {},
          annotations: { ...entry?.sandboxConfig?.annotations, ...pulledBy },
          timeoutMs,
          signal,
        });
        return { id: (await runtime.imageId(reference).catch(() => undefined)) ?? id };
      } catch (error) {
        if (!(error instanceof PullError)) throw error;
        if (error.failure === 'runtimeUnreachable') {
          throw unreachable(input, `PullImage of ${runtime.name}: ${error.message}`);
        }
        last = error;
        if (!mayBeForWantOfRights(error)) return error;
      } finally {
        watch.end();
      }
    }
    return last;
  }

  function ending(outcome: PulledImage | PullError, hadCredentials: boolean): PullResult {
    return outcome instanceof PullError ? failed(outcome, hadCredentials) : succeeded(input, outcome.id, true);
  }

  function silent(): PullError {
    return new PullError('timeout', `there was no answer within ${timeoutSeconds}s`);
  }

  function leftMs(): number {
    return endsAtMs - means.clock.monotonicMs();
  }
}

/** Tells how far a pull is, every few seconds, one look at a time. */
function watched(runtime: ImageRuntime, reference: string, tell: PullRun['tell']): { readonly end: () => void } {
  const watch = runtime.watchPull(reference);
  let isLooking = false;
  const look = async (): Promise<void> => {
    if (isLooking) return;
    isLooking = true;
    try {
      const bytes = await watch.look();
      if (bytes !== undefined) tell(bytes);
    } finally {
      isLooking = false;
    }
  };
  const timer = setInterval(() => void look(), lookMs);
  return {
    end() {
      clearInterval(timer);
      watch.end();
    },
  };
}

interface PulledImage {
  readonly id: string;
}

/** Registries tell people without rights that there is no such image. */
function mayBeForWantOfRights(outcome: PulledImage | PullError): outcome is PullError {
  return outcome instanceof PullError && (outcome.failure === 'authentication' || outcome.failure === 'notFound');
}

/** Waits no longer for it than the pull has, or is wanted. */
async function findOnNode(
  credentials: NodeCredentials,
  repository: string,
  signal: AbortSignal,
  withinMs: number,
): Promise<FoundCredentials> {
  const troubles = ['the credentials of the node were not received in time'];
  const late: FoundCredentials = { keyrings: [], troubles, remembered: false };
  const { promise, resolve } = Promise.withResolvers<FoundCredentials>();
  const giveUp = () => resolve(late);
  const timer = setTimeout(giveUp, Math.max(0, withinMs));
  signal.addEventListener('abort', giveUp);
  if (signal.aborted) giveUp();
  try {
    return await Promise.race([credentials.find(repository), promise]);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', giveUp);
  }
}

async function fullDisk(means: ImageActivityMeans, runtime: ImageRuntime): Promise<string | undefined> {
  try {
    const folder = await runtime.imageFolder();
    const free = folder === undefined ? undefined : await means.freeBytes(folder);
    if (free === undefined || free >= leastFreeBytes) return undefined;
    const [left, least] = [free, leastFreeBytes].map((bytes) => `${Math.floor(bytes / 1024 / 1024)} MiB`);
    return `only ${left} are free in ${folder}, and a pull needs at least ${least}`;
  } catch (error) {
    if (error instanceof CriError) return undefined; // the pull itself will tell better
    throw error;
  }
}

/**
 * What the Secrets hold, of those named last where there are too many, and which of them the API server does not let us read
 * for now.
 */
async function keyringsOf(means: ImageActivityMeans, refs: readonly PullSecretRef[]) {
  const secrets = await Promise.all(
    refs.slice(-mostImageSecrets).map(async (ref) => ({
      name: `${ref.namespace ?? ''}/${ref.name ?? ''}`,
      secret: await means.readSecret(ref),
    })),
  );
  const keyrings: Keyring[] = [];
  const denied: string[] = [];
  for (const { name, secret } of secrets) {
    if (secret === 'denied')
      denied.push(`the daemon is not allowed to read Secret "${name}": grant it get on that Secret`);
    else if (secret !== undefined) keyrings.push(keyringOf(name, secret));
  }
  return { keyrings, denied };
}

function succeeded({ image }: PullInput, id: string, pulled: boolean): PullResult {
  return { kind: 'succeeded', imageId: shortened(`${image.name}@${id}`, longestMessageBytes), pulled };
}

/**
 * What no further attempt can mend is final: an image that does not exist, a reference that no registry takes, and
 * credentials that were refused. Who was refused without any may still be given some (SEC-4), and those of the node may be
 * others the next time.
 */
function failed(error: PullError, hadCredentials: boolean, mayDoBetter = false): PullResult {
  const { failure } = error;
  const isRefused = failure === 'notFound' || (failure === 'authentication' && hadCredentials);
  const isFinal = failure === 'invalid' || (isRefused && !mayDoBetter);
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
  return ApplicationFailure.create({ type: 'Unreachable', message: `${attempted(input)}: ${whyOf(why)}` });
}

/**
 * The whole reference, with its registry: a runtime may be told to look for short names elsewhere, and would show that
 * registry the credentials of docker.io.
 */
function runtimeReferenceOf(image: FamiliarImage): string {
  return normalizedImage(referenceOf(image));
}

function attempted({ image }: PullInput): string {
  return `Cannot pull image "${referenceOf(image)}"`;
}
