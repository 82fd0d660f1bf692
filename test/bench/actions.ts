import { setTimeout as delay } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import { type CloneSet, cloneSets } from '../../api/cloneset/types.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { controlPlanePorts, findInstance } from '../../deploy/local/instance.ts';
import type { PlatformStatus } from '../../deploy/local/platform.ts';
import { freezeImages } from '../support/frozen-images.ts';
import { waitFor } from '../support/wait.ts';
import { type Actions, actionsIn, heartbeatsIn, sumOf, totalOf } from './billable.ts';
import { type BenchCluster, benchNamespace } from './cluster.ts';
import { pullTakes } from './pull.ts';
import { rolledOut } from './roll-out.ts';

/** What parts of the benchmark are given. */
export interface Bench {
  readonly instance: string;
  /** How many samples a figure has. */
  readonly samples: number;
  readonly cluster: BenchCluster;
  readonly platform: () => PlatformStatus;
}

/** What one operation has cost. */
interface Cost {
  readonly what: string;
  readonly actions: Actions;
  readonly heartbeats: number;
  /** What a review had counted by reading an earlier version. */
  readonly before: string;
}

/** How long slow containers take to get ready. */
const slowSeconds = 60;
/** So long a roll-out that waits is watched: the first minute, and one like all that follow. */
const minuteMs = 60_000;
/** After so many minutes a batch of which nothing changes is given back, and costs nothing any more. */
const givenBackAfterMinutes = 10;

/** The actions that Temporal Cloud would bill for single operations: Markdown. */
export async function actionFigures({ cluster, instance, platform }: Bench): Promise<string> {
  const connection = await Connection.connect({ address: platform().temporal });
  const meter = newMeter(new Client({ connection }), instance);
  try {
    const { waiting, perWeek } = await waitingRollOut(cluster, meter);
    const refused = await refusedRollOut(cluster, meter);
    const costs = [
      await recreation(cluster, meter, { slow: false }),
      await recreation(cluster, meter, { slow: true }),
      await rollOut(cluster, meter, { slow: false }),
      await pullJob(cluster, meter, instance),
      await rollOut(cluster, meter, { slow: true }),
      waiting,
      refused,
    ];
    return [
      'Billable actions of single operations: starts, signals, attempts of activities, timers, and changes of search ' +
        'attributes from the histories, heartbeats from the metrics of the server. Polls, ' +
        'queries and lists cost nothing. Before: as a review of an earlier version counted by reading its code.',
      costTable(costs),
      'A batch sends a heartbeat every 5 s while it has pods whose update has not begun, and every 25 s afterwards.',
      `A roll-out whose pods never get ready costs ${perWeek} actions in the first ${givenBackAfterMinutes} minutes, as counted in the ` +
        'first two minutes, and none in the rest of a week; before, 162,000 in a week.',
    ].join('\n\n');
  } finally {
    await connection.close();
  }
}

type Meter = ReturnType<typeof newMeter>;

function newMeter({ workflow }: Client, instance: string) {
  const found = findInstance(instance);
  if (!found) throw new Error(`Instance "${instance}" is down`);
  const url = `http://${found.addresses.controlPlane}:${controlPlanePorts.temporalMetrics}/metrics`;

  async function heartbeats(): Promise<number> {
    return heartbeatsIn(await (await fetch(url)).text());
  }

  /** The actions of all runs that have begun since, once the visibility store knows them. */
  async function actionsSince(start: Date, least: number): Promise<Actions> {
    const runs = await waitFor(`${least} runs`, async (see) => {
      const begun: { readonly workflowId: string; readonly runId: string }[] = [];
      const query = `StartTime >= "${start.toISOString()}"`;
      for await (const { workflowId, runId } of workflow.list({ query })) begun.push({ workflowId, runId });
      return see(begun).length >= least ? begun : undefined;
    });
    const histories = runs.map(({ workflowId, runId }) => workflow.getHandle(workflowId, runId).fetchHistory());
    return sumOf((await Promise.all(histories)).map(actionsIn));
  }

  return {
    heartbeats,
    actionsSince,
    /** What happens meanwhile; nothing else does. */
    async count(what: string, before: string, runs: number, operate: () => Promise<unknown>): Promise<Cost> {
      console.log(what);
      // what a run before has left to do
      await delay(5_000);
      const start = new Date();
      const at = await heartbeats();
      await operate();
      await delay(2_000);
      const cost = { what, before, actions: await actionsSince(start, runs), heartbeats: (await heartbeats()) - at };
      console.log(JSON.stringify(cost));
      return cost;
    },
  };
}

async function recreation(cluster: BenchCluster, meter: Meter, { slow }: { readonly slow: boolean }): Promise<Cost> {
  const name = `actions-${slow ? 'slow' : 'fast'}`;
  const pod = slow ? await slowPod(cluster, name) : await cluster.readyPod(name, 1);
  const what = `request for one container, ready ${slow ? `after ${slowSeconds} s` : 'at once'}`;
  const cost = await meter.count(what, slow ? '31' : '12', 1, () => cluster.recreate(pod));
  await cluster.remove(kubeResource.pods, name);
  return cost;
}

async function slowPod(cluster: BenchCluster, name: string) {
  const { kube, node } = cluster;
  const { metadata } = await kube.create(kubeResource.pods, {
    metadata: { name, namespace: benchNamespace },
    spec: { nodeName: node, ...podSpec('busybox:1.36', true) },
  });
  await cluster.podIs(metadata.uid, `pod ${name} is ready`, ({ status }) =>
    (status?.conditions ?? []).some(({ type, status: is }) => type === 'Ready' && is === 'True'),
  );
  return await kube.get<Awaited<ReturnType<BenchCluster['readyPod']>>>(kubeResource.pods, {
    namespace: benchNamespace,
    name,
  });
}

async function rollOut(cluster: BenchCluster, meter: Meter, { slow }: { readonly slow: boolean }): Promise<Cost> {
  const set = await newSet(cluster, `actions-set-${slow ? 'slow' : 'fast'}`, slow);
  const what = `roll-out of ${rolledOut} pods at 20 %, ready ${slow ? `after ${slowSeconds} s` : 'at once'}`;
  const cost = await meter.count(what, slow ? '130' : '20', 1, async () => {
    const { metadata } = await change(cluster, set, podSpec('busybox:1.36', slow));
    const ref = { namespace: benchNamespace, name: metadata.name };
    const isUpdated = async () => {
      const { status } = await cluster.kube.get<CloneSet>(cloneSets, ref);
      return status?.observedGeneration === metadata.generation && status?.updatedReadyReplicas === rolledOut;
    };
    await waitFor('the set to be updated', isUpdated, { deadlineMs: 900_000 });
  });
  await cluster.remove(cloneSets, set.metadata.name);
  return cost;
}

/** A roll-out whose first pods never get ready, in its first two minutes. */
async function waitingRollOut(cluster: BenchCluster, meter: Meter) {
  const set = await newSet(cluster, 'actions-set-waits', false);
  const readings: number[] = [];
  const what = 'roll-out whose pods never get ready, its first two minutes';
  const waiting = await meter.count(what, '', 1, async () => {
    await change(cluster, set, podSpec('bench/nobody-has-it:1', false));
    for (let minute = 0; minute < 2; minute++) {
      readings.push(await meter.heartbeats());
      await delay(minuteMs);
    }
    readings.push(await meter.heartbeats());
  });
  await cluster.remove(cloneSets, set.metadata.name);
  const [begun = 0, first = 0, second = 0] = readings;
  const later = (givenBackAfterMinutes - 1) * (second - first);
  return { waiting, perWeek: totalOf(waiting.actions) + first - begun + later };
}

/** A roll-out of which the API server refuses every update, in its first two minutes. */
async function refusedRollOut(cluster: BenchCluster, meter: Meter): Promise<Cost> {
  const set = await newSet(cluster, 'actions-set-refused', false);
  const policy = await freezeImages(cluster.kube, benchNamespace);
  const what = 'roll-out whose updates are all refused, its first two minutes';
  const cost = await meter.count(what, '', 1, async () => {
    await change(cluster, set, podSpec('busybox:1.36', false));
    await cluster.setIs(set.metadata.uid, 'it says so', ({ status }) => status?.waitingFor?.reason === 'CannotUpdate');
    await delay(2 * minuteMs);
  });
  await policy.remove();
  await cluster.remove(cloneSets, set.metadata.name);
  return cost;
}

async function pullJob(cluster: BenchCluster, meter: Meter, instance: string): Promise<Cost> {
  const { jobTakes, close } = await pullTakes(cluster, instance);
  try {
    const jobs: Awaited<ReturnType<typeof jobTakes>>[] = [];
    const what = 'ImagePullJob on two nodes, until it has completed';
    const cost = await meter.count(what, '18', 3, async () => jobs.push(await jobTakes()));
    for (const { remove } of jobs) await remove();
    return cost;
  } finally {
    close();
  }
}

async function newSet(cluster: BenchCluster, name: string, slow: boolean): Promise<CloneSet> {
  const labels = { app: name };
  const set = await cluster.kube.create<CloneSet>(cloneSets, {
    metadata: { namespace: benchNamespace, name },
    spec: {
      replicas: rolledOut,
      selector: { matchLabels: labels },
      updateStrategy: {
        type: 'RollingUpdate',
        rollingUpdate: { podUpdatePolicy: 'InPlaceIfPossible', maxUnavailable: '20%' },
      },
      template: { metadata: { labels }, spec: podSpec('busybox:1.35', slow) },
    },
  });
  await cluster.setIs(set.metadata.uid, `${name} is complete`, ({ status }) => status?.readyReplicas === rolledOut);
  return set;
}

async function change(cluster: BenchCluster, set: CloneSet, spec: object): Promise<CloneSet> {
  const ref = { namespace: benchNamespace, name: set.metadata.name };
  return await cluster.kube.patch<CloneSet>(cloneSets, ref, 'merge', { spec: { template: { spec } } });
}

function podSpec(image: string, slow: boolean) {
  const command = ['sh', '-c', 'trap exit TERM; sleep 99999 & wait'];
  const readinessProbe = { exec: { command: ['true'] }, initialDelaySeconds: slowSeconds, periodSeconds: 1 };
  const container = { name: 'app', image, command, ...(slow && { readinessProbe }) };
  return { terminationGracePeriodSeconds: 1, containers: [container] };
}

/** Markdown. */
function costTable(costs: readonly Cost[]): string {
  const rows = costs.map(({ what, actions, heartbeats, before }) => {
    const { starts, signals, activities, timers, upserts } = actions;
    const counts = [starts, signals, activities, timers, upserts, heartbeats];
    return `| ${[what, ...counts, totalOf(actions) + heartbeats, before].join(' | ')} |`;
  });
  const heads = ['', 'starts', 'signals', 'activities', 'timers', 'upserts', 'heartbeats', 'all', 'before'];
  return [`| ${heads.join(' | ')} |`, `|${' --- |'.repeat(heads.length)}`, ...rows].join('\n');
}
