// DaemonSets beside those of `apps/v1`: they are created, given another node, and rolled out.
import type { KubeObject } from '../../api/core/meta.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { daemonSetMark, daemonSets, terminationComplete } from '../../api/daemon-set/types.ts';
import { besideApps, type MoreOfWorkload, mostRatio, type Side, sameForBoth } from './beside-apps.ts';
import type { BenchCluster } from './cluster.ts';
import { ratioTable } from './pairs.ts';
import { inPairs, type Visit } from './visits.ts';

/** Both kinds have these fields. */
interface AnyDaemonSet extends KubeObject {
  readonly status?: {
    readonly observedGeneration?: number;
    readonly desiredNumberScheduled?: number;
    readonly numberReady?: number;
    readonly numberAvailable?: number;
    readonly updatedNumberScheduled?: number;
  };
}

const resources = {
  base: { group: 'apps', version: 'v1', plural: 'daemonsets', kind: 'DaemonSet', namespaced: true },
  present: daemonSets,
} as const;

/** The nodes of the cluster, each of which has one pod. */
const nodes = 2;

const names = {
  create: `create on ${nodes} nodes`,
  leave: `a node that does not fit any more: ${nodes} → 1`,
  join: `a node that fits: 1 → ${nodes}`,
  recreated: `roll out on ${nodes} nodes by recreation, ${terminationComplete}`,
  gone: `roll out on ${nodes} nodes by recreation, one pod after the other is gone`,
  surged: `roll out on ${nodes} nodes with maxSurge 1`,
  inPlace: `roll out on ${nodes} nodes in place`,
} as const;

/** How long DaemonSets take beside those of `apps/v1`: Markdown. */
export async function daemonSetFigures(cluster: BenchCluster, pairs: number): Promise<string> {
  const { workload, rest, rested, forget, lags } = await besideApps<AnyDaemonSet>(cluster, { resources, tells });

  function newSet(side: Side, rollingUpdate: object, more: MoreOfWorkload = {}) {
    return workload(side, { updateStrategy: { type: 'RollingUpdate', rollingUpdate } }, more);
  }

  const asInApps = { annotations: { [daemonSetMark.podReplacementPolicy]: terminationComplete } };

  const visit =
    (side: Side): Visit =>
    async (phase) => {
      const took: Record<string, number> = {};
      const set = newSet(side, { maxUnavailable: 1 }, side === 'present' ? asInApps : {});
      await rest(phase);
      took[names.create] = await set.create(nodes);
      await rested(set.name, phase);
      took[names.recreated] = await set.rollOut(nodes);
      await set.remove();
      const surging = newSet(side, { maxSurge: 1, maxUnavailable: 0 });
      took[names.surged] = await rollOutOf(surging, phase);
      const recreated = took[names.recreated] ?? Number.NaN;
      if (side === 'base') return { ...took, [names.gone]: recreated, [names.inPlace]: recreated };
      took[names.gone] = await rollOutOf(newSet(side, { maxUnavailable: 1 }), phase);
      const inPlace = newSet(side, { rollingUpdateType: 'InPlaceIfPossible', maxUnavailable: 1 });
      return { ...took, [names.inPlace]: await rollOutOf(inPlace, phase) };
    };

  /** A node that starts and stops to fit: the template says which, so that nothing else of the cluster changes. */
  const move =
    (side: Side): Visit =>
    async (phase) => {
      const label = `bench.windlass.io/${side}`;
      await labelNodes(cluster, label, ['node-1', 'node-2']);
      const set = newSet(side, { maxUnavailable: 1 }, { podSpec: { nodeSelector: { [label]: 'true' } } });
      await set.create(nodes);
      await rested(set.name, phase);
      const took = { [names.leave]: await set.after(() => labelNodes(cluster, label, ['node-1']), 1), [names.join]: 0 };
      await rested(set.name, phase);
      took[names.join] = await set.after(() => labelNodes(cluster, label, ['node-1', 'node-2']), nodes);
      await set.remove();
      await labelNodes(cluster, label, []);
      return took;
    };

  async function rollOutOf(set: ReturnType<typeof newSet>, phase: number): Promise<number> {
    await set.create(nodes);
    await rested(set.name, phase);
    const took = await set.rollOut(nodes);
    await set.remove();
    return took;
  }

  // one of everything, so that images are on both nodes and code is compiled
  for (const side of ['base', 'present'] as const) {
    await visit(side)(0);
    await move(side)(0);
  }
  forget();
  const moved = await inPairs({ base: move('base'), present: move('present') }, pairs);
  const visited = await inPairs({ base: visit('base'), present: visit('present') }, pairs);
  return [
    sameForBoth,
    'Roll-outs go from node to node (`maxUnavailable` 1, or `maxSurge` 1). By recreation `apps/v1` creates the new pod of a node once ' +
      `the containers of the old one have ended, as happens here with \`${daemonSetMark.podReplacementPolicy}: ${terminationComplete}\`. ` +
      'Otherwise it waits, as in OpenKruise, until the old pod is gone (AD-20), for which the kubelet takes up to a second more.',
    ratioTable([...moved, ...visited.filter(({ what }) => what !== names.inPlace)], 'apps/v1', mostRatio),
    'The same change of the image in place (`InPlaceIfPossible`), beside the recreation by `apps/v1`:',
    ratioTable(
      visited.filter(({ what }) => what === names.inPlace),
      'apps/v1',
      mostRatio,
    ),
    'Of these times, from the moment at which the last pod is as wanted to that at which the status says so:',
    lags(),
  ].join('\n\n');
}

/** Gives these nodes the label, and takes it from the others. */
async function labelNodes(cluster: BenchCluster, label: string, wanted: readonly string[]): Promise<void> {
  for (const name of ['node-1', 'node-2']) {
    const labels = { [label]: wanted.includes(name) ? 'true' : null };
    await cluster.kube.patch(kubeResource.nodes, { name }, 'merge', { metadata: { labels } });
  }
}

/** Whether the status is about this generation, and says that all of so many nodes have an available pod of the template. */
function tells({ status }: AnyDaemonSet, generation: number | undefined, pods: number): boolean {
  if (status === undefined || (status.observedGeneration ?? 0) < (generation ?? 0)) return false;
  const { desiredNumberScheduled, numberReady, numberAvailable, updatedNumberScheduled } = status;
  const counts = [desiredNumberScheduled, numberReady, numberAvailable, updatedNumberScheduled];
  return counts.every((count = 0) => count === pods);
}
