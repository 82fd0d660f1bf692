// Work of every kind side by side, while each role dies once: which one at which step is for chance to say.
import { isCompleted } from '../../../api/container-recreate-request/types.ts';
import { featureGates } from '../../../deploy/local/feature-gates.ts';
import { auditPosition } from '../audit-record.ts';
import type { Report } from '../campaign.ts';
import { killed, partsOf, recordOf, startSecond } from '../faults.ts';
import { Fleet, type Judgement } from '../fleet.ts';
import { type Blow, type Ordeal, type OrdealStep, through } from '../ordeal.ts';
import { PodSet, type UpdateStep, updateSteps } from '../pod-set.ts';
import type { Random } from '../random.ts';
import { atTheMoment, eachStep } from '../steps.ts';
import { untilDone, type World } from '../world.ts';
import { judgeWriters } from './freezes.ts';
import { allFamilies } from './on-nodes.ts';

/** Flags of every watcher: nobody waits a minute for its next look at everything. */
export const sideBySideFlags = [
  '--full-pass-period=5s',
  '--engine-silent-after=5s',
  `--feature-gates=${featureGates},SidecarTerminator=true`,
] as const;

/** They die in an order that chance chooses, one at each step. */
const roles = ['daemon', 'worker', 'watcher', 'webhook', 'temporal'] as const;
/** It dies after them, because kubelets hear of nothing for up to a minute after it was away. */
const last = 'apiserver';
type Role = (typeof roles)[number] | typeof last;

/** What a process that died had begun may have been begun twice. */
const judgement: Judgement = { deaths: 1 };

/** All of it, with a second watcher that takes over or, as chance says, without one. */
export async function everythingSideBySide(world: World, random: Random, report: Report): Promise<void> {
  if (random.chance(0.5)) {
    await whileEachRoleDies(world, random, report);
    return;
  }
  const since = auditPosition(world.instance);
  const second = await startSecond(world, 'watcher', sideBySideFlags);
  world.say(`   with ${second.part}`);
  try {
    await whileEachRoleDies(world, random, report);
  } finally {
    await second.stop();
  }
  await judgeWriters(world, report, since, 1);
}

/**
 * Requests at each of their steps, pulls, ends of sidecars, ordered starts, probes and a roll-out, and every role killed. The
 * watcher has to say after a few seconds that Temporal is silent.
 */
async function whileEachRoleDies(world: World, random: Random, report: Report): Promise<void> {
  const turns: readonly Role[] = [...shuffled(roles, random), last];
  world.say(`   ${turns.join(', ')}`);
  const before = new Map(turns.map((role) => [role, pidsOf(world, role)]));
  const recreations = Fleet.create(world, plans(random)).then((fleet) => new Recreations(fleet));
  const blowAt = (step: number): Blow => {
    const role = turns[step] ?? last;
    const until = role === 'temporal' ? async () => (await recreations).sayEngineSilent(report) : undefined;
    return { fault: killed(world, role), lastsSeconds: random.next(), ...(until && { until }) };
  };
  const begin = [
    () => recreations,
    ...allFamilies.map((family) => () => family.begin(world, judgement.deaths ?? 0)),
    () => RollOut.create(world),
  ];
  await through(world, report, begin, blowAt);
  for (const [role, pids] of before) {
    if (pidsOf(world, role).some((pid) => pids.includes(pid))) report.violation(`${role} was not killed`);
  }
}

function plans(random: Random) {
  return [...eachStep({ forceRecreate: random.chance(0.5) }), ...atTheMoment()];
}

function pidsOf(world: World, role: Role): readonly number[] {
  return partsOf(world, role).map((part) => recordOf(world, part).pid);
}

function shuffled<Value>(values: readonly Value[], random: Random): readonly Value[] {
  const left = [...values];
  return values.flatMap(() => left.splice(random.between(0, left.length - 1), 1));
}

/** Pods whose requests are held at each of their steps until the last blow. */
class Recreations implements Ordeal {
  readonly #fleet: Fleet;

  constructor(fleet: Fleet) {
    this.#fleet = fleet;
  }

  get namespace(): string {
    return this.#fleet.namespace;
  }

  get steps(): readonly OrdealStep[] {
    const held: OrdealStep = { name: 'requests are held', reach: async () => undefined };
    return [
      {
        name: 'requests at each of their steps',
        reach: async () => {
          await this.#fleet.hold();
          await this.#fleet.tellWhere();
          await this.#fleet.request('justBefore');
        },
        meanwhile: () => this.#fleet.request('meanwhile'),
      },
      ...roles.slice(1).map(() => held),
      { ...held, name: 'requests are let go', meanwhile: async () => this.#fleet.release() },
    ];
  }

  /** Each request that is not over says so: the one that is worked on, and not the one behind it. */
  async sayEngineSilent(report: Report): Promise<void> {
    const said = await Promise.all(
      this.#fleet.subjects.map((subject) =>
        untilDone(`${subject.name} to say EngineSilent`, async () => {
          const [request] = await subject.requestsNow();
          if (!request && subject.plan.requested === 'meanwhile') return 0;
          if (request && isCompleted(request)) return 0;
          if (request?.status?.waitingFor?.reason === 'EngineSilent') return 1;
          throw new Error(JSON.stringify(request?.status ?? 'nothing'));
        }),
      ),
    );
    const count = said.filter(Boolean).length;
    report.figure(`${count} requests said EngineSilent`);
    const held = this.#fleet.subjects.filter(({ isTimed, plan }) => !isTimed && plan.hold.kind !== 'none').length;
    if (count < held) report.violation(`only ${count} of ${held} held requests said EngineSilent`);
  }

  async settled(): Promise<void> {
    this.#fleet.release();
    await this.#fleet.completed();
  }

  async judge(report: Report): Promise<void> {
    await this.#fleet.judge(report, () => judgement);
    // what was right has to stay so
    await this.#fleet.judge(report, () => judgement);
    report.outcome('Completed', this.#fleet.subjects.flatMap(({ plan }) => plan.requests).length);
  }

  async remove(): Promise<void> {
    await this.#fleet.remove();
  }
}

const replicas = 12;
const mostUnavailable = 3;

/** A CloneSet that is updated in place, and one that grows beside it. */
class RollOut implements Ordeal {
  readonly #updated: PodSet;
  readonly #growing: PodSet;

  private constructor(updated: PodSet, growing: PodSet) {
    this.#updated = updated;
    this.#growing = growing;
  }

  static async create(world: World): Promise<RollOut> {
    const inPlaceUpdateStrategy = { gracePeriodSeconds: 4 };
    return new RollOut(
      ...(await Promise.all([
        PodSet.create(world, replicas, { maxUnavailable: mostUnavailable, inPlaceUpdateStrategy }),
        PodSet.create(world, 2),
      ])),
    );
  }

  get namespace(): string {
    return this.#updated.namespace;
  }

  /** The others take their time to their steps: a roll-out that is further by then is met where it is. */
  get steps(): readonly OrdealStep[] {
    const almostDone = updateSteps.at(-1) as UpdateStep;
    const [, ...others] = updateSteps;
    return others.map((step, index) => ({
      name: step.name,
      reach: async () => {
        if (index === 0) await this.#updated.update();
        await this.#growing.grow(1);
        await Promise.race([this.#updated.reaches(step), this.#updated.reaches(almostDone)]);
      },
    }));
  }

  async settled(): Promise<void> {
    await Promise.all([this.#updated.settled(), this.#growing.settled()]);
  }

  async judge(report: Report): Promise<void> {
    await this.#updated.judge(report, replicas - mostUnavailable, { isUpdated: true });
    await this.#growing.judge(report, 0, { isUpdated: false });
  }

  async remove(): Promise<void> {
    await Promise.all([this.#updated.remove(), this.#growing.remove()]);
  }
}
