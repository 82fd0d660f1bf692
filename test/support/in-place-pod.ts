import type { JsonObject } from '../../api/base/json.ts';
import { launchBarrierEnv } from '../../api/container-launch-priority.ts';
import type { Container, ContainerStatus, Pod, PodCondition } from '../../api/core/pod.ts';
import { type NewRevision, newRevision, revisionLabels } from '../../api/fleet/revision.ts';
import { inPlaceAnnotation, inPlaceReadinessGate } from '../../api/in-place/annotations.ts';
import { aPod } from './objects/pod.ts';

/** A container of a template, as JSON. */
export function templateContainer(name: string, image: string, overrides: JsonObject = {}): JsonObject {
  return { name, image, ...overrides };
}

/** A revision of the CloneSet `web` with these containers. */
export function revisionWith(
  containers: readonly JsonObject[],
  { metadata = {}, spec = {}, number = 1 }: { metadata?: JsonObject; spec?: JsonObject; number?: number } = {},
): NewRevision {
  const owner = { apiVersion: 'apps.kruise.io/v1beta1', kind: 'CloneSet', namespace: 'shop', name: 'web', uid: 'u' };
  const labels = { app: 'web' };
  return newRevision(
    { ...owner, template: { metadata: { labels, ...metadata }, spec: { containers, ...spec } } },
    number,
  );
}

/** A container of a pod whose launch has this priority. */
export function withPriority(container: Container, priority: number): Container {
  const valueFrom = { configMapKeyRef: { name: 'web-1-barrier', key: `p_${priority}` } };
  return { ...container, env: [...(container.env ?? []), { name: launchBarrierEnv, valueFrom }] };
}

/** An environment variable that refers to a label or annotation. */
export function seesMetadata(fieldPath: string): JsonObject {
  return { env: [{ name: 'SEEN', valueFrom: { fieldRef: { fieldPath } } }] };
}

/** The conditions of a pod in service. */
export const inService: readonly PodCondition[] = [
  { type: inPlaceReadinessGate, status: 'True', lastTransitionTime: '2026-07-01T07:00:00Z' },
  { type: 'ContainersReady', status: 'True', lastTransitionTime: '2026-07-01T07:00:00Z' },
  { type: 'Ready', status: 'True', lastTransitionTime: '2026-07-01T07:00:00Z' },
];

/** A pod in service whose containers run with the current spec by default. */
export function inPlacePod(
  containers: readonly Container[],
  {
    revision = 'web-1',
    gate = true,
    labels = {},
    annotations = {},
    conditions = inService,
    statuses = {},
  }: {
    readonly revision?: string;
    readonly gate?: boolean;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly conditions?: readonly PodCondition[];
    readonly statuses?: Readonly<Record<string, Partial<ContainerStatus>>>;
  } = {},
): Pod {
  return aPod({
    metadata: {
      name: 'web-1',
      uid: 'u-1',
      creationTimestamp: '2026-07-01T07:00:00Z',
      labels: { app: 'web', ...revisionLabels(revision, { CloneSetShortHash: false }), ...labels },
      annotations,
    },
    spec: { containers, readinessGates: gate ? [{ conditionType: inPlaceReadinessGate }] : [] },
    status: {
      conditions,
      containerStatuses: containers.map(({ name, image = '', resources = {} }) => ({
        name,
        ready: true,
        restartCount: 0,
        image,
        imageID: `id-of-${image}`,
        resources,
        ...statuses[name],
      })),
    },
  });
}

/** The parsed in-place record of a pod. */
export function recordOf(pod: Pod): unknown {
  return JSON.parse(pod.metadata.annotations?.[inPlaceAnnotation.state] ?? 'null');
}
