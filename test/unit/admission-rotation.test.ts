import { readFileSync } from 'node:fs';
import { request as httpsRequest } from 'node:https';
import { createServer } from 'node:net';
import { afterEach, describe, expect, it } from '@jest/globals';
import { parseAllDocuments } from 'yaml';
import type { Resource } from '../../api/core/meta.ts';
import { installation, kubeResource } from '../../api/core/well-known.ts';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import { sidecarSets } from '../../api/sidecar-set/types.ts';
import { podWebhook } from '../../api/webhooks.ts';
import { type Admission, type AdmissionOptions, startAdmission } from '../../webhook/admission.ts';
import { certificatesIn, hasIssued } from '../../webhook/server/x509.ts';
import { MemoryCluster } from '../support/fake-api/memory-cluster.ts';
import { waitFor } from '../support/wait.ts';

type Document = { readonly kind: string; readonly metadata: { readonly name: string } };
const manifests = parseAllDocuments(readFileSync('deploy/webhooks/webhooks.yaml', 'utf8')).map(
  (document) => document.toJS() as Document,
);
const mutating = kubeResource.mutatingWebhookConfigurations;
const validating = kubeResource.validatingWebhookConfigurations;
const secret = { namespace: installation.namespace, name: installation.webhookSecret };
const crd = {
  metadata: { name: 'containerrecreaterequests.apps.kruise.io' },
  spec: {
    conversion: {
      strategy: 'Webhook',
      webhook: {
        clientConfig: { service: { name: 'a', namespace: 'b', path: '/convert' } },
        conversionReviewVersions: ['v1'],
      },
    },
  },
};

function install(cluster: MemoryCluster): void {
  for (const resource of [mutating, validating] as readonly Resource[]) {
    const manifest = manifests.find(({ kind }) => kind === resource.kind);
    if (manifest) cluster.put(resource, manifest);
  }
  cluster.put(kubeResource.customResourceDefinitions, crd);
}

const running: Admission[] = [];
afterEach(async () => {
  await Promise.all(running.splice(0).map((admission) => admission.stop(AbortSignal.abort())));
});

const log = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };

function start(cluster: MemoryCluster, more: Partial<AdmissionOptions> = {}, port = 0): Admission {
  const admission = startAdmission({
    client: cluster.client(),
    featureGates: parseFeatureGates(''),
    podNamespace: installation.namespace,
    webhook: {
      host: '127.0.0.1',
      port,
      secretName: installation.webhookSecret,
      serviceName: installation.webhookService,
      renewBeforeSeconds: 3 * 3600,
      certificateLifetimeSeconds: 4 * 3600,
      initializeTimeoutSeconds: 120,
    },
    log: log as unknown as AdmissionOptions['log'],
    ...more,
  });
  running.push(admission);
  admission.ready.catch(() => undefined);
  return admission;
}

interface ClientConfig {
  readonly url?: string;
  readonly caBundle?: string;
}

function podRegistration(cluster: MemoryCluster): ClientConfig {
  const found = cluster.look(mutating, { name: installation.mutatingWebhookConfiguration });
  const { webhooks } = found as unknown as { webhooks: readonly { readonly clientConfig: ClientConfig }[] };
  return webhooks[0]?.clientConfig ?? {};
}

function bundleIn({ caBundle = '' }: ClientConfig): string {
  return Buffer.from(caBundle, 'base64').toString();
}

function review(): string {
  const object = { apiVersion: 'v1', kind: 'Pod', metadata: { generateName: 'a-' }, spec: { containers: [] } };
  const request = { uid: 'r', operation: 'CREATE', namespace: 'shop', kind: { group: '', kind: 'Pod' }, object };
  return JSON.stringify({ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', request });
}

/** Like the API server: by the URL in the registration, over a new connection, trusting only its caBundle. */
function call({ url = '', ...config }: ClientConfig): Promise<number> {
  return new Promise((resolve, reject) => {
    const request = httpsRequest(url, { method: 'POST', ca: bundleIn(config), agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    request.on('error', reject);
    request.end(review());
  });
}

describe('admission as a whole', () => {
  it('FG-15, FG-20: is ready once every registration trusts what is served and points at it', async () => {
    const cluster = new MemoryCluster();
    install(cluster);
    const admission = start(cluster);
    await expect(admission.checkReady(AbortSignal.timeout(60_000))).rejects.toThrow('not been checked yet');
    await admission.ready;
    await admission.checkReady(AbortSignal.timeout(60_000));

    expect(await call(podRegistration(cluster))).toBe(200);
    expect(podRegistration(cluster).url).toMatch(new RegExp(`^https://127.0.0.1:\\d+${podWebhook.path}$`));
    const { spec } = cluster.look(kubeResource.customResourceDefinitions, crd.metadata) as unknown as typeof crd;
    expect(spec.conversion.webhook).toMatchObject({
      clientConfig: { url: expect.stringMatching(/\/convert$/), caBundle: podRegistration(cluster).caBundle },
      conversionReviewVersions: ['v1'],
    });
  });

  it('writes caBundle again as soon as somebody has taken it away, and only then', async () => {
    const cluster = new MemoryCluster();
    install(cluster);
    await start(cluster).ready;
    const before = podRegistration(cluster);
    install(cluster);
    await waitFor('caBundle', () => podRegistration(cluster).caBundle === before.caBundle);
    await waitFor('the CRD', () =>
      JSON.stringify(cluster.look(kubeResource.customResourceDefinitions, crd.metadata)).includes('caBundle'),
    );
    const patches = () => cluster.calls.filter((made) => made.startsWith('patch')).length;
    // Its own writes are seen in the watch and must not lead to further ones.
    const settled = patches();
    cluster.put(kubeResource.secrets, {
      ...cluster.look(kubeResource.secrets, secret),
      metadata: { ...secret, labels: { a: 'b' } },
    });
    const reads = () => cluster.calls.filter((made) => made === `get secrets/${secret.name}`).length;
    const readsBefore = reads();
    await waitFor('another pass', () => reads() > readsBefore);
    expect(patches()).toBe(settled);
  });

  it('FG-16: says what is missing when it is not ready in time, and is ready when that comes later', async () => {
    const cluster = new MemoryCluster();
    const timing = { host: '127.0.0.1', port: 0, secretName: 's', serviceName: 'x', initializeTimeoutSeconds: 5 };
    const admission = start(cluster, {
      webhook: { ...timing, renewBeforeSeconds: 3600, certificateLifetimeSeconds: 7200 },
    });
    await expect(admission.ready).rejects.toThrow(
      /^Admission is not ready after 5s: .*MutatingWebhookConfiguration "kruise-mutating-webhook-configuration" is missing/,
    );
    install(cluster);
    await waitFor('readiness', async () => {
      await admission.checkReady(AbortSignal.timeout(60_000));
      return true;
    });
  });

  describe('while SidecarSets can be listed only once they are converted', () => {
    const failed = 'conversion webhook for apps.kruise.io/v1alpha1, Kind=SidecarSet failed: x509: unknown authority';
    /** A client whose lists of SidecarSets fail until the CRD trusts `/convert`, and with `reached` until this resolves. */
    function behindConversion(cluster: MemoryCluster, { reached = Promise.resolve(), error = failed } = {}) {
      const client = cluster.client();
      let isReached = false;
      void reached.then(() => {
        isReached = true;
      });
      const list: typeof client.list = async (resource, options) => {
        const definition = JSON.stringify(cluster.look(kubeResource.customResourceDefinitions, crd.metadata));
        if (resource.plural === sidecarSets.plural && !(isReached && definition.includes('caBundle'))) {
          throw new Error(error);
        }
        return await client.list(resource, options);
      };
      return new Proxy(client, { get: (all, name) => (name === 'list' ? list : Reflect.get(all, name)) });
    }
    const byService = { port: 0, secretName: 's', serviceName: 'x', renewBeforeSeconds: 3600 };
    const never = new Promise<void>(() => undefined);

    it('has the CRDs trust it first, and is ready once they are read', async () => {
      const cluster = new MemoryCluster();
      install(cluster);
      await start(cluster, { client: behindConversion(cluster) }).ready;
      expect(cluster.calls.filter((made) => made.startsWith('list sidecarsets'))).toHaveLength(1);
    });

    it('is ready behind a Service, whose endpoints are ready ones', async () => {
      const cluster = new MemoryCluster();
      install(cluster);
      const admission = start(cluster, {
        client: behindConversion(cluster, { reached: never }),
        webhook: { ...byService, certificateLifetimeSeconds: 7200, initializeTimeoutSeconds: 120 },
      });
      await admission.ready;
    });

    it.each([
      ['at an address of its own', failed, '127.0.0.1'],
      ['for another reason', 'sidecarsets is forbidden', undefined],
    ])('says why they cannot be listed %s', async (_, error, host) => {
      const cluster = new MemoryCluster();
      install(cluster);
      const admission = start(cluster, {
        client: behindConversion(cluster, { reached: never, error }),
        webhook: {
          ...{ ...byService, ...(host !== undefined && { host }) },
          ...{ certificateLifetimeSeconds: 7200, initializeTimeoutSeconds: 5 },
        },
      });
      await expect(admission.ready).rejects.toThrow(
        `Admission is not ready after 5s: SidecarSets have not been read yet: ${error}`,
      );
      expect(bundleIn(podRegistration(cluster))).toContain('BEGIN CERTIFICATE');
    });
  });

  it('FG-22: with external certificates writes nothing at all', async () => {
    const cluster = new MemoryCluster();
    install(cluster);
    await start(cluster).ready;
    const own = podRegistration(cluster);
    const { data = {} } = cluster.look(kubeResource.secrets, secret) as unknown as { data?: Record<string, string> };
    const external = { 'ca.crt': data['ca-cert.pem'], 'tls.crt': data['tls.crt'], 'tls.key': data['tls.key'] };
    cluster.put(kubeResource.secrets, { metadata: { ...secret, name: 'external' }, data: external });
    const from = cluster.calls.length;
    const admission = start(cluster, {
      featureGates: parseFeatureGates('EnableExternalCerts=true'),
      webhook: {
        ...{ host: '127.0.0.1', port: 0, secretName: 'external', serviceName: 'x', initializeTimeoutSeconds: 120 },
        ...{ renewBeforeSeconds: 3600, certificateLifetimeSeconds: 7200 },
      },
    });
    await admission.ready;
    expect(podRegistration(cluster)).toEqual(own);
    expect(cluster.calls.slice(from).filter((made) => /^(create|patch)/.test(made))).toEqual([]);
  });

  it('FG-19: two authorities follow each other under requests, and not one request fails', async () => {
    const cluster = new MemoryCluster();
    install(cluster);
    // The clock of the certificates starts hours ago and advances until now, so that each of them is valid for TLS:
    // they last four hours. CAs follow each other after one hour each; an advance of the clock during a pass may use a
    // third of that.
    let nowMs = Date.now() - 3.75 * 3_600_000;
    const port = await freePort();
    const admissions = [start(cluster, { now: () => nowMs }, port)];
    await admissions[0]?.ready;

    // The API server applies a change of its registrations 20 s later.
    const heard: { readonly atMs: number; readonly config: ClientConfig }[] = [];
    const listen = () => heard.push({ atMs: nowMs, config: podRegistration(cluster) });
    const known = () => heard.findLast(({ atMs }) => atMs <= nowMs - 20_000) ?? heard[0];
    const results: (number | string)[] = [];
    let stop = false;
    listen();
    const requests = (async () => {
      while (!stop) {
        results.push(await call(known()?.config ?? {}).catch(String));
        listen();
      }
    })();

    const served = () => {
      const { data = {} } = cluster.look(kubeResource.secrets, secret) as unknown as { data?: Record<string, string> };
      const [authority] = certificatesIn(Buffer.from(data['ca-cert.pem'] ?? '', 'base64').toString());
      const [certificate] = certificatesIn(Buffer.from(data['tls.crt'] ?? '', 'base64').toString());
      if (authority === undefined || certificate === undefined) throw new Error('there is nothing in the Secret');
      return { authority, certificate };
    };
    const authorities = new Set<string>();
    const certificates = new Set<string>();
    const reads = () => cluster.calls.filter((made) => made === `get secrets/${secret.name}`).length;
    while (nowMs < Date.now() - 1_800_000) {
      const { authority, certificate } = served();
      authorities.add(authority.serialNumber);
      certificates.add(certificate.serialNumber);
      // Slowly during a change of CAs, fast in between.
      nowMs += hasIssued(authority, certificate) ? 1_200_000 : 8_000;
      // Each advance of the clock is followed by a pass, which the change of the Secret triggers, and by some requests.
      const [readsBefore, resultsBefore] = [reads(), results.length];
      const kept = cluster.look(kubeResource.secrets, secret);
      const labels = { turn: String(nowMs) };
      if (kept) cluster.put(kubeResource.secrets, { ...kept, metadata: { ...kept.metadata, labels } });
      await waitFor('a pass and requests', () => reads() > readsBefore && results.length > resultsBefore + 8);
    }
    stop = true;
    await requests;
    expect(new Set(results)).toEqual(new Set([200]));
    expect(authorities.size).toBeGreaterThanOrEqual(3);
    expect(certificates.size).toBeGreaterThanOrEqual(3);
  });
});

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise<void>((resolve) => server.close(() => resolve()));
  return typeof address === 'object' && address !== null ? address.port : 0;
}
