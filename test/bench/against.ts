// `npm run bench -- PART ... --against=COMMIT`, or `--against=bare`: what the parts measure, for two subjects in turn on one
// cluster.

import { setTimeout as delay } from 'node:timers/promises';
import { replaceRoles } from '../../deploy/local/platform.ts';
import { type Progress, silentProgress } from '../../deploy/local/progress.ts';
import { areVersioned } from '../support/current-version.ts';
import { presentVersion, type Version, versionAt } from '../support/version.ts';
import type { Bench } from './actions.ts';
import { podCreations } from './admission.ts';
import { type BenchCluster, relistMs } from './cluster.ts';
import type { BenchPart } from './document.ts';
import { quantile } from './figures.ts';
import { comparisonTable, type Pair } from './pairs.ts';
import { pullTakes } from './pull.ts';
import { recreateTakes } from './recreate.ts';
import { restMs, rolledOut, rollOutTakes } from './roll-out.ts';
import { statefulSetTakes } from './stateful-set.ts';
import { inPairs, type Visit } from './visits.ts';

/** What a part measures on Windlass, and on the cluster without it. */
interface Visits {
  readonly windlass: Visit;
  readonly bare: Visit;
}

/** The parts that can be measured in pairs. */
export const pairedParts = [
  'recreate',
  'roll-out',
  'statefulset',
  'pull',
  'admission',
] as const satisfies readonly BenchPart[];
export type PairedPart = (typeof pairedParts)[number];

/** Measures in pairs, and gives the table of what came out: Markdown. */
export async function measureAgainst(
  base: string,
  wanted: readonly PairedPart[],
  bench: Bench,
  progress: Progress,
): Promise<string> {
  const visits = await Promise.all(wanted.map((part) => visitsOf[part](bench)));
  const visitAll =
    (subject: keyof Visits): Visit =>
    async (phase) => {
      const all: Record<string, number> = {};
      for (const visit of visits) Object.assign(all, await visit[subject](phase));
      return all;
    };
  const subjects =
    base === 'bare'
      ? { base: visitAll('bare'), present: visitAll('windlass') }
      : await versionsInTurn(bench, await versionAt(base, progress), visitAll('windlass'), progress);
  const comparisons = await inPairs(subjects, bench.samples);
  return comparisonTable(comparisons, base);
}

async function versionsInTurn(
  { instance, cluster }: Bench,
  base: Version,
  visit: Visit,
  progress: Progress,
): Promise<Record<keyof Pair, Visit>> {
  const present = await presentVersion(progress);
  let running: Version | undefined;
  const visitOf =
    (version: Version): Visit =>
    async (phase) => {
      if (running !== version) {
        await replaceRoles(instance, version, silentProgress);
        // else its leading watcher makes its own version current
        if (!areVersioned(version.bundles)) await cluster.makeUnversionedCurrent();
        running = version;
        await warmUp(cluster);
      }
      return await visit(phase);
    };
  return { base: visitOf(base), present: visitOf(present) };
}

/**
 * Roles that have just started take up their work, load what they load late, and are compiled: nobody measures that. So one of
 * everything that is measured is done first, small.
 */
async function warmUp(cluster: BenchCluster): Promise<void> {
  const { request } = recreateTakes(cluster);
  await request(0, 2);
  await podCreations(cluster.kube).owned(50);
  const { newSet, rollOut, remove } = rollOutTakes(cluster);
  const set = await newSet(2, '100%');
  await rollOut(set);
  await remove(set);
}

const visitsOf: Readonly<Record<PairedPart, (bench: Bench) => Promise<Visits>>> = {
  recreate: async ({ cluster }) => {
    const { request, bare } = recreateTakes(cluster);
    const visit =
      (take: (phase: number, containers: number) => Promise<number>): Visit =>
      async (phase) => ({ 'one container': await take(phase, 1), 'three in order': await take(phase, 3) });
    return { windlass: visit(request), bare: visit(bare) };
  },

  'roll-out': async ({ cluster }) => {
    const { newSet, remove, rollOut, bare } = rollOutTakes(cluster);
    return {
      windlass: async (phase) => {
        // one after the other: the scheduler spreads what comes together, and either set alone is to be spread
        const whole = await newSet(rolledOut, '100%');
        const fifth = await newSet(rolledOut, '20%');
        await delay(restMs + phase * relistMs);
        const took = { [atOnce]: await rollOut(whole), [byFifths]: await rollOut(fifth) };
        await Promise.all([remove(whole), remove(fifth)]);
        return took;
      },
      bare: async (phase) => ({
        [atOnce]: await bare(phase, rolledOut),
        [byFifths]: await bare(phase, rolledOut / 5),
      }),
    };
  },

  statefulset: async ({ cluster }) => {
    const { warmUp, scale, rollOut } = await statefulSetTakes(cluster);
    await warmUp();
    const visit =
      (side: keyof Pair): Visit =>
      async (phase) => ({
        ...(await scale(side, 'Parallel')(phase)),
        ...(await scale(side, 'OrderedReady')(phase)),
        ...(await rollOut(side)(phase)),
      });
    return { windlass: visit('present'), bare: visit('base') };
  },

  pull: async ({ cluster, instance }) => {
    const { job, bare } = await pullTakes(cluster, instance);
    return {
      windlass: async () => ({ 'pull on two nodes, median': await medianAfterFirst(job) }),
      bare: async () => ({ 'pull on two nodes, median': await medianAfterFirst(bare) }),
    };
  },

  admission: async ({ cluster }) => {
    const { inTurn } = podCreations(cluster.kube);
    const visit =
      (second: 'owned' | 'bare'): Visit =>
      async () => {
        const ratios = (await inTurn(400, second)).map(({ base, present }) => (100 * present) / base);
        return { 'pod creation, % of that of a pod that the webhook does not see, median': quantile(ratios, 0.5) };
      };
    return { windlass: visit('owned'), bare: visit('bare') };
  },
};

/** Pulls are short and depend much on the disk, so one visit takes several. */
const pullsOfVisit = 5;

async function medianAfterFirst(take: () => Promise<number>): Promise<number> {
  await take();
  const times: number[] = [];
  while (times.length < pullsOfVisit) times.push(await take());
  return quantile(times, 0.5);
}

const atOnce = `${rolledOut} pods, 100 %`;
const byFifths = `${rolledOut} pods, 20 %`;
