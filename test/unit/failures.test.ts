import { describe, expect, it } from '@jest/globals';
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import type { FailureType } from '../../api/core/failure.ts';
import {
  isAlreadyExists,
  isGone,
  type KubeError,
  noAnswer,
  toFailure,
  toKubeError,
  watchError,
} from '../../kube/failures.ts';

const request = 'PATCH /api/v1/namespaces/shop/pods/web-7';

const noRight =
  'is forbidden: User "system:serviceaccount:kruise-system:windlass-worker" cannot patch resource "pods/status" in API ' +
  'group "" in the namespace "shop"';

function answered(status: number, reason: string, message: string, details: object = {}): KubeError {
  return toKubeError(request, status, JSON.stringify({ kind: 'Status', reason, message, details }));
}

describe('the type of a refusal', () => {
  // The messages are those of a real API server, version 1.34.
  const table: readonly (readonly [FailureType, string, KubeError])[] = [
    ['Unreachable', 'no answer', noAnswer(request, 'connect ECONNREFUSED 10.0.0.1:6443')],
    ['Unreachable', 'an internal error', answered(500, 'InternalError', 'failed calling webhook')],
    [
      'Invalid',
      'an object that etcd finds too large',
      answered(500, 'InternalError', 'etcdserver: request is too large'),
    ],
    ['Unreachable', 'a server that starts', toKubeError(request, 503, 'apiserver not ready', '1')],
    [
      'Unreachable',
      'a server that has not read its roles yet',
      answered(
        403,
        'Forbidden',
        'pods is forbidden: User "x" cannot watch resource "pods" in API group "" at the cluster scope: RBAC: ' +
          '[clusterrole.rbac.authorization.k8s.io "system:basic-user" not found, ' +
          'clusterrole.rbac.authorization.k8s.io "windlass-watcher" not found]',
      ),
    ],
    [
      'Unreachable',
      'a server whose admission is not ready yet',
      answered(403, 'Forbidden', 'pods "web-7" is forbidden: not yet ready to handle request'),
    ],
    [
      'Denied',
      'a role that somebody has deleted',
      answered(403, 'Forbidden', 'RBAC: clusterrole.rbac.authorization.k8s.io "windlass-watcher" not found'),
    ],
    ['Unreachable', 'a kind that is not installed', toKubeError(request, 404, '404 page not found\n')],
    ['Throttled', 'too many requests', answered(429, 'TooManyRequests', 'please try again later')],
    [
      'Held',
      'an eviction that a disruption budget refuses',
      answered(429, 'TooManyRequests', "Cannot evict pod as it would violate the pod's disruption budget.", {
        causes: [{ reason: 'DisruptionBudget', message: 'The disruption budget web needs 1 healthy pods and has 1' }],
      }),
    ],
    [
      'Held',
      'PUB-37: a pod unavailable budget',
      answered(
        403,
        'Forbidden',
        'admission webhook "vpod.kb.io" denied the request: ' +
          'podunavailablebudget.policy.kruise.io "web" is forbidden: pub unavailable allowed is negative',
      ),
    ],
    [
      'Held',
      'PUB-37: a pod unavailable budget that many want at once',
      answered(403, 'Forbidden', "couldn't update PodUnavailableBudget web due to conflicts"),
    ],
    [
      'Denied',
      'a right on budgets that is missing',
      answered(
        403,
        'Forbidden',
        'podunavailablebudgets.policy.kruise.io "web" is forbidden: User "x" cannot get resource',
      ),
    ],
    ['Denied', 'a right that is missing, or not read yet', answered(403, 'Forbidden', `pods "web-7" ${noRight}`)],
    ['Denied', 'a quota', answered(403, 'Forbidden', 'pods "web-7" is forbidden: exceeded quota: small')],
    [
      'Invalid',
      'a verdict of a webhook',
      answered(403, 'Forbidden', 'admission webhook "images.example.com" denied the request: unsigned'),
    ],
    [
      'Invalid',
      'a verdict of a webhook that says nothing',
      answered(403, 'Forbidden', 'admission webhook "images.example.com" denied the request without explanation'),
    ],
    [
      'Invalid',
      'a verdict of a policy',
      answered(
        403,
        'Forbidden',
        `pods "web-7" is forbidden: ValidatingAdmissionPolicy 'signed' with binding 'all' denied request: unsigned`,
      ),
    ],
    ['Denied', 'credentials', answered(401, 'Unauthorized', 'Unauthorized')],
    ['Conflict', 'a write in between', answered(409, 'Conflict', 'the object has been modified; please apply')],
    ['Conflict', 'a name that is taken', answered(409, 'AlreadyExists', 'pods "web-7" already exists')],
    [
      'Conflict',
      'a version precondition',
      answered(
        409,
        'Conflict',
        'the ResourceVersion in the precondition (1) does not match the ResourceVersion in record (2)',
      ),
    ],
    ['Conflict', 'a version that is compacted away', answered(410, 'Expired', 'too old resource version: 1 (223)')],
    [
      'Conflict',
      'a JSON patch whose test fails',
      answered(422, 'Invalid', 'the server rejected our request due to an error in our request'),
    ],
    [
      'Superseded',
      'a UID precondition of a delete',
      answered(
        409,
        'Conflict',
        'the UID in the precondition (a) does not match the UID in record (b). The object might',
      ),
    ],
    [
      'Superseded',
      'a UID in an apply',
      answered(409, 'Conflict', 'uid mismatch: the provided object specified uid a, and no existing object was found'),
    ],
    [
      'Superseded',
      'a UID in a merge patch',
      answered(422, 'Invalid', 'Pod "web-7" is invalid: metadata.uid: Invalid value', {
        causes: [{ reason: 'FieldValueInvalid', field: 'metadata.uid', message: 'field is immutable' }],
      }),
    ],
    ['Superseded', 'an object that is gone', answered(404, 'NotFound', 'pods "web-7" not found')],
    [
      'Invalid',
      'a field',
      answered(422, 'Invalid', 'Pod "web-7" is invalid', { causes: [{ reason: 'FieldValueRequired', field: 'spec' }] }),
    ],
    ['Invalid', 'a request that cannot be read', answered(400, 'BadRequest', 'json parse error')],
    ['Invalid', 'a method', answered(405, 'MethodNotAllowed', 'the server does not allow this method')],
  ];
  it.each(table)('is %s for %s', (type, _what, error) => {
    expect(error.type).toBe(type);
  });
});

describe('KubeError', () => {
  it('says why in the words of the server and keeps the request apart', () => {
    const error = answered(404, 'NotFound', 'pods "web-7" not found');
    expect(error).toMatchObject({ message: 'pods "web-7" not found', status: 404, reason: 'NotFound', request });
  });

  it('quotes only the first line of an answer that is not the API server’s', () => {
    const error = toKubeError(request, 502, '<html>Bad Gateway</html>\n<p>nginx</p>');
    expect(error.message).toBe('<html>Bad Gateway</html> (HTTP 502)');
  });

  it('takes the time to wait from the header, else from the Status', () => {
    const status = JSON.stringify({ kind: 'Status', details: { retryAfterSeconds: 10 } });
    expect(toKubeError(request, 429, status, '3').retryAfterSeconds).toBe(3);
    expect(toKubeError(request, 429, status).retryAfterSeconds).toBe(10);
    expect(toKubeError(request, 503, 'busy', '2').retryAfterSeconds).toBe(2);
    expect(toKubeError(request, 503, 'busy', 'Fri, 31 Dec 1999 23:59:59 GMT').retryAfterSeconds).toBeUndefined();
  });

  it('never quotes a Secret, which the server does where it refuses one', () => {
    const body = JSON.stringify({
      kind: 'Status',
      reason: 'Invalid',
      message: 'Invalid value: {"data":{"tls.key":"c2VjcmV0"}}',
      details: { causes: [{ reason: 'FieldValueInvalid', field: 'data[tls.key]', message: 'c2VjcmV0' }] },
    });
    const error = toKubeError('PATCH /api/v1/namespaces/kruise-system/secrets/certs', 422, body);
    expect(error.message).toBe('Invalid (HTTP 422), data[tls.key] (FieldValueInvalid)');
    expect(toFailure(error, 'Cannot store certificates').message).not.toContain('c2VjcmV0');
  });

  it('tells which right on Secrets is missing, and knows a verdict on one although it does not quote it', () => {
    const secrets = 'GET /api/v1/namespaces/kruise-system/secrets/certs';
    const refused = (message: string) =>
      toKubeError(secrets, 403, JSON.stringify({ kind: 'Status', reason: 'Forbidden', message }));
    const right = 'secrets "certs" is forbidden: User "x" cannot get resource "secrets" in API group ""';
    expect(refused(right)).toMatchObject({ type: 'Denied', message: right });
    const early = `${right}: RBAC: clusterrole.rbac.authorization.k8s.io "system:basic-user" not found`;
    expect(refused(early).type).toBe('Unreachable');
    const judged = refused('admission webhook "w" denied the request: {"data":{"tls.key":"c2VjcmV0"}}');
    expect(judged).toMatchObject({ type: 'Invalid', message: 'Forbidden (HTTP 403)' });
  });

  it('understands the error event of a watch', () => {
    const expired = watchError('GET /api/v1/pods', {
      kind: 'Status',
      code: 410,
      reason: 'Expired',
      message: 'too old',
    });
    expect(expired).toMatchObject({ status: 410, type: 'Conflict', message: 'too old' });
    expect(watchError('GET /api/v1/pods', { kind: 'Pod' }).type).toBe('Unreachable');
  });
});

describe('toFailure', () => {
  it('says what was attempted and why it failed, and ends retries where none can help', () => {
    const failure = toFailure(answered(404, 'NotFound', 'pods "web-7" not found'), 'Cannot evict pod "shop/web-7"');
    expect(failure).toBeInstanceOf(ApplicationFailure);
    expect(failure).toMatchObject({
      message: 'Cannot evict pod "shop/web-7": pods "web-7" not found',
      type: 'Superseded',
      nonRetryable: true,
    });
  });

  it('is retried after the time that the server gave, and each second where it only said wait', () => {
    const throttled = toFailure(toKubeError(request, 429, 'busy', '7'), 'Cannot read pods');
    expect(throttled).toMatchObject({ type: 'Throttled', nonRetryable: false, nextRetryDelay: 7000 });
    const budget = answered(429, 'TooManyRequests', 'no', { causes: [{ reason: 'DisruptionBudget' }] });
    expect(toFailure(budget, 'Cannot evict')).toMatchObject({ type: 'Held', nextRetryDelay: 1000 });
    const unreachable = toFailure(noAnswer(request, 'socket hang up'), 'Cannot read pods');
    expect(unreachable).toMatchObject({ type: 'Unreachable', nonRetryable: false });
    expect(unreachable).not.toHaveProperty('nextRetryDelay', expect.anything());
  });

  it('stays short enough for a payload', () => {
    const failure = toFailure(answered(422, 'Invalid', 'x'.repeat(100_000)), 'Cannot create pod');
    expect(failure.message.length).toBeLessThanOrEqual(1000);
  });

  it('leaves cancellation and failures as they are', () => {
    const cancelled = new CancelledFailure('cancelled by the workflow');
    expect(toFailure(cancelled, 'Cannot read pods')).toBe(cancelled);
    const failure = ApplicationFailure.create({ message: 'no runtime', type: 'Unreachable' });
    expect(toFailure(failure, 'Cannot stop')).toBe(failure);
    expect(toFailure(new DOMException('stop', 'AbortError'), 'Cannot read pods')).toBeInstanceOf(CancelledFailure);
  });

  it('keeps a bug a bug: retried, under its own name, with its stack', () => {
    const bug = new TypeError('x is undefined');
    expect(toFailure(bug, 'Cannot read pods')).toMatchObject({
      message: 'Cannot read pods: x is undefined',
      type: 'TypeError',
      nonRetryable: false,
      cause: bug,
    });
  });
});

describe('isGone, isAlreadyExists', () => {
  it('tell the two apart, and anything else from them', () => {
    const gone = answered(404, 'NotFound', 'not found');
    const taken = answered(409, 'AlreadyExists', 'exists');
    expect([gone, taken, new Error('x'), undefined].map(isGone)).toEqual([true, false, false, false]);
    expect([gone, taken, new Error('x'), undefined].map(isAlreadyExists)).toEqual([false, true, false, false]);
  });
});
