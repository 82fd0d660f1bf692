import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { cloneSets } from '../../api/cloneset/types.ts';
import type { KubeObject } from '../../api/core/meta.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import type { Cluster } from '../support/cluster.ts';
import { describeProof } from '../support/groups.ts';
import { steadyLoad } from '../support/steady-load.ts';
import { describeStuckConnection } from '../support/stuck-connection.ts';
import { followsLoad } from './autoscaler.ts';
import { container, Fleet, type FleetOptions, images, restartsOf } from './fleet.ts';
import { type LocalCluster, localCluster } from './local-cluster.ts';

let local: LocalCluster;
let cluster: Cluster;

beforeAll(async () => {
  local = await localCluster();
  ({ cluster } = local);
});

afterAll(async () => {
  await local?.close();
});

function fleetOf(options: FleetOptions): Promise<Fleet> {
  return Fleet.create({ cluster, temporal: local.temporal }, options);
}

/** Answers `NAME VERSION`, its own and the one of its image. */
const server = container('app', {
  command: [
    'sh',
    '-c',
    `mkdir -p /www && echo "$(hostname) $(cat /etc/busybox-version)" > /www/index.html
     trap 'exit 0' TERM; httpd -p 8080 -h /www; sleep 99999 & wait`,
  ],
  // readiness does not depend on the load: a loaded node must not take a pod out of service
  readinessProbe: { httpGet: { path: '/', port: 8080 }, periodSeconds: 1, timeoutSeconds: 30 },
});

describeProof('load', 'a CloneSet in use', () => {
  it.concurrent('loses no request while thirty pods behind a Service are updated in place', async () => {
    const fleet = await fleetOf({
      replicas: 30,
      containers: [server],
      rollingUpdate: { maxUnavailable: '20%', inPlaceUpdateStrategy: { gracePeriodSeconds: 5 } },
    });
    const { spec } = await cluster.kube.create<KubeObject & { readonly spec: { readonly clusterIP: string } }>(
      kubeResource.services,
      {
        metadata: { namespace: fleet.namespace, name: 'web' },
        spec: { selector: { app: 'web' }, ports: [{ port: 80, targetPort: 8080 }] },
      },
    );
    const load = await steadyLoad({
      urls: [`http://${spec.clusterIP}/`],
      ...{ atOnce: 8, pauseMs: 50 },
      commandIn: (argv) => local.commandIn('node-1', argv),
      onStuck: async (port) => {
        const connection = { kube: cluster.kube, namespace: fleet.namespace, node: 'node-1', port };
        const text = await describeStuckConnection({ ...connection, clusterIP: spec.clusterIP, inNode: local.inNode });
        process.stdout.write(`A request from port ${port} is not connected\n${text}\n`);
      },
    });
    const before = fleet.identities();
    await fleet.update(images.new);
    await fleet.untilUpdated(30);
    const { asked, failures, answers, slowestMs } = await load.stop();

    expect(failures).toEqual([]);
    expect(asked).toBeGreaterThan(500);
    const versions = Object.keys(answers).map((answer) => answer.split(' ')[1]);
    expect(new Set(versions)).toEqual(new Set(['1.35', '1.36']));
    expect(new Set(Object.keys(answers).map((answer) => answer.split(' ')[0])).size).toBeGreaterThan(25);
    process.stdout.write(`${asked} requests, the slowest took ${slowestMs} ms\n`);
    expect(fleet.identities()).toEqual(before);
    fleet.neverFewerReady(24);
    for (const [, pod] of fleet.pods()) expect(restartsOf(pod, 'app')).toBe(1);
  });

  it.concurrent('CS-97: follows a HorizontalPodAutoscaler up and down, by the load of its pods', async () => {
    await followsLoad(local, { resource: cloneSets });
  });
});
