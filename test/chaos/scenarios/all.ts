import { type PerKind, partsOf } from '../../../api/per-kind.ts';
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

/** What each kind goes through. */
const scenariosOfKinds: PerKind<readonly Scenario[]> = {
  ContainerRecreateRequest: [
    ...kills,
    ...freezes,
    ...outages,
    ...engineScenarios,
    ...deletions,
    ...anyTime,
    ...crowds,
    ...hostile,
  ],
  CloneSet: rollOuts,
  ImagePullJob: onNodes.images,
  PodProbeMarker: onNodes.probes,
  // The scenarios of PodProbeMarker go through it.
  NodePodProbe: 'none',
  // It makes ImagePullJobs.
  ImageListPullJob: 'none',
  // The scenarios of ImagePullJob go through it.
  NodeImage: 'none',
};

/** What pods ask for by themselves. */
const scenariosOfPods: readonly Scenario[] = [...onNodes.sidecars, ...onNodes.launch];

/** The whole campaign, in order. */
export const scenarios: readonly Scenario[] = [
  ...witnesses,
  ...partsOf(scenariosOfKinds).flat(),
  ...scenariosOfPods,
  ...admissionScenarios,
];
