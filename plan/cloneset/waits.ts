/** What a CloneSet, or its roll-out, can wait for, in the order in which it is reported. */

import { cloneSetDefault, cloneSetWaits } from '../../api/cloneset/types.ts';
import { type Rule, type Wait, waitFor } from '../decision.ts';
import type { Situation } from '../fleet/kind.ts';
import { podRef } from '../fleet/pods.ts';
import * as fleet from '../fleet/waits.ts';
import { roundsToZero } from './counts.ts';
import type { CloneSetScale } from './scale.ts';
import type { CloneSetScene } from './scene.ts';
import type { CloneSetDemand } from './update.ts';

/** A pass after its decisions. */
export type CloneSetSituation = Situation<CloneSetScene, CloneSetScale, CloneSetDemand>;

/** In order of precedence. */
export const cloneSetRules: readonly Rule<CloneSetSituation>[] = [
  ...fleet.stopped,
  noFreeInstanceIds,
  ...fleet.held,
  budgetRoundsToZero,
  fleet.notScheduled,
  scaleLimited,
  podTerminating,
  ...fleet.changing,
  ...fleet.last,
];

const own = { texts: cloneSetWaits };

function noFreeInstanceIds({ scale }: CloneSetSituation): Wait | undefined {
  return scale.withoutId > 0 ? fleet.wait(own, 'NoFreeInstanceIds') : undefined;
}

function budgetRoundsToZero({ scene, scale, update }: CloneSetSituation): Wait | undefined {
  const { limits, rollingUpdate } = scene;
  const value = rollingUpdate?.maxUnavailable ?? cloneSetDefault.maxUnavailable;
  const isStopped = update.stop.kind === 'budget' && update.demand.numbers.updateMax <= 0;
  if (!(isStopped || scale.spared.length > 0) || !roundsToZero(value, limits.maxUnavailable)) return undefined;
  return fleet.wait(own, 'BudgetRoundsToZero', scale.spared, `maxUnavailable ${value} of ${limits.replicas} pods`);
}

function scaleLimited({ scene, scale }: CloneSetSituation): Wait | undefined {
  const { up, upLimit } = scale.numbers;
  if (up <= upLimit) return undefined;
  return fleet.waitForPods(
    own,
    'ScaleLimited',
    scene.counted.filter(({ isAvailable }) => !isAvailable),
  );
}

/** CS-46. */
function podTerminating({ scale }: CloneSetSituation): Wait | undefined {
  if (scale.awaited.length === 0) return undefined;
  return waitFor('PodTerminating', scale.awaited.map(podRef), cloneSetWaits.PodTerminating);
}
