import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import type { TLSSocket } from 'node:tls';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { kubeResource } from '../../api/core/well-known.ts';
import { ensureAuthority, ensureCertificate } from '../../deploy/local/certificates.ts';
import { webhookClientAuthority } from '../../deploy/local/control-plane.ts';
import { findInstance, instanceName } from '../../deploy/local/instance.ts';
import { type Cluster, connectToCluster } from '../support/cluster.ts';
import { describeAlone } from '../support/groups.ts';
import { testPlatform } from '../support/platform.ts';
import { waitFor } from '../support/wait.ts';

// A webhook that records its callers.
const callers: string[] = [];
let cluster: Cluster;
let server: Server;
let folder = '';

const configurations = {
  group: 'admissionregistration.k8s.io',
  version: 'v1',
  plural: 'validatingwebhookconfigurations',
  kind: 'ValidatingWebhookConfiguration',
  namespaced: false,
} as const;
const metadata = { name: 'test-webhook-client' };

beforeAll(async () => {
  const platform = testPlatform();
  const instance = findInstance(instanceName(process.env));
  if (!instance) throw new Error('no instance');
  cluster = connectToCluster(platform);
  folder = mkdtempSync(join(tmpdir(), 'webhook-'));
  await ensureAuthority(folder);
  await ensureCertificate(folder, 'server', { name: 'webhook', hosts: [platform.machine] });
  const pem = (name: string) => readFileSync(join(folder, name), 'utf8');
  server = createServer(
    {
      cert: pem('server.crt'),
      key: pem('server.key'),
      ca: readFileSync(webhookClientAuthority(instance)),
      requestCert: true,
      rejectUnauthorized: false,
    },
    async (request, response) => {
      const socket = request.socket as TLSSocket;
      callers.push(socket.authorized ? String(socket.getPeerCertificate().subject.CN) : 'a stranger');
      const review = (await json(request)) as { request: { uid: string } };
      const answer = { apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview' };
      response.end(JSON.stringify({ ...answer, response: { uid: review.request.uid, allowed: true } }));
    },
  );
  await new Promise<void>((resolve) => server.listen(0, platform.machine, resolve));
  const { port } = server.address() as AddressInfo;
  const namespace = await cluster.newNamespace();
  await cluster.kube.delete(configurations, metadata).catch(() => undefined);
  await cluster.kube.create(configurations, {
    metadata,
    webhooks: [
      {
        name: 'client.windlass.test',
        admissionReviewVersions: ['v1'],
        sideEffects: 'None',
        failurePolicy: 'Ignore',
        clientConfig: {
          url: `https://${platform.machine}:${port}/`,
          caBundle: Buffer.from(pem('ca.crt')).toString('base64'),
        },
        namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } },
        rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['configmaps'] }],
      },
    ],
  });
  await waitFor('the API server to call the webhook', async () => {
    const configMap = { metadata: { namespace, generateName: 'x-' } };
    await cluster.kube.create(kubeResource.configMaps, configMap, { dryRun: true });
    return callers.length > 0;
  });
});
afterAll(async () => {
  await cluster.kube.delete(configurations, metadata);
  await cluster.close();
  server.closeAllConnections();
  server.close();
  rmSync(folder, { recursive: true });
});

describeAlone('the API server of the local platform', () => {
  it('H3: shows admission webhooks a certificate of an authority that signs nothing else', () => {
    expect(new Set(callers)).toEqual(new Set(['kube-apiserver-webhook-client']));
  });
});
