import { describe, expect, it } from '@jest/globals';
import { grantFor, missingRight, withGrant } from '../../api/engine/missing-right.ts';

const account = 'User "system:serviceaccount:kruise-system:windlass-worker"';
// The messages are those of a real API server, version 1.34.
const inNamespace = `pods "web-7" is forbidden: ${account} cannot patch resource "pods/status" in API group "" in the namespace "shop"`;
const everywhere =
  'nodeimages.apps.kruise.io is forbidden: User "ann" cannot list resource "nodeimages" in API group "apps.kruise.io" at ' +
  'the cluster scope: RBAC: clusterrole.rbac.authorization.k8s.io "windlass-watcher" not found';

describe('a right that is missing', () => {
  it('is read from the refusal of an API server', () => {
    expect(missingRight(`Cannot take pod "shop/web-7" out of service: ${inNamespace}`)).toEqual({
      user: 'system:serviceaccount:kruise-system:windlass-worker',
      verb: 'patch',
      resource: 'pods/status',
      group: '',
      namespace: 'shop',
    });
    expect(missingRight(everywhere)).toEqual({
      user: 'ann',
      verb: 'list',
      resource: 'nodeimages',
      group: 'apps.kruise.io',
    });
  });

  it('is named so that a person knows what to grant to whom, and where', () => {
    expect(grantFor(inNamespace)).toBe(
      'Allow ServiceAccount "kruise-system/windlass-worker" to patch pods/status in namespace "shop", ' +
        'by a role bound to it (deploy/rbac has those of Windlass)',
    );
    expect(withGrant(everywhere)).toMatch(
      /^Allow user "ann" to list nodeimages of apps\.kruise\.io in the whole cluster, by .*; nodeimages\.apps\.kruise\.io is/,
    );
  });

  it('is none where a quota, a policy or credentials refuse', () => {
    for (const message of ['pods "web-7" is forbidden: exceeded quota: small', 'Unauthorized']) {
      expect(grantFor(message)).toBeUndefined();
      expect(withGrant(message)).toBe(message);
    }
  });
});
