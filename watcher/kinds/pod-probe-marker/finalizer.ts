import { nodePodProbeFinalizer, type PodProbeMarker, podProbeMarker } from '../../../api/pod-probe-marker/types.ts';
import type { KubeWriter } from '../../../kube/fence.ts';
import { unlessMovedOn } from '../../../kube/moved-on.ts';

type Patcher = Pick<KubeWriter, 'patch'>;

/** PPM-9. */
export async function addFinalizer(marker: PodProbeMarker, kube: Patcher): Promise<void> {
  await setFinalizers(marker, [...(marker.metadata.finalizers ?? []), nodePodProbeFinalizer], kube);
}

export async function removeFinalizer(marker: PodProbeMarker, kube: Patcher): Promise<void> {
  const { finalizers = [] } = marker.metadata;
  const others = finalizers.filter((finalizer) => finalizer !== nodePodProbeFinalizer);
  if (others.length < finalizers.length) await setFinalizers(marker, others, kube);
}

async function setFinalizers(
  { metadata }: PodProbeMarker,
  finalizers: readonly string[],
  kube: Patcher,
): Promise<void> {
  const { namespace = '', name, uid, resourceVersion } = metadata;
  const body = { metadata: { uid, resourceVersion, finalizers } };
  await unlessMovedOn(kube.patch(podProbeMarker, { namespace, name }, 'merge', body));
}
