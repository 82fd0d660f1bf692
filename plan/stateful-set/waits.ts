/** What a StatefulSet, or its roll-out, can wait for, in the order in which it is reported. */
import { statefulSetWaits } from '../../api/stateful-set/types.ts';
import { type Rule, type Wait, waitFor } from '../decision.ts';
import type { Situation } from '../fleet/kind.ts';
import { podRef } from '../fleet/pods.ts';
import { volumesOf } from '../fleet/scene.ts';
import * as fleet from '../fleet/waits.ts';
import { troubleIn } from '../pod-trouble.ts';
import { listed } from '../text-size.ts';
import type { BlockedClaim } from './claims.ts';
import type { StatefulSetScale } from './scale.ts';
import type { StatefulSetScene } from './scene.ts';
import type { StatefulSetDemand } from './update.ts';

/** A pass after its decisions. */
export type StatefulSetSituation = Situation<StatefulSetScene, StatefulSetScale, StatefulSetDemand>;

/** In order of precedence. */
export const statefulSetRules: readonly Rule<StatefulSetSituation>[] = [
  ...fleet.stopped,
  ...fleet.held,
  fleet.notScheduled,
  claimTerminating,
  claimOfEarlierPod,
  claimInDoubt,
  claimDiffers,
  podTerminating,
  ordinalNotAvailable,
  ...fleet.changing,
  claimResizing,
  scaleLimited,
  fileSystemResizePending,
  ...fleet.last,
  claimDue,
];

const own = { texts: statefulSetWaits };

/** AS-31. */
function claimTerminating(situation: StatefulSetSituation): Wait | undefined {
  return heldBy(situation, 'terminating', 'ClaimTerminating');
}

/** AS-31. */
function claimOfEarlierPod(situation: StatefulSetSituation): Wait | undefined {
  return heldBy(situation, 'stale', 'ClaimOfEarlierPod');
}

/** AS-82: nothing is known of it until the change can be made no more. */
function claimInDoubt(situation: StatefulSetSituation): Wait | undefined {
  return heldBy(situation, 'inDoubt', 'ClaimInDoubt');
}

function heldBy(
  { scale }: StatefulSetSituation,
  why: BlockedClaim['why'],
  reason: 'ClaimTerminating' | 'ClaimOfEarlierPod' | 'ClaimInDoubt',
): Wait | undefined {
  const held = scale.held.filter(({ claim }) => claim.why === why);
  if (held.length === 0) return undefined;
  return waitFor(
    reason,
    held.map(({ claim }) => `persistentvolumeclaim/${claim.name}`),
    statefulSetWaits[reason],
  );
}

/** AS-92. */
function claimDiffers({ update }: StatefulSetSituation): Wait | undefined {
  if (update.stop.kind !== 'claimDiffers') return undefined;
  return fleet.wait(own, 'ClaimDiffers', [update.stop.pod], `PVC ${update.stop.claim}`);
}

/** AS-91: between the expansion of one and the next. */
function claimDue(situation: StatefulSetSituation): Wait | undefined {
  const { scene, update } = situation;
  if (claimResizing(situation)) return undefined;
  const due = scene.replicaPods.map(({ pod }) => pod).filter((pod) => volumesOf(scene, pod).due.length > 0);
  const pods = due.filter((pod) => update.demand.concerns(pod));
  return pods.length > 0 ? fleet.wait(own, 'ClaimResizing', pods) : undefined;
}

/** AS-93. */
function claimResizing(situation: StatefulSetSituation): Wait | undefined {
  return forVolumes(situation, 'ClaimResizing', 'resizing');
}

/** AS-94: the pod itself is in service. */
function fileSystemResizePending(situation: StatefulSetSituation): Wait | undefined {
  return forVolumes(situation, 'FileSystemResizePending', 'fileSystemPending');
}

function forVolumes(
  { scene }: StatefulSetSituation,
  reason: 'ClaimResizing' | 'FileSystemResizePending',
  claims: 'resizing' | 'fileSystemPending',
): Wait | undefined {
  const pods = scene.replicaPods.map(({ pod }) => pod).filter((pod) => volumesOf(scene, pod)[claims].length > 0);
  if (pods.length === 0) return undefined;
  const names = pods.flatMap((pod) => volumesOf(scene, pod)[claims]);
  return fleet.wait(own, reason, pods, `PVCs: ${listed(names, 200)}`);
}

/** AS-33: the ordinals of these pods are not free yet. */
function podTerminating({ scene }: StatefulSetSituation): Wait | undefined {
  const going = [...scene.replicaPods, ...scene.condemned].filter(({ pod }) => pod.isTerminating);
  if (going.length === 0) return undefined;
  return waitFor(
    'PodTerminating',
    going.map(({ pod }) => podRef(pod)),
    statefulSetWaits.PodTerminating,
  );
}

/** AS-34, AS-40: everything else waits for one pod, where anything else is to be done. */
function ordinalNotAvailable({ scale, update, refresh }: StatefulSetSituation): Wait | undefined {
  const { inTheWay, missing, surplus } = scale;
  if (inTheWay === undefined || inTheWay.availableAtMs !== undefined) return undefined;
  // what an update in place waits for says more, as long as nothing is wrong with the pod
  const isChanging = refresh.underWay.some(({ pod }) => pod === inTheWay);
  if (isChanging && troubleIn([inTheWay]) === undefined) return undefined;
  const isHolding = missing + surplus > 0 || update.demand.left > 0;
  return isHolding ? fleet.waitForPods(own, 'OrdinalNotAvailable', [inTheWay]) : undefined;
}

/** AS-35. */
function scaleLimited({ scene, scale }: StatefulSetSituation): Wait | undefined {
  if (!scale.isLimited) return undefined;
  const pods = scene.replicaPods.map(({ pod }) => pod).filter(({ isAvailable }) => !isAvailable);
  return fleet.waitForPods(own, 'ScaleLimited', pods);
}
