import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { KubeObject } from '../../api/meta.ts';
import { type LocalCluster, localCluster } from './local-cluster.ts';

let cluster: LocalCluster;

beforeAll(async () => {
  cluster = await localCluster();
});

afterAll(async () => {
  await cluster.part.stop('webhook');
  await cluster.part.start('webhook');
  await cluster.close();
});

interface Configuration extends KubeObject {
  readonly webhooks: readonly { readonly clientConfig: { readonly caBundle?: string } }[];
}

/** A machine that stands still for longer than certificates are renewed ahead outlives them. */
const aheadMs = 30_000;

describe('the certificates of the webhook', () => {
  it('change again and again while requests are made, and no request fails', async () => {
    const namespace = await cluster.newNamespace();
    await cluster.applySample('pod-three-containers.yaml', namespace);
    await cluster.readyPod(namespace, 'web');
    await cluster.part.start('webhook', ['--webhook-certs-lifetime=90s', '--webhook-certs-renew-before=60s']);
    await cluster.ok(['delete', 'secret', 'kruise-webhook-certs', '-n', 'kruise-system']);

    const request = JSON.stringify({
      apiVersion: 'apps.kruise.io/v1alpha1', // so that conversion is asked, too
      kind: 'ContainerRecreateRequest',
      metadata: { generateName: 'rotation-' },
      spec: { podName: 'web', containers: [{ name: 'app' }] },
    });
    const bundles = new Set<string>();
    const failures: string[] = [];
    let requests = 0;
    let answeredAtMs = Date.now();
    for (const deadline = Date.now() + 600_000; bundles.size < 5 || requests <= 20; requests++) {
      if (Date.now() > deadline) break;
      const answer = await cluster.kubectl(['create', '-n', namespace, '--dry-run=server', '-f', '-'], request);
      if (answer.code === 0) answeredAtMs = Date.now();
      else if (Date.now() - answeredAtMs < aheadMs) failures.push(answer.stderr);
      const name = 'kruise-mutating-webhook-configuration';
      const { webhooks } = await cluster.get<Configuration>('mutatingwebhookconfiguration', '', name);
      bundles.add(webhooks.map(({ clientConfig }) => clientConfig.caBundle).join());
    }
    expect(failures).toEqual([]);
    expect(bundles.size).toBeGreaterThanOrEqual(5);
    expect(requests).toBeGreaterThan(20);
  });
});
