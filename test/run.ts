/**
 * `npm test`: every phase in order; `npm test -- unit [Jest's own arguments]`: one of them.
 *
 * `--repeat=N` runs the chosen tests N times on one cluster, or until one fails: `npm test -- e2e test/e2e/cloneset-proof
 * --testNamePattern='loses no request' --repeat=50`.
 *
 * The last line is `N passed, N failed, N skipped` over all phases. Exits with 1 when something failed or when a phase
 * ran nothing. With WINDLASS_KEEP=1 the clusters of integration and e2e stay up for the next run.
 */

import { randomFrom, seedFrom } from './chaos/random.ts';
import { checks, root } from './check/all.ts';
import { runChecks } from './check/check.ts';
import { readProject } from './check/project.ts';
import { type Counts, describeCounts, isGreen, sum } from './runner/counts.ts';
import { type Group, groupedFiles, groupVariable, instancesVariable } from './runner/groups.ts';
import { type JestOutcome, patternsIn, runJest } from './runner/jest.ts';
import { type PlatformNeeds, removeNamespaces, withPlatforms } from './runner/platform.ts';
import { addedUp, budgetSeconds, describeTimes } from './runner/times.ts';
import { startSharedWindlass } from './support/shared-windlass.ts';
import { runUpgrades, upgrades } from './upgrade/campaign.ts';

interface Phase {
  readonly name: string;
  /** What it proves, in a few words. */
  readonly about: string;
  readonly run: (args: readonly string[]) => Promise<Counts>;
}

const interrupted = new AbortController();
const keep = process.env.WINDLASS_KEEP === '1';

const phases: readonly Phase[] = [
  { name: 'check', about: 'what holds for the project as a whole', run: runProjectChecks },
  {
    name: 'unit',
    about: 'decisions, conversions, activities with fakes',
    run: jest({ name: 'unit', options: ['--maxWorkers=2'] }),
  },
  {
    name: 'replay',
    about: 'recorded histories on the code of today',
    run: jest({ name: 'replay', options: ['--runInBand'] }),
  },
  {
    name: 'integration',
    about: 'a real API server and Temporal, no kubelet',
    run: jestOnPlatform('integration', { nodes: 0, windlass: false }),
  },
  {
    name: 'e2e',
    about: 'two real nodes and Windlass as it is deployed',
    run: jestOnPlatform('e2e', { nodes: 2, windlass: true, featureGates: 'SidecarTerminator=true' }),
  },
  { name: 'upgrade', about: 'work under way while one version takes the place of another', run: runDrawnUpgrade },
];

/** One of the campaign's, another one each time: `npm run test:upgrade` carries out all. */
async function runDrawnUpgrade(): Promise<Counts> {
  const seed = seedFrom(process.env);
  const drawn = randomFrom(seed).pick(upgrades);
  console.log(`${drawn.name}; "CHAOS_SEED=${seed} npm run test:upgrade -- ${drawn.name}" repeats it`);
  return await runUpgrades([drawn], { instance: 'test-upgrade', seed, keep, signal: interrupted.signal });
}

async function runProjectChecks(): Promise<Counts> {
  const results = await runChecks(checks, readProject(root), (line) => console.log(line));
  const failed = results.filter(({ problems }) => problems.length > 0).length;
  return { passed: results.length - failed, failed, skipped: 0 };
}

interface JestPhase {
  readonly name: string;
  readonly options: readonly string[];
  /** How each group of files is run, where they share a cluster. Absent: the files need not be told apart. */
  readonly groups?: Readonly<Record<Group, GroupRun>>;
  readonly env?: Readonly<Record<string, string>>;
  /** Between two runs of `--repeat`. */
  readonly cleanUp?: () => Promise<void>;
}

interface GroupRun {
  readonly options: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Runs while its files do. */
  readonly beside?: () => Promise<{ stop(): Promise<void> }>;
}

function jest({ name, options, groups, env = {}, cleanUp }: JestPhase): Phase['run'] {
  const folder = `test/${name}`;
  const run = { root, folder, signal: interrupted.signal };
  const outcomes = async (args: readonly string[]): Promise<readonly JestOutcome[]> => {
    if (!groups) return [await runJest({ ...run, args: [...options, ...args], env })];
    const files = groupedFiles(root, folder, patternsIn(args));
    const ended: JestOutcome[] = [];
    for (const group of ['together', 'alone'] as const) {
      if (files[group].length === 0 || interrupted.signal.aborted) continue;
      const { options: own, env: more, beside } = groups[group];
      const running = await beside?.();
      const grouped = { files: files[group], env: { ...env, ...more, [groupVariable]: group } };
      try {
        ended.push(await runJest({ ...run, args: [...options, ...own, ...args], ...grouped }));
      } finally {
        await running?.stop();
      }
    }
    return ended;
  };
  const once = async (args: readonly string[]): Promise<Counts> => {
    const ended = await outcomes(args);
    const times = addedUp(ended.flatMap((outcome) => outcome.times));
    for (const line of describeTimes(times, budgetSeconds[name])) console.log(line);
    return sum(ended.map(({ counts }) => counts));
  };
  return async (args) => {
    const repeat = args.find((arg) => arg.startsWith('--repeat='));
    const times = repeat === undefined ? 1 : Number(repeat.slice('--repeat='.length));
    if (!(times >= 1)) throw new Error(`${repeat} must be a number of at least 1`);
    const rest = args.filter((arg) => arg !== repeat);
    const counts: Counts[] = [];
    while (counts.length < times && counts.every(isGreen) && !interrupted.signal.aborted) {
      if (counts.length > 0) await cleanUp?.();
      if (times > 1) console.log(`run ${counts.length + 1} of ${times}`);
      counts.push(await once(rest));
    }
    return sum(counts);
  };
}

/** On one instance of the local platform for the files that run together, and on two for those that run alone. */
function jestOnPlatform(name: string, needs: Pick<PlatformNeeds, 'nodes' | 'windlass' | 'featureGates'>): Phase['run'] {
  const first = `test-${name}`;
  // Tests of one file that may run at once mostly wait, each on a pod of its own; so do those of two files. Real kubelets
  // work for them meanwhile, and a busy one is late with the readiness of its pods.
  const options = [`--maxConcurrency=${needs.nodes > 0 ? 8 : 24}`];
  const shared = needs.windlass ? {} : { env: { WINDLASS_SHARED: '1' }, beside: () => startSharedWindlass(first) };

  return async (args) => {
    const { alone } = groupedFiles(root, `test/${name}`, patternsIn(args));
    const instances = alone.length > 1 ? [first, `${first}-2`] : [first];
    const groups = {
      together: { options: ['--maxWorkers=2'], ...shared },
      alone: { options: [`--maxWorkers=${instances.length}`], env: { [instancesVariable]: instances.join() } },
    };
    const cleanUp = async () => {
      for (const instance of instances) await removeNamespaces(instance);
    };
    const run = jest({ name, options, groups, env: { WINDLASS_INSTANCE: first }, cleanUp });
    return await withPlatforms({ instances, keep, ...needs }, () => run(args));
  };
}

async function runPhase({ name, about, run }: Phase, args: readonly string[]): Promise<Counts> {
  console.log(`\n── ${name}: ${about}`);
  const startedAtMs = performance.now();
  const counts = await run(args).catch((error: unknown): Counts => {
    console.log(`${name} could not be run: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
    return { passed: 0, failed: 1, skipped: 0 };
  });
  const seconds = Math.round((performance.now() - startedAtMs) / 1000);
  const nothingRan = counts.passed + counts.failed === 0 ? '; no test ran, which proves nothing' : '';
  console.log(`── ${name}: ${describeCounts(counts)} in ${seconds} s${nothingRan}`);
  return counts;
}

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    // The phase that runs ends, and what it brought up is taken down, before this process does.
    interrupted.abort();
  });
}

const [only, ...jestArgs] = process.argv.slice(2);
const chosen = phases.filter(({ name }) => only === undefined || name === only);
if (chosen.length === 0) {
  console.error(`No phase "${only}": there are ${phases.map(({ name }) => name).join(', ')}`);
  process.exit(2);
}

const all: Counts[] = [];
for (const phase of chosen) {
  if (interrupted.signal.aborted) break;
  all.push(await runPhase(phase, jestArgs));
}
console.log(`\n${describeCounts(sum(all))}`);
process.exit(!interrupted.signal.aborted && all.every(isGreen) ? 0 : 1);
