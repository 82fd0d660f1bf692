import { isJsonObject, type JsonObject } from '../../api/base/json.ts';
import { causeOf, describeErrors, type FieldError } from '../../api/core/field-error.ts';
import type { FieldValidation } from '../../kube/client.ts';
import { type Answer, failure, isTooDeep, MalformedBody, type Route } from '../server/server.ts';
import { patchOf } from './patch.ts';

/** AdmissionReviews: the API server's request, parsed once, and the verdict in its format. */

export type AdmissionOperation = 'CREATE' | 'UPDATE' | 'DELETE' | 'CONNECT';

export interface AdmissionRequest {
  readonly uid: string;
  readonly operation: AdmissionOperation;
  readonly kind: { readonly group: string; readonly kind: string };
  /** Empty for the object itself. */
  readonly subResource: string;
  /** Empty for cluster-scoped objects. */
  readonly namespace: string;
  /** Empty while the API server has not generated one yet, and for each object of a `deletecollection`. */
  readonly name: string;
  readonly dryRun: boolean;
  /** What the client asks to do about unknown fields. */
  readonly fieldValidation: FieldValidation;
  /** The user who calls the API server, as the API server reports it. */
  readonly user: string;
  /** Absent on DELETE. */
  readonly object?: JsonObject;
  /** Absent on CREATE. */
  readonly oldObject?: JsonObject;
}

/** The result of a review. */
export type Verdict =
  | { readonly kind: 'allowed'; readonly object?: JsonObject; readonly warnings?: readonly string[] }
  | Refused;

/** A rejection, with the HTTP status that the user sees. */
export interface Refused {
  readonly kind: 'refused';
  readonly code: 400 | 403 | 422 | 429 | 500;
  /** Absent: the usual one for the code. Empty: none, where clients rely on that. */
  readonly reason?: '';
  /** One line for people. Absent: all errors in one line. */
  readonly message?: string;
  readonly errors: readonly FieldError[];
}

/** A read that admission needs has failed; the message says which one and why. */
export class LookUpFailed extends Error {
  override readonly name = 'LookUpFailed';
}

export type Review = (request: AdmissionRequest, signal: AbortSignal) => Verdict | Promise<Verdict>;

export interface ReviewOptions {
  /**
   * What happens to a request that could not be reviewed. `refuse`: it is rejected with status 500, which the user can
   * read. `leaveToFailurePolicy`: there is no verdict, so `failurePolicy: Ignore` lets it pass.
   */
  readonly whenFailed: 'refuse' | 'leaveToFailurePolicy';
  readonly onRefusal?: (request: AdmissionRequest, refused: Refused) => void;
  readonly onFailure?: (request: AdmissionRequest, error: unknown) => void;
}

/** The HTTP route of a review: AdmissionReviews of version v1 or v1beta1, answered in the same version. */
export function admissionRoute(review: Review, options: ReviewOptions): Route {
  return async (body, signal) => {
    const { apiVersion, request } = parseReview(body);
    try {
      const verdict = await review(request, signal);
      if (verdict.kind === 'refused') options.onRefusal?.(request, verdict);
      return answerVerdict(apiVersion, request, verdict);
    } catch (error) {
      if (error instanceof MalformedBody || isTooDeep(error)) throw error;
      options.onFailure?.(request, error);
      // The reason of a deadline says how long it was.
      const message = error instanceof Error ? error.message : String(error);
      if (options.whenFailed === 'leaveToFailurePolicy') return failure(500, 'InternalError', message, 'failed');
      return answerVerdict(apiVersion, request, { kind: 'refused', code: 500, message, errors: [] });
    }
  };
}

/**
 * The namespace of a review, from its text alone: the API server writes it right before the operation. Empty for
 * cluster-scoped objects, and for reviews in any other order.
 */
export function namespaceInText(text: string): string {
  const beginning = text.slice(0, Math.max(0, text.indexOf('"operation":"')));
  return /"namespace":"([^"]*)",$/.exec(beginning)?.[1] ?? '';
}

const versions: readonly unknown[] = ['admission.k8s.io/v1', 'admission.k8s.io/v1beta1'];
const operations: readonly AdmissionOperation[] = ['CREATE', 'UPDATE', 'DELETE', 'CONNECT'];

function parseReview(body: unknown): { readonly apiVersion: string; readonly request: AdmissionRequest } {
  if (!isJsonObject(body) || body.kind !== 'AdmissionReview' || !versions.includes(body.apiVersion)) {
    throw new MalformedBody('The body is not an AdmissionReview of admission.k8s.io/v1 or v1beta1');
  }
  const { request } = body;
  if (!isJsonObject(request)) throw new MalformedBody('The AdmissionReview has no request');
  const operation = operations.find((known) => known === request.operation);
  if (operation === undefined) throw new MalformedBody('request.operation is none of CREATE, UPDATE, DELETE, CONNECT');
  if (typeof request.uid !== 'string' || request.uid === '') throw new MalformedBody('request.uid is missing');
  const kind = isJsonObject(request.kind) ? request.kind : {};
  return {
    apiVersion: String(body.apiVersion),
    request: {
      uid: request.uid,
      operation,
      kind: { group: textOr(kind.group, ''), kind: textOr(kind.kind, '') },
      subResource: textOr(request.subResource, ''),
      namespace: textOr(request.namespace, ''),
      name: textOr(request.name, ''),
      dryRun: request.dryRun === true,
      fieldValidation: fieldValidationOf(request.options),
      user: textOr(isJsonObject(request.userInfo) ? request.userInfo.username : undefined, ''),
      ...(isJsonObject(request.object) && { object: request.object }),
      ...(isJsonObject(request.oldObject) && { oldObject: request.oldObject }),
    },
  };
}

/** The API server itself warns where nothing else is asked for. */
function fieldValidationOf(options: unknown): FieldValidation {
  const asked = isJsonObject(options) ? options.fieldValidation : undefined;
  return asked === 'Strict' || asked === 'Ignore' ? asked : 'Warn';
}

/** What comes of unknown fields, given their paths: as for a built-in workload, what the client asks for. */
export function unknownFields(
  { fieldValidation }: Pick<AdmissionRequest, 'fieldValidation'>,
  paths: readonly string[],
): { readonly problems: readonly FieldError[]; readonly warnings: readonly string[] } {
  switch (fieldValidation) {
    case 'Strict':
      return { problems: paths.map((field) => ({ field, detail: 'unknown field' })), warnings: [] };
    case 'Warn':
      return { problems: [], warnings: paths.map((path) => `unknown field "${path}"`) };
    case 'Ignore':
      return { problems: [], warnings: [] };
  }
}

/** The object of a CREATE or UPDATE; a request without one is malformed. */
export function objectOf(request: AdmissionRequest): JsonObject {
  if (request.object === undefined) throw new MalformedBody('request.object is not an object');
  return request.object;
}

/**
 * An object being deleted only loses finalizers; rejecting that would leave it and its namespace stuck. Only the stored
 * object is conclusive: a user may set deletionTimestamp in a server-side apply that creates an object.
 */
export function isBeingDeleted({ oldObject }: AdmissionRequest): boolean {
  return isJsonObject(oldObject?.metadata) && typeof oldObject.metadata.deletionTimestamp === 'string';
}

function textOr(value: unknown, absent: string): string {
  return typeof value === 'string' ? value : absent;
}

function answerVerdict(apiVersion: string, request: AdmissionRequest, verdict: Verdict): Answer {
  const { uid } = request;
  if (verdict.kind === 'refused') {
    const response = { uid, allowed: false, status: statusOf(request, verdict) };
    return reviewed(apiVersion, response, verdict.code === 500 ? 'failed' : 'refused');
  }
  const changed = request.object !== undefined && verdict.object !== undefined;
  const patch = changed ? patchOf(request.object, verdict.object) : [];
  const response = {
    uid,
    allowed: true,
    ...(patch.length > 0 && {
      patchType: 'JSONPatch',
      patch: Buffer.from(JSON.stringify(patch)).toString('base64'),
    }),
    ...(verdict.warnings !== undefined &&
      verdict.warnings.length > 0 && { warnings: verdict.warnings.slice(0, mostReported) }),
  };
  return reviewed(apiVersion, response, patch.length > 0 ? 'changed' : 'allowed');
}

function reviewed(apiVersion: string, response: object, outcome: Answer['outcome']): Answer {
  return { status: 200, body: { apiVersion, kind: 'AdmissionReview', response }, outcome };
}

const reasons = {
  400: 'BadRequest',
  403: 'Forbidden',
  422: 'Invalid',
  429: 'TooManyRequests',
  500: 'InternalError',
} as const;

/** The maximum number of reported problems, and of warnings: of these the API server shows 4,096 characters together. */
const mostReported = 50;

/** One line for people: every problem with its field path, up to the maximum. */
function messageOf({ message, errors }: Refused): string {
  if (message !== undefined) return message;
  const more = errors.length - mostReported;
  return `${describeErrors(errors.slice(0, mostReported))}${more > 0 ? `; and ${more} more problems` : ''}`;
}

/** kubectl shows `message`; for 422 it shows the causes instead. */
function statusOf(request: AdmissionRequest, refused: Refused): object {
  return {
    status: 'Failure',
    code: refused.code,
    reason: refused.reason ?? reasons[refused.code],
    message: messageOf(refused),
    details: {
      name: request.name,
      group: request.kind.group,
      kind: request.kind.kind,
      causes: refused.errors.slice(0, mostReported).map(causeOf),
    },
  };
}
