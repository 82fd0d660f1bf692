import { setTimeout as delay } from 'node:timers/promises';
import { type CloneSet, cloneSets } from '../../api/cloneset/types.ts';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { inPlaceReadinessGate } from '../../api/in-place/annotations.ts';
import { containersMetaOf } from '../../api/in-place/containers-meta.ts';
import { type BenchCluster, benchNamespace, isReady, relistMs } from './cluster.ts';
import { type Figure, quantile, sample, shown, table } from './figures.ts';

/** Pods of each CloneSet that is rolled out. */
export const rolledOut = 20;
/**
 * How long new pods are left alone before they are updated. A write costs the kubelet a pass, and it makes one a second: what
 * is to be measured is a change of a workload that nobody has touched lately.
 */
export const restMs = 3 * relistMs;
const images = { old: 'busybox:1.35', new: 'busybox:1.36' } as const;

/** What becomes of a pod that is updated in place, in this order, each seen by a watch. */
const stages = ['out of service', 'changed', 'swapped', 'into service', 'ready'] as const;
type Stage = (typeof stages)[number];
type Journey = ReadonlyMap<Stage, number>;

/** What is measured of roll-outs: CloneSets of the bench, and pods of no set. */
export function rollOutTakes(cluster: BenchCluster) {
  const journeys = new Map<string, Map<Stage, number>>();
  cluster.onPod((pod) => note(journeys, pod));
  let number = 0;

  async function newSet(pods: number, maxUnavailable: string): Promise<CloneSet> {
    const name = `bench-${Date.now().toString(36)}-${number++}`;
    const set = await cluster.kube.create<CloneSet>(cloneSets, bodyOf(name, pods, maxUnavailable));
    await cluster.setIs(set.metadata.uid, `${name} is complete`, ({ status }) => status?.readyReplicas === pods);
    // the last that is to be done about new pods; what follows is measured without it
    await cluster.podsAre(`the pods of ${name} are reported on`, (all) => ofApp(all, name).every(isReportedOn));
    return set;
  }

  async function patch({ metadata }: CloneSet, spec: object): Promise<CloneSet> {
    return await cluster.kube.patch<CloneSet>(cloneSets, { namespace: benchNamespace, name: metadata.name }, 'merge', {
      spec,
    });
  }

  async function remove({ metadata }: CloneSet): Promise<void> {
    await cluster.remove(cloneSets, metadata.name);
    await cluster.podsAre(`the pods of ${metadata.name} are gone`, (pods) => ofApp(pods, metadata.name).length === 0);
  }

  /** Rolls a complete CloneSet out to the other image: milliseconds from the patch to its status. */
  async function rollOut(set: CloneSet, into?: Journey[][]): Promise<number> {
    journeys.clear();
    const startedAt = performance.now();
    const { metadata } = await patch(set, { template: { spec: podSpec(images.new) } });
    await cluster.setIs(
      set.metadata.uid,
      `${set.metadata.name} is updated`,
      ({ status }) =>
        status?.observedGeneration === metadata.generation && status?.updatedReadyReplicas === set.spec.replicas,
    );
    const took = performance.now() - startedAt;
    into?.push(journeysSince(startedAt));
    return took;
  }

  /**
   * What the kubelets need for the same change, with nobody to decide anything: gated pods of no set, taken out of service,
   * changed and put back by the fewest writes, so many of them at a time.
   */
  async function bare(phase: number, atATime: number, into?: Journey[][]): Promise<number> {
    const name = `bare-${Date.now().toString(36)}-${number++}`;
    const names = Array.from({ length: rolledOut }, (_, index) => `${name}-${index}`);
    for (const pod of names) await cluster.kube.create(kubeResource.pods, barePod(pod, name));
    const own = (pods: readonly Pod[]) => ofApp(pods, name);
    const write = async (pod: string, body: object, subresource?: 'status') => {
      const ref = { namespace: benchNamespace, name: pod };
      return await cluster.kube.patch<Pod>(kubeResource.pods, ref, 'strategic', body, subresource && { subresource });
    };
    await cluster.podsAre(`the pods of ${name} run`, (pods) => own(pods).filter(isRunning).length === rolledOut);
    const inService = gateIs('True');
    await Promise.all(names.map((pod) => write(pod, inService, 'status')));
    await cluster.podsAre(`the pods of ${name} are ready`, (pods) => own(pods).filter(isReady).length === rolledOut);

    await delay(restMs + phase * relistMs);
    journeys.clear();
    const queue = [...names];
    const startedAt = performance.now();
    const work = async () => {
      for (let pod = queue.shift(); pod !== undefined; pod = queue.shift()) {
        const { metadata } = await write(pod, gateIs('False'), 'status');
        await write(pod, { spec: { containers: [{ name: 'app', image: images.new }] } });
        await cluster.podIs(metadata.uid, `${pod} is swapped`, isSwapped);
        await write(pod, inService, 'status');
        await cluster.podIs(metadata.uid, `${pod} is ready`, (live) => isSwapped(live) && isReady(live));
      }
    };
    await Promise.all(Array.from({ length: atATime }, work));
    const took = performance.now() - startedAt;
    into?.push(journeysSince(startedAt));
    for (const pod of names) await cluster.remove(kubeResource.pods, pod);
    await cluster.podsAre(`the pods of ${name} are gone`, (pods) => own(pods).length === 0);
    return took;
  }

  function journeysSince(startedAt: number): Journey[] {
    return [...journeys.values()].map(
      (journey) => new Map([...journey].map(([stage, at]) => [stage, at - startedAt] as const)),
    );
  }

  return { newSet, patch, remove, rollOut, bare };
}

/** How long a roll-out of twenty pods on two nodes takes, and how fast pods and status follow: Markdown. */
export async function rollOutFigures(cluster: BenchCluster, samples: number): Promise<string> {
  const { newSet, patch, remove, rollOut: update, bare } = rollOutTakes(cluster);

  async function rollOut(phase: number, maxUnavailable: string, into: Journey[][]): Promise<number> {
    const set = await newSet(rolledOut, maxUnavailable);
    await delay(restMs + phase * relistMs);
    const took = await update(set, into);
    await remove(set);
    return took;
  }

  const bareAtOnce: Journey[][] = [];
  const bareFifth: Journey[][] = [];
  const atOnce: Journey[][] = [];
  const fifth: Journey[][] = [];
  const growth = { created: [] as number[], all: [] as number[], status: [] as number[], ready: [] as number[] };

  async function grow(): Promise<void> {
    const set = await newSet(1, '20%');
    const { uid, name } = set.metadata;
    const own = (pods: readonly Pod[]) => ofApp(pods, name);
    const startedAt = performance.now();
    const seen = (count: number) =>
      cluster.podsAre(`${count} pods`, (pods) => own(pods).length >= count).then(() => performance.now());
    const served = cluster
      .podsAre('ready pods', (pods) => own(pods).filter(isReady).length === 11)
      .then(() => performance.now());
    const told = cluster
      .setIs(uid, 'ready pods in its status', ({ status }) => status?.readyReplicas === 11)
      .then(() => performance.now());
    const [first, last] = [seen(2), seen(11)];
    await patch(set, { replicas: 11 });
    growth.created.push((await first) - startedAt);
    growth.all.push((await last) - startedAt);
    growth.ready.push((await told) - startedAt);
    growth.status.push((await told) - (await served));
    await remove(set);
  }

  const figures: Figure[] = [
    await sample('bare: 20 pods at once, patch → ready', samples, (phase) => bare(phase, rolledOut, bareAtOnce)),
    await sample('bare: 20 pods, four at a time', samples, (phase) => bare(phase, rolledOut / 5, bareFifth)),
    await sample('20 pods, maxUnavailable 100 %: patch → updatedReadyReplicas 20', samples, (phase) =>
      rollOut(phase, '100%', atOnce),
    ),
    await sample('20 pods, maxUnavailable 20 %: the same', samples, (phase) => rollOut(phase, '20%', fifth)),
  ];
  for (let round = 0; round < samples; round++) await grow();
  const growing: Figure[] = [
    { what: 'from 1 to 11 pods: patch → the first new pod is seen', samples: growth.created, dropped: 0 },
    { what: 'patch → the last of ten is seen', samples: growth.all, dropped: 0 },
    { what: 'patch → readyReplicas 11', samples: growth.ready, dropped: 0 },
    { what: 'the last pod is seen to be ready → readyReplicas 11', samples: growth.status, dropped: 0 },
  ];
  return [
    'A CloneSet of 20 pods on two nodes, another image for its only container (busybox that ends at once on TERM), no grace',
    'period. Fresh pods for every sample, left alone for three seconds; the samples start at moments spread over the second',
    'of the kubelets. Bare: the same change of 20 pods of no set, by three writes for each pod from one process that decides',
    'nothing; what is left is the time of the kubelets.',
    '',
    table(figures),
    '',
    'Where the time goes, pod by pod, with 100 %:',
    '',
    stagesTable(atOnce.flat()),
    '',
    'With 20 %:',
    '',
    stagesTable(fifth.flat()),
    '',
    'Bare, all at once:',
    '',
    stagesTable(bareAtOnce.flat()),
    '',
    'Bare, four at a time:',
    '',
    stagesTable(bareFifth.flat()),
    '',
    '### Growing',
    '',
    table(growing),
    '',
  ].join('\n');
}

/** Writes down when a pod is first seen at each stage of its update. */
function note(journeys: Map<string, Map<Stage, number>>, pod: Pod): void {
  const { uid } = pod.metadata;
  const journey = journeys.get(uid) ?? new Map<Stage, number>();
  const gate = pod.status?.conditions?.find(({ type }) => type === inPlaceReadinessGate)?.status;
  const swapped = isSwapped(pod);
  const holds: Readonly<Record<Stage, boolean>> = {
    'out of service': gate === 'False',
    changed: isChanged(pod),
    swapped,
    'into service': swapped && gate === 'True',
    ready: swapped && gate === 'True' && isReady(pod),
  };
  for (const stage of stages) if (holds[stage] && !journey.has(stage)) journey.set(stage, performance.now());
  if (journey.size > 0) journeys.set(uid, journey);
}

function ofApp(pods: readonly Pod[], app: string): readonly Pod[] {
  return pods.filter(({ metadata: { labels } }) => labels?.app === app);
}

function isReportedOn(pod: Pod): boolean {
  return containersMetaOf(pod) !== undefined;
}

function isChanged({ spec }: Pod): boolean {
  return spec.containers[0]?.image === images.new;
}

function isRunning({ status }: Pod): boolean {
  return status?.containerStatuses?.[0]?.state?.running !== undefined;
}

function isSwapped(pod: Pod): boolean {
  return isChanged(pod) && (pod.status?.containerStatuses?.[0]?.restartCount ?? 0) > 0 && isRunning(pod);
}

/** As Windlass writes it: out of service at once, into service by the kubelet. */
function gateIs(status: 'True' | 'False'): object {
  const gate = { type: inPlaceReadinessGate, status };
  return { status: { conditions: status === 'True' ? [gate] : [gate, { type: 'Ready', status }] } };
}

/** Markdown: how long pods take from each stage to the next. */
function stagesTable(journeys: readonly Journey[]): string {
  const rows = stages.map((stage, index) => {
    const before = stages[index - 1];
    const from = before === undefined ? 'the patch' : before;
    const samples = journeys.map(
      (journey) => (journey.get(stage) ?? Number.NaN) - (before ? (journey.get(before) ?? Number.NaN) : 0),
    );
    const values = [0, 0.5, 1].map((share) => shown(quantile(samples, share)));
    return `| ${from} → ${stage} | ${values.join(' | ')} |`;
  });
  return ['| part | min | median | max |', '| --- | --- | --- | --- |', ...rows].join('\n');
}

function bodyOf(name: string, pods: number, maxUnavailable: string): object {
  const labels = { app: name };
  return {
    metadata: { namespace: benchNamespace, name },
    spec: {
      replicas: pods,
      selector: { matchLabels: labels },
      updateStrategy: {
        type: 'RollingUpdate',
        rollingUpdate: { podUpdatePolicy: 'InPlaceIfPossible', maxUnavailable },
      },
      template: { metadata: { labels }, spec: podSpec(images.old) },
    },
  };
}

function barePod(name: string, app: string): object {
  const spec = { ...podSpec(images.old), readinessGates: [{ conditionType: inPlaceReadinessGate }] };
  return { metadata: { namespace: benchNamespace, name, labels: { app } }, spec };
}

function podSpec(image: string): object {
  const command = ['sh', '-c', 'trap exit TERM; sleep 99999 & wait'];
  return { terminationGracePeriodSeconds: 1, containers: [{ name: 'app', image, command }] };
}
