/** Takes fleets through their steps on a cluster of its own, judges what it took, and writes it into docs/performance.md. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import type { Client } from '@temporalio/client';
import { cloneSets } from '../../api/cloneset/types.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { findInstance, repository } from '../../deploy/local/instance.ts';
import { podsPerNode } from '../../deploy/local/kwok.ts';
import { partReady, startPart } from '../../deploy/local/parts.ts';
import { down, status, up } from '../../deploy/local/platform.ts';
import { createProgress } from '../../deploy/local/progress.ts';
import { run } from '../../deploy/local/run.ts';
import { createKubeClient, type KubeClient } from '../../kube/client.ts';
import { temporalClient } from '../../process/temporal-client.ts';
import { type MeasuringCommand, withSection } from '../bench/document.ts';
import { machine } from '../bench/figures.ts';
import { measureStolen } from '../support/stolen.ts';
import { type Fleet, scaleNamespace } from './fleet.ts';
import { judge, type StepFigures, type StepName } from './judge.ts';
import { read, since } from './readings.ts';
import { report } from './report.ts';

/** One machine that carries a whole fleet with its cluster stalls; what is measured is the work and not the changes of leader. */
const patientLeader = [
  '--leader-election-lease-duration=90s',
  '--leader-election-renew-deadline=60s',
  '--leader-election-retry-period=2s',
] as const;

/** Leases of thousands of nodes are renewed every 100 s. */
const nodeMonitorGraceSeconds = 600;

/** What reaches the cluster. */
export interface ScaleMeans {
  readonly kube: KubeClient;
  readonly client: Client;
}

/** A fleet of so many pods, and its steps in order. */
export interface Scaled {
  readonly pods: number;
  readonly steps: readonly StepName[];
  readonly fleet: (pods: number, means: ScaleMeans) => Fleet;
}

export interface ScaleRun {
  /** Of the cluster. */
  readonly name: string;
  /** The command that writes the section. */
  readonly section: MeasuringCommand;
  /** The heading of the section, and what is said under it. */
  readonly head: readonly [title: string, about: string];
  readonly fleets: readonly Scaled[];
  /** Every node has one pod. Absent: as many as fit. */
  readonly isByNode?: true;
}

/** Sets the exit code to 1 when something that is asked of the figures does not hold, or a step did not end. */
export async function scaleRun({ name, section, head: [title, about], fleets, isByNode }: ScaleRun): Promise<void> {
  const progress = createProgress();
  const keep = process.env.WINDLASS_KEEP === '1';
  if (!keep) await down(name, progress);
  try {
    const mostPods = Math.max(...fleets.map(({ pods }) => pods));
    // a tenth more than the largest fleet needs, because no scheduler fills every node to the brim
    const playedNodes = isByNode ? mostPods : Math.ceil((mostPods * 1.1) / podsPerNode);
    const platform = await up({ name, nodes: 0, playedNodes, windlass: true, progress, nodeMonitorGraceSeconds });
    const now = () => status(name) ?? platform;
    const instance = findInstance(name);
    if (instance) {
      await startPart(instance, 'watcher', patientLeader);
      await partReady(instance, 'watcher');
    }
    const kube = createKubeClient({
      kubeconfig: platform.kubeconfig,
      userAgent: 'windlass-scale',
      qps: 1000,
      burst: 2000,
    });
    const client = await temporalClient({ config: { address: platform.temporal, namespace: 'default' } });
    await kube.create(kubeResource.namespaces, { metadata: { name: scaleNamespace } }).catch(() => undefined);
    await kube.list(cloneSets, { limit: 1 });

    const load = loadavg()[0] ?? Number.NaN;
    const stolen = measureStolen();
    const figures: StepFigures[] = [];
    const failures: string[] = [];
    for (const { pods, steps, fleet: fleetOf } of fleets) {
      const fleet = fleetOf(pods, { kube, client });
      await fleet.remove();
      let events = 0;
      try {
        for (const step of steps) {
          const before = await read(now());
          const stolenMeanwhile = measureStolen();
          const seconds = await fleet.run(step);
          const { calls, usage } = since(before, await read(now()));
          const allEvents = await fleet.historyEvents();
          figures.push({
            pods,
            step,
            seconds,
            calls,
            usage,
            historyEvents: allEvents - events,
            stolenPercent: stolenMeanwhile() ?? 0,
            load: loadavg()[0] ?? Number.NaN,
          });
          events = allEvents;
          console.log(`${pods} pods, ${step}: ${seconds.toFixed(1)} s`);
        }
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error);
        failures.push(why);
        console.log(why);
      }
      await fleet.remove();
    }

    const judgements = judge(figures);
    const text = [
      `## ${title}`,
      '',
      about,
      '',
      `${new Date().toISOString().slice(0, 10)}, ${machine()}, ${stolen() ?? 'unknown'} % of the CPU stolen during the run, ` +
        `load average ${load.toFixed(1)} at its start and ${(loadavg()[0] ?? Number.NaN).toFixed(1)} at its end. API server, ` +
        'etcd, scheduler, Temporal and kwok run on the same machine.',
      '',
      report(figures, judgements, failures),
    ].join('\n');
    const file = join(repository, 'docs', 'performance.md');
    writeFileSync(file, withSection(existsSync(file) ? readFileSync(file, 'utf8') : '', section, text));
    await run(join(repository, 'node_modules', '.bin', 'biome'), ['format', '--write', file]);
    console.log(`\n${text}\n\nWritten to docs/performance.md`);
    const isWell = failures.length === 0 && judgements.every(({ holds }) => holds);
    process.exitCode = isWell ? 0 : 1;
    await kube.close();
    await client.connection.close();
  } finally {
    if (!keep) await down(name, progress);
  }
}
