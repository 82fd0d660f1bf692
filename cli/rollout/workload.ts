import { formatSelector, type LabelSelector, labelMatcher } from '../../api/core/label-selector.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { type ControllerRevision, revisionsOf } from '../../api/fleet/revision.ts';
import type { KubeClient } from '../../kube/client.ts';
import { attempt } from '../failure.ts';
import { listAll } from '../reads.ts';
import type { RolledOut } from './kind.ts';

/** The ControllerRevisions of a workload that selects its pods, oldest first (CS-84). */
export async function workloadRevisions(
  { metadata, spec }: RolledOut & { readonly spec: { readonly selector: LabelSelector } },
  kube: KubeClient,
): Promise<readonly ControllerRevision[]> {
  const { namespace = '', uid } = metadata;
  const labelSelector = formatSelector(spec.selector);
  const found = await attempt(`Cannot list controllerrevisions in namespace "${namespace}"`, () =>
    listAll<ControllerRevision>(kube, kubeResource.controllerRevisions, { namespace, labelSelector }),
  );
  return revisionsOf(uid, found, labelMatcher(spec.selector) ?? (() => false));
}
