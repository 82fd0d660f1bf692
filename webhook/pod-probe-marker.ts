import { type FeatureGates, gateRefusal } from '../api/feature-gates.ts';
import { validatePodProbeMarker, validatePodProbeMarkerUpdate } from '../api/pod-probe-marker/validate.ts';
import { isBeingDeleted, objectOf, type Review, type Verdict } from './review/review.ts';
import { MalformedBody } from './server/server.ts';

/** Validates new and changed markers. With the gate off both are rejected (FG-4). */
export function reviewPodProbeMarker(gates: Pick<FeatureGates, 'PodProbeMarkerGate' | 'KruiseDaemon'>): Review {
  return (request): Verdict => {
    if (request.operation !== 'CREATE' && request.operation !== 'UPDATE') return { kind: 'allowed' };
    const object = objectOf(request);
    if (isBeingDeleted(request)) return { kind: 'allowed' };
    const missing = !gates.KruiseDaemon ? 'KruiseDaemon' : gates.PodProbeMarkerGate ? undefined : 'PodProbeMarkerGate';
    if (missing) return { kind: 'refused', code: 403, message: gateRefusal(missing), errors: [] };
    if (request.operation === 'UPDATE' && request.oldObject === undefined) {
      throw new MalformedBody('request.oldObject is not an object');
    }
    const problems = request.oldObject
      ? validatePodProbeMarkerUpdate(request.oldObject, object)
      : validatePodProbeMarker(object);
    return problems.length > 0 ? { kind: 'refused', code: 400, errors: problems } : { kind: 'allowed' };
  };
}
