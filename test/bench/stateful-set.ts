// StatefulSets beside those of `apps/v1`: with the same policy they are created, scaled and rolled out.
import type { KubeObject } from '../../api/core/meta.ts';
import { inPlaceReadinessGate } from '../../api/in-place/annotations.ts';
import { statefulSets } from '../../api/stateful-set/types.ts';
import { besideApps, mostRatio, type Side, sameForBoth } from './beside-apps.ts';
import type { BenchCluster } from './cluster.ts';
import { type Comparison, ratioTable } from './pairs.ts';
import { inPairs, type Visit } from './visits.ts';

/** Both kinds have these fields. */
interface AnyStatefulSet extends KubeObject {
  readonly status?: {
    readonly observedGeneration?: number;
    readonly replicas?: number;
    readonly readyReplicas?: number;
    readonly availableReplicas?: number;
    readonly updatedReplicas?: number;
    readonly currentRevision?: string;
    readonly updateRevision?: string;
  };
}

type Policy = 'Parallel' | 'OrderedReady';

const resources = {
  base: { group: 'apps', version: 'v1', plural: 'statefulsets', kind: 'StatefulSet', namespaced: true },
  present: statefulSets,
} as const;

/** How many pods there are, and how many are left in between. In order each pod waits for the one before it. */
const sizes: Readonly<Record<Policy, { readonly replicas: number; readonly fewer: number }>> = {
  Parallel: { replicas: 10, fewer: 5 },
  OrderedReady: { replicas: 3, fewer: 1 },
};

/** How long StatefulSets take beside those of `apps/v1`: Markdown. */
export async function statefulSetFigures(cluster: BenchCluster, pairs: number): Promise<string> {
  const { scale, rollOut, warmUp, lags } = await statefulSetTakes(cluster);
  await warmUp();
  const scaled: Comparison[] = [];
  for (const policy of ['Parallel', 'OrderedReady'] as const) {
    scaled.push(...(await inPairs({ base: scale('base', policy), present: scale('present', policy) }, pairs)));
  }
  const rolledOut = await inPairs({ base: rollOut('base'), present: rollOut('present') }, pairs);
  return [
    `${sameForBoth} So is \`podManagementPolicy\`.`,
    `In order there are ${replicas} pods and not ${sizes.Parallel.replicas}: each waits for the one before it, and twenty pairs are to take half an ` +
      'hour. Roll-outs recreate one pod at a time (`RollingUpdate`, `maxUnavailable` 1, as `apps/v1` does).',
    ratioTable([...scaled, ...rolledOut.filter(({ what }) => what !== inPlace)], 'apps/v1', mostRatio),
    `The same change of the image in place (\`InPlaceIfPossible\`, \`maxUnavailable\` 1), beside the recreation by \`apps/v1\`:`,
    ratioTable(
      rolledOut.filter(({ what }) => what === inPlace),
      'apps/v1',
      mostRatio,
    ),
    'Of these times, from the moment at which the last pod is as wanted to that at which the status says so:',
    lags(),
  ].join('\n\n');
}

/** What is measured of both kinds: visits to StatefulSets of their own. */
export async function statefulSetTakes(cluster: BenchCluster) {
  const { workload, rest, rested, forget, lags } = await besideApps<AnyStatefulSet>(cluster, { resources, tells });

  function newSet(side: Side, policy: Policy, rollingUpdate: object = {}, podSpec: object = {}) {
    const ours = { podUpdatePolicy: 'ReCreate', maxUnavailable: 1, ...rollingUpdate };
    const updateStrategy = { type: 'RollingUpdate', ...(side === 'present' && { rollingUpdate: ours }) };
    const spec = {
      replicas: sizes[policy].replicas,
      serviceName: 'bench',
      podManagementPolicy: policy,
      updateStrategy,
    };
    return workload(side, spec, { podSpec });
  }

  /** Creates, scales in and scales out. */
  const scale =
    (side: Side, policy: Policy): Visit =>
    async (phase) => {
      const { replicas: most, fewer } = sizes[policy];
      const set = newSet(side, policy);
      const [created, fromTo, back] = [`create ${most}`, `${most} → ${fewer}`, `${fewer} → ${most}`];
      await rest(phase);
      const took: Record<string, number> = { [`${created}, ${policy}`]: await set.create(most) };
      await rested(set.name, phase);
      took[`${fromTo}, ${policy}`] = await set.change({ replicas: fewer }, fewer);
      await rested(set.name, phase);
      took[`${back}, ${policy}`] = await set.change({ replicas: most }, most);
      await set.remove();
      return took;
    };

  /** Rolls another image out by recreation, and in place where that is possible. */
  const rollOut =
    (side: Side): Visit =>
    async (phase) => {
      const recreation = await rollOutOf(newSet(side, 'OrderedReady'), phase);
      if (side === 'base') return { [recreated]: recreation, [inPlace]: recreation };
      const readinessGates = [{ conditionType: inPlaceReadinessGate }];
      const set = newSet(side, 'OrderedReady', { podUpdatePolicy: 'InPlaceIfPossible' }, { readinessGates });
      return { [recreated]: recreation, [inPlace]: await rollOutOf(set, phase) };
    };

  async function rollOutOf(set: ReturnType<typeof newSet>, phase: number): Promise<number> {
    await set.create(replicas);
    await rested(set.name, phase);
    const took = await set.rollOut(replicas);
    await set.remove();
    return took;
  }

  /** One of everything, so that images are on both nodes and code is compiled. */
  async function warmUp(): Promise<void> {
    for (const side of ['base', 'present'] as const) {
      await scale(side, 'Parallel')(0);
      await rollOut(side)(0);
    }
    forget();
  }

  return { scale, rollOut, warmUp, lags };
}

const { replicas } = sizes.OrderedReady;
const recreated = `roll out ${replicas} by recreation, OrderedReady`;
const inPlace = `roll out ${replicas} in place, OrderedReady`;

/** Whether the status is about this generation, and says that all of so many pods are available and of one revision. */
function tells({ status }: AnyStatefulSet, generation: number | undefined, pods: number): boolean {
  if (status === undefined || (status.observedGeneration ?? 0) < (generation ?? 0)) return false;
  const counts = [status.replicas, status.readyReplicas, status.availableReplicas, status.updatedReplicas];
  return counts.every((count = 0) => count === pods) && status.currentRevision === status.updateRevision;
}
