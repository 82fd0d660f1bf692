import { setTimeout as delay } from 'node:timers/promises';
import { featureGates } from '../../deploy/local/feature-gates.ts';
import { findInstance } from '../../deploy/local/instance.ts';
import { partReady, startPart } from '../../deploy/local/parts.ts';
import { actionFigures, type Bench } from './actions.ts';
import { admissionFigures } from './admission.ts';
import { cacheFigures } from './cache.ts';
import { daemonSetFigures } from './daemon-set.ts';
import type { BenchPart } from './document.ts';
import { type Figure, median, table } from './figures.ts';
import { probeFigures } from './probes.ts';
import { usageOf, usageTable } from './processes.ts';
import { pullFigures } from './pull.ts';
import { crowdFigures, recreateFigures } from './recreate.ts';
import { rollOutFigures } from './roll-out.ts';
import { sidecarFigures } from './sidecars.ts';
import { statefulSetFigures } from './stateful-set.ts';
import { orchestration, partsTable, stepsTable } from './steps.ts';

/** Markdown, without the heading of the section. */
export interface Measured {
  readonly title: string;
  readonly text: string;
}

/** All parts of the benchmark, in the order in which they run. */
export const parts: Readonly<Record<BenchPart, (bench: Bench) => Promise<Measured>>> = {
  recreate: async ({ cluster, samples, platform }) => {
    console.log('An idle minute');
    const idle = usageOf(platform());
    await delay(60_000);
    const idleMinute = usageOf(platform());
    const { figures, journeys } = await recreateFigures(cluster, samples);
    const crowd = await crowdFigures(cluster);
    const after = usageOf(platform());
    await delay(60_000);
    const later = usageOf(platform());
    const { bareStop, bare, bareThree, one, three } = figures;
    const added = (figure: Figure, to: Figure): number => median(figure) - median(to);
    const text = [
      'Fresh containers for every sample; busybox that ends at once on TERM; grace period 1 s. Times in milliseconds.',
      table([bareStop, bare, bareThree, one, three, ...crowd]),
      `Medians: a request adds ${Math.round(added(one, bare))} ms to the bare restart of one container, and ` +
        `${Math.round(added(three, bareThree))} ms to that of three in order: ` +
        `${Math.round((added(three, bareThree) - added(one, bare)) / 2)} ms for each further one.`,
      '### Where the time goes',
      'From the histories of these runs: beside the stop on the node and what the kubelet does, a request for one container ' +
        `takes ${Math.round(orchestration(journeys.one).request)} ms, and one for three in order ` +
        `${Math.round(orchestration(journeys.three).request)} ms and ${Math.round(orchestration(journeys.three).further)} ms ` +
        'between one container and the next (medians). Of one container:',
      partsTable(journeys.one),
      'Of three in order:',
      partsTable(journeys.three),
      'A typical run for one container, step by step; status is written beside the work, which does not wait for it:',
      stepsTable(journeys.one),
      'A typical run for three in order:',
      stepsTable(journeys.three),
      '### Processes',
      'Before and after these requests. What is not private is the code of Node and of Temporal’s core, of which a machine ' +
        'holds one copy however many roles run there. OpenKruise, which is written in Go, took 108 MB for its manager and ' +
        '61 MB for its daemon. What the difference buys: each operation is a durable history that survives the death of any ' +
        'process, with its retries, its time limits and its commands, and can be read step by step in Temporal’s UI; and ' +
        'what an operation decides runs in a sandbox of its own, from which the history is replayed to go on where it was.',
      usageTable({ idle, idleMinute, after, later }),
    ];
    return { title: 'Recreating containers', text: text.join('\n\n') };
  },

  'roll-out': async ({ cluster, samples }) => ({
    title: 'Rolling out in place',
    text: `Times in milliseconds.\n\n${await rollOutFigures(cluster, Math.ceil(samples / 4))}`,
  }),

  statefulset: async ({ cluster, samples }) => ({
    title: 'StatefulSets beside those of apps/v1',
    text: await statefulSetFigures(cluster, samples),
  }),

  daemonset: async ({ cluster, samples }) => ({
    title: 'DaemonSets beside those of apps/v1',
    text: await daemonSetFigures(cluster, samples),
  }),

  sidecars: async ({ instance, cluster, samples }) => {
    await withGate(instance, 'SidecarTerminator');
    return { title: 'Ending the sidecars of a job', text: millisecondsTable(await sidecarFigures(cluster, samples)) };
  },

  pull: async ({ instance, cluster, samples }) => ({
    title: 'Pulling images',
    text: millisecondsTable(await pullFigures(cluster, instance, samples)),
  }),

  admission: async ({ cluster }) => ({
    title: 'Admission',
    text: `Dry runs. Times in milliseconds.\n\n${await admissionFigures(cluster.kube, 500)}`,
  }),

  cache: async () => ({ title: 'Watch cache', text: table(cacheFigures()) }),

  probes: async ({ cluster, platform }) => ({
    title: 'Probes',
    text:
      'On one node, for a minute, with every probe succeeding, so that nothing is reported. What the runtime does for ' +
      `commands is not in the CPU of the daemon.\n\n${await probeFigures(cluster, platform)}`,
  }),

  actions: async (bench) => ({ title: 'What operations cost in Temporal', text: await actionFigures(bench) }),
};

function millisecondsTable(figures: readonly Figure[]): string {
  return `Times in milliseconds.\n\n${table(figures)}`;
}

/** Has the watcher work with a feature gate that is off by default, beside those that the local platform has on. */
async function withGate(name: string, gate: string): Promise<void> {
  const instance = findInstance(name);
  if (!instance) throw new Error(`Instance "${name}" is down`);
  await startPart(instance, 'watcher', [`--feature-gates=${featureGates},${gate}=true`]);
  await partReady(instance, 'watcher');
}
