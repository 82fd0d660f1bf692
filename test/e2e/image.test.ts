import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { ContainerRecreateRequest } from '../../api/container-recreate-request/types.ts';
import { windlassImage } from '../../deploy/images/windlass.ts';
import { pushImages } from '../../deploy/local/images.ts';
import { controlPlanePorts, findInstance, instanceName, repository } from '../../deploy/local/instance.ts';
import { systemNamespace } from '../../deploy/local/roles.ts';
import { roleEntries } from '../../deploy/roles/entries.ts';
import { describeAlone } from '../support/groups.ts';
import { waitFor } from '../support/wait.ts';
import { type LocalCluster, localCluster } from './local-cluster.ts';

let cluster: LocalCluster;
const pod = 'windlass-image';

beforeAll(async () => {
  cluster = await localCluster();
});

afterAll(async () => {
  await cluster.kubectl(['delete', 'pod', '-n', systemNamespace, pod, '--ignore-not-found', '--wait=false']);
  await cluster.part.start('worker');
  await cluster.close();
});

describeAlone('the image of Windlass', () => {
  it('has every role, and its worker restarts containers where no other one runs', async () => {
    const instance = findInstance(instanceName(process.env));
    if (!instance) throw new Error('The instance is down');
    const image = await windlassImage(repository);
    await pushImages(`http://127.0.0.1:${instance.ports.registry}`, [image]);

    const asDeployed = {
      image: image.reference,
      securityContext: { readOnlyRootFilesystem: true, runAsNonRoot: true, allowPrivilegeEscalation: false },
    };
    const temporal = `${instance.addresses.controlPlane}:${controlPlanePorts.temporal}`;
    const roles = Object.keys(roleEntries);
    const manifest = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: pod, namespace: systemNamespace },
      spec: {
        serviceAccountName: 'windlass-worker',
        terminationGracePeriodSeconds: 10,
        initContainers: roles.map((role) => ({ ...asDeployed, name: `${role}-help`, args: [role, '--help'] })),
        containers: [
          {
            ...asDeployed,
            name: 'worker',
            args: ['worker', `--temporal-address=${temporal}`],
            readinessProbe: { httpGet: { path: '/readyz', port: 8000 }, periodSeconds: 1, timeoutSeconds: 10 },
          },
        ],
      },
    };
    await cluster.ok(['apply', '-f', '-'], JSON.stringify(manifest));
    await cluster.readyPod(systemNamespace, pod);
    for (const role of roles) {
      const help = await cluster.ok(['logs', '-n', systemNamespace, pod, '-c', `${role}-help`]);
      expect(help).toContain(`windlass ${role}: options`);
    }

    await cluster.part.stop('worker');
    const namespace = await cluster.newNamespace();
    await cluster.applySample('pod-three-containers.yaml', namespace);
    await cluster.readyPod(namespace, 'web');
    await cluster.applySample('container-recreate-request.yaml', namespace);
    const request = await waitFor('the request to complete', async () => {
      const now = await cluster.get<ContainerRecreateRequest>('crr', namespace, 'restart-web');
      return now.status?.phase === 'Completed' ? now : undefined;
    });
    expect(request.status?.containerRecreateStates?.map(({ phase }) => phase)).toEqual([
      'Succeeded',
      'Succeeded',
      'Succeeded',
    ]);
  });
});
