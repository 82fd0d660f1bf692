// The one place where faults are drawn, put at the steps of subjects, and healed; the subjects are then judged.
import { featureGates } from '../../deploy/local/feature-gates.ts';
import { auditPosition, judgeWriters } from './audit-record.ts';
import { cut, type Wired } from './cables.ts';
import type { Report, Scenario } from './campaign.ts';
import {
  type ChaosSubject,
  type Failure,
  judge,
  type Role,
  type SubjectKind,
  type SubjectStep,
} from './chaos-subject.ts';
import { cutOff, type Fault, frozen, killed, startSecond, together, untilLed, withFlags } from './faults.ts';
import type { Random } from './random.ts';
import { laps, seconds, type World } from './world.ts';

/** A fault, and how long it lasts. */
export interface PlannedFault {
  readonly fault: Fault;
  readonly lastsSeconds: number;
  /** What has to be seen before it is healed, however long that takes. */
  readonly until?: () => Promise<void>;
}

/** Who goes through what. */
export interface FaultPlan {
  /** They go through their steps side by side. */
  readonly subjects: readonly ChaosSubject[];
  /** The fault of a step, from 0. Undefined: the step passes undisturbed. */
  readonly faultAt: (step: number) => PlannedFault | undefined;
  /** So many faults there are at least: those beyond the last step are put while the subjects come to their end. */
  readonly faults?: number;
  /** From the second step on, a subject that takes longer is met where it is. Absent: all are waited for at each step. */
  readonly lateAfterSeconds?: number;
}

/** What runs differently while a scenario lasts. */
export interface Setting {
  /** Flags of the watcher beside its own. */
  readonly watcherFlags?: readonly string[];
  /** A second watcher runs beside the first. All writes are judged, and the lease has to change hands at least so often. */
  readonly secondWatcher?: { readonly flags: readonly string[]; readonly leaseChanges: number };
}

/** Subjects, faults and moments of one scenario. */
export interface FaultScenario extends Pick<Scenario, 'name' | 'about'> {
  readonly setting?: Setting;
  /** Prepares the subjects and draws what is done to them. */
  readonly plan: (world: World, random: Random, report: Report) => Promise<FaultPlan>;
}

/** What is still open after its end is looked for every minute; here nobody waits for so long. */
const fullPasses = '--full-pass-period=5s';

/** Flags of a watcher that looks at everything every few seconds, with the feature gates that these kinds need. */
export function hurriedFlags(...kinds: readonly SubjectKind[]): readonly string[] {
  const gates = kinds.flatMap(({ featureGate }) => featureGate ?? []);
  return [fullPasses, ...(gates.length > 0 ? [`--feature-gates=${[featureGates, ...gates].join()}`] : [])];
}

/** A scenario of the campaign from its subjects, faults and moments. */
export function faultScenario({ name, about, setting = {}, plan }: FaultScenario): Scenario {
  return {
    name,
    about,
    run: (world, random, report) =>
      inSetting(world, report, setting, async () => {
        const startedAtMs = performance.now();
        const planned = await plan(world, random, report);
        world.say(`   prepared in ${Math.round((performance.now() - startedAtMs) / 1000)} s`);
        await runThroughFaults(world, report, planned);
      }),
  };
}

async function inSetting(
  world: World,
  report: Report,
  { watcherFlags, secondWatcher }: Setting,
  work: () => Promise<void>,
): Promise<void> {
  const undo = watcherFlags && (await withFlags(world, 'watcher', watcherFlags));
  const since = auditPosition(world.instance);
  try {
    // otherwise the second one may lead from the beginning, and the lease stays where it is when the first one dies
    if (secondWatcher) await untilLed(world);
    const second = secondWatcher && (await startSecond(world, 'watcher', secondWatcher.flags));
    await work().finally(() => second?.stop());
  } finally {
    await undo?.();
  }
  if (secondWatcher) await judgeWriters(world, report, since, secondWatcher.leaseChanges);
}

/** Takes the subjects through their steps side by side, with a fault at each of them, waits for their end, and judges. */
export async function runThroughFaults(world: World, report: Report, plan: FaultPlan): Promise<void> {
  const { subjects, faultAt, faults: least = 0, lateAfterSeconds = Infinity } = plan;
  const lap = laps();
  const count = Math.max(least, ...subjects.map(({ steps }) => steps.length));
  const planned = Array.from({ length: count }, (_, step) => faultAt(step));
  const faults = new Set(planned.flatMap((one) => one?.fault ?? []));
  const walks = subjects.map((subject) => new Walk(subject));
  try {
    for (const fault of faults) await fault.prepare?.();
    for (const [index, one] of planned.entries()) {
      const late = await allAt(walks, index, index === 0 ? Infinity : lateAfterSeconds);
      lap(`step ${index + 1}${late}`);
      await disturbed(world, report, walks, index, one);
      lap('fault');
    }
    await Promise.all(walks.map(({ done }) => done));
    await Promise.all(subjects.map((subject) => subject.settled()));
    lap('settled');
  } finally {
    for (const fault of faults) await fault.end?.();
  }
  // what was right has to stay so
  for (let time = 1; time <= 2; time += 1) await Promise.all(subjects.map((subject) => judge(subject, report)));
  lap('judged');
  for (const subject of subjects) subject.summarise(report);
  await Promise.all(subjects.map((subject) => subject.remove()));
  lap('removed');
  world.say(`   ${lap.told()}`);
}

/** The way of one subject through its steps, one after the other. */
class Walk {
  readonly #steps: readonly SubjectStep[];
  #done: Promise<void> = Promise.resolve();
  /** The step at which it is; undefined before the first one, and once there are no more. */
  at: SubjectStep | undefined;

  constructor({ steps }: ChaosSubject) {
    this.#steps = steps;
  }

  /** Resolves when it is where it is to go. */
  get done(): Promise<void> {
    return this.#done;
  }

  /** Goes on to a step; answers the name of the step that it comes to, when it is there. */
  async to(index: number): Promise<string> {
    const step = this.#steps[index];
    this.#then(async () => {
      await step?.reach();
      this.at = step;
    });
    await this.#done;
    return step?.name ?? '';
  }

  /** Does what belongs to the step at which it is, or to which it is still on its way. */
  meanwhile(index: number): void {
    this.#then(async () => this.#steps[index]?.meanwhile?.());
  }

  #then(next: () => Promise<void>): void {
    this.#done = this.#done.then(next);
    this.#done.catch(() => undefined); // it is waited for later
  }
}

/**
 * Waits until all are at this step, or until those that are late need not be waited for. Answers for which one the others
 * waited, where that took long.
 */
async function allAt(walks: readonly Walk[], index: number, lateAfterSeconds: number): Promise<string> {
  const startedAtMs = performance.now();
  const took: { readonly name: string; readonly ms: number }[] = [];
  const there = walks.map(async (walk) => {
    const name = await walk.to(index);
    took.push({ name, ms: performance.now() - startedAtMs });
  });
  const isThere = Promise.all(there);
  isThere.catch(() => undefined); // it is waited for at the end
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    if (lateAfterSeconds < Infinity) timer = setTimeout(resolve, lateAfterSeconds * 1000);
  });
  await Promise.race([isThere, late]).finally(() => clearTimeout(timer));
  if (took.length < walks.length) return ` (${walks.length - took.length} late)`;
  const [last, before] = took.toSorted((a, b) => b.ms - a.ms);
  return last && last.ms - (before?.ms ?? 0) > 5_000 ? ` (${last.name})` : '';
}

async function disturbed(
  world: World,
  report: Report,
  walks: readonly Walk[],
  index: number,
  planned: PlannedFault | undefined,
): Promise<void> {
  const meanwhile = (): void => {
    for (const walk of walks) walk.meanwhile(index);
  };
  if (!planned) {
    meanwhile();
    return;
  }
  const { fault, lastsSeconds, until } = planned;
  const names = [...new Set(walks.flatMap(({ at }) => at?.name ?? []))].join(', ');
  world.say(`   ${fault.name}${lastsSeconds >= 1 ? `, ${Math.round(lastsSeconds)} s` : ''}: ${names}`);
  try {
    await fault.inject();
    for (const part of fault.parts ?? [fault]) {
      for (let times = part.times?.() ?? 1; times > 0; times -= 1) report.fault(part.name);
    }
    meanwhile();
    await Promise.all([seconds(lastsSeconds), until?.()]);
  } finally {
    await fault.heal();
  }
}

export function kills(roles: readonly Role[], lastsSeconds: Failure['lastsSeconds']): readonly Failure[] {
  return roles.map((role) => ({ way: 'kill', role, lastsSeconds }));
}

export function freezes(seconds: Partial<Record<Role, number>>): readonly Failure[] {
  return entries(seconds).map(([role, lastsSeconds]) => ({ way: 'freeze', role, lastsSeconds }));
}

/** Of both watchers, in turns: one takes over, and the other one wakes up beside it. */
export function freezesInTurns(lastsSeconds: number): Failure {
  return { way: 'freeze', role: 'watcher', lastsSeconds, secondWatcher: true };
}

export function cuts(seconds: Partial<Record<Wired, number>>): readonly Failure[] {
  return entries(seconds).map(([role, lastsSeconds]) => ({ way: 'cut', role, lastsSeconds }));
}

function entries<Key extends string>(record: Partial<Record<Key, number>>): readonly [Key, number][] {
  return Object.entries(record) as [Key, number][];
}

/** Longer than a daemon may be silent in the middle of a step, or than a watcher may keep its lease. */
export const frozenSeconds = { daemon: 36, watcher: 22 } as const;

/** The scenario in which a kind of work endures one failure at each of its steps. */
export function failureScenario(kind: SubjectKind, failure: Failure): Scenario {
  const { way, role, secondWatcher } = failure;
  const flags = hurriedFlags(kind);
  return faultScenario({
    name: `${kind.name}-${way}-${role}`,
    about: `${ways[way].about} ${role} at each step of ${kind.about}`,
    setting: {
      ...(kind.hurried && { watcherFlags: flags }),
      ...(secondWatcher && { secondWatcher: { flags, leaseChanges: 1 } }),
    },
    plan: async (world, random) => ({
      subjects: [await kind.prepare(world, { deaths: way === 'kill' && role === 'daemon' ? 1 : 0, random })],
      faultAt: faultsOf(world, random, failure),
    }),
  });
}

const ways = {
  kill: { about: 'kill -9 of', fault: killed },
  freeze: { about: 'SIGSTOP and SIGCONT of', fault: frozen },
  cut: { about: 'a cut network of', fault: cut },
} as const;

/** The same failure at each step. */
export function faultsOf(world: World, random: Random, failure: Failure): (step: number) => PlannedFault {
  const { way, role, lastsSeconds, secondWatcher } = failure;
  const names = secondWatcher ? [role, `second-${role}`] : [role];
  const faults = names.map((name) => ways[way].fault(world, name as Wired));
  return (step) => ({
    fault: faults[step % faults.length] as Fault,
    lastsSeconds: typeof lastsSeconds === 'number' ? lastsSeconds : random.within(...lastsSeconds),
  });
}

/** Faults one after the other, one at each step; none afterwards. */
export function inOrder(...faults: readonly PlannedFault[]): FaultPlan['faultAt'] {
  return (step) => faults[step];
}

/** All values in an order that chance chooses. */
export function shuffled<Value>(values: readonly Value[], random: Random): readonly Value[] {
  const left = [...values];
  return values.flatMap(() => left.splice(random.between(0, left.length - 1), 1));
}

const anyRole = ['worker', 'daemon', 'watcher', 'webhook', 'temporal'] as const;

/** Any fault; `isDeath` when a process dies that runs hooks of containers. */
export function drawnFault(world: World, random: Random): PlannedFault & { readonly isDeath: boolean } {
  const choice = random.between(1, 10);
  if (choice <= 5) {
    const role = random.pick(anyRole);
    return { fault: killed(world, role), lastsSeconds: random.within(0, 5), isDeath: role === 'daemon' };
  }
  if (choice <= 7) {
    return { fault: frozen(world, random.pick(anyRole)), lastsSeconds: random.within(2, 14), isDeath: false };
  }
  if (choice === 8) return { fault: killed(world, 'apiserver'), lastsSeconds: random.within(0, 5), isDeath: false };
  if (choice === 9) {
    return { fault: cutOff(world, random.pick(world.nodes)), lastsSeconds: random.within(2, 12), isDeath: false };
  }
  const pair = together(killed(world, 'worker'), killed(world, 'containerd'));
  return { fault: pair, lastsSeconds: random.within(0, 5), isDeath: true };
}
