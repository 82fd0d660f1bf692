/** The kubelet's labels on sandboxes and containers, by which a pod is found in the runtime. */
export const criLabel = {
  podName: 'io.kubernetes.pod.name',
  podNamespace: 'io.kubernetes.pod.namespace',
  podUid: 'io.kubernetes.pod.uid',
  containerName: 'io.kubernetes.container.name',
} as const;

/** Decimal, written by the kubelet on each instance; absent counts as 0. */
export const restartCountAnnotation = 'io.kubernetes.container.restartCount';

/**
 * The kubelet's annotations on each instance about its termination: the preStop handler and the ports as JSON, grace
 * periods in decimal seconds. The second grace period is that of a deletion, and is there only while the pod
 * terminates.
 */
export const stopAnnotation = {
  preStop: 'io.kubernetes.container.preStopHandler',
  ports: 'io.kubernetes.container.ports',
  grace: 'io.kubernetes.pod.terminationGracePeriod',
  deletionGrace: 'io.kubernetes.pod.deletionGracePeriod',
} as const;

/**
 * Hexadecimal, written by the kubelet on each instance: the hash of the container spec that it was started from. Absent
 * counts as 0.
 */
export const containerHashAnnotation = 'io.kubernetes.container.hash';

export type ContainerState = 'created' | 'running' | 'exited' | 'unknown';

/** One entry of the runtime's list of containers. */
export interface RuntimeContainer {
  readonly id: string;
  readonly sandboxId: string;
  readonly state: ContainerState;
  readonly createdAtNs: bigint;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

/** The runtime's status of one container. Times are by the node's clock. */
export interface RuntimeContainerStatus {
  readonly id: string;
  readonly state: ContainerState;
  /** 0 when it has not started. */
  readonly startedAtNs: bigint;
  readonly exitCode: number;
}

/**
 * One container runtime of the node, with CRI's verbs. Every failure is a `CriError`; each call has a deadline, except
 * a command without a time limit.
 */
export interface ContainerRuntime {
  /** RuntimeName of the Version call, which is the prefix of its container IDs: `containerd`, `cri-o`, `docker`. */
  readonly name: string;
  /** Containers in any state, by pod or by exact ID. */
  listContainers(filter: { readonly podUid?: string; readonly id?: string }): Promise<readonly RuntimeContainer[]>;
  /** Undefined when the runtime does not know the container. */
  containerStatus(id: string): Promise<RuntimeContainerStatus | undefined>;
  /**
   * The values of these variables with which the container was started: from the runtime's records, or from the output
   * of `env` in the container where there are none. Undefined when neither is available; a variable that is not set is
   * missing.
   */
  environment(id: string, names: readonly string[]): Promise<ReadonlyMap<string, string> | undefined>;
  /** Undefined when the runtime reports none, as for pods in the host's network. */
  sandboxIp(sandboxId: string): Promise<string | undefined>;
  /** Runs a command in the container to its end; the output is dropped. */
  execSync(id: string, command: readonly string[]): Promise<{ readonly exitCode: number }>;
  /**
   * Sends the image's stop signal, else SIGTERM, and SIGKILL after the grace period; returns when the container has
   * exited.
   */
  stopContainer(id: string, graceSeconds: number): Promise<void>;
}

/** The runtimes of the node that have been found. */
export interface Runtimes {
  /** Usable runtimes of this name, in the order in which their sockets are tried. */
  named(name: string): readonly ContainerRuntime[];
  /**
   * Why no runtime has this name, for people. `final` means that waiting cannot help: runtimes of the node answer, and
   * there is no other socket that might turn out to be the one.
   */
  absence(name: string): { readonly final: boolean; readonly message: string };
}

/** The runtime of a pod, or why there is none. */
export type FoundRuntime =
  | { readonly kind: 'found'; readonly runtime: ContainerRuntime }
  | { readonly kind: 'absent'; readonly final: boolean; readonly message: string };

/** The runtime of this name; where a node has several, the one that has this pod. */
export async function findRuntime(runtimes: Runtimes, name: string, podUid: string): Promise<FoundRuntime> {
  const [first, ...others] = runtimes.named(name);
  if (first === undefined) return { kind: 'absent', ...runtimes.absence(name) };
  for (const runtime of others.length > 0 ? [first, ...others] : []) {
    if ((await runtime.listContainers({ podUid })).length > 0) return { kind: 'found', runtime };
  }
  return { kind: 'found', runtime: first };
}

/**
 * How a call to the runtime failed: no connection, no answer in time, unknown container, unsupported call, or another
 * error.
 */
export type CriFailure = 'unreachable' | 'deadline' | 'notFound' | 'unimplemented' | 'answer';

/** A failed call to the runtime. The message is the runtime's own text if there is one, without credentials in URLs. */
export class CriError extends Error {
  override readonly name = 'CriError';
  readonly failure: CriFailure;
  /** With CRI's spelling: `StopContainer`. */
  readonly call: string;

  constructor(failure: CriFailure, call: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.failure = failure;
    this.call = call;
  }
}

/** For each container name, the instance that was created last: the current one. */
export function newestByName(containers: readonly RuntimeContainer[]): ReadonlyMap<string, RuntimeContainer> {
  const newest = new Map<string, RuntimeContainer>();
  for (const container of containers) {
    const name = container.labels[criLabel.containerName];
    if (name === undefined) continue;
    const known = newest.get(name);
    if (known === undefined || container.createdAtNs > known.createdAtNs) newest.set(name, container);
  }
  return newest;
}

/** The kubelet's hash of the container spec on this instance. */
export function containerHashOf(container: RuntimeContainer): number {
  const text = container.annotations[containerHashAnnotation] ?? '';
  return /^[0-9a-f]{1,13}$/i.test(text) ? Number.parseInt(text, 16) : 0;
}

/** The pod's grace period, as the kubelet wrote it on this instance; undefined where it wrote none. */
export function podGraceSeconds({ annotations }: RuntimeContainer): number | undefined {
  const text = annotations[stopAnnotation.grace];
  return text !== undefined && /^\d{1,12}$/.test(text) ? Number(text) : undefined;
}

/** The kubelet's restart count on this instance. */
export function restartCountOf(container: RuntimeContainer): number {
  const count = Number(container.annotations[restartCountAnnotation]);
  return Number.isSafeInteger(count) && count >= 0 ? count : 0;
}
