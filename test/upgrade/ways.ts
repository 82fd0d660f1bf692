// The ways in which one version takes the place of another while work is under way.
import { existsSync, readFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { endDrained } from '../../deploy/local/draining.ts';
import { repository } from '../../deploy/local/instance.ts';
import { readParts, removePart, startPart } from '../../deploy/local/parts.ts';
import { type ReplaceablePart, type ReplaceOptions, replaceableParts, status } from '../../deploy/local/platform.ts';
import type { Progress } from '../../deploy/local/progress.ts';
import { run } from '../../deploy/local/run.ts';
import { toolPath } from '../../deploy/local/tools.ts';
import { describeDeployment } from '../../workers/worker-versions.ts';
import { buildIdOf } from '../../workers/workflow-bundle.ts';
import type { Report } from '../chaos/campaign.ts';
import type { Random } from '../chaos/random.ts';
import type { World } from '../chaos/world.ts';
import type { Version } from '../support/version.ts';
import { waitFor } from '../support/wait.ts';
import { Drain } from './drain.ts';

/** The versions of a campaign. */
export interface Versions {
  /** The release from which is upgraded. */
  readonly release: Version;
  readonly present: Version;
  /** The present version with other workflow code. */
  readonly incompatible: Version;
}

/** What a way is carried out with. */
export interface Change {
  readonly world: World;
  readonly versions: Versions;
  /** From 0: at which step the work is. */
  readonly step: number;
  readonly random: Random;
  readonly report: Report;
  readonly progress: Progress;
  replace(version: Version, options?: ReplaceOptions): Promise<void>;
}

export interface Way {
  readonly name: string;
  /** What it proves, in a few words. */
  readonly about: string;
  readonly begins: keyof Versions;
  /** How often a daemon that has begun a stop may be replaced. */
  readonly deaths: number;
  /** Before any role is started. */
  readonly prepare?: (world: Pick<World, 'instance'>) => Promise<void>;
  /** Replaces what runs while the work is held. What it answers is waited for when nothing is held any more. */
  readonly carryOut: (change: Change) => Promise<(() => Promise<void>) | undefined>;
}

export const ways: readonly Way[] = [
  {
    name: 'upgrade',
    about: 'the last release is replaced by the present version part by part, in an order drawn by the seed',
    begins: 'release',
    deaths: 1,
    async carryOut(change) {
      await inDrawnOrder(change, change.versions.present);
      return undefined;
    },
  },
  {
    name: 'rollback',
    about: 'the last release is replaced by the present version, and comes back as docs/upgrading.md says',
    begins: 'release',
    deaths: 2,
    async carryOut({ world, versions: { present, release }, report, replace }) {
      report.fault(`upgrade to ${present.name}`);
      await replace(present);
      await untilCurrent(world, present);
      report.fault(`rollback to ${release.name}`);
      await removePart(world.instance, 'watcher');
      await removePart(world.instance, 'worker');
      await runDocumentedRollback(world);
      await replace(release);
      return undefined;
    },
  },
  {
    name: 'drain',
    about:
      'the present version is replaced by one with incompatible workflow code, whose worker starts beside the old one',
    begins: 'present',
    deaths: 1,
    async carryOut({ world, versions: { present, incompatible }, report, progress, replace }) {
      report.fault(`upgrade to ${incompatible.name}`);
      const drain = await Drain.begin(world, buildOf(incompatible));
      await replace(incompatible, { keepsWorker: true });
      await drain.untilHeld(report, await untilCurrent(world, incompatible));
      return async () => {
        await drain.untilDone(report);
        await endDrained(world.instance, progress);
        const aside = `worker-${buildOf(present)}`;
        if (readParts(world.instance).some(({ name }) => name === aside)) report.violation(`part ${aside} still runs`);
      };
    },
  },
  {
    name: 'orphan',
    about: 'as "drain", but the old worker ends at once, as with a rolling update of one Deployment',
    begins: 'present',
    deaths: 1,
    async carryOut({ versions: { incompatible }, report, replace }) {
      report.fault(`upgrade to ${incompatible.name}`);
      await replace(incompatible);
      return undefined;
    },
  },
  {
    name: 'unversioned',
    about: 'as "drain", part by part in a drawn order, on a Temporal server whose workers have no versions',
    begins: 'present',
    deaths: 1,
    prepare: ({ instance }) =>
      startPart(instance, 'temporal', ['--dynamic-config-value', 'system.enableDeploymentVersions=false']),
    async carryOut(change) {
      await inDrawnOrder(change, change.versions.incompatible);
      return undefined;
    },
  },
];

/** Over the first five steps each part is replaced first and last, but for the webhook and its rights. The rest is up to chance. */
async function inDrawnOrder({ step, random, world, report, replace }: Change, version: Version): Promise<void> {
  const parts = drawnOrder(step, random);
  world.say(`   ${parts.join(', ')}`);
  for (const part of parts) {
    report.fault(`${part} replaced`);
    await replace(version, { parts: [part] });
  }
}

/** The parts in the order in which they are replaced at a step. */
export function drawnOrder(step: number, random: Random): readonly ReplaceablePart[] {
  const at = (index: number) => replaceableParts[index % replaceableParts.length];
  const [first, last] = [at(step), at(step + 1)];
  const between = replaceableParts.filter((part) => part !== first && part !== last);
  const shuffled = between
    .map((part) => ({ part, drawn: random.next() }))
    .sort((a, b) => a.drawn - b.drawn)
    .map(({ part }) => part);
  return withRights([first, ...shuffled, last].filter((part) => part !== undefined));
}

/** A webhook is not ready without the rights to read what its release serves: its manifests come before it. */
function withRights(parts: readonly ReplaceablePart[]): readonly ReplaceablePart[] {
  if (parts.indexOf('manifests') < parts.indexOf('webhook')) return parts;
  return parts.flatMap((part) => {
    if (part === 'manifests') return [];
    return part === 'webhook' ? ['manifests' as const, part] : [part];
  });
}

/** The build ID of a version's workflow code. */
function buildOf({ bundles }: Version): string {
  return buildIdOf(readFileSync(join(bundles, 'workflows.js'), 'utf8'));
}

/** Since when Temporal has sent new operations to this version, in milliseconds since 1970. */
async function untilCurrent({ temporal }: World, version: Version): Promise<number> {
  const build = buildOf(version);
  const { sinceMs } = await waitFor(`build ${build} to be current`, async (see) => {
    const deployment = see(await describeDeployment(temporal));
    if (deployment.kind !== 'found' || deployment.current?.build !== build) return undefined;
    return deployment.current;
  });
  return sinceMs;
}

/** Does what users are told to do before they start a release from before versions existed. */
async function runDocumentedRollback({ instance }: World): Promise<void> {
  const address = status(instance.name)?.temporal ?? '';
  const path = [dirname(toolPath('temporal')), process.env.PATH].join(delimiter);
  for (const command of documentedCommands('Rolling back')) {
    await run('sh', ['-c', command], { env: { ...process.env, PATH: path, TEMPORAL_ADDRESS: address } });
  }
}

/** The commands of a section of docs/upgrading.md. */
export function documentedCommands(section: string): readonly string[] {
  const file = join(repository, 'docs/upgrading.md');
  const page = existsSync(file) ? readFileSync(file, 'utf8') : '';
  const text = page.split(/^## /m).find((part) => part.startsWith(`${section}\n`)) ?? '';
  const console = /```console\n([\s\S]*?)```/.exec(text)?.[1] ?? '';
  const lines = console.replaceAll(/\\\n\s*/g, '').split('\n');
  const commands = lines.flatMap((line) => (line.startsWith('$ ') ? [line.slice(2)] : []));
  if (commands.length === 0) throw new Error(`No commands in section "${section}" of ${file}`);
  return commands;
}
