import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { findInstance } from '../../deploy/local/instance.ts';
import { rolePorts, status } from '../../deploy/local/platform.ts';
import { seedFrom } from '../chaos/random.ts';
import { attack } from '../hostile/attack.ts';
import { type Cluster, connectToCluster } from '../support/cluster.ts';
import { describeAlone } from '../support/groups.ts';
import type { TestPlatform } from '../support/platform.ts';
import { type LocalCluster, localCluster } from './local-cluster.ts';

let local: LocalCluster;
let cluster: Cluster;

beforeAll(async () => {
  local = await localCluster();
  cluster = connectToCluster({ kubeconfig: local.kubeconfig } as TestPlatform);
});

afterAll(async () => {
  await cluster?.close();
  await local?.close();
});

describeAlone('objects with hostile values', () => {
  it('leave their neighbours as they are, drawn by a seed', async () => {
    const instance = process.env.WINDLASS_INSTANCE ?? 'default';
    const seed = seedFrom(process.env);
    const startedAtMs = performance.now();
    const say = (text: string) =>
      process.stdout.write(`${String(Math.round((performance.now() - startedAtMs) / 1000)).padStart(4)} s  ${text}\n`);
    say(`CHAOS_SEED=${seed}`);
    const { problems, accepted, refused } = await attack(
      {
        ...{ kube: cluster.kube, temporal: local.temporal },
        ...{ newNamespace: local.newNamespace, auditLog: local.auditLog },
        platform: () => {
          const now = status(instance);
          if (!now) throw new Error(`Instance "${instance}" is down`);
          return now;
        },
        watcherMetrics: `${findInstance(instance)?.addresses.controlPlane}:${rolePorts.watcher}`,
      },
      { seed, neighbours: 8, valuesPerKind: 4, atOnce: 40, quietMs: 15_000, say },
    );
    expect(problems).toEqual([]);
    expect(accepted + refused).toBeGreaterThan(60);
  });
});
