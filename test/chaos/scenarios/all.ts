import type { Scenario } from '../campaign.ts';
import { crowds } from './burst.ts';
import { deletions } from './deletions.ts';
import { engineScenarios } from './engine.ts';
import { freezes } from './freezes.ts';
import { admissionScenarios } from './hostile-clients.ts';
import { hostile } from './hostile-requests.ts';
import { kills } from './kills.ts';
import { onNodes } from './on-nodes.ts';
import { outages } from './outages.ts';
import { anyTime } from './random-faults.ts';
import { rollOuts } from './roll-outs.ts';
import { witnesses } from './witnesses.ts';

/** The whole campaign, in order. */
export const scenarios: readonly Scenario[] = [
  ...witnesses,
  ...kills,
  ...freezes,
  ...outages,
  ...engineScenarios,
  ...deletions,
  ...anyTime,
  ...crowds,
  ...hostile,
  ...admissionScenarios,
  ...rollOuts,
  ...onNodes,
];
