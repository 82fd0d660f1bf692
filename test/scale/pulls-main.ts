/**
 * `npm run test:scale:pulls [-- nodes:parallelism ...]`: ImagePullJobs on the NodeImages of 50 and of 500 nodes at several
 * parallelisms (or those given, as `500:50`), whose Node objects kwok keeps and whose daemons all run in this process, on a
 * played container runtime.
 * Judges what it took and writes it into docs/performance.md; with WINDLASS_DRY=1 it only prints. Exits with 1 when
 * something that is asked of the figures does not hold. WINDLASS_KEEP=1 leaves the cluster up.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { optionalTsToMs } from '@temporalio/common/lib/time.js';
import { pino } from 'pino';
import type { Node } from '../../api/core/node.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { queues } from '../../api/engine/operations.ts';
import { pullOnNodesId } from '../../api/image-pull-job/operation.ts';
import { type ImagePullJob, imagePullJobs, isFinished } from '../../api/image-pull-job/types.ts';
import { pullImagesId } from '../../api/node-image/operation.ts';
import { type NodeImage, nodeImages } from '../../api/node-image/types.ts';
import { repository } from '../../deploy/local/instance.ts';
import { playedNodeLabel } from '../../deploy/local/kwok.ts';
import { down, status, up } from '../../deploy/local/platform.ts';
import { createProgress } from '../../deploy/local/progress.ts';
import { run } from '../../deploy/local/run.ts';
import { createKubeClient, type KubeClient } from '../../kube/client.ts';
import { installTemporalRuntime } from '../../process/temporal.ts';
import { temporalClient } from '../../process/temporal-client.ts';
import { withSection } from '../bench/document.ts';
import { machine, quantile } from '../bench/figures.ts';
import { measureStolen } from '../support/stolen.ts';
import { waitFor } from '../support/wait.ts';
import { type PullingNodes, pullMs, startPullingNodes } from './pulling-nodes.ts';
import { read, since } from './readings.ts';

const namespace = 'default';
/** So many events a pull may leave in the history of its node: started, told, pulled, told, ended. */
const mostEvents = 60;
/** A job's own history: so many events, and so many for each wave of nodes that it has told. */
const mostJobEvents = { atAll: 40, perWave: 20 } as const;

/** One job: how many nodes it has, and how many of them may pull at once. */
interface Row {
  readonly nodes: number;
  readonly parallelism: number;
}

interface PullFigures extends Row {
  readonly seconds: number;
  readonly succeeded: number;
  readonly pulls: readonly number[];
  /** From when a node was asked to when its worker began, in milliseconds. */
  readonly queueMs: readonly number[];
  readonly events: readonly number[];
  readonly jobEvents: number;
  readonly waves: number;
  readonly pollers: number;
  readonly workersMegabytes: number;
  readonly usage: readonly { readonly role: string; readonly cpuSeconds: number; readonly rssMegabytes: number }[];
  readonly stolenPercent: number;
}

const standard = ['50:50', '500:50', '500:500', '500:1'];
const given = process.argv.slice(2);
const rows = (given.length > 0 ? given : standard).map((text): Row => {
  const [nodes, parallelism] = text.split(':');
  return { nodes: Number(nodes), parallelism: Number(parallelism) };
});
const name = 'scale-pulls';
const progress = createProgress();
const keep = process.env.WINDLASS_KEEP === '1';
installTemporalRuntime(pino({ level: 'error' }));
if (!keep) await down(name, progress);
try {
  const platform = await up({
    name,
    nodes: 0,
    playedNodes: Math.max(...rows.map(({ nodes }) => nodes)),
    windlass: true,
    progress,
  });
  const { kubeconfig, temporal } = platform;
  const kube = createKubeClient({ kubeconfig, userAgent: 'windlass-scale', qps: 1000, burst: 2000 });
  const client = await temporalClient({ config: { address: temporal, namespace: 'default' } });
  const load = loadavg()[0] ?? Number.NaN;
  const figures: PullFigures[] = [];
  for (const row of rows) {
    const measured = await measure(row, { kube, client, temporal });
    console.log(`${titleOf(row)}: ${measured.seconds.toFixed(1)} s`);
    figures.push(measured);
  }
  const judgements = figures.flatMap(judge);
  const text = documentOf(figures, judgements, load);
  console.log(`\n${text}`);
  if (process.env.WINDLASS_DRY !== '1') {
    const file = join(repository, 'docs', 'performance.md');
    writeFileSync(file, withSection(existsSync(file) ? readFileSync(file, 'utf8') : '', 'test:scale:pulls', text));
    await run(join(repository, 'node_modules', '.bin', 'biome'), ['format', '--write', file]);
    console.log('\nWritten to docs/performance.md');
  }
  process.exitCode = judgements.every(({ holds }) => holds) ? 0 : 1;
  await kube.close();
  await client.connection.close();
} finally {
  if (!keep) await down(name, progress);
}

async function measure(
  row: Row,
  { kube, client, temporal }: { readonly kube: KubeClient; readonly client: Client; readonly temporal: string },
): Promise<PullFigures> {
  const size = row.nodes;
  const labelSelector = `${playedNodeLabel.key}=${playedNodeLabel.value}`;
  const { items } = await kube.list<Node>(kubeResource.nodes, { labelSelector });
  const nodes = items.slice(0, size).map(({ metadata }) => ({ name: metadata.name, uid: metadata.uid }));
  const names = nodes.map((node) => node.name);
  await waitFor(
    `${size} NodeImages`,
    async (see) => {
      const known = (await kube.list<NodeImage>(nodeImages)).items.map(({ metadata }) => metadata.name);
      return see(names.filter((node) => known.includes(node)).length) === size;
    },
    { deadlineMs: 600_000 },
  );

  const memoryBefore = residentMegabytes();
  const daemons = startPullingNodes(nodes, { kube, temporalAddress: temporal });
  try {
    const pollers = await waitFor(
      'all workers to poll',
      async (see) => {
        const counts = await Promise.all(nodes.map((node) => pollersOf(client, queues.node(node.uid))));
        return (
          see(counts.filter((count) => count > 0).length) === size && counts.reduce((sum, count) => sum + count, 0)
        );
      },
      { deadlineMs: 600_000 },
    );
    const workersMegabytes = residentMegabytes() - memoryBefore;
    return { ...(await pull(row, names, { kube, client, daemons })), pollers, workersMegabytes };
  } finally {
    await daemons.stop();
  }
}

async function pull(
  row: Row,
  names: readonly string[],
  { kube, client, daemons }: { readonly kube: KubeClient; readonly client: Client; readonly daemons: PullingNodes },
): Promise<Omit<PullFigures, 'pollers' | 'workersMegabytes'>> {
  const platform = status(name);
  if (!platform) throw new Error('the cluster is gone');
  const stolen = measureStolen();
  const before = await read(platform);
  const startedAt = performance.now();
  const { nodes, parallelism } = row;
  const ref = { namespace, name: `pull-${nodes}-at-${parallelism}` };
  const { metadata } = await kube.create<ImagePullJob>(imagePullJobs, {
    metadata: ref,
    spec: { image: `app:${ref.name}`, parallelism, selector: { names } },
  });
  const job = await waitFor(
    'the job to end',
    async (see) => {
      const live = see(await kube.get<ImagePullJob>(imagePullJobs, ref));
      return isFinished(live) && live;
    },
    { deadlineMs: 1_200_000 },
  );
  const seconds = (performance.now() - startedAt) / 1000;
  const { usage } = since(before, await read(platform));
  const stolenPercent = stolen() ?? 0;

  const uids = (await kube.list<NodeImage>(nodeImages)).items.filter((found) => names.includes(found.metadata.name));
  const queueMs: number[] = [];
  const events: number[] = [];
  for (const nodeImage of uids) {
    const history = await client.workflow.getHandle(pullImagesId(nodeImage.metadata)).fetchHistory();
    events.push(history.events?.length ?? 0);
    const scheduled = new Map<string, number>();
    for (const { eventId, eventTime, ...event } of history.events ?? []) {
      const atMs = optionalTsToMs(eventTime) ?? Number.NaN;
      const isPull = event.activityTaskScheduledEventAttributes?.activityType?.name === 'node.v1.pullImage';
      if (isPull) scheduled.set(String(eventId), atMs);
      const askedAtMs = scheduled.get(String(event.activityTaskStartedEventAttributes?.scheduledEventId));
      if (askedAtMs !== undefined) queueMs.push(atMs - askedAtMs);
    }
  }
  await delay(1_000); // its operation ends after it
  const history = await client.workflow.getHandle(pullOnNodesId(metadata)).fetchHistory();
  const scheduled = (history.events ?? []).map(
    ({ activityTaskScheduledEventAttributes: activity }) => activity?.activityType?.name,
  );
  await kube.delete(imagePullJobs, ref);
  return {
    ...row,
    seconds,
    succeeded: job.status?.succeeded ?? 0,
    pulls: names.map((node) => daemons.pulls.get(node) ?? 0),
    queueMs,
    events,
    jobEvents: scheduled.length,
    waves: scheduled.filter((type) => type === 'fleet.v1.awaitNodes').length,
    usage,
    stolenPercent,
  };
}

async function pollersOf(client: Client, taskQueue: string): Promise<number> {
  const { pollers } = await client.workflowService.describeTaskQueue({
    namespace: 'default',
    taskQueue: { name: taskQueue },
    taskQueueType: 2, // of activities
  });
  return pollers?.length ?? 0;
}

function residentMegabytes(): number {
  return process.memoryUsage.rss() / 1024 / 1024;
}

function titleOf({ nodes, parallelism }: Row): string {
  return `${nodes} nodes, ${parallelism} at once`;
}

function judge(figures: PullFigures) {
  const { nodes, succeeded, pulls, events, jobEvents, waves } = figures;
  const title = titleOf(figures);
  const longest = Math.max(...events);
  const mostOfJob = mostJobEvents.atAll + mostJobEvents.perWave * waves;
  return [
    {
      claim: `${title}: the job ends with the image on every node`,
      figure: `${succeeded}`,
      holds: succeeded === nodes,
    },
    {
      claim: `${title}: each pulls once`,
      figure: `${Math.min(...pulls)} to ${Math.max(...pulls)}`,
      holds: pulls.every((count) => count === 1),
    },
    {
      claim: `${title}: the last histories of nodes have at most ${mostEvents} events`,
      figure: `${longest}`,
      holds: longest <= mostEvents,
    },
    {
      claim: `${title}: the last history of the job has at most ${mostJobEvents.atAll}, and ${mostJobEvents.perWave} for each wave`,
      figure: `${jobEvents}, ${waves} waves`,
      holds: jobEvents <= mostOfJob,
    },
  ];
}

function documentOf(
  figures: readonly PullFigures[],
  judgements: readonly { readonly claim: string; readonly figure: string; readonly holds: boolean }[],
  load: number,
): string {
  const line = (cells: readonly (string | number)[]) => `| ${cells.join(' | ')} |`;
  const table = (head: readonly string[], rows: readonly (readonly (string | number)[])[]) =>
    [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
  const ms = (values: readonly number[], share: number) => quantile(values, share).toFixed(0);
  return [
    '## Images on many nodes',
    `Written by \`npm run test:scale:pulls\`: ImagePullJobs on nodes that are objects only. Their daemons run in one process, each with its own connection and worker, on a runtime that takes ${pullMs} ms for ` +
      'a pull.',
    `${new Date().toISOString().slice(0, 10)}, ${machine()}, load average ${load.toFixed(1)} at its start. All of it, the ` +
      'cluster and Temporal included, runs on the same machine.',
    table(
      [
        'nodes',
        'at once',
        'seconds',
        'queue ms, median',
        'p99',
        'most',
        'pollers',
        'RSS of the workers, MB',
        'MB a node',
        '% stolen',
      ],
      figures.map((each) => [
        each.nodes,
        each.parallelism,
        each.seconds.toFixed(1),
        ms(each.queueMs, 0.5),
        ms(each.queueMs, 0.99),
        ms(each.queueMs, 1),
        each.pollers,
        each.workersMegabytes.toFixed(0),
        (each.workersMegabytes / each.nodes).toFixed(1),
        each.stolenPercent,
      ]),
    ),
    '### Judgement',
    table(
      ['claim', 'figure', 'holds'],
      judgements.map(({ claim, figure, holds }) => [claim, figure, holds ? 'yes' : '**no**']),
    ),
    '### CPU and memory',
    table(
      ['nodes', 'at once', 'role', 'CPU, s', 'RSS after it, MB'],
      figures.flatMap(({ nodes, parallelism, usage }) =>
        usage.map(({ role, cpuSeconds, rssMegabytes }) => [
          nodes,
          parallelism,
          role,
          cpuSeconds.toFixed(1),
          rssMegabytes,
        ]),
      ),
    ),
  ].join('\n\n');
}
