// The input of the planner of a workload, read from the API server with the user's rights.

import { isJsonList, isJsonObject, objectOr } from '../api/base/json.ts';
import { formatSelector } from '../api/core/label-selector.ts';
import type { KubeObject } from '../api/core/meta.ts';
import type { Pod } from '../api/core/pod.ts';
import { isControlledBy } from '../api/core/refs.ts';
import { kubeResource } from '../api/core/well-known.ts';
import type { FeatureGates } from '../api/feature-gates.ts';
import { prefetchShare } from '../api/fleet/pre-download.ts';
import type { ControllerRevision } from '../api/fleet/revision.ts';
import { ordersOf, type RollOutOrders } from '../api/fleet/roll-out-orders.ts';
import { type NodeImage, nodeImages } from '../api/node-image/types.ts';
import type { KubeClient } from '../kube/client.ts';
import { type FleetInput, fleetInput, type VolumeClaim } from '../plan/fleet/input.ts';
import type { Workload } from '../plan/fleet/workload.ts';
import { listed } from '../plan/text-size.ts';
import { attempt } from './failure.ts';
import { listAll, readingInto } from './reads.ts';
import type { WorkloadKind } from './workload.ts';

export interface LookOptions {
  readonly kube: KubeClient;
  readonly gates: FeatureGates;
  readonly nowMs: number;
}

/**
 * The input of the planner for a workload, live or as it would be after apply; and notes on what the user may not read.
 */
export async function lookAround<Owner extends Workload, Input extends FleetInput<Owner>>(
  { versions: [{ kind }], claimLabel, wantsPod, needsNodes, input }: WorkloadKind<Owner, Input>,
  owner: Owner,
  { kube, gates, nowMs }: LookOptions,
): Promise<{ readonly input: Input; readonly notes: readonly string[] }> {
  const { namespace = '' } = owner.metadata;
  const notes: string[] = [];
  const where = `in namespace "${namespace}"`;

  const maybe = readingInto(notes);
  const nodesFor = async (needs: typeof needsNodes, of: Owner): Promise<readonly KubeObject[]> => {
    const list = () => listAll<KubeObject>(kube, kubeResource.nodes);
    if (needs === 'always') return await attempt('Cannot list nodes', list);
    return needs?.(of) ? await maybe('nodes', [], list) : [];
  };
  const ofClaims = { namespace, ...(claimLabel !== undefined && { labelSelector: claimLabel }) };
  const [pods, revisions, claims, nodes, hasResizeSubresource, images] = await Promise.all([
    attempt(`Cannot list pods ${where}`, () =>
      listAll<Pod>(kube, kubeResource.pods, { namespace, labelSelector: formatSelector(owner.spec.selector) }),
    ),
    attempt(`Cannot list controllerrevisions ${where}`, () =>
      listAll<ControllerRevision>(kube, kubeResource.controllerRevisions, { namespace }),
    ),
    owner.spec.volumeClaimTemplates?.length
      ? maybe(`the PVCs of the ${kind}`, [], () =>
          listAll<VolumeClaim & KubeObject>(kube, kubeResource.persistentVolumeClaims, ofClaims),
        )
      : [],
    nodesFor(needsNodes, owner),
    maybe('support for resizing in place', false, () => resizesPods(kube)),
    prefetchShare(owner) === undefined
      ? undefined
      : maybe('the images on nodes', undefined, () => listAll<NodeImage>(kube, nodeImages)),
  ]);
  const orders = ordersOf(owner);
  const taken = pods.filter((pod) => !isControlledBy(owner, pod) && wantsPod?.(owner, pod.metadata.name, gates));
  const found = {
    ...{ pods, claims, revisions },
    orphans: pods.filter(({ metadata }) => !metadata.ownerReferences?.some(({ controller }) => controller)),
    ...(images && { nodeImages: new Map(images.map((image) => [image.metadata.name, image])) }),
  };
  return {
    notes: [...(orders ? orderNotes(orders) : []), ...takenNotes(taken), ...notes],
    input: input(fleetInput(owner, found, { gates, hasResizeSubresource, nowMs, isSpent: () => false }), nodes),
  };
}

/** Of these pods, those with a controller are in the way of new ones of the same names. */
function takenNotes(pods: readonly Pod[]): readonly string[] {
  const controllerOf = ({ metadata }: Pod) => metadata.ownerReferences?.find(({ controller }) => controller);
  const taken = pods.filter(controllerOf);
  const controller = taken[0] && controllerOf(taken[0]);
  if (controller === undefined) return [];
  const { apiVersion, kind, name } = controller;
  const names = listed(
    taken.map(({ metadata }) => metadata.name),
    200,
  );
  return [
    `another controller, ${kind} "${name}" of ${apiVersion}, has pods of the same names, which have to be gone first: ${names}`,
  ];
}

/** Commands of operators that are in effect, and who gave them. */
function orderNotes({ paused, aborted, undo, skip = [], revision }: RollOutOrders): readonly string[] {
  return [
    ...(paused ? [`paused by ${paused.by} at ${paused.at}`] : []),
    ...(aborted ? [`the roll-out of ${revision} was aborted by ${aborted.by} at ${aborted.at}`] : []),
    ...(undo ? [`${revision} was undone to ${undo.to} by ${undo.by} at ${undo.at}`] : []),
    ...(skip.length > 0 ? [`skipped by operators: ${skip.join(', ')}`] : []),
  ];
}

async function resizesPods(kube: KubeClient): Promise<boolean> {
  const answer = await kube.request('GET', '/api/v1');
  const { resources } = objectOr(answer);
  return isJsonList(resources) && resources.some((found) => isJsonObject(found) && found.name === 'pods/resize');
}
