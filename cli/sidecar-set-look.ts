// The input of the planner of SidecarSets, read from the API server with the user's rights.

import { formatSelector } from '../api/core/label-selector.ts';
import type { KubeObject } from '../api/core/meta.ts';
import type { Pod } from '../api/core/pod.ts';
import { installation, kubeResource } from '../api/core/well-known.ts';
import { prefetchShare } from '../api/fleet/pre-download.ts';
import type { ControllerRevision } from '../api/fleet/revision.ts';
import { type NodeImage, nodeImages } from '../api/node-image/types.ts';
import { pinnedNamespaces } from '../api/sidecar-set/injection/choose.ts';
import { sidecarSetLabel } from '../api/sidecar-set/marks.ts';
import { sidecarRevisions } from '../api/sidecar-set/revision.ts';
import type { SidecarSet } from '../api/sidecar-set/types.ts';
import type { KubeClient } from '../kube/client.ts';
import type { SidecarSetInput } from '../plan/sidecar-set/input.ts';
import { isManaged } from '../plan/sidecar-set/pods.ts';
import { listAll, readingInto } from './reads.ts';

/** The input of the planner for a SidecarSet, live or as it would be after apply; and notes on what may not be read. */
export async function lookAtSidecarSet(
  owner: SidecarSet,
  { kube, nowMs }: { readonly kube: Pick<KubeClient, 'list'>; readonly nowMs: number },
): Promise<{ readonly input: SidecarSetInput; readonly notes: readonly string[] }> {
  const notes: string[] = [];
  const maybe = readingInto(notes);
  const { selector } = owner.spec;
  const [only, ...others] = pinnedNamespaces(owner);
  const place = only !== undefined && others.length === 0 ? { namespace: only } : {};
  const revisionNamespace = installation.namespace;
  const labelSelector = `${sidecarSetLabel.name}=${owner.metadata.name}`;
  const isPrefetched = prefetchShare(owner) !== undefined;
  const [namespaces, pods, labelled, images] = await Promise.all([
    listAll<KubeObject>(kube, kubeResource.namespaces),
    selector === undefined
      ? []
      : listAll<Pod>(kube, kubeResource.pods, { ...place, labelSelector: formatSelector(selector) }),
    maybe('the stored contents', [], () =>
      listAll<ControllerRevision>(kube, kubeResource.controllerRevisions, {
        namespace: revisionNamespace,
        labelSelector,
      }),
    ),
    isPrefetched ? maybe('the images on nodes', undefined, () => listAll<NodeImage>(kube, nodeImages)) : undefined,
  ]);
  const labels = new Map(namespaces.map(({ metadata }) => [metadata.name, metadata.labels ?? {}]));
  const managed = pods.filter((pod) => isManaged(owner, pod, labels.get(pod.metadata.namespace ?? '')));
  const history = sidecarRevisions(owner, labelled);
  const nodes = images && { nodeImages: new Map(images.map((found) => [found.metadata.name, found])) };
  return { input: { owner, pods: managed, history, revisionNamespace, nowMs, ...nodes }, notes };
}
