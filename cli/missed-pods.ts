// The pods that a SidecarSet selects but that lack its containers, as the API server has them now.

import { type JsonObject, objectOr } from '../api/base/json.ts';
import { formatSelector } from '../api/core/label-selector.ts';
import { apiVersionOf, type KubeObject, type Resource } from '../api/core/meta.ts';
import type { Pod } from '../api/core/pod.ts';
import { kubeResource } from '../api/core/well-known.ts';
import { convertSidecarSet } from '../api/sidecar-set/convert.ts';
import { pinnedNamespaces } from '../api/sidecar-set/injection/choose.ts';
import { typedSpecAsStored } from '../api/sidecar-set/read.ts';
import { type SidecarSet, sidecarSets, sidecarSetsV1alpha1 } from '../api/sidecar-set/types.ts';
import type { KubeClient } from '../kube/client.ts';
import { canariesOf, isOutOfReach, type MissedReason, missedReason } from '../plan/sidecar-set/missing.ts';
import { isManaged } from '../plan/sidecar-set/pods.ts';
import { readServed } from './explain/read.ts';
import { attempt } from './failure.ts';

/** A pod that lacks the containers of a SidecarSet. */
export interface MissedPod {
  readonly pod: Pod;
  readonly reason: MissedReason;
}

/** A SidecarSet as it is stored, and the version in which it was read. */
export type ReadSidecarSet = SidecarSet & { readonly readAs: Resource };

/** Reads a SidecarSet in one of these versions. */
export async function readSidecarSet(
  kube: Pick<KubeClient, 'get'>,
  {
    name,
    versions = [sidecarSets, sidecarSetsV1alpha1],
  }: { readonly name: string; readonly versions?: readonly Resource[] },
): Promise<ReadSidecarSet> {
  const found = await attempt(`Cannot read SidecarSet "${name}"`, () =>
    readServed(kube, { name, namespace: '', versions }),
  );
  const readAs = versions.find((version) => apiVersionOf(version) === found.apiVersion) ?? sidecarSets;
  return { ...storedForm(found), readAs };
}

function storedForm(found: JsonObject): SidecarSet {
  const { object } = convertSidecarSet(found, apiVersionOf(sidecarSets)) ?? { object: found };
  return { ...object, spec: typedSpecAsStored(objectOr(object.spec)) } as JsonObject & SidecarSet;
}

/** The pods that the SidecarSet has missed. */
export async function missedPods(set: ReadSidecarSet, kube: Pick<KubeClient, 'list'>): Promise<readonly MissedPod[]> {
  const { pods, labelsOf } = await selectedPods(set, kube);
  const sets = await everything<JsonObject & KubeObject>(kube, set.readAs);
  const canaries = canariesOf(set, sets.map(storedForm));
  return pods.flatMap((pod) => {
    const reason = missedReason(set, pod, { namespaceLabels: labelsOf(pod), canaries });
    return reason === undefined ? [] : [{ pod, reason }];
  });
}

/** The pods that have older containers of the SidecarSet and that updates of running pods do not reach. */
export async function outdatedPods(set: ReadSidecarSet, kube: Pick<KubeClient, 'list'>): Promise<readonly Pod[]> {
  const { pods, labelsOf } = await selectedPods(set, kube);
  return pods.filter((pod) => isManaged(set, pod, labelsOf(pod)) && isOutOfReach(set, pod));
}

/** The pods with the labels that the SidecarSet selects, and the labels of their namespaces. */
async function selectedPods(set: SidecarSet, kube: Pick<KubeClient, 'list'>) {
  const { selector } = set.spec;
  const namespaces = new Map(
    (await everything<KubeObject>(kube, kubeResource.namespaces)).map(({ metadata }) => [
      metadata.name,
      metadata.labels ?? {},
    ]),
  );
  const [only, ...others] = pinnedNamespaces(set);
  const place = only !== undefined && others.length === 0 ? { namespace: only } : {};
  const pods =
    selector === undefined
      ? []
      : await everything<Pod>(kube, kubeResource.pods, { ...place, labelSelector: formatSelector(selector) });
  return { pods, labelsOf: ({ metadata }: Pod) => namespaces.get(metadata.namespace ?? '') };
}

const pageSize = 500;

/** All objects of a resource, or those of a namespace and with these labels. */
export async function everything<T extends KubeObject>(
  kube: Pick<KubeClient, 'list'>,
  resource: Resource,
  selection: { readonly namespace?: string; readonly labelSelector?: string } = {},
): Promise<readonly T[]> {
  const items: T[] = [];
  let next: string | undefined;
  do {
    const page = await kube.list<T>(resource, { ...selection, limit: pageSize, continue: next });
    items.push(...page.items);
    next = page.continue;
  } while (next !== undefined);
  return items;
}
