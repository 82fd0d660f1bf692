/** What a DaemonSet, or its roll-out, can wait for, in the order in which it is reported. */
import { daemonSetWaits } from '../../api/daemon-set/types.ts';
import { type Rule, type Wait, waitFor } from '../decision.ts';
import type { Situation } from '../fleet/kind.ts';
import type { FleetPod } from '../fleet/pods.ts';
import { isAtGoal } from '../fleet/scene.ts';
import * as fleet from '../fleet/waits.ts';
import { joinedDetails } from '../pod-trouble.ts';
import { listed } from '../text-size.ts';
import type { DaemonSetScale } from './scale.ts';
import { type DaemonSetScene, isSurging, type Place } from './scene.ts';
import type { DaemonSetDemand } from './update.ts';

/** A pass after its decisions. */
export type DaemonSetSituation = Situation<DaemonSetScene, DaemonSetScale, DaemonSetDemand>;

/** In order of precedence. */
export const daemonSetRules: readonly Rule<DaemonSetSituation>[] = [
  ...fleet.stopped,
  ...fleet.held,
  failedPod,
  fleet.notScheduled,
  podTerminating,
  ...fleet.changing,
  surgeSpent,
  ...fleet.last,
  nodeHeldBack,
  nodeNotSelected,
  nodeDoesNotFit,
];

const own = { texts: daemonSetWaits };

/** AD-20. */
function failedPod({ scale }: DaemonSetSituation): Wait | undefined {
  return scale.backingOff.length > 0 ? fleet.waitForPods(own, 'FailedPod', scale.backingOff) : undefined;
}

/** AD-20: without surging, a node gets its new pod once the old one is gone. */
function podTerminating({ scene }: DaemonSetSituation): Wait | undefined {
  const going = scene.places.flatMap(({ pods }) => pods.filter(({ isTerminating }) => isTerminating));
  if (going.length === 0) return undefined;
  const finalizers = [...new Set(going.flatMap(({ pod }) => pod.metadata.finalizers ?? []))];
  const held = finalizers.length > 0 ? `finalizers: ${listed(finalizers, 200)}` : undefined;
  return fleet.wait(own, 'PodTerminating', going, joinedDetails(silentNodes(scene, going), held));
}

const silent = ['not-ready', 'unreachable'].map((name) => `node.kubernetes.io/${name}`);

/** The nodes of these pods whose kubelets do not answer, so that no pod of them ends. */
function silentNodes({ input }: DaemonSetScene, pods: readonly FleetPod[]): string | undefined {
  const of = new Set(pods.map(({ pod }) => pod.spec.nodeName));
  const names = input.nodes.flatMap(({ metadata: { name }, spec }) =>
    of.has(name) && spec?.taints?.some(({ key }) => silent.includes(key)) ? [name] : [],
  );
  if (names.length === 0) return undefined;
  return `not ready are ${listed(names, 200)}: their pods end once they are back, or are deleted with --force, or raise maxUnavailable`;
}

/** AD-35: these new pods keep others from being started. */
function surgeSpent({ scene, update }: DaemonSetSituation): Wait | undefined {
  if (!isSurging(scene) || update.stop.kind !== 'budget') return undefined;
  const starting = scene.places.flatMap(({ fresh, old }) => (old.length > 0 ? fresh : []));
  const unavailable = starting.filter(({ isAvailable }) => !isAvailable);
  return unavailable.length > 0 ? fleet.waitForPods(own, 'SurgeSpent', unavailable) : undefined;
}

/** AD-22. */
function nodeHeldBack({ scale }: DaemonSetSituation): Wait | undefined {
  return waitForNodes('PartitionReached', scale.heldBack);
}

/** AD-31, AD-38: the pods of nodes that the selector leaves out stay as they are. */
function nodeNotSelected({ scene, update }: DaemonSetSituation): Wait | undefined {
  if (update.stop.kind !== 'done') return undefined;
  const left = scene.places.filter(({ isSelected, old }) => !isSelected && old.some((pod) => !isAtGoal(scene, pod)));
  return waitForNodes('NodeNotSelected', left);
}

/** AD-10, AD-35: a new pod beside the old one would not be scheduled. */
function nodeDoesNotFit({ scene, update }: DaemonSetSituation): Wait | undefined {
  if (!isSurging(scene)) return undefined;
  const { selected } = update.demand;
  const left = selected.filter(
    ({ eligibility, old }) => eligibility === 'continues' && old.some((pod) => !isAtGoal(scene, pod)),
  );
  return waitForNodes('NodeDoesNotFit', left);
}

function waitForNodes(
  reason: 'PartitionReached' | 'NodeNotSelected' | 'NodeDoesNotFit',
  places: readonly Place[],
): Wait | undefined {
  if (places.length === 0) return undefined;
  const nodes = places.map(({ node }) => `node/${node}`);
  return waitFor(reason, nodes, daemonSetWaits[reason]);
}
