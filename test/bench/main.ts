/**
 * `npm run bench [-- samples]`: measures Windlass on a real two-node cluster of its own and writes docs/performance.md.
 * Ratios within one run mean more than figures of different runs: machines differ, and are noisy.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { findInstance, repository } from '../../deploy/local/instance.ts';
import { partReady, startPart } from '../../deploy/local/parts.ts';
import { down, status, up } from '../../deploy/local/platform.ts';
import { createProgress } from '../../deploy/local/progress.ts';
import { run } from '../../deploy/local/run.ts';
import { measureStolen } from '../support/stolen.ts';
import { admissionFigures } from './admission.ts';
import { cacheFigures } from './cache.ts';
import { benchCluster } from './cluster.ts';
import { withSection } from './document.ts';
import { type Figure, machine, median, table } from './figures.ts';
import { probeFigures } from './probes.ts';
import { usageOf, usageTable } from './processes.ts';
import { pullFigures } from './pull.ts';
import { crowdFigures, recreateFigures } from './recreate.ts';
import { sidecarFigures } from './sidecars.ts';
import { orchestration, partsTable, stepsTable } from './steps.ts';

const samples = Number(process.argv[2] ?? 20);
const name = 'bench';
const progress = createProgress();
await down(name, progress);
const stolen = measureStolen();
const load = (): number => loadavg()[0] ?? Number.NaN;
const loadAtStart = load();
try {
  const platform = await up({ name, nodes: 2, windlass: true, progress });
  const now = (): typeof platform => status(name) ?? platform;
  const cluster = await benchCluster(platform);
  console.log('An idle minute');
  const idle = usageOf(now());
  await delay(60_000);
  const idleMinute = usageOf(now());
  const { figures, journeys } = await recreateFigures(cluster, samples);
  const crowd = await crowdFigures(cluster);
  await withGate(name, 'SidecarTerminator');
  const sidecars = await sidecarFigures(cluster, samples);
  const pull = await pullFigures(cluster, name, samples);
  const admission = await admissionFigures(cluster.kube, 500);
  const after = usageOf(now());
  const probes = await probeFigures(cluster, now);
  await cluster.close();
  const { bareStop, bare, bareThree, one, three } = figures;
  const added = (figure: Figure, to: Figure): number => median(figure) - median(to);
  const text = [
    'Written by `npm run bench`. Times in milliseconds unless a row says otherwise.',
    '',
    `${new Date().toISOString().slice(0, 10)}, ${machine()}, ${stolen() ?? 'unknown'} % of the CPU stolen during the run, ` +
      `load average ${loadAtStart.toFixed(1)} at its start and ${load().toFixed(1)} at its end.`,
    '',
    '## Recreating containers',
    '',
    'Fresh containers for every sample; busybox that ends at once on TERM; grace period 1 s.',
    '',
    table([bareStop, bare, bareThree, one, three, ...crowd]),
    '',
    `Medians: a request adds ${Math.round(added(one, bare))} ms to the bare restart of one container, and ` +
      `${Math.round(added(three, bareThree))} ms to that of three in order: ` +
      `${Math.round((added(three, bareThree) - added(one, bare)) / 2)} ms for each further one.`,
    '',
    '## Where the time goes',
    '',
    `From the histories of these runs: beside the stop on the node and what the kubelet does, a request for one container ` +
      `takes ${Math.round(orchestration(journeys.one).request)} ms, and one for three in order ` +
      `${Math.round(orchestration(journeys.three).request)} ms and ${Math.round(orchestration(journeys.three).further)} ms ` +
      'between one container and the next (medians). Of one container:',
    '',
    partsTable(journeys.one),
    '',
    'Of three in order:',
    '',
    partsTable(journeys.three),
    '',
    'A typical run for one container, step by step; status is written beside the work, which does not wait for it:',
    '',
    stepsTable(journeys.one),
    '',
    'A typical run for three in order:',
    '',
    stepsTable(journeys.three),
    '',
    '## Ending the sidecars of a job',
    '',
    table(sidecars),
    '',
    '## Pulling images',
    '',
    table(pull),
    '',
    '## Admission',
    '',
    table(admission),
    '',
    '## Watch cache',
    '',
    table(cacheFigures()),
    '',
    '## Probes',
    '',
    'On one node, for a minute, with every probe succeeding, so that nothing is reported. What the runtime does for commands',
    'is not in the CPU of the daemon.',
    '',
    probes,
    '',
    '## Processes',
    '',
    usageTable(idle, idleMinute, after),
    '',
  ].join('\n');
  const file = join(repository, 'docs', 'performance.md');
  writeFileSync(file, withSection(existsSync(file) ? readFileSync(file, 'utf8') : '', 'bench', text));
  await run(join(repository, 'node_modules', '.bin', 'biome'), ['format', '--write', file]);
  console.log(`\n${text}\nWritten to docs/performance.md`);
} finally {
  await down(name, progress);
}

/** Has the watcher work with a feature gate that is off by default. */
async function withGate(instanceName: string, gate: string): Promise<void> {
  const instance = findInstance(instanceName);
  if (!instance) throw new Error(`Instance "${instanceName}" is down`);
  await startPart(instance, 'watcher', [`--feature-gates=${gate}=true`]);
  await partReady(instance, 'watcher');
}
