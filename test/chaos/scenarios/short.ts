// `npm run test:chaos -- short`: a part of each kind of scenario, drawn anew each time, on fewer pods than in the campaign.
import type { Scenario } from '../campaign.ts';
import { failureScenario, faultScenario, faultsOf } from '../fault-plan.ts';
import type { Random } from '../random.ts';
import { RollOut, rollOutSize, rollOuts } from '../subjects/roll-outs.ts';
import { updateSteps } from '../subjects/workload-pods.ts';
import { hostileClients, withoutWebhook } from './hostile-clients.ts';
import { hostileRequests } from './hostile-requests.ts';
import { longFaultScenarios } from './long-faults.ts';
import { anyActAtEachStep, deletedNamespace } from './people.ts';
import { fortyRequests } from './requests.ts';
import { roleDeaths } from './side-by-side.ts';
import { drawnSwap } from './swaps.ts';
import { witnesses } from './witnesses.ts';

/** What is drawn by this chance, in order. */
export function shortCampaign(random: Random): readonly Scenario[] {
  return [
    ...witnesses,
    fortyRequests,
    ...Object.values(roleDeaths).map(({ oneWatcher, twoWatchers }) => random.pick([oneWatcher, twoWatchers])),
    drawnRollOut(random),
    drawnSwap(random),
    random.pick(longFaultScenarios),
    anyActAtEachStep,
    deletedNamespace,
    ...admission,
  ];
}

/** Admission under attack, and away. */
const admission: readonly Scenario[] = [
  {
    name: 'some-hostile-requests',
    about: 'five hundred mutants through the API server',
    run: (world, random, report) => hostileRequests(world, random, report, { mutants: 500, real: 10 }),
  },
  {
    name: 'some-hostile-clients',
    about: 'all kinds of clients at the port of the webhook',
    run: (world, _random, report) => hostileClients(world, report, 8),
  },
  withoutWebhook,
];

/** One role that fails in one way at one step of a roll-out. */
function drawnRollOut(random: Random): Scenario {
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
