// Container launch priority: the containers of one pod start in an order, each as soon as those before it are ready.
// The feature has no object of its own. Annotations and variables of the pod request it; admission gives every
// container a variable that refers to a key of a ConfigMap that does not exist yet, and the kubelet cannot start a
// container before its key exists.
//
//   annotation container-launch-priority, variable KRUISE_CONTAINER_PRIORITY      the user
//   variable KRUISE_CONTAINER_BARRIER, metadata.name of generated names           admission, when the pod is created
//   ConfigMap <pod>-barrier                                                       the watcher, gone with the pod
//   annotations container-launch-priority-completed, windlass.io/container-launch the watcher
import type { FieldError } from './core/field-error.ts';
import type { KubeObject, ObjectMeta } from './core/meta.ts';
import type { Container, ContainerStatus, EnvVar, Pod } from './core/pod.ts';
import type { WaitingFor } from './engine/waiting-for.ts';

/** Keys that users write, and keys that Windlass writes. */
export const launchMark = {
  /** On the pod: `Ordered` starts the containers in the order of the list. Any other value is ignored. */
  annotation: 'apps.kruise.io/container-launch-priority',
  ordered: 'Ordered',
  /** On a container: an integer. Higher starts first; absent is 0. */
  env: 'KRUISE_CONTAINER_PRIORITY',
  /** On the pod: `true` once every container may start. */
  completed: 'apps.kruise.io/container-launch-priority-completed',
  /** On the pod, as JSON: what the start of further containers waits for. Removed when it no longer waits. */
  status: 'windlass.io/container-launch',
  /** Label of the ConfigMaps, by which they are selected. */
  barrier: 'windlass.io/launch-barrier',
} as const;

/** The ConfigMap of one pod: a key for each priority whose containers may start. Keys are added, never removed. */
export interface LaunchBarrier extends KubeObject {
  readonly metadata: ObjectMeta;
  readonly data?: Readonly<Record<string, string>>;
}

/** Containers of a pod that start in an order: no more keys of a barrier are read. */
export const mostOrderedContainers = 1_000;

/** The ConfigMap of the pod of this name. */
export function barrierName(podName: string): string {
  return `${podName}-barrier`;
}

/** Names of ConfigMaps have at most 253 characters. */
export const longestPodName = 253 - barrierName('').length;

/** The key that a container waits for. */
export function keyOfContainer({ key, priority }: LaunchContainer): string {
  return key ?? barrierKey(priority);
}

/** The key of a priority: `p_10`, `p_-1`. */
export function barrierKey(priority: number): string {
  return `p_${priority}`;
}

/**
 * The keys of a barrier that publish a priority. A ConfigMap can contain a megabyte of anything else, and more keys
 * than a pod has containers.
 */
export function publishedKeys({ data = {} }: Pick<LaunchBarrier, 'data'>): readonly string[] {
  const keys: string[] = [];
  for (const key in data) {
    if (keys.length === mostOrderedContainers) break;
    if (data[key] === 'true' && publishedKey.test(key)) keys.push(key);
  }
  return keys;
}

const publishedKey = /^p_-?\d+$/;

/**
 * The UIDs of the pods that a ConfigMap is the barrier of, according to its owner references and its name; empty if
 * there are none.
 */
export function barrierOwners({ metadata }: Pick<LaunchBarrier, 'metadata'>): readonly string[] {
  return (metadata.ownerReferences ?? [])
    .filter(({ kind, name }) => kind === 'Pod' && barrierName(name) === metadata.name)
    .slice(0, mostOwners)
    .map(({ uid }) => uid);
}

/** A barrier has one. */
const mostOwners = 16;

/** The variable that holds a container of this pod until its priority is published. */
export function barrierEnv(podName: string, priority: number): EnvVar {
  return {
    name: launchBarrierEnv,
    valueFrom: { configMapKeyRef: { name: barrierName(podName), key: barrierKey(priority) } },
  };
}

/** The parts of a new pod that define the order in which its containers start. */
export interface LaunchMarks {
  readonly annotations: Readonly<Record<string, unknown>>;
  readonly containers: readonly { readonly env: readonly { readonly name?: unknown; readonly value?: unknown }[] }[];
}

/** The order that a pod requests: a priority for each container, no order, or an invalid one. */
export type LaunchOrder =
  | { readonly kind: 'none' }
  | { readonly kind: 'ordered'; readonly priorities: readonly number[] }
  | { readonly kind: 'unreadable'; readonly errors: readonly FieldError[] };

/** Parses the order that a pod requests (CLP-2 to CLP-4). */
export function launchOrder({ annotations, containers }: LaunchMarks): LaunchOrder {
  if (containers.length < 2) return { kind: 'none' };
  if (annotations[launchMark.annotation] === launchMark.ordered) {
    return { kind: 'ordered', priorities: containers.map((_, index) => 0 - index) };
  }
  const read = containers.map(({ env }, container) =>
    env.flatMap(({ name, value }, index) =>
      name === launchMark.env ? [priorityOf(value, `spec.containers[${container}].env[${index}]`)] : [],
    ),
  );
  const errors = read.flat().filter((found) => typeof found !== 'number');
  if (errors.length > 0) return { kind: 'unreadable', errors };
  // of several entries the last one counts, as for every variable
  const priorities = read.map((entries) => entries.findLast((found) => typeof found === 'number') ?? 0);
  return new Set(priorities).size === 1 ? { kind: 'none' } : { kind: 'ordered', priorities };
}

function priorityOf(value: unknown, path: string): number | FieldError {
  const priority = typeof value === 'string' && /^[-+]?\d+$/.test(value) ? Number(value) + 0 : Number.NaN;
  if (Number.isSafeInteger(priority)) return priority;
  const got =
    typeof value === 'string' ? `, not ${JSON.stringify(value.slice(0, 40))}` : '; valueFrom is not supported';
  return { field: `${path}.value`, detail: `${launchMark.env} must be an integer${got}` };
}

/** One container whose start is held, as the kubelet reports it now. */
export interface LaunchContainer {
  readonly name: string;
  readonly priority: number;
  /** The key that its variable refers to; absent: the key that admission would have written. */
  readonly key?: string;
  /** `passed`: the next containers may start. `ended`: it has failed and is not restarted, so they never will. */
  readonly state: 'passed' | 'awaited' | 'ended';
}

/**
 * The containers of a pod that its own barrier holds, in the order of the pod; empty when its launch is not ordered. A
 * variable of this name in another form, written by a user, holds nothing (CLP §6).
 */
export function heldContainers({ metadata, spec, status }: Pod): readonly LaunchContainer[] {
  const statuses = new Map(status?.containerStatuses?.map((entry) => [entry.name, entry]));
  return spec.containers.flatMap(({ name, env }) => {
    const ref = env?.find((variable) => variable.name === launchBarrierEnv)?.valueFrom?.configMapKeyRef;
    if (ref?.name !== barrierName(metadata.name) || !/^p_/.test(ref.key)) return [];
    const priority = priorityOfKey(ref.key);
    // users may write `p_007`, and the kubelet waits for that very key
    const key = publishedKey.test(ref.key) && ref.key !== barrierKey(priority) ? { key: ref.key } : {};
    return [{ name, priority, ...key, state: launchState(statuses.get(name), spec.restartPolicy) }];
  });
}

/** CLP-11: the number after the first two characters, and 0 where it is none. */
function priorityOfKey(key: string): number {
  const text = key.slice(2);
  return /^[-+]?\d+$/.test(text) ? Number(text) + 0 : 0;
}

/**
 * CLP-14, CLP-15: ready according to the kubelet; or completed, where the kubelet does not restart a container that has
 * succeeded.
 */
function launchState(status: ContainerStatus | undefined, restartPolicy = 'Always'): LaunchContainer['state'] {
  if (status?.ready) return 'passed';
  const exitCode = status?.state?.terminated?.exitCode;
  if (exitCode === undefined || restartPolicy === 'Always') return 'awaited';
  if (exitCode === 0) return 'passed';
  return restartPolicy === 'Never' ? 'ended' : 'awaited';
}

/** Whether all keys of this pod's launch were published before. */
export function isLaunchCompleted({ metadata }: Pick<Pod, 'metadata'>): boolean {
  return metadata.annotations?.[launchMark.completed] === 'true';
}

/** Reasons of `waitingFor` in the annotation, with what a person can do. */
export const launchWaits = {
  ContainerNotReady:
    'Nothing to do if these containers have just started; otherwise look at their logs and readiness probes; CreateContainerConfigError of the containers after them is expected',
  BarrierNameTaken:
    'Delete or rename this ConfigMap, which is not the barrier of the pod: the pod waits for keys of that name',
  ContainerEnded: 'Delete the pod: these containers have failed, and its restart policy does not start them again',
} as const;

/** The content of the annotation `status`. */
export interface LaunchStatus {
  readonly waitingFor: WaitingFor;
}

/** Parses the annotation; undefined when there is none, or an invalid one. */
export function launchStatusOf({ metadata }: Pick<Pod, 'metadata'>): LaunchStatus | undefined {
  const text = metadata.annotations?.[launchMark.status];
  if (text === undefined) return undefined;
  try {
    const status = JSON.parse(text) as Partial<LaunchStatus> | null;
    return Array.isArray(status?.waitingFor?.blockedBy) ? (status as LaunchStatus) : undefined;
  } catch {
    return undefined;
  }
}

/** The environment variable that orders the launch of containers; its key contains the priority. */
export const launchBarrierEnv = 'KRUISE_CONTAINER_BARRIER';

/** The launch priority of a container; undefined when its launch is not ordered. */
export function launchPriority(container: Pick<Container, 'env'>): number | undefined {
  const barrier = container.env?.find(({ name }) => name === launchBarrierEnv);
  const key = barrier?.valueFrom?.configMapKeyRef?.key;
  if (barrier === undefined || key === undefined) return undefined;
  const priority = /^p_([-+]?\d+)$/.exec(key)?.[1];
  return Number(priority ?? 0);
}
