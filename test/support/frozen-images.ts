import type { Resource } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import type { KubeClient } from '../../kube/client.ts';
import { waitFor } from './wait.ts';

const policies = ofAdmission('ValidatingAdmissionPolicy', 'validatingadmissionpolicies');
const bindings = ofAdmission('ValidatingAdmissionPolicyBinding', 'validatingadmissionpolicybindings');

function ofAdmission(kind: string, plural: string): Resource {
  return { group: 'admissionregistration.k8s.io', version: 'v1', kind, plural, namespaced: false };
}

/**
 * Has the API server refuse every change of an image of a pod in this namespace, which has pods, from when this resolves until it
 * is removed.
 */
export async function freezeImages(kube: KubeClient, namespace: string): Promise<{ remove(): Promise<void> }> {
  const name = `frozen-${namespace}`;
  const rule = { apiGroups: [''], apiVersions: ['v1'], resources: ['pods'], operations: ['UPDATE'] };
  const expression =
    'object.spec.containers.all(c, oldObject.spec.containers.exists(o, o.name == c.name && o.image == c.image))';
  await kube.create(policies, {
    metadata: { name },
    spec: {
      matchConstraints: { resourceRules: [rule] },
      validations: [{ expression, message: 'images are frozen' }],
    },
  });
  const namespaceSelector = { matchLabels: { 'kubernetes.io/metadata.name': namespace } };
  await kube.create(bindings, {
    metadata: { name },
    spec: { policyName: name, validationActions: ['Deny'], matchResources: { namespaceSelector } },
  });
  await waitFor('the policy to take effect', async (see) => {
    const { items } = await kube.list<Pod>(kubeResource.pods, { namespace, limit: 1 });
    const [pod] = items;
    if (pod === undefined) return false;
    const containers = pod.spec.containers.map((container) => ({ name: container.name, image: 'another:1' }));
    const ref = { namespace, name: pod.metadata.name };
    const change = kube.patch(kubeResource.pods, ref, 'strategic', { spec: { containers } }, { dryRun: true });
    return see(await change.then(() => 'accepted', String)).includes('images are frozen');
  });
  return {
    async remove() {
      await kube.delete(bindings, { name });
      await kube.delete(policies, { name });
    },
  };
}
