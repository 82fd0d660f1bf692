import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { KubeObject, Resource } from '../../api/core/meta.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { loadKubeconfig } from '../../kube/credentials.ts';
import type { CustomResourceDefinition, WebhookConfiguration } from '../../webhook/server/registrations.ts';
import { type Cluster, connectToCluster } from '../support/cluster.ts';
import { describeAlone } from '../support/groups.ts';
import { type TestPlatform, testPlatform } from '../support/platform.ts';

// A cluster after OpenKruise: its CRDs convert through its Service, and its webhook configurations have the names of
// ours. OpenKruise no longer runs.
let platform: TestPlatform;
let cluster: Cluster;

beforeAll(async () => {
  platform = testPlatform();
  await platform.install();
  cluster = connectToCluster(platform);
});
afterAll(async () => {
  await platform.install();
  await cluster.close();
});

const definitions = kubeResource.customResourceDefinitions;
const configuration = (kind: 'Mutating' | 'Validating'): Resource => ({
  group: 'admissionregistration.k8s.io',
  version: 'v1',
  plural: `${kind.toLowerCase()}webhookconfigurations`,
  kind: `${kind}WebhookConfiguration`,
  namespaced: false,
});
const service = (path: string) => ({ namespace: 'kruise-system', name: 'kruise-webhook-service', path, port: 443 });
const caBundle = Buffer.from('-----BEGIN CERTIFICATE-----\n').toString('base64');

function replace<T extends KubeObject>(resource: Resource, name: string, path: string, value: unknown): Promise<T> {
  return cluster.kube.patch<T>(resource, { name }, 'json', [{ op: 'add', path, value }]);
}

function webhook(name: string, path: string): object {
  return {
    name,
    admissionReviewVersions: ['v1', 'v1beta1'],
    sideEffects: 'None',
    failurePolicy: 'Fail',
    timeoutSeconds: 30,
    clientConfig: { service: service(path) },
    rules: [
      { apiGroups: ['apps.kruise.io'], apiVersions: ['*'], operations: ['CREATE', 'UPDATE'], resources: ['clonesets'] },
    ],
  };
}

describeAlone('a cluster that has OpenKruise', () => {
  it('gets the conversion of Windlass instead of that of OpenKruise', async () => {
    const name = 'clonesets.apps.kruise.io';
    await replace(definitions, name, '/spec/conversion', {
      strategy: 'Webhook',
      webhook: { clientConfig: { service: service('/convert') }, conversionReviewVersions: ['v1', 'v1beta1'] },
    });

    await platform.install();

    const { spec } = await cluster.kube.get<CustomResourceDefinition>(definitions, { name });
    expect(spec.conversion?.webhook?.clientConfig).toEqual({
      url: `https://${platform.machine}:${platform.webhookPort}/convert`,
    });
  });

  it.each(['Mutating', 'Validating'] as const)(
    'gets the %s webhooks of Windlass and keeps none of OpenKruise',
    async (kind) => {
      const name = `kruise-${kind.toLowerCase()}-webhook-configuration`;
      const letter = kind.slice(0, 1).toLowerCase();
      const verb = kind === 'Mutating' ? 'mutate' : 'validate';
      const before = await cluster.kube.get<WebhookConfiguration>(configuration(kind), { name });
      await replace(configuration(kind), name, '/webhooks', [
        webhook(`${letter}cloneset.kb.io`, `/${verb}-apps-kruise-io-cloneset`),
        webhook(`${letter}statefulset.kb.io`, `/${verb}-apps-kruise-io-statefulset`),
      ]);

      await platform.install();

      const after = await cluster.kube.get<WebhookConfiguration>(configuration(kind), { name });
      const named = ({ webhooks = [] }: WebhookConfiguration) => webhooks.map((one) => one.name);
      expect(named(after)).toEqual(named(before));
      for (const { clientConfig } of after.webhooks ?? []) {
        expect(clientConfig).toEqual({
          url: expect.stringContaining(`https://${platform.machine}:${platform.webhookPort}/`),
        });
      }
    },
  );

  it('leaves what the webhook process has written where a registration is of Windlass already', async () => {
    const name = 'kruise-mutating-webhook-configuration';
    await replace(configuration('Mutating'), name, '/webhooks/0/clientConfig/caBundle', caBundle);

    await platform.install();

    const { webhooks } = await cluster.kube.get<WebhookConfiguration>(configuration('Mutating'), { name });
    expect(webhooks?.[0]?.clientConfig.caBundle).toBe(caBundle);
  });
});

describeAlone('the NetworkPolicy of the webhook', () => {
  it('H3: is one that the API server takes, and lets nobody else in', async () => {
    const policies = { group: 'networking.k8s.io', version: 'v1', plural: 'networkpolicies', kind: 'NetworkPolicy' };
    const ref = { namespace: 'kruise-system', name: 'windlass-webhook' };
    const { spec } = await cluster.kube.get<KubeObject & { spec: object }>({ ...policies, namespaced: true }, ref);
    const cidr = `${new URL(kubeServer()).hostname}/32`;
    expect(spec).toMatchObject({
      policyTypes: ['Ingress'],
      ingress: [
        { from: [{ ipBlock: { cidr } }], ports: [{ port: 9876 }] },
        { ports: [{ port: 8000 }, { port: 8080 }] },
      ],
    });
  });
});

function kubeServer(): string {
  return loadKubeconfig(platform.kubeconfig).cluster.server ?? '';
}
