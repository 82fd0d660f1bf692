import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { apiVersionOf, type Resource } from '../../api/core/meta.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { roles, systemNamespace } from '../../deploy/local/roles.ts';
import { waitFor } from './wait.ts';
import type { Windlass } from './windlass.ts';

/** Writes of a role that the API server is not to carry out. */
export interface HeldWrites {
  /** Absent: the cluster worker. */
  readonly by?: 'worker' | 'watcher';
  readonly resource: Resource;
  readonly subresource?: 'status';
  readonly operation: 'CREATE' | 'UPDATE';
  /** Which of them, by a CEL expression over `object`. */
  readonly which: string;
}

/** How long such a write takes until the API server reports a failure. */
const heldSeconds = 3;

/**
 * Makes the API server ask somebody about these writes who does not answer, so that the activity of each takes a while
 * and is retried, until the returned function is called.
 */
export async function holdWrites({ cluster, platform }: Windlass, writes: HeldWrites): Promise<() => Promise<void>> {
  const { by = 'worker', resource, subresource, operation, which } = writes;
  const { kube } = cluster;
  const name = `test-${randomUUID()}`;
  const sockets = new Set<Socket>();
  const silent = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
  });
  silent.listen(0, platform.machine);
  await once(silent, 'listening');
  const address = silent.address();
  const port = typeof address === 'object' && address ? address.port : 0;

  const user = `system:serviceaccount:${systemNamespace}:${roles[by].serviceAccount}`;
  const configurations = kubeResource.validatingWebhookConfigurations;
  const common = {
    failurePolicy: 'Fail',
    sideEffects: 'None',
    timeoutSeconds: heldSeconds,
    admissionReviewVersions: ['v1'],
  } as const;
  const resources = [`${resource.plural}${subresource ? `/${subresource}` : ''}`];
  await kube.create(configurations, {
    apiVersion: apiVersionOf(configurations),
    kind: configurations.kind,
    metadata: { name },
    webhooks: [
      {
        ...common,
        name: 'held.windlass.test',
        clientConfig: { url: `https://${platform.machine}:${port}/` },
        rules: [{ apiGroups: [resource.group], apiVersions: ['*'], operations: [operation], resources }],
        matchConditions: [{ name: 'which', expression: `request.userInfo.username == "${user}" && (${which})` }],
      },
      {
        ...common,
        name: 'probe.windlass.test',
        // nobody listens there
        clientConfig: { url: 'https://127.0.0.1:1/' },
        rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['configmaps'] }],
        matchConditions: [{ name: 'which', expression: `object.metadata.name == "${name}"` }],
      },
    ],
  });
  const probe = { metadata: { namespace: 'default', name } };
  await waitFor('the API server to know the webhook', async () => {
    const answer = await kube.create(kubeResource.configMaps, probe, { dryRun: true }).catch(String);
    return typeof answer === 'string' && answer.includes('probe.windlass.test');
  });
  return async () => {
    await kube.delete(configurations, { name });
    for (const socket of sockets) socket.destroy();
    silent.close();
  };
}
