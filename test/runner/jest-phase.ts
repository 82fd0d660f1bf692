import { spawnSync } from 'node:child_process';
import { root } from '../check/all.ts';
import { startSharedWindlass } from '../support/shared-windlass.ts';
import { judge, type Tried, type Verdict } from './again.ts';
import { type Group, groupedFiles, groupVariable } from './groups.ts';
import { patternsIn, runJest } from './jest.ts';
import type { FileResult } from './jest-result.ts';
import { type LanePart, lanesOf, togetherAtOnce } from './lanes.ts';
import { addToLedger } from './ledger.ts';
import { quietSeconds } from './longest-first.ts';
import type { Phase } from './phase.ts';
import { type PlatformNeeds, removeNamespaces, withPlatform, withPlatforms } from './platform.ts';
import { addedUp, budgetSeconds, describeTimes, keepTimes } from './times.ts';

/** Tests that need no cluster. */
export interface JestPhase {
  /** The folder of its tests is `test/<name>`. */
  readonly name: string;
  /** Of Jest. */
  readonly options: readonly string[];
  readonly signal: AbortSignal;
}

/** Runs the tests of a folder with Jest; `--repeat=N` N times, or until one fails. */
export function jest({ name, options, signal }: JestPhase): Phase['run'] {
  const once = (args: readonly string[]) =>
    runJest({ root, folder: `test/${name}`, args: [...options, ...args], env: {}, signal });
  return async (args) => {
    const { times, rest } = repetitions(args);
    const results = await repeated(times, signal, () => once(rest));
    tellTimes(name, results);
    return judge(results.map((first) => ({ first })));
  };
}

/** Tests whose files share clusters. */
export interface PlatformPhase extends Pick<PlatformNeeds, 'nodes' | 'windlass' | 'featureGates' | 'keep'> {
  readonly name: string;
  /** Of its instances: `test-e2e`. */
  readonly prefix: string;
  /** In this order. */
  readonly groups: readonly Group[];
  readonly signal: AbortSignal;
}

/** A file as it was run with others of its group. */
interface GroupedResult extends FileResult {
  readonly group: Group;
}

/** With more failures the run is red, whatever a second try says. */
const mostSecondTries = 5;

/**
 * On two instances of the local platform: on the first one the files that run together and then some of those that run alone,
 * on the second one the others. A file that fails is run once more by itself on a new instance, unless runs are repeated or
 * the instances are kept.
 */
export function jestOnPlatform({ name, prefix, groups, signal, ...needs }: PlatformPhase): Phase['run'] {
  const first = `${prefix}-${name}`;
  const folder = `test/${name}`;
  // Tests of one file that may run at once mostly wait, each on a pod of its own; so do those of two files. Real kubelets
  // work for them meanwhile, and a busy one is late with the readiness of its pods.
  const options = [`--maxConcurrency=${needs.nodes > 0 ? 8 : 24}`];

  /** Runs files of a group on this instance, which is up. */
  async function runGroup(
    { group, files }: LanePart,
    args: readonly string[],
    instance: string,
  ): Promise<readonly GroupedResult[]> {
    const isShared = group === 'together' && !needs.windlass && files.length > 1;
    const workers = group === 'together' ? togetherAtOnce : 1;
    const running = isShared ? await startSharedWindlass(instance) : undefined;
    try {
      const results = await runJest({
        ...{ root, folder, files, signal, args: [...options, `--maxWorkers=${workers}`, ...args] },
        env: {
          WINDLASS_INSTANCE: instance,
          [groupVariable]: group,
          ...(isShared && { WINDLASS_SHARED: '1' }),
        },
      });
      return results.map((result) => ({ ...result, group }));
    } finally {
      await running?.stop();
    }
  }

  async function secondTry({ file, group, failures }: GroupedResult, args: readonly string[]) {
    const tests = failures.map(({ test }) => test || 'the file as a whole').join('; ');
    console.log(`\n${file} failed (${tests}): it is run again alone`);
    const instance = `${first}-again`;
    const [result] = await withPlatform({ ...needs, instance }, () =>
      runGroup({ group, files: [file] }, args, instance),
    );
    return result;
  }

  return async (args) => {
    const { times, rest } = repetitions(args);
    const files = groupedFiles(root, folder, patternsIn(rest));
    const chosen = groups.filter((group) => files[group].length > 0);
    const isOne = chosen.every((group) => group === 'together' || files[group].length === 1);
    const instances = isOne ? [first] : [first, `${first}-2`];
    const lanes = lanesOf(files, groups, instances.length, quietSeconds());
    const failed = new AbortController();
    const results = await withPlatforms({ instances, ...needs }, (instance, index) =>
      repeated(times, AbortSignal.any([signal, failed.signal]), async (round) => {
        if (round > 1) await removeNamespaces(instance, needs);
        const all: GroupedResult[] = [];
        for (const part of lanes[index] ?? []) {
          if (!signal.aborted) all.push(...(await runGroup(part, rest, instance)));
        }
        if (all.some(({ counts }) => counts.failed > 0)) failed.abort();
        return all;
      }),
    ).then((all) => all.flat());
    tellTimes(name, results);
    const red = results.filter(({ counts }) => counts.failed > 0);
    const isTriedAgain = times === 1 && !needs.keep && red.length <= mostSecondTries;
    const tried: Tried[] = [];
    for (const result of results) {
      const again = isTriedAgain && red.includes(result) && result.file.endsWith('.test.ts') && !signal.aborted;
      tried.push({ first: result, second: again ? await secondTry(result, optionsIn(rest)) : undefined });
    }
    const verdict = judge(tried);
    await remember(name, tried, verdict);
    return verdict;
  };
}

function repetitions(args: readonly string[]): { readonly times: number; readonly rest: readonly string[] } {
  const repeat = args.find((arg) => arg.startsWith('--repeat='));
  const times = repeat === undefined ? 1 : Number(repeat.slice('--repeat='.length));
  if (!(times >= 1)) throw new Error(`${repeat} must be a number of at least 1`);
  return { times, rest: args.filter((arg) => arg !== repeat) };
}

function optionsIn(args: readonly string[]): readonly string[] {
  const patterns = patternsIn(args);
  return args.filter((arg) => !patterns.includes(arg));
}

/** Ends early once a file has failed. The rounds are counted from 1. */
async function repeated<Result extends FileResult>(
  times: number,
  signal: AbortSignal,
  once: (round: number) => Promise<readonly Result[]>,
): Promise<readonly Result[]> {
  const all: Result[] = [];
  for (let round = 1; round <= times && all.every(({ counts }) => counts.failed === 0) && !signal.aborted; round += 1) {
    if (times > 1) console.log(`run ${round} of ${times}`);
    all.push(...(await once(round)));
  }
  return all;
}

function tellTimes(phase: string, results: readonly FileResult[]): void {
  const files = addedUp(results);
  for (const line of describeTimes(files, budgetSeconds[phase])) console.log(line);
  keepTimes(root, phase, files);
}

/** Whole runs count; a single file that somebody works on does not. */
async function remember(phase: string, tried: readonly Tried[], { flakes }: Verdict): Promise<void> {
  const files = [...new Set(tried.map(({ first }) => first.file))];
  if (files.length < 2) return;
  const red = tried.filter(({ first, second }) => (second ?? first).counts.failed > 0).map(({ first }) => first.file);
  const git = spawnSync('git', ['describe', '--always', '--dirty'], { cwd: root, encoding: 'utf8' });
  const commit = git.status === 0 ? git.stdout.trim() : 'unknown';
  await addToLedger({ at: new Date().toISOString(), commit, phase, files, red, flakes });
}
