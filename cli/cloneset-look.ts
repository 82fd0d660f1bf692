// The input of the CloneSet planner, read from the API server with the user's rights.

import { isJsonList, isJsonObject, objectOr } from '../api/base/json.ts';
import { type CloneSet, cloneSetMark } from '../api/cloneset/types.ts';
import { formatSelector } from '../api/core/label-selector.ts';
import type { KubeObject } from '../api/core/meta.ts';
import type { Pod } from '../api/core/pod.ts';
import { kubeResource } from '../api/core/well-known.ts';
import type { FeatureGates } from '../api/feature-gates.ts';
import { prefetchShare } from '../api/fleet/pre-download.ts';
import type { ControllerRevision } from '../api/fleet/revision.ts';
import { ordersOf, type RollOutOrders } from '../api/fleet/roll-out-orders.ts';
import { type NodeImage, nodeImages } from '../api/node-image/types.ts';
import type { KubeClient } from '../kube/client.ts';
import type { CloneSetInput } from '../plan/cloneset/input.ts';
import { fleetInput, type VolumeClaim } from '../plan/fleet/input.ts';
import { attempt } from './failure.ts';
import { listAll, readingInto } from './reads.ts';

export interface LookOptions {
  readonly kube: KubeClient;
  readonly gates: FeatureGates;
  readonly nowMs: number;
}

/**
 * The input of the planner for a CloneSet, live or as it would be after apply; and notes on what the user may not read.
 */
export async function lookAround(
  set: CloneSet,
  { kube, gates, nowMs }: LookOptions,
): Promise<{ readonly input: CloneSetInput; readonly notes: readonly string[] }> {
  const { namespace = '' } = set.metadata;
  const notes: string[] = [];
  const where = `in namespace "${namespace}"`;

  const maybe = readingInto(notes);
  const [pods, known, owned, nodes, hasResizeSubresource, images] = await Promise.all([
    attempt(`Cannot list pods ${where}`, () =>
      listAll<Pod>(kube, kubeResource.pods, { namespace, labelSelector: formatSelector(set.spec.selector) }),
    ),
    attempt(`Cannot list controllerrevisions ${where}`, () =>
      listAll<ControllerRevision>(kube, kubeResource.controllerRevisions, { namespace }),
    ),
    maybe('the PVCs of the CloneSet', [], () => listClaims(kube, namespace)),
    spreadsPods(set) ? maybe('nodes', [], () => listAll<KubeObject>(kube, kubeResource.nodes)) : [],
    maybe('support for resizing in place', false, () => resizesPods(kube)),
    prefetchShare(set) === undefined
      ? undefined
      : maybe('the images on nodes', undefined, () => listAll<NodeImage>(kube, nodeImages)),
  ]);
  const orders = ordersOf(set);
  const input = fleetInput(
    set,
    {
      pods,
      claims: owned,
      revisions: known,
      ...(images && { nodeImages: new Map(images.map((found) => [found.metadata.name, found])) }),
    },
    { gates, hasResizeSubresource, nowMs, isSpent: () => false },
  );
  return {
    notes: [...(orders ? orderNotes(orders) : []), ...notes],
    input: {
      ...input,
      nodes: new Map(nodes.map(({ metadata }) => [metadata.name, metadata.labels ?? {}])),
      excludePreparingDelete: false,
    },
  };
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

async function listClaims(kube: KubeClient, namespace: string): Promise<readonly VolumeClaim[]> {
  return await listAll<KubeObject>(kube, kubeResource.persistentVolumeClaims, {
    namespace,
    labelSelector: cloneSetMark.instanceId,
  });
}

/** Nodes are read only where they are needed: the list is long, and not every user may read it. */
function spreadsPods({ spec }: CloneSet): boolean {
  const terms = objectOr(spec.template.spec).topologySpreadConstraints;
  return isJsonList(terms) && terms.length > 0;
}

async function resizesPods(kube: KubeClient): Promise<boolean> {
  const answer = await kube.request('GET', '/api/v1');
  const { resources } = objectOr(answer);
  return isJsonList(resources) && resources.some((found) => isJsonObject(found) && found.name === 'pods/resize');
}
