/** What the kubelet writes on sandboxes and containers, by which a pod is found again in the runtime. */
export const criLabel = {
  podName: 'io.kubernetes.pod.name',
  podNamespace: 'io.kubernetes.pod.namespace',
  podUid: 'io.kubernetes.pod.uid',
  containerName: 'io.kubernetes.container.name',
} as const;

/** Decimal, written by the kubelet on each instance; a missing one counts as 0. */
export const restartCountAnnotation = 'io.kubernetes.container.restartCount';

/**
 * What the kubelet wrote on each instance about its end: the preStop handler and the ports as JSON, grace periods in
 * decimal seconds. The second grace period is that of a deletion, and there only while the pod goes.
 */
export const stopAnnotation = {
  preStop: 'io.kubernetes.container.preStopHandler',
  ports: 'io.kubernetes.container.ports',
  grace: 'io.kubernetes.pod.terminationGracePeriod',
  deletionGrace: 'io.kubernetes.pod.deletionGracePeriod',
} as const;

/** Hexadecimal, written by the kubelet on each instance: what it was started from. A missing one counts as 0. */
export const containerHashAnnotation = 'io.kubernetes.container.hash';

export type ContainerState = 'created' | 'running' | 'exited' | 'unknown';

/** One line of the runtime's list of containers. */
export interface RuntimeContainer {
  readonly id: string;
  readonly sandboxId: string;
  readonly state: ContainerState;
  readonly createdAtNs: bigint;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

/** What the runtime says about one container. Times are by the clock of the node. */
export interface RuntimeContainerStatus {
  readonly id: string;
  readonly state: ContainerState;
  /** 0 when it has not started. */
  readonly startedAtNs: bigint;
  readonly exitCode: number;
}

/**
 * One container runtime of the node, in the verbs of CRI. Every failure is a `CriError`; a call ends by its deadline,
 * except for a command without a time limit.
 */
export interface ContainerRuntime {
  /** RuntimeName of the Version call, which is the prefix of its container IDs: `containerd`, `cri-o`, `docker`. */
  readonly name: string;
  /** Its containers in any state, by pod or by exact ID. */
  listContainers(filter: { readonly podUid?: string; readonly id?: string }): Promise<readonly RuntimeContainer[]>;
  /** Undefined when the runtime does not know the container. */
  containerStatus(id: string): Promise<RuntimeContainerStatus | undefined>;
  /**
   * Of these variables the values that the container was started with: from the records of the runtime, and from what
   * `env` prints in the container where it keeps none. Undefined when neither tells; a variable that is not set is
   * missing.
   */
  environment(id: string, names: readonly string[]): Promise<ReadonlyMap<string, string> | undefined>;
  /** Undefined when the runtime has none to tell, as for pods of the host's network. */
  sandboxIp(sandboxId: string): Promise<string | undefined>;
  /** Runs a command in the container to its end; the output is dropped. */
  execSync(id: string, command: readonly string[]): Promise<{ readonly exitCode: number }>;
  /** The stop signal of the image, else SIGTERM, and SIGKILL after the grace; answers when the container has ended. */
  stopContainer(id: string, graceSeconds: number): Promise<void>;
}

/** The runtimes of the node as far as they have been found. */
export interface Runtimes {
  /** Usable runtimes of this name, in the order in which their sockets are tried. */
  named(name: string): readonly ContainerRuntime[];
  /**
   * Why none has the name, for people. `final` means that waiting cannot help: runtimes of the node answer, and no
   * socket is left that might still turn out to be the one.
   */
  absence(name: string): { readonly final: boolean; readonly message: string };
}

/** The runtime of a pod, or why there is none. */
export type FoundRuntime =
  | { readonly kind: 'found'; readonly runtime: ContainerRuntime }
  | { readonly kind: 'absent'; readonly final: boolean; readonly message: string };

/** Picks the runtime of this name; where a node has several, the one that runs this pod. */
export async function findRuntime(runtimes: Runtimes, name: string, podUid: string): Promise<FoundRuntime> {
  const [first, ...others] = runtimes.named(name);
  if (first === undefined) return { kind: 'absent', ...runtimes.absence(name) };
  for (const runtime of others.length > 0 ? [first, ...others] : []) {
    if ((await runtime.listContainers({ podUid })).length > 0) return { kind: 'found', runtime };
  }
  return { kind: 'found', runtime: first };
}

/**
 * How a call of the runtime failed: nobody answered, nobody answered in time, the container is unknown, the runtime
 * has no such call, or it answered with another error.
 */
export type CriFailure = 'unreachable' | 'deadline' | 'notFound' | 'unimplemented' | 'answer';

/** A failed call of the runtime. The message is the runtime's own text where it gave one, without credentials in URLs. */
export class CriError extends Error {
  override readonly name = 'CriError';
  readonly failure: CriFailure;
  /** As CRI spells it: `StopContainer`. */
  readonly call: string;

  constructor(failure: CriFailure, call: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.failure = failure;
    this.call = call;
  }
}

/** Picks, for each container name, the instance that was created last: the one that counts. */
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

/** The hash that the kubelet wrote on this instance. */
export function containerHashOf(container: RuntimeContainer): number {
  const text = container.annotations[containerHashAnnotation] ?? '';
  return /^[0-9a-f]{1,13}$/i.test(text) ? Number.parseInt(text, 16) : 0;
}

/** The grace period of its pod, as the kubelet wrote it on this instance; undefined where it wrote none. */
export function podGraceSeconds({ annotations }: RuntimeContainer): number | undefined {
  const text = annotations[stopAnnotation.grace];
  return text !== undefined && /^\d{1,12}$/.test(text) ? Number(text) : undefined;
}

/** The restart count that the kubelet wrote on this instance. */
export function restartCountOf(container: RuntimeContainer): number {
  const count = Number(container.annotations[restartCountAnnotation]);
  return Number.isSafeInteger(count) && count >= 0 ? count : 0;
}
