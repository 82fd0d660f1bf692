/**
 * The daemon's report about the containers of a pod (ND-20 to ND-26), in an annotation of the pod: one entry per
 * running container, in the order of the pod's status. An entry is about one instance. Once its hashes are known it
 * never changes, because an instance does not change either.
 */
import {
  containerHashOf,
  criLabel,
  newestByName,
  type RuntimeContainer,
  restartCountOf,
} from '../../activities/cri/runtime.ts';
import type { ContainerStatus, Pod } from '../../api/core/pod.ts';
import type { FeatureGates } from '../../api/feature-gates.ts';
import { type ContainerMeta, containersMetaOf, isReportedOn } from '../../api/in-place/containers-meta.ts';

export type ReportGates = Pick<FeatureGates, 'InPlaceUpdateEnvFromMetadata'>;

/** Whether the report of a pod is missing, incomplete or differs from the pod's status (ND-22, ND-23). */
export function isReportDue(pod: Pod, gates: ReportGates): boolean {
  if (!isReportedOn(pod) || pod.metadata.deletionTimestamp !== undefined) return false;
  const started = startedStatuses(pod);
  if (started.length === 0) return false;
  const before = containersMetaOf(pod);
  if (before?.length !== started.length) return true;
  return started.some(({ name, containerID }, index) => {
    const entry = before[index];
    if (entry?.name !== name || entry.containerID !== containerID) return true;
    return gates.InPlaceUpdateEnvFromMetadata && entry.envHash === 0;
  });
}

/** The name of the runtime of the pod's containers; undefined when none has been started. */
export function runtimeOf(pod: Pod): string | undefined {
  return startedStatuses(pod)[0]?.containerID?.split('://')[0];
}

/** An entry of the report, with the instance that it is about. */
export interface Entry {
  readonly meta: ContainerMeta;
  readonly instance: RuntimeContainer;
}

/**
 * The entries for the containers in the runtime now: entries of the same instance stay as they are; in new ones the
 * environment hash is still missing (ND-24). Containers that are missing in the runtime or the spec are left out.
 */
export function entriesOf(pod: Pod, containers: readonly RuntimeContainer[]): readonly Entry[] {
  const newest = newestByName(containers);
  const before = containersMetaOf(pod) ?? [];
  const runtime = runtimeOf(pod) ?? '';
  return startedStatuses(pod).flatMap(({ name }) => {
    const instance = newest.get(name);
    if (instance === undefined) return [];
    const containerID = `${runtime}://${instance.id}`;
    const known = before.find((entry) => entry.name === name && entry.containerID === containerID);
    return [{ instance, meta: known ?? newMeta(instance, containerID) }];
  });
}

function newMeta(instance: RuntimeContainer, containerID: string): ContainerMeta {
  return {
    name: instance.labels[criLabel.containerName] ?? '',
    containerID,
    restartCount: restartCountOf(instance),
    plainHash: containerHashOf(instance),
    envHash: 0,
  };
}

/** The containers of the spec that have been started, in the order of the status. */
function startedStatuses({ spec, status }: Pod): readonly ContainerStatus[] {
  const names = new Set(spec.containers.map(({ name }) => name));
  return (status?.containerStatuses ?? []).filter(({ name, containerID }) => containerID && names.has(name));
}
