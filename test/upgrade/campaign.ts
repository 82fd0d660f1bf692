// Work of each type of workflow at one of its steps, while one version takes the place of another in one of several ways.
import { featureGates } from '../../deploy/local/feature-gates.ts';
import { findInstance } from '../../deploy/local/instance.ts';
import { type RoleSource, replaceRoles } from '../../deploy/local/platform.ts';
import { createProgress, type Progress } from '../../deploy/local/progress.ts';
import { auditPosition, judgeWriters } from '../chaos/audit-record.ts';
import { type Result, runScenario, summary } from '../chaos/campaign.ts';
import { judge } from '../chaos/chaos-subject.ts';
import { type Random, randomFrom } from '../chaos/random.ts';
import { enterWorld, laps } from '../chaos/world.ts';
import type { Counts } from '../runner/counts.ts';
import { withPlatform } from '../runner/platform.ts';
import { presentVersion } from '../support/version.ts';
import { releases, releaseVersion } from './artefact.ts';
import { incompatibleVersion } from './incompatible-version.ts';
import { LockWatch } from './lock-watch.ts';
import { type Change, type Versions, type Way, ways } from './ways.ts';
import { finish, mostSteps, stepOf, takeTo, works } from './works.ts';

/** A way at a step of the work. */
export interface Upgrade {
  /** `rollback-3` */
  readonly name: string;
  readonly way: Way;
  /** From 0. */
  readonly step: number;
}

/** Every way at every step. */
export const upgrades: readonly Upgrade[] = ways.flatMap((way) =>
  Array.from({ length: mostSteps }, (_, step) => ({ name: `${way.name}-${step + 1}`, way, step })),
);

export interface CampaignOptions {
  /** Each has a cluster of its own under this name. */
  readonly instance: string;
  readonly seed: number;
  /** The release from which is upgraded. Absent: the last one. */
  readonly from?: string | undefined;
  /** Leaves the last cluster up. */
  readonly keep: boolean;
  /** No other is begun afterwards. */
  readonly signal: AbortSignal;
}

/** Carries out upgrades one after the other and prints what became of them. */
export async function runUpgrades(chosen: readonly Upgrade[], options: CampaignOptions): Promise<Counts> {
  const { instance, seed, keep, signal } = options;
  const progress = createProgress();
  const release = await releaseVersion(options.from ?? releases().at(-1) ?? '');
  const present = await presentVersion(progress);
  const versions: Versions = {
    release,
    present,
    incompatible: await progress.step('Incompatible workflows', () => incompatibleVersion(present)),
  };
  process.env.WINDLASS_INSTANCE = instance;
  const results: Result[] = [];
  for (const upgrade of chosen) {
    if (signal.aborted) break;
    await withPlatform({ instance, nodes: 2, windlass: false, keep }, async () => {
      results.push(await runUpgrade(upgrade, versions, randomFrom(seed), progress));
    });
  }
  const failed = results.filter(({ violations }) => violations.length > 0).length;
  console.log(`\n${summary(results)}\n\nCHAOS_SEED=${seed}`);
  return { passed: results.length - failed, failed, skipped: chosen.length - results.length };
}

async function runUpgrade(
  { name, way, step }: Upgrade,
  versions: Versions,
  random: Random,
  progress: Progress,
): Promise<Result> {
  const instance = findInstance(process.env.WINDLASS_INSTANCE ?? '');
  if (!instance) throw new Error('The cluster of the upgrade is down');
  const replace: Change['replace'] = (version, options) =>
    replaceRoles(instance.name, hurried(version), progress, options);
  await way.prepare?.({ instance });
  await replace(versions[way.begins]);
  const world = await enterWorld((line) => console.log(line));
  try {
    const about = `work at its step ${step + 1}, ${way.about}`;
    return await runScenario(
      {
        name,
        about,
        async run(_world, chance, report) {
          const lap = laps();
          const since = auditPosition(instance);
          const locks = LockWatch.begin(world);
          const prepared = { deaths: way.deaths, random: chance.fork('work') };
          const begun = await Promise.all(works.map((prepare) => prepare(world, prepared)));
          lap('begun');
          await Promise.all(begun.map((work) => takeTo(work, step)));
          for (const work of begun) world.say(`   ${stepOf(work, step)}`);
          lap('reached');
          const settled = await way.carryOut({ world, versions, step, random: chance, report, progress, replace });
          lap('replaced');
          await Promise.all([...begun.map((work) => finish(work, step)), settled?.()]);
          lap('finished');
          // what was right has to stay so
          for (let time = 1; time <= 2; time += 1) await Promise.all(begun.map((work) => judge(work, report)));
          await judgeWriters(world, report, since, 1);
          await locks.end(report);
          for (const work of begun) work.summarise(report);
          await Promise.all(begun.map((work) => work.remove()));
          lap('removed');
          report.figure(lap.told());
        },
      },
      world,
      random,
    );
  } finally {
    await world.leave();
  }
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
