import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Resource } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { ensureAuthority, ensureCertificate } from '../../deploy/local/certificates.ts';
import type { KubeClient } from '../../kube/client.ts';
import { isServing } from './fleet-watch.ts';

/** The resource metrics API of a cluster, with values set by a test. */
export interface ResourceMetrics {
  /** Sets the CPU usage of all pods of this namespace together, in millicores, in equal parts. */
  use(namespace: string, millicores: number): void;
  /** Removes the API from the cluster. */
  stop(): Promise<void>;
}

const apiServices: Resource = {
  group: 'apiregistration.k8s.io',
  version: 'v1',
  plural: 'apiservices',
  kind: 'APIService',
  namespaced: false,
};

const groupVersion = 'metrics.k8s.io/v1beta1';
const service = 'resource-metrics';

/**
 * Serves metrics.k8s.io like a metrics server: behind an APIService and a Service, whose only endpoint is this process
 * at `address`, which the API server can reach.
 */
export async function serveResourceMetrics(
  kube: KubeClient,
  { namespace, address }: { readonly namespace: string; readonly address: string },
): Promise<ResourceMetrics> {
  const used = new Map<string, number>();
  const folder = mkdtempSync(join(tmpdir(), 'resource-metrics-'));
  await ensureAuthority(folder);
  await ensureCertificate(folder, 'server', { name: service, hosts: [`${service}.${namespace}.svc`] });
  const file = (name: string): Buffer => readFileSync(join(folder, name));

  const server = createServer({ key: file('server.key'), cert: file('server.crt') }, (question, answer) => {
    void answerTo(new URL(question.url ?? '/', `https://${address}`))
      .catch((error: unknown) => ({ code: 500, body: { kind: 'Status', status: 'Failure', message: String(error) } }))
      .then(({ code, body }) => {
        answer.writeHead(code, { 'content-type': 'application/json' }).end(JSON.stringify(body));
      });
  });
  await new Promise<void>((resolve) => server.listen(0, address, resolve));
  const { port } = server.address() as AddressInfo;

  async function answerTo({ pathname, searchParams }: URL): Promise<{ readonly code: number; readonly body: object }> {
    if (pathname === `/apis/${groupVersion}`) return { code: 200, body: resources };
    const of = new RegExp(`^/apis/${groupVersion}/namespaces/([^/]+)/pods$`).exec(pathname)?.[1];
    if (of === undefined) return { code: 404, body: { kind: 'Status', status: 'Failure', code: 404 } };
    const labelSelector = searchParams.get('labelSelector') ?? '';
    const { items } = await kube.list<Pod>(kubeResource.pods, { namespace: of, labelSelector });
    const pods = items.filter((pod) => isServing(pod) && pod.metadata.deletionTimestamp === undefined);
    const each = `${Math.round(((used.get(of) ?? 0) / pods.length) * 1e6)}n`;
    return {
      code: 200,
      body: { kind: 'PodMetricsList', apiVersion: groupVersion, metadata: {}, items: pods.map(metricsOf) },
    };

    function metricsOf({ metadata, spec }: Pod): object {
      const containers = spec.containers.map(({ name }, index) => ({
        name,
        usage: { cpu: index === 0 ? each : '0', memory: '1Mi' },
      }));
      const { name, labels } = metadata;
      return {
        metadata: { name, namespace: of, labels },
        timestamp: new Date().toISOString(),
        window: '1s',
        containers,
      };
    }
  }

  const ports = [{ name: 'https', port: 443, targetPort: port, protocol: 'TCP' }];
  await kube.create(kubeResource.services, { metadata: { name: service, namespace }, spec: { ports } });
  await kube.create(kubeResource.endpointSlices, {
    metadata: { name: service, namespace, labels: { 'kubernetes.io/service-name': service } },
    addressType: 'IPv4',
    ports: [{ name: 'https', port, protocol: 'TCP' }],
    endpoints: [{ addresses: [address], conditions: { ready: true } }],
  });
  const name = 'v1beta1.metrics.k8s.io';
  await kube.create(apiServices, {
    metadata: { name },
    spec: {
      group: 'metrics.k8s.io',
      version: 'v1beta1',
      groupPriorityMinimum: 100,
      versionPriority: 100,
      caBundle: file('ca.crt').toString('base64'),
      service: { name: service, namespace, port: 443 },
    },
  });

  return {
    use: (of, millicores) => void used.set(of, millicores),
    async stop() {
      await kube.delete(apiServices, { name });
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      rmSync(folder, { recursive: true });
    },
  };
}

const resources = {
  kind: 'APIResourceList',
  apiVersion: 'v1',
  groupVersion,
  resources: [{ name: 'pods', singularName: '', namespaced: true, kind: 'PodMetrics', verbs: ['get', 'list'] }],
} as const;
