import type { JsonObject } from '../api/base/json.ts';
import type { FieldError } from '../api/core/field-error.ts';
import { type FeatureGate, type FeatureGates, gateRefusal } from '../api/feature-gates.ts';
import { defaultListPullJob, defaultPullJob } from '../api/image-pull-job/defaults.ts';
import { validateListPullJob, validatePullJob, validatePullJobUpdate } from '../api/image-pull-job/validate.ts';
import { servedVersion } from '../api/node-image/convert.ts';
import { nodeImages } from '../api/node-image/types.ts';
import { type AdmissionRequest, isBeingDeleted, objectOf, type Review, type Verdict } from './review/review.ts';
import { MalformedBody } from './server/server.ts';

type Gates = Pick<FeatureGates, 'KruiseDaemon' | 'ImagePullJobGate'>;

/** Fills in and validates jobs. Objects stay in the version of the request. */
export function reviewImagePullJob(gates: Gates): Review {
  return (request) =>
    review(request, gates, (before, after) => {
      const object = defaultPullJob(after, before === undefined);
      const fixed = before === undefined ? [] : validatePullJobUpdate(before, object);
      const problems = validatePullJob(object, before);
      // a change of an immutable field is forbidden, whatever else is invalid
      if (fixed.length > 0) return { kind: 'refused', code: 403, errors: [...fixed, ...problems] };
      return verdictOf(object, problems);
    });
}

/** Fills in and validates lists. */
export function reviewImageListPullJob(gates: Gates): Review {
  return (request) =>
    review(request, gates, (before, after) => {
      const object = defaultListPullJob(after);
      return verdictOf(object, validateListPullJob(object, before));
    });
}

function review(
  request: AdmissionRequest,
  gates: Gates,
  judge: (before: JsonObject | undefined, after: JsonObject) => Verdict,
): Verdict {
  switch (request.operation) {
    case 'CREATE':
    case 'UPDATE': {
      const object = objectOf(request);
      if (servedVersion(object, nodeImages) === undefined) {
        throw new MalformedBody(`request.object is not a ${request.kind.kind} of apps.kruise.io`);
      }
      // an object being deleted only loses its finalizer, which must be possible with the gate off, too
      if (isBeingDeleted(request)) return { kind: 'allowed' };
      const off = (['KruiseDaemon', 'ImagePullJobGate'] as const).find((gate) => !gates[gate]);
      if (off !== undefined) return refusedByGate(off);
      if (request.operation === 'CREATE') return judge(undefined, object);
      if (request.oldObject === undefined) throw new MalformedBody('request.oldObject is not an object');
      return judge(request.oldObject, object);
    }
    case 'DELETE':
    case 'CONNECT':
      return { kind: 'allowed' };
  }
}

function verdictOf(object: JsonObject, problems: readonly FieldError[]): Verdict {
  return problems.length === 0 ? { kind: 'allowed', object } : { kind: 'refused', code: 400, errors: problems };
}

function refusedByGate(gate: FeatureGate): Verdict {
  return { kind: 'refused', code: 403, message: gateRefusal(gate), errors: [] };
}
