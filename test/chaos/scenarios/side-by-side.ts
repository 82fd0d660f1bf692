// Work of every kind side by side, while each role dies once: which one at which step is for chance to say.
import type { EngineReason } from '../../../api/engine/engine-trouble.ts';
import type { Scenario } from '../campaign.ts';
import type { Role, SubjectKind } from '../chaos-subject.ts';
import {
  type FaultPlan,
  faultScenario,
  hurriedFlags,
  type PlannedFault,
  type Setting,
  shuffled,
} from '../fault-plan.ts';
import { type Fault, killed, leaderChange, partsOf, recordOf } from '../faults.ts';
import type { Random } from '../random.ts';
import { allSubjects } from '../subjects/all.ts';
import { imagePulls } from '../subjects/image-pulls.ts';
import { RecreateRequests, recreateRequests } from '../subjects/recreate-requests.ts';
import { rollOuts } from '../subjects/roll-outs.ts';
import { sidecarSwaps } from '../subjects/sidecar-swaps.ts';
import type { World } from '../world.ts';

/** Flags of every watcher: nobody waits a minute for its next look at everything. */
const watcherFlags = [...hurriedFlags(...allSubjects), '--engine-silent-after=5s'] as const;

/** They die in an order that chance chooses, one at each step. */
const roles = ['daemon', 'worker', 'watcher', 'webhook', 'temporal'] as const satisfies readonly Role[];
/** It dies after them, because kubelets hear of nothing for up to a minute after it was away. */
const last = 'apiserver' satisfies Role;

/** What the object of a held operation says while a role is dead. */
const saidReasons: Readonly<Partial<Record<Role, EngineReason>>> = {
  temporal: 'EngineSilent',
  worker: 'EngineNoWorkers',
};

/** What a process that died had begun may have been begun twice. */
const deaths = 1;

/** What goes on while each role dies. */
interface Work {
  readonly name: string;
  readonly kinds: readonly SubjectKind[];
  /** It dies first or second, so that work that waits for its missed heartbeat does so while the others die. */
  readonly soon?: Role;
}

const slow: readonly SubjectKind[] = [imagePulls, rollOuts];
/** Each of its steps waits for the kubelet, longer than all others together: see `swapScenarios`. */
const apart: readonly SubjectKind[] = [sidecarSwaps];
const quick = allSubjects.filter((kind) => ![recreateRequests, ...slow, ...apart].includes(kind));

/** Each role dies once while work goes on, with one watcher and with two. */
export interface RoleDeaths {
  readonly oneWatcher: Scenario;
  readonly twoWatchers: Scenario;
}

export const roleDeaths = {
  requests: whileEachRoleDies({ name: 'requests', kinds: [recreateRequests] }),
  slowWork: whileEachRoleDies({ name: 'slow-work', kinds: slow, soon: 'daemon' }),
  quickWork: whileEachRoleDies({ name: 'quick-work', kinds: quick }),
} as const;

function whileEachRoleDies(work: Work): RoleDeaths {
  return {
    oneWatcher: eachRoleDies(work),
    twoWatchers: eachRoleDies(work, { secondWatcher: { flags: watcherFlags, leaseChanges: 1 } }),
  };
}

function eachRoleDies({ name, kinds, soon }: Work, { secondWatcher }: Pick<Setting, 'secondWatcher'> = {}): Scenario {
  return faultScenario({
    name: `each-role-${name}${secondWatcher ? '-two-watchers' : ''}`,
    about: `kill -9 of each role once, beside ${kinds.map((kind) => kind.about).join('; ')}`,
    setting: { watcherFlags, ...(secondWatcher && { secondWatcher }) },
    async plan(world, random, report) {
      const turns: readonly Role[] = [...soonest(shuffled(roles, random), soon, random), last];
      world.say(`   ${turns.join(', ')}`);
      const subjects = await Promise.all(
        kinds.map((kind) => {
          const prepared = { deaths, random: random.fork(kind.name) };
          return kind.prepareBeside?.(world, prepared, turns.length) ?? kind.prepare(world, prepared);
        }),
      );
      const requests = subjects.find((subject) => subject instanceof RecreateRequests);
      const faultAt: FaultPlan['faultAt'] = (step): PlannedFault | undefined => {
        const role = turns[step];
        if (role === undefined) return undefined;
        const fault = reallyKilled(world, role);
        if (role === 'watcher' && secondWatcher) {
          return { ...leaderChange(world, fault), lastsSeconds: random.next() };
        }
        // the watcher has to say after a few seconds that Temporal is silent, or that no worker lives
        const reason = saidReasons[role];
        return {
          fault,
          lastsSeconds: random.next(),
          ...(reason && requests && { until: () => requests.say(reason, report, { every: false }) }),
        };
      };
      // a new watcher leads after 15 s, and a pull is begun again after 60 s: the other subjects do not wait for that
      return { subjects, faultAt, faults: turns.length, lateAfterSeconds: 5 };
    },
  });
}

function soonest(turns: readonly Role[], soon: Role | undefined, random: Random): readonly Role[] {
  if (soon === undefined) return turns;
  return turns.filter((role) => role !== soon).toSpliced(random.between(0, 1), 0, soon);
}

/** Fails where a process is the same as before. */
function reallyKilled(world: World, role: Role): Fault {
  const pids = (): readonly number[] => partsOf(world, role).map((part) => recordOf(world, part).pid);
  const fault = killed(world, role);
  let before: readonly number[] = [];
  return {
    ...fault,
    async inject() {
      before = pids();
      await fault.inject();
    },
    async heal() {
      await fault.heal();
      if (pids().some((pid) => before.includes(pid))) throw new Error(`${role} was not killed`);
    },
  };
}
