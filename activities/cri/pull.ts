/** One pull of an image: credentials, attempts, and the meaning of its result. */

import { ApplicationFailure } from '@temporalio/common';
import { sameJson } from '../../api/base/json.ts';
import { type FamiliarImage, referenceOf } from '../../api/core/familiar-image.ts';
import { normalizedImage } from '../../api/core/image-reference.ts';
import type { NodeRef } from '../../api/core/refs.ts';
import { imageEntry, type NodeImage, type PullSecretRef } from '../../api/node-image/types.ts';
import { mostImageSecrets } from '../../api/node-image/validate.ts';
import { shortened } from '../../plan/text-size.ts';
import type { Attempt, Clock } from './attempt.ts';
import { type ImageRuntime, type PullBytes, PullError, type RegistryAuth } from './image-runtime.ts';
import type { PullInput, PullProgress, PullResult } from './pull-contract.ts';
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

/** The progress of one pull. */
export interface PullReport extends Pick<PullInput, 'nodeImage' | 'image' | 'version'> {
  readonly bytes: PullBytes;
  readonly elapsedSeconds: number;
}

/** Credentials for one image; equally specific ones are tried in this order. */
export interface FoundCredentials {
  readonly keyrings: readonly Keyring[];
  readonly troubles: readonly string[];
  /** Whether a part comes from a cache. */
  readonly remembered: boolean;
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

/** A running pull's view of its callers. */
export interface PullRun {
  /** Aborts when no caller is left. */
  readonly signal: AbortSignal;
  /** Reports the progress to all callers. */
  readonly tell: (bytes: PullBytes) => void;
}

/** How often the runtime is asked for the progress. */
const lookMs = 3_000;

/** With less free space than this no pull begins: it would only use up what the running ones need. */
export const leastFreeBytes = 64 * 1024 * 1024;

/** The annotation that distinguishes these pulls from the kubelet's (NP-12). */
const pulledBy = { 'apps.kruise.io/pulling-image-by': 'kruise-daemon' } as const;

/** Messages are stored in Temporal and in a status, which both limit their size. */
const longestMessageBytes = 600;

/** The inputs of one pull. */
interface Pull {
  readonly means: ImageActivityMeans;
  readonly runtime: ImageRuntime;
  readonly input: PullInput;
  /** The image with its registry. */
  readonly reference: string;
  /** The image's entry in the NodeImage. */
  readonly entry: ReturnType<typeof imageEntry>;
  readonly endsAtMs: number;
  readonly run: PullRun;
}

/**
 * One complete pull: first its preconditions, then one credential after the other (NP-13). The node's own credentials
 * are used when those of the Secrets fail; an anonymous pull is tried only when there are no credentials at all.
 */
export async function pullOnce(
  means: ImageActivityMeans,
  runtime: ImageRuntime,
  input: PullInput,
  nodeImage: NodeImage,
  run: PullRun,
): Promise<PullResult> {
  const reference = runtimeReferenceOf(input.image);
  const entry = imageEntry(nodeImage.spec, input.image.name);
  const endsAtMs = means.clock.monotonicMs() + input.timeoutSeconds * 1_000;
  const pull: Pull = { means, runtime, input, reference, entry, endsAtMs, run };

  const full = await fullDisk(means, runtime);
  if (full !== undefined) return failed(new PullError('diskFull', full), false);
  const secrets = await keyringsOf(means, entry?.pullSecrets ?? []);
  if (secrets instanceof MalformedSecret) return failed(new PullError('authentication', secrets.message), false);

  const named = credentialsFor(reference, secrets.keyrings);
  const byNamed = await tryEach(named, pull);
  if (byNamed !== undefined && !mayBeForWantOfRights(byNamed)) return ending(byNamed, input);
  const repository = repositoryOf(reference) ?? '';
  const found = await findOnNode(means.nodeCredentials, repository, run.signal, leftMs(pull));
  const own = credentialsFor(reference, found.keyrings).filter((auth) => !named.some((other) => sameJson(other, auth)));
  const byOwn = (await tryEach(own, pull)) ?? byNamed ?? (await tryEach([undefined], pull)) ?? silent(input);
  if (!mayBeForWantOfRights(byOwn)) return ending(byOwn, input);
  if (own.length > 0) means.nodeCredentials.forget(repository);
  // a cached credential may be revoked by now, a plugin may recover, and a right may be granted
  const troubles = [...secrets.denied, ...found.troubles];
  const mayDoBetter = found.remembered || troubles.length > 0;
  const why = troubles.length > 0 ? [shortened(byOwn.message, longestMessageBytes / 2), ...troubles] : [byOwn.message];
  return failed(new PullError(byOwn.failure, why.join('; ')), named.length + own.length > 0, mayDoBetter);
}

/**
 * Tries credentials until one works, or fails for another reason than missing rights; undefined when there are none.
 */
async function tryEach(
  auths: readonly (RegistryAuth | undefined)[],
  pull: Pull,
): Promise<PulledImage | PullError | undefined> {
  let last: PullError | undefined;
  for (const auth of auths) {
    const timeoutMs = leftMs(pull);
    if (timeoutMs <= 0) return last ?? silent(pull.input);
    const outcome = await tryOne(auth, timeoutMs, pull);
    if (!mayBeForWantOfRights(outcome)) return outcome;
    last = outcome;
  }
  return last;
}

async function tryOne(
  auth: RegistryAuth | undefined,
  timeoutMs: number,
  { runtime, input, reference, entry, run }: Pull,
): Promise<PulledImage | PullError> {
  const watch = watched(runtime, reference, run.tell);
  try {
    const id = await runtime.pullImage({
      reference,
      ...(auth && { auth }),
      labels: entry?.sandboxConfig?.labels ?? {},
      annotations: { ...entry?.sandboxConfig?.annotations, ...pulledBy },
      timeoutMs,
      signal: run.signal,
    });
    return { id: (await runtime.imageId(reference).catch(() => undefined)) ?? id };
  } catch (error) {
    if (!(error instanceof PullError)) throw error;
    if (error.failure === 'runtimeUnreachable') {
      throw unreachable(input, `PullImage of ${runtime.name}: ${error.message}`);
    }
    return error;
  } finally {
    watch.end();
  }
}

function ending(outcome: PulledImage | PullError, input: PullInput): PullResult {
  return outcome instanceof PullError ? failed(outcome, true) : succeeded(input, outcome.id, true);
}

function silent({ timeoutSeconds }: PullInput): PullError {
  return new PullError('timeout', `there was no answer within ${timeoutSeconds}s`);
}

function leftMs({ endsAtMs, means }: Pull): number {
  return endsAtMs - means.clock.monotonicMs();
}

/** Reports the progress of a pull every few seconds, one call at a time. */
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

/** Registries answer "not found" to clients without rights. */
function mayBeForWantOfRights(outcome: PulledImage | PullError): outcome is PullError {
  return outcome instanceof PullError && (outcome.failure === 'authentication' || outcome.failure === 'notFound');
}

/** Does not wait longer than the pull may last, or is wanted. */
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
    if (error instanceof CriError) return undefined; // the pull itself gives a better error
    throw error;
  }
}

/**
 * The content of the Secrets, of the last ones named where there are too many, and which of them cannot be read for
 * lack of rights.
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
  try {
    for (const { name, secret } of secrets) {
      if (secret === 'denied')
        denied.push(`the daemon is not allowed to read Secret "${name}": grant it get on that Secret`);
      else if (secret !== undefined) keyrings.push(keyringOf(name, secret));
    }
  } catch (error) {
    if (error instanceof MalformedSecret) return error;
    throw error;
  }
  return { keyrings, denied };
}

export function succeeded({ image }: PullInput, id: string, pulled: boolean): PullResult {
  return { kind: 'succeeded', imageId: shortened(`${image.name}@${id}`, longestMessageBytes), pulled };
}

/**
 * A failure that retrying cannot fix is final: an image that does not exist, an invalid reference, and refused
 * credentials. A refused anonymous pull is not final, because credentials may be added (SEC-4), nor one with the node's
 * own credentials, which may change.
 */
function failed(error: PullError, hadCredentials: boolean, mayDoBetter = false): PullResult {
  const { failure } = error;
  const isRefused = failure === 'notFound' || (failure === 'authentication' && hadCredentials);
  const isFinal = failure === 'invalid' || (isRefused && !mayDoBetter);
  return { kind: 'failed', failure, final: isFinal, message: shortened(error.message, longestMessageBytes) };
}

export function unreachable(input: PullInput, why: string): ApplicationFailure {
  return ApplicationFailure.create({ type: 'Unreachable', message: `${attempted(input)}: ${whyOf(why)}` });
}

/**
 * The whole reference, with its registry: a runtime may be configured to look up short names elsewhere, and would send
 * the credentials of docker.io to that registry.
 */
export function runtimeReferenceOf(image: FamiliarImage): string {
  return normalizedImage(referenceOf(image));
}

export function attempted({ image }: PullInput): string {
  return `Cannot pull image "${referenceOf(image)}"`;
}
