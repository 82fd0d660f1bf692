import type { JsonObject } from '../../api/base/json.ts';
import type { LabelSelector } from '../../api/core/label-selector.ts';
import type { ObjectMeta } from '../../api/core/meta.ts';
import type { ContainerStatus, Pod } from '../../api/core/pod.ts';
import { contentHashes } from '../../api/sidecar-set/hash.ts';
import { currentContent } from '../../api/sidecar-set/injection/choose.ts';
import { injectSets } from '../../api/sidecar-set/injection/inject.ts';
import { hashAnnotation } from '../../api/sidecar-set/marks.ts';
import { asSidecar } from '../../api/sidecar-set/read.ts';
import type { SidecarSet, SidecarSetSpec } from '../../api/sidecar-set/types.ts';
import type { PodWrite } from '../../plan/fleet/in-place/update.ts';
import { strategicMerge } from './fake-api/strategic-merge.ts';
import { metadataOf } from './objects/metadata.ts';
import { podDraft } from './objects/pod.ts';

export interface SetFacts extends Omit<SidecarSetSpec, 'containers' | 'selector'> {
  readonly name?: string;
  readonly resourceVersion?: string;
  readonly containers?: readonly JsonObject[];
  readonly selector?: LabelSelector;
}

/** A stored SidecarSet `logs` for pods with `app: web`, with container `log` at `log:1`; admission has written its hashes. */
export function aSidecarSet(facts: SetFacts = {}): SidecarSet {
  const { name = 'logs', resourceVersion = '100', containers = [cold('log', 'log:1')], ...spec } = facts;
  const content = { ...spec, containers: containers.map(asSidecar) };
  const hashes = contentHashes({ ...content } as unknown as JsonObject);
  return {
    apiVersion: 'apps.kruise.io/v1beta1',
    kind: 'SidecarSet',
    metadata: {
      ...metadataOf({ name, uid: `uid-${name}` }, { resourceVersion }),
      annotations: { [hashAnnotation.whole]: hashes.whole, [hashAnnotation.withoutImage]: hashes.withoutImage },
    },
    spec: { selector: { matchLabels: { app: 'web' } }, ...content },
  };
}

/** A sidecar that is restarted when its image changes. */
export function cold(name: string, image: string, others: JsonObject = {}): JsonObject {
  return { name, image, ...others };
}

/** A sidecar with two containers. */
export function hot(name: string, image: string, hotUpgradeEmptyImage = 'empty:1'): JsonObject {
  return { name, image, upgradeStrategy: { upgradeType: 'HotUpgrade', hotUpgradeEmptyImage } };
}

/** When the pods of this file were created, and when everything about them has happened unless a test says otherwise. */
export const injectedAt = '2026-01-01T00:00:00Z';
export const writtenAt = '2026-01-01T01:00:00Z';

/** A running pod with container `app` and those of these SidecarSets, as admission injects them. */
export function injectedPod(
  sets: readonly SidecarSet[],
  metadata: Partial<ObjectMeta> = {},
  spec: JsonObject = {},
): Pod {
  const name = metadata.name ?? 'web';
  const draft = podDraft({ metadata: { name, labels: { app: 'web' } }, spec: { nodeName: 'n', ...spec } });
  const chosen = sets.map((set) => ({ set, chosen: { ...currentContent(set), revision: `${set.metadata.name}-old` } }));
  const injection = injectSets(draft, chosen, { sort: false, now: injectedAt });
  if (injection.kind !== 'injected') throw new Error(injection.failure.why);
  const pod = injection.pod as unknown as Pod;
  const identity = metadataOf({ namespace: 'shop', name, uid: `uid-${name}` }, { ...pod.metadata, ...metadata });
  const annotations = { ...pod.metadata.annotations, ...metadata.annotations };
  return caughtUp({ ...pod, apiVersion: 'v1', kind: 'Pod', metadata: { ...identity, annotations } });
}

/** The pod once the kubelet runs the images of its spec, all containers ready. */
export function caughtUp(pod: Pod, isReady = true): Pod {
  const containerStatuses = pod.spec.containers.map(({ name, image = 'app:1' }) => statusOf(name, image));
  const conditions = [
    ...(pod.status?.conditions ?? []).filter(({ type }) => type !== 'Ready'),
    { type: 'Ready', status: isReady ? 'True' : 'False', lastTransitionTime: injectedAt },
  ];
  return { ...pod, status: { ...pod.status, phase: 'Running', conditions, containerStatuses } };
}

/** What the kubelet reports of a container: the image by its full name, as containerd has it. */
export function statusOf(name: string, image: string): ContainerStatus {
  const imageID = `docker.io/library/${image.replace(':', '@sha256:')}`;
  return { name, ready: true, restartCount: 0, image: `docker.io/library/${image}`, imageID };
}

/** The pod with other values in the status of one container. */
export function withStatus(pod: Pod, container: string, changes: Partial<ContainerStatus>): Pod {
  const containerStatuses = pod.status?.containerStatuses?.map((status) =>
    status.name === container ? { ...status, ...changes } : status,
  );
  return { ...pod, status: { ...pod.status, ...(containerStatuses && { containerStatuses }) } };
}

/** The pod with annotations more. */
export function withAnnotations(pod: Pod, annotations: Readonly<Record<string, string>>): Pod {
  return { ...pod, metadata: { ...pod.metadata, annotations: { ...pod.metadata.annotations, ...annotations } } };
}

/** The pod after a write, which the kubelet has not seen yet. */
export function written(pod: Pod, { patch }: PodWrite): Pod {
  return strategicMerge(pod as unknown as JsonObject, patch) as unknown as Pod;
}

/** The images of the containers by name. */
export function imagesOf({ spec }: Pod): Readonly<Record<string, string | undefined>> {
  return Object.fromEntries(spec.containers.map(({ name, image }) => [name, image]));
}
