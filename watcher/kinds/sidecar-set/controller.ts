/** The controller of SidecarSets: when they are looked at. */

import { isActive, type Pod } from '../../../api/core/pod.ts';
import { windlassAnnotation } from '../../../api/core/well-known.ts';
import { rollOutType } from '../../../api/fleet/operation.ts';
import { prefetchShare } from '../../../api/fleet/pre-download.ts';
import { ordersOf } from '../../../api/fleet/roll-out-orders.ts';
import { sidecarSelectionName } from '../../../api/sidecar-set/selection.ts';
import { swapSidecarType } from '../../../api/sidecar-set/swap.ts';
import { isNotUpdate, type SidecarSet, sidecarSets } from '../../../api/sidecar-set/types.ts';
import type { Change } from '../../../kube/cache.ts';
import { derivedObjectWriter } from '../../../kube/derived-object.ts';
import { isWhollyConsistent, listedSets } from '../../../plan/sidecar-set/pods.ts';
import { concernsSelection, keptSelection, wantedSelection } from '../../../plan/sidecar-set/selection.ts';
import type { Controller, ControllerContext } from '../../controller.ts';
import { ownerIn } from '../../fleet/owned.ts';
import { SidecarSetFleet } from './fleet.ts';
import { storingSidecarSets } from './stored-version.ts';

/** A change of what the kubelet reports of images is counted after this time (SCS-130a). */
const consistencyDelayMs = 5_000;

/** Ensures that each SidecarSet has its revision and its status, and rolls out changes to its running pods. */
export function sidecarSetController(context: ControllerContext): Controller {
  const { isLeading } = context;
  const fleet = new SidecarSetFleet(context);
  const { sets, rollOuts } = fleet;
  const storeAll = storingSidecarSets(context, sets);
  const writeSelection = derivedObjectWriter(context.kube, context.log, keptSelection);
  const selections = context.queue('sidecar-selection', async () => {
    if (context.config.featureGates.PodWebhook) await writeSelection(wantedSelection([...sets.all()]), sets.reached);
    return undefined;
  });
  let isFirst = true;

  sets.onChange(({ before, after }) => {
    const uid = (after ?? before)?.metadata.uid;
    if (uid === undefined) return;
    if (isLeading() && concernsSelection(before, after)) selections.add(sidecarSelectionName);
    const reason = reasonToLook(before, after);
    if (reason) fleet.add(uid, reason);
    if (isLeading() && after) rollOuts.changed(after);
    if (after === undefined) void rollOuts.forget(uid);
    fleet.swaps?.setChanged(uid);
  });
  fleet.pods.onChange((change) => {
    if (isLeading()) podChanged(change);
  });
  // Images that a roll-out waits for: the status of a job follows the nodes.
  fleet.pullJobs.onChange(({ before, after }) => {
    const uid = ownerIn(after ?? before, sidecarSets);
    if (uid !== undefined) fleet.add(uid, 'changed');
  });
  // a node that can pull images from now on
  fleet.nodeImages.onChange(({ before }) => {
    if (before !== undefined || !isLeading()) return;
    for (const set of sets.all()) if (prefetchShare(set) !== undefined) fleet.add(set.metadata.uid, 'changed');
  });

  function podChanged(change: Change<Pod>): void {
    const pod = change.after ?? change.before;
    if (pod === undefined) return;
    fleet.swaps?.podChanged(pod.metadata.uid);
    const both = [change.before, change.after].filter((one) => one !== undefined);
    for (const name of new Set(both.flatMap(listedSets))) {
      const set = sets.byName('', name);
      // Anybody may list a SidecarSet: a pod that it does not manage is no reason to look at all others.
      if (set === undefined || !both.some((one) => fleet.manages(set, one))) continue;
      const { uid } = set.metadata;
      const when = reasonToCount(set, change, fleet.isRollingOut(uid));
      if (when === 'now') fleet.add(uid, 'changed');
      if (when === 'later') fleet.addAfter(uid, consistencyDelayMs);
    }
  }

  return {
    begin(term) {
      isFirst = true;
      fleet.begin(term);
    },
    wantAll() {
      selections.add(sidecarSelectionName);
      if (isFirst) storeAll();
      for (const { metadata, status, spec } of sets.all()) {
        // The counts of type NotUpdate stay what they were when its last pod was created (SCS-131, SCS-131a).
        const isBehind = status?.observedGeneration !== metadata.generation;
        if (isFirst || isBehind || !isNotUpdate(spec.updateStrategy)) fleet.add(metadata.uid, 'fullPass');
        rollOuts.add(metadata.uid);
      }
      isFirst = false;
    },
    workflowTypes: [rollOutType, swapSidecarType],
    fleet: {
      kind: fleet.kind,
      queue: () => fleet.queue,
      commands: () => (context.isLeading() ? rollOuts.commands : undefined),
    },
    swaps: () => fleet.swaps,
    operations: () => ({ kind: sidecarSets.kind, states: [...sets.all()].map((set) => rollOuts.stateOf(set)) }),
    stop: () => fleet.stop(),
  };
}

/**
 * Own writes and edits of labels and annotations do not change the generation (SCS-130); orders are no such edits: what was
 * refused is tried again at once.
 */
function reasonToLook(before: SidecarSet | undefined, after: SidecarSet | undefined): 'edited' | 'changed' | undefined {
  if (before === undefined || after === undefined) return 'changed';
  if (before.metadata.generation !== after.metadata.generation) return 'edited';
  const orders = (set: SidecarSet) =>
    JSON.stringify([ordersOf(set), set.metadata.annotations?.[windlassAnnotation.prefetch]]);
  const isOrdered = orders(before) !== orders(after) && !isNotUpdate(after.spec.updateStrategy);
  return isOrdered ? 'edited' : undefined;
}

/**
 * Whether a change of a pod is a reason to count (SCS-130a). OpenKruise does not count pods that are gone. While pods are
 * updated, every change of one may be what the roll-out waits for.
 */
function reasonToCount(
  { spec }: SidecarSet,
  { before, after }: Change<Pod>,
  isRollingOut: boolean,
): 'now' | 'later' | undefined {
  if (before === undefined) return 'now';
  if (isNotUpdate(spec.updateStrategy)) return undefined;
  if (after === undefined || isRollingOut) return 'now';
  // Beyond OpenKruise: a pod that ends without ever having been ready, as an evicted one, leaves the counts as well.
  const isGoing = isActive(before) && !isActive(after);
  if (isGoing || isReady(before) !== isReady(after)) return 'now';
  const hasNewLabels = JSON.stringify(before.metadata.labels) !== JSON.stringify(after.metadata.labels);
  if (hasNewLabels && spec.updateStrategy?.selector !== undefined) return 'now';
  return isWhollyConsistent(before) === isWhollyConsistent(after) ? undefined : 'later';
}

function isReady({ status }: Pod): boolean {
  return status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') === true;
}
