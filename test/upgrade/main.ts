/**
 * `npm run test:upgrade`: takes work of each type of workflow to a step and replaces the roles of one version of Windlass by
 * those of another, in each way at each step; the work has to come to its end as if nothing had been replaced. The judges are
 * those of the campaign of faults: a recorded watch, the runtime's own list of containers, the registry, and the API server's
 * audit log. `-- rollback drain-3` carries out those whose name is one of these words or begins with it, `-- --list` names all,
 * `-- --from=VERSION` upgrades from another release than the last. CHAOS_SEED repeats a run; WINDLASS_KEEP=1 leaves the last
 * cluster up.
 *
 * The last line is `N passed, N failed, N skipped`. Exits with 1 when anything was violated.
 */
import { seedFrom } from '../chaos/random.ts';
import { describeCounts, isGreen } from '../runner/counts.ts';
import { runUpgrades, upgrades } from './campaign.ts';

const args = process.argv.slice(2);
if (args.includes('--list')) {
  for (const { name, way } of upgrades) console.log(`${name.padEnd(16)} ${way.about}`);
  process.exit(0);
}
const words = args.filter((arg) => !arg.startsWith('--'));
const isMeant = (name: string): boolean => words.some((word) => name === word || name.startsWith(`${word}-`));
const chosen = upgrades.filter(({ name }) => words.length === 0 || isMeant(name));
if (chosen.length === 0) {
  console.error(`No upgrade is called ${words.join(', ')}: there are ${upgrades.map(({ name }) => name).join(', ')}`);
  process.exit(2);
}

const interrupted = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    console.log(`${signal}: ending after this upgrade`);
    interrupted.abort();
  });
}

const counts = await runUpgrades(chosen, {
  instance: process.env.WINDLASS_INSTANCE || 'test-upgrade',
  seed: seedFrom(process.env),
  from: args.find((arg) => arg.startsWith('--from='))?.slice('--from='.length),
  keep: process.env.WINDLASS_KEEP === '1',
  signal: interrupted.signal,
});
console.log(describeCounts(counts));
process.exit(isGreen(counts) && !interrupted.signal.aborted ? 0 : 1);
