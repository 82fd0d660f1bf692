/**
 * `npm run test:hostile [-- values]`: every field of every kind with the largest, deepest, longest and oddest values, one
 * object at a time and then 200 at once, beside forty well-behaved neighbours, on a cluster of its own. A number draws so
 * many values of each kind; `CHAOS_SEED=` repeats a draw. Exits with 1 when anybody else was the worse for it.
 */

import { findInstance } from '../../deploy/local/instance.ts';
import { down, rolePorts, status, up } from '../../deploy/local/platform.ts';
import { createProgress } from '../../deploy/local/progress.ts';
import { createKubeClient } from '../../kube/client.ts';
import { seedFrom } from '../chaos/random.ts';
import { localCluster } from '../e2e/local-cluster.ts';
import { patient } from '../support/patience.ts';
import { attack } from './attack.ts';

const name = 'hostile';
const [values] = process.argv.slice(2);
const seed = seedFrom(process.env);
const progress = createProgress();
await down(name, progress);
try {
  const platform = await up({ name, nodes: 2, windlass: true, progress });
  process.env.WINDLASS_INSTANCE = name;
  const local = await localCluster();
  const kube = patient(
    createKubeClient({ kubeconfig: platform.kubeconfig, userAgent: 'windlass-test', qps: 1_000, burst: 2_000 }),
  );
  console.log(`seed ${seed}`);
  const { problems, accepted, refused } = await attack(
    {
      ...{ kube, temporal: local.temporal, newNamespace: local.newNamespace, auditLog: local.auditLog },
      platform: () => status(name) ?? platform,
      watcherMetrics: `${findInstance(name)?.addresses.controlPlane}:${rolePorts.watcher}`,
    },
    {
      ...{ seed, neighbours: 40, atOnce: 200, quietMs: 75_000, say: (text) => console.log(text) },
      ...(values !== undefined && { valuesPerKind: Number(values) }),
    },
  );
  for (const problem of problems) console.log(`PROBLEM ${problem}`);
  console.log(`${accepted} accepted, ${refused} refused; seed ${seed}`);
  console.log(`\n${problems.length === 0 ? 1 : 0} passed, ${problems.length === 0 ? 0 : 1} failed, 0 skipped`);
  process.exitCode = problems.length === 0 ? 0 : 1;
  await Promise.all([kube.close(), local.close()]);
} finally {
  await down(name, progress);
}
