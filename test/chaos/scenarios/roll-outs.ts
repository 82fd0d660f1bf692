// A roll-out in place of twenty pods, and a set that grows beside it, while one role after the other fails at each step.
import { type Wired, wire } from '../cables.ts';
import type { Report, Scenario } from '../campaign.ts';
import { type Fault, frozen, killed } from '../faults.ts';
import { PodSet, type UpdateStep, updateSteps } from '../pod-set.ts';
import type { Random } from '../random.ts';
import { seconds, type World } from '../world.ts';

const roles = ['watcher', 'worker', 'daemon', 'temporal', 'apiserver'] as const satisfies readonly Wired[];
const kinds = ['kill', 'freeze', 'cut'] as const;

/** Of twenty pods, a fifth. */
const replicas = 20;
const mostUnavailable = 4;

/** One role that fails in one way, at each of some steps. */
interface Trial {
  readonly role: Wired;
  readonly kind: (typeof kinds)[number];
  /** Absent: at every step. */
  readonly steps?: readonly UpdateStep['name'][];
}

/** Each role fails in each way, at each step. */
export const rollOuts: readonly Scenario[] = kinds.flatMap((kind) =>
  roles.map(
    (role): Scenario => ({
      name: `roll-out-${kind}-${role}`,
      about: `${kind} ${role} at each step of an update of 20 pods in place, and of growing`,
      run: (world, random, report) => rollOutThrough(world, random, report, { role, kind }),
    }),
  ),
);

/** One role that fails in one way at one step, by chance: for those who have less time. */
export function drawnTrial(random: Random): Scenario {
  const [role, kind, { name: step }] = [random.pick(roles), random.pick(kinds), random.pick(updateSteps)];
  return {
    name: `roll-out-${kind}-${role}`,
    about: `${kind} ${role} when a pod of 20 is at "${step}" of an update in place, and growing`,
    run: (world, chance, report) => rollOutThrough(world, chance, report, { role, kind, steps: [step] }),
  };
}

async function rollOutThrough(world: World, random: Random, report: Report, trial: Trial): Promise<void> {
  const wiring = trial.kind === 'cut' ? await wire(world) : undefined;
  try {
    const fault = wiring?.cut(trial.role) ?? (trial.kind === 'kill' ? killed : frozen)(world, trial.role);
    const [updated, growing] = await Promise.all([
      PodSet.create(world, replicas, {
        maxUnavailable: mostUnavailable,
        inPlaceUpdateStrategy: { gracePeriodSeconds: 2 },
      }),
      PodSet.create(world, 2),
    ]);
    await updated.update();
    for (const step of updateSteps.filter(({ name }) => trial.steps?.includes(name) ?? true)) {
      await updated.reaches(step);
      const grown = growing.grow(random.between(1, 4));
      await seconds(random.next() * 0.2);
      world.say(`   ${fault.name}: ${step.name}`);
      report.fault(fault.name);
      await during(fault, secondsOf(trial, random));
      await grown;
    }
    await Promise.all([updated.settled(), growing.settled()]);
    await updated.judge(report, replicas - mostUnavailable, { isUpdated: true });
    await growing.judge(report, 0, { isUpdated: false });
    report.outcome('as it should be', 2);
    await Promise.all([updated.remove(), growing.remove()]);
  } finally {
    await wiring?.undo();
  }
}

async function during(fault: Fault, lastsSeconds: number): Promise<void> {
  try {
    await fault.inject();
    await seconds(lastsSeconds);
  } finally {
    await fault.heal();
  }
}

/** Longer than a lease of the watcher, or than a permit. */
function secondsOf({ role, kind }: Trial, random: Random): number {
  if (kind === 'kill') return random.next() * 3;
  return role === 'watcher' ? 15 : 12;
}
