// What happens on the nodes, while one role after the other is killed or stopped at each step of it.
import { featureGates } from '../../../deploy/local/feature-gates.ts';
import { auditPosition } from '../audit-record.ts';
import type { Report, Scenario } from '../campaign.ts';
import { type Fault, frozen, killed, startSecond, withFlags } from '../faults.ts';
import { ImagePulls } from '../image-pulls.ts';
import { JobPods } from '../job-pods.ts';
import { Launches } from '../launches.ts';
import { type Ordeal, through } from '../ordeal.ts';
import { ProbedPods } from '../probed-pods.ts';
import type { Random } from '../random.ts';
import type { World } from '../world.ts';
import { judgeWriters } from './freezes.ts';

const roles = ['daemon', 'worker', 'watcher', 'temporal', 'apiserver'] as const;
type Role = (typeof roles)[number];

/** What is done at each step of one kind of work. */
export interface Family {
  readonly name: string;
  readonly about: string;
  /** `deaths`: how often the daemon dies. */
  readonly begin: (world: World, deaths: number) => Promise<Ordeal>;
  readonly killed: readonly Role[];
  readonly frozen: readonly ('daemon' | 'watcher')[];
  /** Flags that the watcher needs for it. */
  readonly flags?: readonly string[];
}

const families = {
  images: {
    name: 'images',
    about: 'pulls of five images on each node',
    begin: (world) => ImagePulls.create(world),
    killed: roles,
    frozen: ['daemon', 'watcher'],
  },
  sidecars: {
    name: 'sidecars',
    about: 'the end of the sidecars of seven Jobs',
    begin: (world, deaths) => JobPods.create(world, deaths),
    killed: roles,
    frozen: ['daemon', 'watcher'],
    flags: [`--feature-gates=${featureGates},SidecarTerminator=true`],
  },
  launch: {
    name: 'launch',
    about: 'the start of four pods whose containers have an order',
    begin: (world) => Launches.create(world),
    killed: roles,
    frozen: ['daemon', 'watcher'],
  },
  probes: {
    name: 'probes',
    about: 'what the probes of four pods find out',
    begin: (world) => ProbedPods.create(world),
    killed: ['daemon', 'watcher', 'apiserver'],
    frozen: ['daemon', 'watcher'],
  },
} as const satisfies Readonly<Record<string, Family>>;

/** Every kind of work on nodes. */
export const allFamilies: readonly Family[] = Object.values(families);

/** What is still open after its end is looked for every minute; here nobody waits for so long. */
const hurried = '--full-pass-period=5s';

/** Longer than a daemon may be silent in the middle of a step, or than a watcher may keep its lease. */
const freezeSeconds = { daemon: 36, watcher: 22 } as const;

/** Each kind of work under each role's death, and under the freeze of those who could wake up too late. */
export const onNodes = {
  images: scenariosOf(families.images),
  sidecars: scenariosOf(families.sidecars),
  launch: scenariosOf(families.launch),
  probes: scenariosOf(families.probes),
} as const satisfies Record<keyof typeof families, readonly Scenario[]>;

function scenariosOf(family: Family): readonly Scenario[] {
  return [
    ...family.killed.map(
      (role): Scenario => ({
        name: `${family.name}-kill-${role}`,
        about: `kill -9 of ${role} at each step of ${family.about}`,
        run: (world, random, report) => underKills(world, random, report, family, role),
      }),
    ),
    ...family.frozen.map(
      (role): Scenario => ({
        name: `${family.name}-freeze-${role}`,
        about: `SIGSTOP of ${role}, and SIGCONT when it is too late, at each step of ${family.about}`,
        run: (world, _random, report) =>
          role === 'watcher' ? underFrozenWatcher(world, report, family) : underFrozenDaemons(world, report, family),
      }),
    ),
  ];
}

async function underKills(world: World, random: Random, report: Report, family: Family, role: Role): Promise<void> {
  await withWatcherFlags(world, family, () =>
    through(world, report, [() => family.begin(world, role === 'daemon' ? 1 : 0)], () => ({
      fault: killed(world, role),
      lastsSeconds: random.next() * 3,
    })),
  );
}

async function underFrozenDaemons(world: World, report: Report, family: Family): Promise<void> {
  const blow = { fault: frozen(world, 'daemon'), lastsSeconds: freezeSeconds.daemon };
  await withWatcherFlags(world, family, () => through(world, report, [() => family.begin(world, 0)], () => blow));
}

/** Another one takes over, and the first wakes up beside it; so they take turns. */
async function underFrozenWatcher(world: World, report: Report, family: Family): Promise<void> {
  const since = auditPosition(world.instance);
  const second = await startSecond(world, 'watcher', flagsOf(family));
  const faultAt = (step: number): Fault => frozen(world, step % 2 === 0 ? 'watcher' : second.part);
  try {
    await withWatcherFlags(world, family, () =>
      through(world, report, [() => family.begin(world, 0)], (step) => ({
        fault: faultAt(step),
        lastsSeconds: freezeSeconds.watcher,
      })),
    );
  } finally {
    await second.stop();
  }
  await judgeWriters(world, report, since, 1);
}

async function withWatcherFlags(world: World, family: Pick<Family, 'flags'>, work: () => Promise<void>): Promise<void> {
  const undo = await withFlags(world, 'watcher', flagsOf(family));
  try {
    await work();
  } finally {
    await undo();
  }
}

function flagsOf({ flags = [] }: Pick<Family, 'flags'>): readonly string[] {
  return [hurried, ...flags];
}
