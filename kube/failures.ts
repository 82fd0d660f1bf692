import { ApplicationFailure, CancelledFailure, TemporalFailure } from '@temporalio/common';
import { type FailureType, finalFailureTypes } from '../api/core/failure.ts';

/** One detail of a refusal, as the API server's Status object lists them under `details.causes`. */
export interface StatusCause {
  readonly reason?: string;
  readonly message?: string;
  /** `metadata.uid`, `spec.containers[0].name` */
  readonly field?: string;
}

/** The parts of an API server's answer that decide what happens next. */
export interface Refusal {
  /** The HTTP status; 0 when there was no complete answer: network, TLS, deadline, truncated body. */
  readonly status: number;
  /** The server's own message. The request is kept separately. */
  readonly message: string;
  /** What is passed on instead where the server's message may contain a secret. */
  readonly told?: string;
  readonly reason?: string;
  readonly causes?: readonly StatusCause[];
  readonly retryAfterSeconds?: number;
  /** `GET /api/v1/pods`: without query and headers, so that no secret gets into a log. */
  readonly request?: string;
}

/** A call to the API server that failed. Its type says what happens next. */
export class KubeError extends Error {
  override readonly name = 'KubeError';
  readonly status: number;
  readonly type: FailureType;
  readonly reason: string | undefined;
  readonly causes: readonly StatusCause[];
  readonly retryAfterSeconds: number | undefined;
  readonly request: string | undefined;

  constructor(refusal: Refusal) {
    super(refusal.told ?? refusal.message);
    this.status = refusal.status;
    this.type = failureType(refusal);
    this.reason = refusal.reason;
    this.causes = refusal.causes ?? [];
    this.retryAfterSeconds = refusal.retryAfterSeconds;
    this.request = refusal.request;
  }
}

/** The error for a request without an answer, or with an incomplete one. */
export function noAnswer(request: string, message: string, reason?: string): KubeError {
  return new KubeError({ status: 0, message, request, ...(reason !== undefined && { reason }) });
}

/** The error for an HTTP answer of 300 and above; `retryAfter` is the header of that name. */
export function toKubeError(request: string, status: number, body: string, retryAfter?: string): KubeError {
  const seconds = retryAfter !== undefined && /^\d+$/.test(retryAfter) ? Number(retryAfter) : undefined;
  const answer = parseStatus(body);
  if (answer) {
    const refused = refusalOf(answer, status, seconds);
    // The server may quote the object that it refuses, but not where it refused for a missing right without looking at
    // it.
    const isQuoted = /\/secrets(\/|$)/.test(request) && !wantOfRight.test(refused.message);
    return new KubeError({ ...refused, request, ...(isQuoted && { told: withoutValues(refused) }) });
  }

  // Proxies, and the mux when a CRD is missing, answer with text or HTML; its first line is used.
  const message = body.trim().split('\n', 1)[0]?.slice(0, 200) || 'no reason given';
  return new KubeError({
    status,
    message: `${message} (HTTP ${status})`,
    request,
    ...(seconds !== undefined && { retryAfterSeconds: seconds }),
  });
}

/** The error for a watch event of type ERROR. */
export function watchError(request: string, object: unknown): KubeError {
  if (!isStatus(object)) return noAnswer(request, 'the watch ended with an error without a message');
  return new KubeError({ ...refusalOf(object, object.code ?? 0, undefined), request });
}

/** True when the object no longer exists, or another one has its name. */
export function isGone(error: unknown): boolean {
  return error instanceof KubeError && error.type === 'Superseded';
}

/** True when an object of this name already exists. */
export function isAlreadyExists(error: unknown): boolean {
  return error instanceof KubeError && error.reason === 'AlreadyExists';
}

// Failures of activities travel as payloads, which are small; schema errors can be pages long.
const longestMessage = 1000;

/**
 * The failure with which an activity ends because of `error`: message "attempted: why", type by the error table,
 * non-retryable where a retry cannot help. Cancellation stays cancellation, and a failure is returned unchanged.
 */
export function toFailure(error: unknown, attempted: string): TemporalFailure {
  if (error instanceof TemporalFailure) return error;
  if (error instanceof KubeError) {
    const delaySeconds = retryDelaySeconds(error);
    return ApplicationFailure.create({
      message: shorten(`${attempted}: ${error.message}`),
      type: error.type,
      nonRetryable: finalFailureTypes.includes(error.type),
      ...(delaySeconds !== undefined && { nextRetryDelay: delaySeconds * 1000 }),
    });
  }
  if ((error as Partial<Error> | null | undefined)?.name === 'AbortError')
    return new CancelledFailure(`${attempted}: cancelled`);

  const bug = error instanceof Error ? error : new Error(String(error));
  return ApplicationFailure.create({ message: shorten(`${attempted}: ${bug.message}`), type: bug.name, cause: bug });
}

/** How long the server asked to wait; one second where it does not say how long. */
function retryDelaySeconds(error: KubeError): number | undefined {
  if (error.type === 'Throttled' || error.type === 'Held') return error.retryAfterSeconds ?? 1;
  return error.retryAfterSeconds;
}

/** The error table of the project. */
function failureType({ status, message, reason, causes = [] }: Refusal): FailureType {
  if (status === 500 && tooLargeToStore.test(message)) return 'Invalid';
  if (status === 0 || status >= 500 || status === 408) return 'Unreachable';
  switch (status) {
    case 401:
      return 'Denied';
    case 403:
      if (notReadyToJudge.test(message)) return 'Unreachable';
      if (refusedByUnavailableBudget(message)) return 'Held';
      return verdict.test(message) ? 'Invalid' : 'Denied';
    case 404:
      // Without a Status the path is unknown, not the object: the CRD is not installed (yet).
      return reason === 'NotFound' ? 'Superseded' : 'Unreachable';
    case 409:
      return uidPrecondition.test(message) ? 'Superseded' : 'Conflict';
    case 410:
      return 'Conflict'; // the requested version was compacted: list again
    case 422:
      if (causes.some((cause) => cause.field === 'metadata.uid')) return 'Superseded';
      return message === patchDoesNotFit ? 'Conflict' : 'Invalid';
    case 429:
      return causes.some((cause) => cause.reason === 'DisruptionBudget') ? 'Held' : 'Throttled';
    default:
      return 'Invalid';
  }
}

// An API server that has just started serves before it has read its roles and before admission is ready, and refuses
// every call. The built-in roles exist in every cluster: an error that misses them means that the server is not ready.
const notReadyToJudge =
  /clusterrole\.rbac\.authorization\.k8s\.io "system:[^"]+" not found|not yet ready to handle request/;

// From the authorizer, which knows neither body nor object: `secrets "pull" is forbidden: User "x" cannot get
// resource`.
const wantOfRight = /^\S+(?: "[^"]*")? is forbidden: User "/;

// From a webhook or an admission policy about this object. Both may answer with 403, the code of a missing right.
const verdict = /\badmission webhook "[^"]*" denied the request\b|AdmissionPolicy '[^']*' with binding '[^']*' denied/;

// PUB-37. RBAC's own refusals name the resource in the plural, and do not match.
function refusedByUnavailableBudget(message: string): boolean {
  return /\bpodunavailablebudget\.policy\.kruise\.io "|couldn't update PodUnavailableBudget /.test(message);
}

// Of a delete, and of an apply; the server reports both as conflicts.
const uidPrecondition = /\bthe UID in the precondition\b|\buid mismatch\b/;

// From etcd, and from the server's etcd client: an object over 1.5 or 2 MiB. A retry cannot help.
const tooLargeToStore = /\betcdserver: request is too large\b|\btrying to send message larger than max\b/;

// The server's only message when a JSON patch does not apply: its `test` failed, or a path does not exist (any more).
const patchDoesNotFit = 'the server rejected our request due to an error in our request';

/** The fields of the API server's Status object that are used. */
interface Status {
  readonly kind: 'Status';
  readonly message?: string;
  readonly reason?: string;
  readonly code?: number;
  readonly details?: { readonly causes?: readonly StatusCause[]; readonly retryAfterSeconds?: number };
}

function isStatus(value: unknown): value is Status {
  return typeof value === 'object' && value !== null && 'kind' in value && value.kind === 'Status';
}

function parseStatus(body: string): Status | undefined {
  try {
    const value: unknown = JSON.parse(body);
    return isStatus(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function refusalOf(answer: Status, status: number, retryAfterSeconds: number | undefined): Refusal {
  const wait = retryAfterSeconds ?? answer.details?.retryAfterSeconds;
  return {
    status,
    message: answer.message || answer.reason || `HTTP ${status}`,
    ...(answer.reason !== undefined && { reason: answer.reason }),
    ...(answer.details?.causes && { causes: answer.details.causes }),
    ...(wait !== undefined && wait > 0 && { retryAfterSeconds: wait }),
  };
}

function withoutValues({ status, reason, causes = [] }: Refusal): string {
  const fields = causes.flatMap(({ field, reason }) => (field ? [`${field} (${reason ?? 'refused'})`] : []));
  return [`${reason ?? 'refused'} (HTTP ${status})`, ...fields].join(', ');
}

function shorten(message: string): string {
  return message.length <= longestMessage ? message : `${message.slice(0, longestMessage - 1)}…`;
}
