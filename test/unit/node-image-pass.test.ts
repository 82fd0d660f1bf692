import { describe, expect, it } from '@jest/globals';
import type { Node } from '../../api/core/node.ts';
import { engineNoDaemon } from '../../api/engine/engine-trouble.ts';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import { type NodeImage, nodeImages } from '../../api/node-image/types.ts';
import { type NodeImagePassDependencies, passOverNodeImage } from '../../watcher/kinds/node-image/pass.ts';
import type { WantedOperation } from '../../watcher/starter.ts';
import { MemoryCluster } from '../support/fake-api/memory-cluster.ts';
import { bornAt, bornMs, nodeImage } from '../support/pull-objects.ts';

describe('a NodeImage whose node has no daemon', () => {
  const since = '2026-11-28T10:00:00Z';

  function watcherOf(waiting: string | undefined, isDown: () => boolean) {
    const cluster = new MemoryCluster();
    const live = nodeImage('a', { nginx: [{ tag: '1.27', createdAt: bornAt }] });
    const waitingFor = waiting && { reason: waiting, blockedBy: [], blockedCount: 0, since: bornAt, unblock: '' };
    cluster.put(nodeImages, { ...live, ...(live.status && waitingFor && { status: { ...live.status, waitingFor } }) });
    const read = () => cluster.look<NodeImage>(nodeImages, { name: 'a' });
    const wanted: WantedOperation[] = [];
    const node = { metadata: { ...live.metadata, name: 'a', uid: 'node-uid' } } as Node;
    const world = {
      kube: cluster.client(),
      starter: {
        want: (operation: WantedOperation) => void wanted.push(operation),
        trouble: (_id: string, _shown?: string, needs?: { readonly node?: { readonly name: string } }) =>
          needs?.node && isDown() ? engineNoDaemon(needs.node.name, since) : undefined,
      },
      config: { featureGates: parseFeatureGates(), images: {}, namespace: '' },
      now: () => bornMs,
      nodes: { byName: () => node },
      nodeImages: { byName: read },
      jobs: { byName: () => undefined },
    } as unknown as NodeImagePassDependencies;
    return { read, wanted, pass: () => passOverNodeImage('a', world) };
  }

  it('EngineNoDaemon: says so', async () => {
    const { read, pass } = watcherOf(undefined, () => true);
    await pass();
    expect(read()?.status?.waitingFor).toMatchObject({
      reason: 'EngineNoDaemon',
      blockedBy: ['node/a'],
      unblock: expect.stringContaining(since),
    });
  });

  it('EngineNoDaemon: asks its operation for the status of before once, when the daemon is back', async () => {
    let isDown = true;
    const { pass, wanted } = watcherOf('EngineNoDaemon', () => isDown);
    const before = watcherOf('Pulling', () => false);
    await Promise.all([pass(), before.pass()]);
    expect(wanted[0]?.inputs).toBe(before.wanted[0]?.inputs);
    isDown = false;
    await pass();
    expect(wanted[1]?.inputs).not.toBe(before.wanted[0]?.inputs);
  });

  it('EngineNoDaemon: leaves a node that the operation itself has found silent', async () => {
    const { read, pass } = watcherOf('NodeSilent', () => true);
    await pass();
    expect(read()?.status?.waitingFor?.reason).toBe('NodeSilent');
  });
});
