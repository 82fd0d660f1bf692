import type { Scenario } from '../campaign.ts';
import { failureScenario } from '../fault-plan.ts';
import { allSubjects } from '../subjects/all.ts';
import { byHand } from './by-hand.ts';
import { admissionScenarios } from './hostile-clients.ts';
import { hostile } from './hostile-requests.ts';
import { longFaultScenarios } from './long-faults.ts';
import { people } from './people.ts';
import { requestScenarios } from './requests.ts';
import { roleDeaths } from './side-by-side.ts';
import { swapScenarios } from './swaps.ts';
import { witnesses } from './witnesses.ts';

/** The whole campaign, in order. */
export const scenarios: readonly Scenario[] = [
  ...witnesses,
  ...allSubjects.flatMap((kind) => kind.endures.map((failure) => failureScenario(kind, failure))),
  ...swapScenarios,
  ...Object.values(roleDeaths).flatMap(({ oneWatcher, twoWatchers }) => [oneWatcher, twoWatchers]),
  ...longFaultScenarios,
  ...requestScenarios,
  ...people,
  ...byHand,
  ...hostile,
  ...admissionScenarios,
];
