/** Takes rights away from Windlass, like an administrator by mistake, and gives them back. */
import type { KubeObject, Resource } from '../../api/core/meta.ts';
import type { Cluster } from './cluster.ts';
import { waitFor } from './wait.ts';

const clusterRoles: Resource = {
  group: 'rbac.authorization.k8s.io',
  version: 'v1',
  plural: 'clusterroles',
  kind: 'ClusterRole',
  namespaced: false,
};

const accessReviews: Resource = {
  group: 'authorization.k8s.io',
  version: 'v1',
  plural: 'subjectaccessreviews',
  kind: 'SubjectAccessReview',
  namespaced: false,
};

interface ClusterRole extends KubeObject {
  readonly rules: readonly { readonly resources?: readonly string[]; readonly verbs: readonly string[] }[];
}

interface AccessReview extends KubeObject {
  readonly status?: { readonly allowed: boolean };
}

/** One verb on one resource, with its subresource: `pods/status`. */
export interface Right {
  readonly role: 'windlass-watcher' | 'windlass-worker';
  readonly verb: string;
  readonly group: string;
  readonly resource: string;
}

/** Runs a function while a role lacks a right, from when the API server denies it until it allows it again. */
export async function withoutRight(cluster: Cluster, right: Right, during: () => Promise<void>): Promise<void> {
  const { kube } = cluster;
  const { role, verb, group, resource } = right;
  const { rules } = await kube.get<ClusterRole>(clusterRoles, { name: role });
  const left = rules.flatMap((rule) => {
    if (!rule.resources?.includes(resource)) return [rule];
    const verbs = rule.verbs.filter((other) => other !== verb);
    return verbs.length > 0 ? [{ ...rule, verbs }] : [];
  });
  const [plural, subresource] = resource.split('/');

  async function grant(granted: ClusterRole['rules'], isAllowed: boolean): Promise<void> {
    await kube.patch(clusterRoles, { name: role }, 'merge', { rules: granted });
    await waitFor(`${verb} ${resource} to be ${isAllowed ? 'allowed' : 'denied'}`, async (see) => {
      const review = await kube.create<AccessReview>(accessReviews, {
        spec: {
          user: `system:serviceaccount:kruise-system:${role}`,
          resourceAttributes: { verb, group, resource: plural, ...(subresource && { subresource }) },
        },
      });
      return see(review.status)?.allowed === isAllowed;
    });
  }

  await grant(left, false);
  try {
    await during();
  } finally {
    await grant(rules, true);
  }
}
