import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import {
  type SelectionEntry,
  type SidecarSelectionSpec,
  selectionLimit,
  sidecarSelectionName,
  sidecarSelections,
} from '../../api/sidecar-set/selection.ts';
import { KubeError } from '../../kube/failures.ts';
import { type Cluster, connectToCluster } from '../support/cluster.ts';
import { describeAlone } from '../support/groups.ts';
import { testPlatform } from '../support/platform.ts';
import { waitFor } from '../support/wait.ts';

let cluster: Cluster;

beforeAll(async () => {
  const platform = testPlatform();
  await platform.install();
  cluster = connectToCluster(platform);
});

afterAll(async () => {
  await cluster?.close();
});

/** As many SidecarSets as fit in. All are compared with every pod, and only the last selects those with `app=web`. */
function fullSelection(): SidecarSelectionSpec {
  const { sidecarSets: most, facts } = selectionLimit;
  const perSet = Math.floor(facts / most) - 2;
  const sidecarSets = Array.from({ length: most }, (_, index): SelectionEntry => {
    const name = `set-${index + 1_000}`;
    const others = Array.from({ length: perSet }, (_, other) => `app=other-${index}-${other}`);
    const isLast = index === most - 1;
    return {
      name,
      selects: isLast ? [{ anyOf: ['app=web'] }] : [],
      excludes: [`injected:${name}`, ...others, ...(isLast ? [] : ['app'])],
    };
  });
  return { sidecarSets, byFact: { '': sidecarSets.map((_, place) => place) } };
}

describeAlone('the policy for pods without sidecars', () => {
  it('SCS-3: checks a pod with many labels against as many SidecarSets as fit in', async () => {
    const { kube } = cluster;
    const namespace = await cluster.newNamespace();
    const ref = { name: sidecarSelectionName };
    const many = Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`example.test/label-${index}`, 'x']));
    const create = (app: string) =>
      kube.create<Pod>(
        kubeResource.pods,
        {
          metadata: { name: 'web', namespace, labels: { ...many, app } },
          spec: { containers: [{ name: 'app', image: 'busybox:1.36' }] },
        },
        { dryRun: true },
      );
    await kube.delete(sidecarSelections, ref).catch(() => undefined);
    await kube.create(sidecarSelections, { metadata: ref, spec: fullSelection() });
    try {
      const refusal = await waitFor('the refusal', async (see) => {
        const error = see(await create('web').catch((failure: unknown) => failure));
        return error instanceof KubeError && error;
      });
      expect([refusal.status, refusal.message]).toEqual([
        403,
        expect.stringContaining('SidecarSet "set-1799" was not injected'),
      ]);
      await expect(create('other')).resolves.toBeDefined();
    } finally {
      await kube.delete(sidecarSelections, ref);
    }
  });
});
