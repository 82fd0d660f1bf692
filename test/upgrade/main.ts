/**
 * `npm run test:upgrade`: takes work of each type of workflow to a step on a cluster that runs an earlier release, replaces
 * the roles by those of the present sources, and lets the work come to its end. The judges are those of the campaign of
 * faults: a recorded watch, the runtime's own list of containers, the registry, and the API server's audit log. Each step has
 * a cluster of its own. `-- 2 3` takes these steps only, `-- --from=VERSION` another release than the last. WINDLASS_KEEP=1
 * leaves the last cluster up.
 *
 * The last line is `N passed, N failed, N skipped`, one for each step. Exits with 1 when anything was violated.
 */
import { featureGates } from '../../deploy/local/feature-gates.ts';
import { instanceName } from '../../deploy/local/instance.ts';
import { type RoleSource, replaceRoles } from '../../deploy/local/platform.ts';
import { createProgress } from '../../deploy/local/progress.ts';
import { auditPosition } from '../chaos/audit-record.ts';
import { type Report, type Result, runScenario, summary } from '../chaos/campaign.ts';
import { randomFrom, seedFrom } from '../chaos/random.ts';
import { judgeWriters } from '../chaos/scenarios/freezes.ts';
import { enterWorld, laps, type World } from '../chaos/world.ts';
import { describeCounts } from '../runner/counts.ts';
import { withPlatform } from '../runner/platform.ts';
import { presentVersion } from '../support/version.ts';
import { releases, releaseVersion } from './artefact.ts';
import { mostSteps, works } from './works.ts';

process.env.WINDLASS_INSTANCE ||= 'test-upgrade';

const args = process.argv.slice(2);
const from = args.find((arg) => arg.startsWith('--from='))?.slice('--from='.length) ?? releases().at(-1) ?? '';
const all = Array.from({ length: mostSteps }, (_, index) => index + 1);
const wanted = args.filter((arg) => !arg.startsWith('--')).map(Number);
const unknown = wanted.find((step) => !all.includes(step));
if (unknown !== undefined) {
  console.error(`There is no step ${unknown}: there are ${all.join(', ')}`);
  process.exit(2);
}

const progress = createProgress();
const before = await releaseVersion(from);
const after = await presentVersion(progress);
const instance = instanceName(process.env);
const keep = process.env.WINDLASS_KEEP === '1';
const results: Result[] = [];
for (const step of wanted.length > 0 ? wanted : all) {
  await withPlatform({ instance, nodes: 2, windlass: false, keep }, async () => {
    await replaceRoles(instance, hurried(before), progress);
    const world = await enterWorld((line) => console.log(line));
    const about = `upgrade from ${before.name} with work of each type at its step ${step}`;
    const run = (_world: World, _random: unknown, report: Report): Promise<void> => upgradedAt(step - 1, world, report);
    results.push(await runScenario({ name: `step-${step}`, about, run }, world, randomFrom(seedFrom(process.env))));
    await world.leave();
  });
}

const failed = results.filter(({ violations }) => violations.length > 0).length;
console.log(`\n${summary(results)}\n`);
console.log(describeCounts({ passed: results.length - failed, failed, skipped: 0 }));
process.exit(failed === 0 ? 0 : 1);

async function upgradedAt(step: number, world: World, report: Report): Promise<void> {
  const lap = laps();
  const since = auditPosition(world.instance);
  const begun = await Promise.all(works.map((begin) => begin(world)));
  lap('begun');
  await Promise.all(begun.map((work) => work.reach(step)));
  for (const work of begun) world.say(`   ${work.at(step)}`);
  lap('reached');
  report.fault(`upgrade from ${before.name}`);
  await replaceRoles(instance, hurried(after), progress);
  lap('upgraded');
  await Promise.all(begun.map((work) => work.finish(step)));
  lap('finished');
  await Promise.all(begun.map((work) => work.judge(report)));
  await judgeWriters(world, report, since, 1);
  report.outcome('as it should be', begun.length);
  await Promise.all(begun.map((work) => work.remove()));
  lap('removed');
  world.say(`   ${lap.told()}`);
}

/** With what the work needs of the watcher: the gate of sidecars, and full passes every five seconds. */
function hurried({ rolePart, ...source }: RoleSource): RoleSource {
  return {
    ...source,
    rolePart(role, setting) {
      const part = rolePart(role, setting);
      const flags = ['--full-pass-period=5s', `--feature-gates=${featureGates},SidecarTerminator=true`];
      return role.name === 'watcher' ? { ...part, extra: flags } : part;
    },
  };
}
