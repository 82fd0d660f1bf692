/**
 * `npm run test:chaos`: injects faults into a cluster of its own, judged by a recorded watch of its pods and by the runtime's own
 * list of containers. `npm run test:chaos -- kill network` runs the scenarios whose name contains one of these words,
 * `-- short` draws some of each kind, on fewer pods, `-- --list` names them all. CHAOS_SEED repeats a run; WINDLASS_KEEP=1
 * leaves the cluster up.
 *
 * The last line is `N passed, N failed, N skipped`, one for each scenario. Exits with 1 when anything was violated.
 */
import { instanceName } from '../../deploy/local/instance.ts';
import { describeCounts } from '../runner/counts.ts';
import { withPlatform } from '../runner/platform.ts';
import { type Result, runScenario, type Scenario, summary } from './campaign.ts';
import { randomFrom, seedFrom } from './random.ts';
import { scenarios } from './scenarios/all.ts';
import { shortCampaign } from './scenarios/short.ts';
import { enterWorld } from './world.ts';

process.env.WINDLASS_INSTANCE ||= 'test-chaos';

const words = process.argv.slice(2).filter((word) => !word.startsWith('--'));
if (process.argv.includes('--list')) {
  for (const { name, about } of scenarios) console.log(`${name.padEnd(24)} ${about}`);
  process.exit(0);
}
const random = randomFrom(seedFrom(process.env));
const isChosen = ({ name }: Scenario): boolean => words.length === 0 || words.some((word) => name.includes(word));
const chosen = words.includes('short') ? shortCampaign(random) : scenarios.filter(isChosen);
if (chosen.length === 0) {
  console.error(
    `No scenario is called like ${words.join(', ')}: there are ${scenarios.map(({ name }) => name).join(', ')}`,
  );
  process.exit(2);
}

const results: Result[] = [];
let interrupted = false;
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    console.log(`${signal}: ending after this scenario`);
    interrupted = true;
  });
}

console.log(`CHAOS_SEED=${random.seed}`);
const instance = instanceName(process.env);
await withPlatform({ instance, nodes: 2, windlass: true, keep: process.env.WINDLASS_KEEP === '1' }, async () => {
  const world = await enterWorld((line) => console.log(line));
  for (const scenario of chosen) {
    if (!interrupted) results.push(await runScenario(scenario, world, random));
  }
  await world.leave();
});

const failed = results.filter(({ violations }) => violations.length > 0).length;
console.log(`\n${summary(results)}\n\nCHAOS_SEED=${random.seed}`);
console.log(describeCounts({ passed: results.length - failed, failed, skipped: chosen.length - results.length }));
process.exit(failed === 0 && !interrupted ? 0 : 1);
