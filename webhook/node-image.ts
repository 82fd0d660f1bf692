import { type FeatureGates, gateRefusal } from '../api/feature-gates.ts';
import { servedVersion } from '../api/node-image/convert.ts';
import { defaultNodeImage } from '../api/node-image/defaults.ts';
import { nodeImages } from '../api/node-image/types.ts';
import { validateNodeImage } from '../api/node-image/validate.ts';
import { isBeingDeleted, objectOf, type Review } from './review/review.ts';
import { MalformedBody } from './server/server.ts';

/** Fills in and validates NodeImages that people write; the watcher's own writes are not sent here. */
export function reviewNodeImage(gates: Pick<FeatureGates, 'KruiseDaemon'>, now: () => number = Date.now): Review {
  return (request) => {
    switch (request.operation) {
      case 'CREATE':
      case 'UPDATE': {
        const given = objectOf(request);
        if (servedVersion(given, nodeImages) === undefined) {
          throw new MalformedBody('request.object is not a NodeImage of apps.kruise.io');
        }
        if (isBeingDeleted(request)) return { kind: 'allowed' };
        if (!gates.KruiseDaemon) {
          return { kind: 'refused', code: 403, message: gateRefusal('KruiseDaemon'), errors: [] };
        }
        const object = defaultNodeImage(given, now());
        const errors = validateNodeImage(object, request.oldObject);
        return errors.length === 0 ? { kind: 'allowed', object } : { kind: 'refused', code: 400, errors };
      }
      case 'DELETE':
      case 'CONNECT':
        return { kind: 'allowed' };
    }
  };
}
