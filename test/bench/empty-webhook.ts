import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { isJsonObject, type JsonObject, objectOr } from '../../api/base/json.ts';
import type { KubeObject } from '../../api/core/meta.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import type { KubeClient } from '../../kube/client.ts';
import { createAuthority, issueCertificate } from '../../webhook/server/x509.ts';

const name = 'bench-empty';
const resource = kubeResource.mutatingWebhookConfigurations;
const dayMs = 86_400_000;

/**
 * A mutating webhook that answers every new pod of a namespace with yes and does nothing else: what a call costs whatever is done
 * in it. It is registered as the pod webhook is, but for its namespace.
 */
export async function serveEmptyWebhook(
  kube: KubeClient,
  namespace: string,
): Promise<{
  /** How often it was called. */
  calls(): number;
  close(): Promise<void>;
}> {
  const { items } = await kube.list<KubeObject & { readonly webhooks?: readonly JsonObject[] }>(resource);
  const podWebhook = items
    .flatMap(({ webhooks = [] }) => webhooks)
    .find(({ clientConfig }) => String(objectOr(clientConfig).url).endsWith('/mutate-pod'));
  if (!isJsonObject(podWebhook?.clientConfig)) throw new Error('the pod webhook is not registered by its URL');
  const { hostname } = new URL(String(podWebhook.clientConfig.url));

  const validity = { notBefore: new Date(Date.now() - dayMs), notAfter: new Date(Date.now() + dayMs) };
  const authority = await createAuthority(name, validity);
  const { certificate, key } = await issueCertificate({
    ...{ authority, commonName: name, hosts: [hostname], usages: ['server'], validity },
  });
  let calls = 0;
  const server = createServer({ cert: certificate, key }, (question, answer) => {
    const parts: Buffer[] = [];
    question.on('data', (part: Buffer) => parts.push(part));
    question.on('end', () => {
      calls++;
      const { apiVersion, kind, request } = JSON.parse(Buffer.concat(parts).toString());
      answer.setHeader('content-type', 'application/json');
      answer.end(JSON.stringify({ apiVersion, kind, response: { uid: request.uid, allowed: true } }));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, hostname, resolve));
  const { port } = server.address() as AddressInfo;

  await kube.create(resource, {
    metadata: { name },
    webhooks: [
      {
        ...podWebhook,
        ...{ name: 'empty.bench.windlass.io', matchConditions: [], objectSelector: {} },
        namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } },
        clientConfig: {
          url: `https://${hostname}:${port}/`,
          caBundle: Buffer.from(authority.certificate).toString('base64'),
        },
      },
    ],
  } as never);
  return {
    calls: () => calls,
    async close() {
      await kube.delete(resource, { name });
      await new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      });
    },
  };
}
