import { cloneSetVersion } from '../../../api/cloneset.ts';
import { type DefaultingGates, defaultCloneSet } from '../../../api/cloneset-defaults.ts';
import { isBeingDeleted, objectOf, type Review } from '../review.ts';
import { MalformedBody } from '../server.ts';

export const cloneSetDefaultsPath = '/mutate-apps-kruise-io-cloneset';

/** Fills the defaults into sets. Objects stay in the version in which they came. */
export function reviewCloneSetDefaults(gates: DefaultingGates): Review {
  return (request) => {
    switch (request.operation) {
      case 'CREATE':
      case 'UPDATE': {
        const object = objectOf(request);
        if (cloneSetVersion(object) === undefined)
          throw new MalformedBody('request.object is not a CloneSet of apps.kruise.io');
        if (isBeingDeleted(request)) return { kind: 'allowed' };
        return { kind: 'allowed', object: defaultCloneSet(object, gates, request.oldObject) };
      }
      case 'DELETE':
      case 'CONNECT':
        return { kind: 'allowed' };
    }
  };
}
