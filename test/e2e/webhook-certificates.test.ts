import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { ContainerRecreateRequest } from '../../api/container-recreate-request/types.ts';
import type { KubeObject } from '../../api/core/meta.ts';
import { describeAlone, describeProof } from '../support/groups.ts';
import { waitFor } from '../support/wait.ts';
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

/** Certificates expire on a machine that stalls for longer than this. */
const aheadMs = 15_000;

describeProof('slow', 'the certificates of the webhook', () => {
  it('change again and again while requests are made, and no request fails', async () => {
    const namespace = await cluster.newNamespace();
    await cluster.applySample('pod-three-containers.yaml', namespace);
    await cluster.readyPod(namespace, 'web');
    await cluster.part.start('webhook', ['--webhook-certs-lifetime=45s', '--webhook-certs-renew-before=30s']);
    await cluster.ok(['delete', 'secret', 'kruise-webhook-certs', '-n', 'kruise-system']);

    const request = JSON.stringify({
      apiVersion: 'apps.kruise.io/v1alpha1', // so that conversion is called, too
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

describeAlone('a webhook that does not know its callers', () => {
  it('H3, CRR-7: says nothing of the pod; the watcher fills the request in, which recreates its containers in order', async () => {
    await cluster.part.stop('webhook');
    await cluster.part.start('webhook', ['--client-ca=']);
    const namespace = await cluster.newNamespace();
    await cluster.applySample('pod-three-containers.yaml', namespace);
    const pod = await cluster.readyPod(namespace, 'web');
    const request = (name: string, containers: readonly string[]) =>
      JSON.stringify({
        apiVersion: 'apps.kruise.io/v1beta1',
        kind: 'ContainerRecreateRequest',
        metadata: { name },
        spec: {
          podName: 'web',
          containers: containers.map((container) => ({ name: container })),
          strategy: { orderedRecreate: true },
        },
      });
    const apply = (body: string, ...flags: readonly string[]) =>
      cluster.kubectl(['apply', '-n', namespace, '-o', 'json', ...flags, '-f', '-'], body);
    const tried = await apply(request('tried', ['app']), '--dry-run=server');
    expect((JSON.parse(tried.stdout) as ContainerRecreateRequest).spec.containers).toEqual([{ name: 'app' }]);

    const before = await cluster.containersOf(pod);
    expect(await apply(request('in-order', ['proxy', 'app']))).toMatchObject({ code: 0 });
    const ended = await waitFor('the request to end', async (see) => {
      const live = see(await cluster.get<ContainerRecreateRequest>('crr', namespace, 'in-order'));
      return live.status?.phase === 'Completed' && live;
    });
    expect(ended.status?.containerRecreateStates).toMatchObject([
      { name: 'proxy', phase: 'Succeeded' },
      { name: 'app', phase: 'Succeeded' },
    ]);
    expect(ended.spec.containers).toMatchObject([
      { name: 'proxy', statusContext: { containerID: expect.any(String) } },
      { name: 'app', statusContext: { containerID: expect.any(String) } },
    ]);
    const stopped = (await cluster.containersOf(pod)).filter(
      ({ id, running }) => !running && before.some((one) => one.id === id && one.running),
    );
    expect(stopped.map(({ name }) => name).toSorted()).toEqual(['app', 'proxy']);
  });
});
