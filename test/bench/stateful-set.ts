// StatefulSets beside those of `apps/v1`, in turn on one cluster: the same template, the same policy, the same steps.
import { setTimeout as delay } from 'node:timers/promises';
import type { KubeObject, Resource } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import { inPlaceReadinessGate } from '../../api/in-place/annotations.ts';
import { containersMetaOf, isReportedOn } from '../../api/in-place/containers-meta.ts';
import { statefulSets } from '../../api/stateful-set/types.ts';
import { type BenchCluster, benchNamespace, type Followed, isReady, relistMs } from './cluster.ts';
import { quantile, shown } from './figures.ts';
import { type Comparison, type Pair, ratioTable } from './pairs.ts';
import { inPairs, type Visit } from './visits.ts';

/** Both kinds have these fields. */
interface AnyStatefulSet extends KubeObject {
  readonly spec: { readonly replicas?: number };
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
type Side = keyof Pair;

/** What it takes to measure one of the kinds. */
interface Subject {
  readonly resource: Resource;
  readonly objects: Followed<AnyStatefulSet>;
  /** Its `rollingUpdate`, where pods are recreated. */
  readonly rollingUpdate?: object;
}

interface Order {
  readonly policy: Policy;
  readonly replicas: number;
  /** The only difference that pods to be updated in place have. */
  readonly podSpec?: object;
}

const appsStatefulSets = {
  ...{ group: 'apps', version: 'v1', plural: 'statefulsets', kind: 'StatefulSet', namespaced: true },
} as const satisfies Resource;

/** The target for what takes as long as the kubelets need. */
const mostRatio = 1.05;

/** How many pods there are, and how many are left in between. In order each pod waits for the one before it. */
const sizes: Readonly<Record<Policy, { readonly replicas: number; readonly fewer: number }>> = {
  Parallel: { replicas: 10, fewer: 5 },
  OrderedReady: { replicas: 3, fewer: 1 },
};

const images = { old: 'busybox:1.35', new: 'busybox:1.36' } as const;

/** How long StatefulSets take beside those of `apps/v1`: Markdown. */
export async function statefulSetFigures(cluster: BenchCluster, pairs: number): Promise<string> {
  const { scale, rollOut, warmUp, lags } = await statefulSetTakes(cluster);
  await warmUp();
  const scaled: Comparison[] = [];
  for (const policy of ['Parallel', 'OrderedReady'] as const) {
    scaled.push(...(await inPairs({ base: scale('base', policy), present: scale('present', policy) }, pairs)));
  }
  const rolledOut = await inPairs({ base: rollOut('base'), present: rollOut('present') }, pairs);
  const { replicas } = sizes.OrderedReady;
  return [
    'Times in milliseconds, until the pods are as wanted and the status says so. The same template (busybox that ends at once ' +
      'on TERM, grace period 1 s, its image on the nodes and not pulled again) and the same `podManagementPolicy` for both ' +
      'kinds. Which kind goes first alternates. Before each step pods are left alone for one to two seconds, as long for both ' +
      'kinds of a pair and for a different time in the next one, since kubelets look at their containers once a second. Pairs ' +
      'with more than 5 % of the CPU stolen are dropped and taken again.',
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
    lagTable(lags),
  ].join('\n\n');
}

/** What is measured of both kinds: visits to StatefulSets of their own. */
export async function statefulSetTakes(cluster: BenchCluster) {
  const subjects: Readonly<Record<Side, Subject>> = {
    base: { resource: appsStatefulSets, objects: await cluster.follow<AnyStatefulSet>(appsStatefulSets) },
    present: {
      resource: statefulSets,
      objects: await cluster.follow<AnyStatefulSet>(statefulSets),
      rollingUpdate: { podUpdatePolicy: 'ReCreate', maxUnavailable: 1 },
    },
  };
  const lags: Readonly<Record<Side, number[]>> = { base: [], present: [] };
  let number = 0;

  /** Creates, scales in and scales out. */
  const scale =
    (side: Side, policy: Policy): Visit =>
    async (phase) => {
      const { replicas, fewer } = sizes[policy];
      const set = newSet(side, { policy, replicas });
      const [created, fromTo, back] = [`create ${replicas}`, `${replicas} → ${fewer}`, `${fewer} → ${replicas}`];
      await rest(phase);
      const took: Record<string, number> = { [`${created}, ${policy}`]: await set.create() };
      await rested(set.name, phase);
      took[`${fromTo}, ${policy}`] = await set.scale(fewer);
      await rested(set.name, phase);
      took[`${back}, ${policy}`] = await set.scale(replicas);
      await set.remove();
      return took;
    };

  /** Rolls another image out by recreation, and in place where that is possible. */
  const rollOut =
    (side: Side): Visit =>
    async (phase) => {
      const recreation = await rollOutOf(newSet(side, rolledOut), phase);
      if (side === 'base') return { [recreated]: recreation, [inPlace]: recreation };
      const readinessGates = [{ conditionType: inPlaceReadinessGate }];
      const set = newSet(side, { ...rolledOut, podSpec: { readinessGates } }, { podUpdatePolicy: 'InPlaceIfPossible' });
      return { [recreated]: recreation, [inPlace]: await rollOutOf(set, phase) };
    };

  async function rollOutOf(set: ReturnType<typeof newSet>, phase: number): Promise<number> {
    await set.create();
    await rested(set.name, phase);
    const took = await set.rollOut();
    await set.remove();
    return took;
  }

  /** One of everything, so that images are on both nodes and code is compiled. */
  async function warmUp(): Promise<void> {
    for (const side of ['base', 'present'] as const) {
      await scale(side, 'Parallel')(0);
      await rollOut(side)(0);
    }
    for (const values of Object.values(lags)) values.length = 0;
  }

  /** The pods of this name have been reported on, which ends what is to be done about new ones, and a while has passed. */
  async function rested(app: string, phase: number): Promise<void> {
    const isDone = (pod: Pod) => !isReportedOn(pod) || containersMetaOf(pod) !== undefined;
    await cluster.podsAre(`the pods of ${app} are reported on`, (pods) => ofApp(pods, app).every(isDone));
    await rest(phase);
  }

  async function rest(phase: number): Promise<void> {
    await delay((1 + phase) * relistMs);
  }

  function newSet(side: Side, { policy, replicas, podSpec = {} }: Order, rollingUpdate: object = {}) {
    const { resource, objects, ...subject } = subjects[side];
    const name = `bench-${Date.now().toString(36)}-${number++}`;
    const ref = { namespace: benchNamespace, name };
    const updateStrategy = {
      type: 'RollingUpdate',
      ...(subject.rollingUpdate && { rollingUpdate: { ...subject.rollingUpdate, ...rollingUpdate } }),
    };

    /** Milliseconds until pods and status are as wanted. */
    async function until(
      write: () => Promise<AnyStatefulSet>,
      wanted: { readonly replicas: number; readonly image: string },
    ): Promise<number> {
      const startedAt = performance.now();
      const { metadata } = await write();
      const what = `${wanted.replicas} pods of ${resource.group}/${resource.kind} ${name}, ${wanted.image}`;
      const now = () => performance.now();
      const [podsAt, statusAt] = await Promise.all([
        cluster.podsAre(what, (pods) => arePods(ofApp(pods, name), wanted)).then(now),
        objects
          .is(metadata.uid, `the status tells ${what}`, (set) => tells(set, metadata.generation, wanted.replicas))
          .then(now),
      ]);
      lags[side].push(statusAt - podsAt);
      return Math.max(podsAt, statusAt) - startedAt;
    }

    const spec = (image: string) => ({ ...podSpecOf(image), ...podSpec });
    const patch = async (change: object): Promise<AnyStatefulSet> =>
      await cluster.kube.patch<AnyStatefulSet>(resource, ref, 'merge', { spec: change });
    return {
      name,
      async create(): Promise<number> {
        const labels = { app: name };
        const template = { metadata: { labels }, spec: spec(images.old) };
        const selector = { matchLabels: labels };
        const body = { replicas, selector, serviceName: name, podManagementPolicy: policy, updateStrategy, template };
        return await until(() => cluster.kube.create<AnyStatefulSet>(resource, { metadata: ref, spec: body }), {
          ...{ replicas, image: images.old },
        });
      },
      scale: async (to: number) => await until(() => patch({ replicas: to }), { replicas: to, image: images.old }),
      rollOut: async () =>
        await until(() => patch({ template: { spec: spec(images.new) } }), { replicas, image: images.new }),
      async remove(): Promise<void> {
        await cluster.remove(resource, name);
        await cluster.podsAre(`the pods of ${name} are gone`, (pods) => ofApp(pods, name).length === 0);
      },
    };
  }

  return { scale, rollOut, warmUp, lags };
}

const rolledOut = { policy: 'OrderedReady', replicas: sizes.OrderedReady.replicas } as const satisfies Order;
const recreated = `roll out ${rolledOut.replicas} by recreation, ${rolledOut.policy}`;
const inPlace = `roll out ${rolledOut.replicas} in place, ${rolledOut.policy}`;

function ofApp(pods: readonly Pod[], app: string): readonly Pod[] {
  return pods.filter(({ metadata: { labels } }) => labels?.app === app);
}

function arePods(pods: readonly Pod[], wanted: { readonly replicas: number; readonly image: string }): boolean {
  const isDone = (pod: Pod) =>
    pod.metadata.deletionTimestamp === undefined &&
    isReady(pod) &&
    // in place, the spec changes before the container does
    pod.spec.containers[0]?.image === wanted.image &&
    pod.status?.containerStatuses?.[0]?.image?.endsWith(wanted.image) === true;
  return pods.length === wanted.replicas && pods.every(isDone);
}

/** Whether the status is about this generation, and says that all of so many pods are available and of one revision. */
function tells({ status }: AnyStatefulSet, generation: number | undefined, replicas: number): boolean {
  if (status === undefined || (status.observedGeneration ?? 0) < (generation ?? 0)) return false;
  const counts = [status.replicas, status.readyReplicas, status.availableReplicas, status.updatedReplicas];
  return counts.every((count = 0) => count === replicas) && status.currentRevision === status.updateRevision;
}

function podSpecOf(image: string): object {
  const command = ['sh', '-c', 'trap exit TERM; sleep 99999 & wait'];
  // by default OpenKruise's templates ask the registry at each start, and those of apps/v1 do not
  const container = { name: 'app', image, imagePullPolicy: 'IfNotPresent', command };
  return { terminationGracePeriodSeconds: 1, containers: [container] };
}

/** Markdown. */
function lagTable(lags: Readonly<Record<Side, readonly number[]>>): string {
  const rows = (
    [
      ['apps/v1', lags.base],
      ['this', lags.present],
    ] as const
  ).map(([what, values]) => `| ${[what, ...[0, 0.5, 1].map((share) => shown(quantile(values, share)))].join(' | ')} |`);
  return ['| | min | median | max |', '| --- | --- | --- | --- |', ...rows].join('\n');
}
