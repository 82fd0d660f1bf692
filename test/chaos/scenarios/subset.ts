// What `npm test` runs of the campaign: the same faults, judged in the same way, on fewer pods and several at a time.
import type { Scenario } from '../campaign.ts';
import type { SubjectKind } from '../chaos-subject.ts';
import { drawnLongFault, failureScenario, faultScenario, faultsOf, inOrder } from '../fault-plan.ts';
import type { Random } from '../random.ts';
import { allSubjects } from '../subjects/all.ts';
import { updateSteps } from '../subjects/cloneset-pods.ts';
import { imagePulls } from '../subjects/image-pulls.ts';
import { RecreateRequests, recreateRequests } from '../subjects/recreate-requests.ts';
import { atTheMoment, someSteps } from '../subjects/recreated-pods.ts';
import { RollOut, rollOutSize, rollOuts } from '../subjects/roll-outs.ts';
import { sidecarSwaps } from '../subjects/sidecar-swaps.ts';
import { hostileClients, webhookDown } from './hostile-clients.ts';
import { hostileRequests } from './hostile-requests.ts';
import { anyActAtEachStep, deletedNamespace } from './people.ts';
import { burst } from './requests.ts';
import { eachRoleDies, sideBySideFlags } from './side-by-side.ts';
import { witnesses } from './witnesses.ts';

/** People interfere, and nothing dies: these may run at once. */
export const interferences: readonly Scenario[] = [anyActAtEachStep, deletedNamespace];

/** Nothing fails in these, which may run at once, too. */
export const witnessed: readonly Scenario[] = [
  ...witnesses,
  burst('forty requests at once', { pods: 8, containers: 5 }),
];

const slow: readonly SubjectKind[] = [imagePulls, rollOuts];
/** Each of its steps waits for the kubelet, longer than all others together: see `drawnSwap`. */
const onlyInCampaign: readonly SubjectKind[] = [sidecarSwaps];
const others = allSubjects.filter((kind) => ![recreateRequests, ...slow, ...onlyInCampaign].includes(kind));

/** Each role dies once, in three runs with different work; with a second watcher, if chance says so. */
export const sideBySide = {
  requests: (random: Random): Scenario =>
    eachRoleDies('requests are carried out when each role dies', {
      ...{ kinds: [recreateRequests], withSecondWatcher: random.chance(0.5) },
    }),
  slow: (random: Random): Scenario =>
    eachRoleDies('pulls and roll-outs go on when each role dies', {
      ...{ kinds: slow, withSecondWatcher: random.chance(0.5), soon: 'daemon' },
    }),
  others: (random: Random): Scenario =>
    eachRoleDies('work of every other kind goes on when each role dies', {
      ...{ kinds: others, withSecondWatcher: random.chance(0.5) },
    }),
} as const;

/** One fault that outlasts every wait, by chance, with requests at each step. */
export function longFault(random: Random): Scenario {
  const { about, fault, lastsSeconds, leaseChanges } = drawnLongFault(random);
  return faultScenario({
    name: 'something is away or stands still for long',
    about,
    setting: { secondWatcher: { flags: sideBySideFlags, leaseChanges } },
    async plan(world) {
      const plans = [...someSteps(), ...atTheMoment()];
      const requests = await RecreateRequests.prepare(world, { plans, judgementOf: () => ({ deaths: 1 }) });
      return { subjects: [requests], faultAt: inOrder({ fault: fault(world), lastsSeconds }) };
    },
  });
}

/** Admission under attack, and away. Judged by how soon requests of others are answered: each runs beside nothing else. */
export const admission: readonly Scenario[] = [
  {
    name: 'hostile requests',
    about: 'five hundred mutants through the API server',
    run: (world, random, report) => hostileRequests(world, random, report, { mutants: 500, real: 10 }),
  },
  {
    name: 'hostile clients',
    about: 'all kinds of clients at the port of the webhook',
    run: (world, _random, report) => hostileClients(world, report, 8),
  },
  {
    name: 'without the webhook others are unaffected',
    about: 'and bad requests are refused all the same',
    run: (world, _random, report) => webhookDown(world, report),
  },
];

/** One role that fails in one way at one step of a roll-out, by chance. */
export function drawnRollOut(random: Random): Scenario {
  const [failure, { name: step }] = [random.pick(rollOuts.endures), random.pick(updateSteps)];
  const { name } = failureScenario(rollOuts, failure);
  return faultScenario({
    name,
    about: `${failure.way} ${failure.role} when a pod of 20 is at "${step}" of an update in place, and growing`,
    plan: async (world, chance) => ({
      subjects: [await RollOut.prepare(world, { ...rollOutSize, random: chance, steps: [step] })],
      faultAt: faultsOf(world, chance, failure),
    }),
  });
}
