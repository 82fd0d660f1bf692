import { formatSelector, type LabelSelector } from '../../api/core/label-selector.ts';
import { isActive, type Pod } from '../../api/core/pod.ts';
import { isControlledBy } from '../../api/core/refs.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { isAtRevision, revisionMark } from '../../api/fleet/revision.ts';
import type { KubeClient } from '../../kube/client.ts';
import { isPodReady } from '../../plan/fleet/pods.ts';
import { listAll } from '../reads.ts';
import type { RolledOut } from './kind.ts';
import type { Target } from './objects.ts';

/** KK-9: two lines with the updated pods by name, for a workload that has pods of its own. */
export async function updatedPodsText({ kind }: Target, object: RolledOut, kube: KubeClient): Promise<string> {
  const { selector } = object.spec as { readonly selector?: LabelSelector };
  if (kind.workload === undefined || selector === undefined) return '';
  const { namespace = '' } = object.metadata;
  const pods = await listAll<Pod>(kube, kubeResource.pods, { namespace, labelSelector: formatSelector(selector) });
  const { updateRevision = '' } = object.status ?? {};
  const updated = pods.filter(
    (pod) =>
      isControlledBy(object, pod) &&
      isActive(pod) &&
      isAtRevision(pod.metadata.labels?.[revisionMark.podRevision], updateRevision),
  );
  const names = (isReady: boolean) =>
    updated
      .filter((pod) => isPodReady(pod) === isReady)
      .map(({ metadata }) => metadata.name)
      .join(' ');
  return `Updated ready pods: [${names(true)}]\nUpdated not ready pods: [${names(false)}]\n`;
}
