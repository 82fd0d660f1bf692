import { ApplicationFailure, CancelledFailure, TemporalFailure } from '@temporalio/common';
import { type FailureType, finalFailureTypes } from '../api/core/failure.ts';

/** One detail of a refusal, as the API server's Status object lists them under `details.causes`. */
export interface StatusCause {
  readonly reason?: string;
  readonly message?: string;
  /** `metadata.uid`, `spec.containers[0].name` */
  readonly field?: string;
}

/** What the API server answered, as far as it decides what happens next. */
export interface Refusal {
  /** The HTTP status; 0 when there was no answer: network, TLS, deadline, half an answer. */
  readonly status: number;
  /** Why, in the server's words and without the request, which is kept apart. */
  readonly message: string;
  /** What is passed on instead, where the server's words may hold a secret. */
  readonly told?: string;
  readonly reason?: string;
  readonly causes?: readonly StatusCause[];
  readonly retryAfterSeconds?: number;
  /** `GET /api/v1/pods`. Neither query nor headers, so that nothing secret gets into a log. */
  readonly request?: string;
}

/** A call to the API server that did not succeed. Its type says what happens next. */
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

/** The error for a request that got no answer at all, or not a whole one. */
export function noAnswer(request: string, message: string, reason?: string): KubeError {
  return new KubeError({ status: 0, message, request, ...(reason !== undefined && { reason }) });
}

/** The error that an HTTP answer of 300 and above stands for; `retryAfter` is the header of that name. */
export function toKubeError(request: string, status: number, body: string, retryAfter?: string): KubeError {
  const seconds = retryAfter !== undefined && /^\d+$/.test(retryAfter) ? Number(retryAfter) : undefined;
  const answer = parseStatus(body);
  if (answer) {
    const refused = refusalOf(answer, status, seconds);
    // The server likes to quote the object that it refuses, but not where it has not looked at it for want of a right.
    const isQuoted = /\/secrets(\/|$)/.test(request) && !wantOfRight.test(refused.message);
    return new KubeError({ ...refused, request, ...(isQuoted && { told: withoutValues(refused) }) });
  }

  // Proxies and the mux behind a missing CRD answer with text or HTML; its first line has to do.
  const message = body.trim().split('\n', 1)[0]?.slice(0, 200) || 'no reason given';
  return new KubeError({
    status,
    message: `${message} (HTTP ${status})`,
    request,
    ...(seconds !== undefined && { retryAfterSeconds: seconds }),
  });
}

/** The error that an event of type ERROR in a watch stands for. */
export function watchError(request: string, object: unknown): KubeError {
  if (!isStatus(object)) return noAnswer(request, 'the watch ended with an error without a message');
  return new KubeError({ ...refusalOf(object, object.code ?? 0, undefined), request });
}

/** True when the object is no longer there, or another one stands under its name. */
export function isGone(error: unknown): boolean {
  return error instanceof KubeError && error.type === 'Superseded';
}

/** True when an object of this name exists already, so that it cannot be created. */
export function isAlreadyExists(error: unknown): boolean {
  return error instanceof KubeError && error.reason === 'AlreadyExists';
}

// An activity's failure travels as a payload, which is small by contract; refusals of a schema can run to pages.
const longestMessage = 1000;

/**
 * The failure with which an activity ends because of `error`: "attempted: why", typed by the error table, final where
 * no further attempt can help. Cancellation stays cancellation, and a failure that is one already is returned as is.
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

/** How long the server asked to wait; a second where it asks to wait without saying how long. */
function retryDelaySeconds(error: KubeError): number | undefined {
  if (error.type === 'Throttled' || error.type === 'Held') return error.retryAfterSeconds ?? 1;
  return error.retryAfterSeconds;
}

/** The error table of the project, in one place. */
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
      // Without a Status the path is unknown, not the object: a CRD that is not installed (yet).
      return reason === 'NotFound' ? 'Superseded' : 'Unreachable';
    case 409:
      return uidPrecondition.test(message) ? 'Superseded' : 'Conflict';
    case 410:
      return 'Conflict'; // The version asked for is compacted away: list again.
    case 422:
      if (causes.some((cause) => cause.field === 'metadata.uid')) return 'Superseded';
      return message === patchDoesNotFit ? 'Conflict' : 'Invalid';
    case 429:
      return causes.some((cause) => cause.reason === 'DisruptionBudget') ? 'Held' : 'Throttled';
    default:
      return 'Invalid';
  }
}

// A server that has just started serves before it has read its roles and before admission is ready, and refuses everybody.
// The built-in roles are in every cluster, so one that misses them knows nothing yet.
const notReadyToJudge =
  /clusterrole\.rbac\.authorization\.k8s\.io "system:[^"]+" not found|not yet ready to handle request/;

// Of an authorizer, which knows neither body nor object: `secrets "pull" is forbidden: User "x" cannot get resource`.
const wantOfRight = /^\S+(?: "[^"]*")? is forbidden: User "/;

// Of a webhook or a policy, on the very object: the same code as a missing right, which is theirs to choose.
const verdict = /\badmission webhook "[^"]*" denied the request\b|AdmissionPolicy '[^']*' with binding '[^']*' denied/;

// PUB-37. RBAC's own refusals name the resource, in the plural, and so do not match.
function refusedByUnavailableBudget(message: string): boolean {
  return /\bpodunavailablebudget\.policy\.kruise\.io "|couldn't update PodUnavailableBudget /.test(message);
}

// Of a delete, and of an apply; both are conflicts in the eyes of the server.
const uidPrecondition = /\bthe UID in the precondition\b|\buid mismatch\b/;

// Of etcd, and of the server's client of it: an object over 1.5 or 2 MiB, which no further attempt makes smaller.
const tooLargeToStore = /\betcdserver: request is too large\b|\btrying to send message larger than max\b/;

// All that the server says when a JSON patch does not fit: its `test` failed, or a path is not there (any more).
const patchDoesNotFit = 'the server rejected our request due to an error in our request';

/** The API server's own form of a refusal. */
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
