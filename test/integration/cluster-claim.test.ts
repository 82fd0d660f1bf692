import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Client } from '@temporalio/client';
import { KubeError } from '../../kube/failures.ts';
import { claimId, claimNamespace } from '../../workers/cluster-claim.ts';
import { connectToTemporal } from '../support/temporal-connection.ts';
import { startTemporal, type TemporalServer } from '../support/temporal-server.ts';

let temporal: TemporalServer;
let client: Client;

beforeAll(async () => {
  temporal = await startTemporal([]);
  client = new Client({ connection: await connectToTemporal(temporal.address) });
});

afterAll(async () => {
  await client?.connection.close();
  await temporal?.stop();
});

/** What a process of the cluster with this UID is told. */
async function claimFor(uid: string): Promise<string | undefined> {
  return await claimNamespace({
    client,
    kube: { get: async () => ({ metadata: { uid } }) as never },
    log: { warn: () => {} },
  });
}

describe('a Temporal namespace', () => {
  it('belongs to the first cluster that asks, until its claim is terminated', async () => {
    const asked = await Promise.all(['one', 'two', 'one'].map(claimFor));
    const first = asked[0] === undefined ? 'one' : 'two';
    const other = first === 'one' ? 'two' : 'one';
    expect([await claimFor(first), await claimFor(first)]).toEqual([undefined, undefined]);
    expect(await claimFor(other)).toBe(
      `Temporal namespace "default" belongs to Kubernetes cluster ${first}, and this one is ${other}: use another namespace ` +
        '(--temporal-namespace), or, if that cluster is gone, temporal workflow terminate --namespace default --workflow-id ' +
        claimId,
    );

    await client.workflow.getHandle(claimId).terminate('that cluster is gone');
    expect(await claimFor(other)).toBeUndefined();
    expect(await claimFor(first)).toContain(`belongs to Kubernetes cluster ${other}`);
  });

  it('is used by a process that may not see yet which cluster it is in, as in an upgrade', async () => {
    const warnings: string[] = [];
    const log = { warn: (_: object, message: string) => void warnings.push(message) };
    const kube = { get: () => Promise.reject(new KubeError({ status: 403, message: 'namespaces is forbidden' })) };
    expect(await claimNamespace({ client, kube, log })).toBeUndefined();
    expect(warnings).toEqual(['Cannot find out whether the Temporal namespace belongs to another cluster']);
  });

  it('is not waited for where Temporal accepts connections and does not answer', async () => {
    const { port } = new URL(`http://${temporal.address}`);
    const sockets: Socket[] = [];
    const relay = createServer((near) => {
      const far = connect({ port: Number(port), host: '127.0.0.1' });
      sockets.push(near, far);
      near.pipe(far).pipe(near);
      for (const socket of [near, far]) socket.on('error', () => socket.destroy());
    });
    relay.listen(0, '127.0.0.1');
    await once(relay, 'listening');
    const frozen = new Client({
      connection: await connectToTemporal(`127.0.0.1:${(relay.address() as AddressInfo).port}`),
    });
    try {
      const kube = { get: async () => ({ metadata: { uid: 'one' } }) as never };
      const log = { warn: () => {} };
      await claimNamespace({ client: frozen, kube, log });
      for (const socket of sockets) socket.unpipe();
      await expect(claimNamespace({ client: frozen, kube, log })).rejects.toThrow();
    } finally {
      for (const socket of sockets) socket.destroy();
      relay.close();
      await frozen.connection.close();
    }
  });
});
