/**
 * A simulated node: the test plays its container runtime, its kubelet and its daemon. Containers are records in memory;
 * a stopped one exits, the next instance starts at once, and the pod's status is written to the real API server.
 * Failures and delays are configured by the script of a container.
 */
import { randomUUID } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { Context } from '@temporalio/activity';
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { type NativeConnection, Worker } from '@temporalio/worker';
import type { ContainerInstance, NodeActivities, StopResult } from '../../activities/cri/contract.ts';
import type { PullActivities, PullInput, PullResult } from '../../activities/cri/pull-contract.ts';
import { timestamp } from '../../api/base/time.ts';
import { type ContainerRecreateRequest, crr, isCompleted } from '../../api/container-recreate-request/types.ts';
import { referenceOf } from '../../api/core/familiar-image.ts';
import type { Container, EnvVar, Pod } from '../../api/core/pod.ts';
import type { NodeRef, PodRef } from '../../api/core/refs.ts';
import { kubeResource, podReadinessGate } from '../../api/core/well-known.ts';
import { queues } from '../../api/engine/operations.ts';
import { inPlaceAnnotation, inPlaceReadinessGate } from '../../api/in-place/annotations.ts';
import { formatContainersMeta, plainHash } from '../../api/in-place/containers-meta.ts';
import { expectedEnvHash } from '../../api/in-place/env-hash.ts';
import { staleContainers } from '../../plan/fleet/in-place/completion.ts';
import { dataConverter } from '../../process/payload-limit.ts';
import type { Cluster } from './cluster.ts';
import { waitFor } from './wait.ts';

/** What happens when a container is restarted. Absent: everything succeeds at once. */
export interface Script {
  /** The stop takes until this resolves. */
  readonly stopTakes?: Promise<unknown>;
  /** The runtime fails to stop it, with this error. */
  readonly stopFails?: string;
  /** The kubelet starts the next instance when this resolves. */
  readonly startTakes?: Promise<unknown>;
  /** The next instance is ready when this resolves. */
  readonly readyTakes?: Promise<unknown>;
  /** The exit code. Absent: 0. */
  readonly exitCode?: number;
}

/** One stop that has begun. */
export interface SeenStop {
  readonly pod: string;
  readonly container: string;
  readonly containerId: string;
  readonly request: string;
  readonly graceSeconds: number;
}

export interface PodOptions {
  readonly namespace: string;
  readonly containers: readonly string[];
  /** Whether the pod has the shared readiness gate. */
  readonly gate?: boolean;
  readonly graceSeconds?: number;
  /** The prefix of its container IDs; the node has `containerd` only. */
  readonly runtime?: string;
  /** `Never`: exited containers are not restarted. */
  readonly restartPolicy?: 'Always' | 'OnFailure' | 'Never';
  /** Field paths that these containers have in their environment, as the variable SEEN. */
  readonly follows?: Readonly<Record<string, string>>;
  /** Variables of containers, by name. */
  readonly env?: Readonly<Record<string, readonly EnvVar[]>>;
  readonly labels?: Readonly<Record<string, string>>;
  /** How far the clock of the node is ahead of the cluster's. */
  readonly clockAheadMs?: number;
}

interface Instance {
  readonly id: string;
  readonly restartCount: number;
  startedAtMs: number;
  /** The hash of the environment that it was started with. */
  envHash: number;
  running: boolean;
  ready: boolean;
  exitCode: number;
}

const nodeRuntime = 'containerd';
const tickMs = 250;

/** A pod of a simulated node. */
export class PlayedPod {
  readonly ref: PodRef;
  readonly #options: PodOptions;
  readonly #cluster: Cluster;
  readonly #changed: EventEmitter;
  readonly #containers = new Map<string, Instance[]>();
  readonly #scripts = new Map<string, Script>();
  /** The phase of the pod is final, whoever has written it: a kubelet starts nothing in it any more. */
  #isOver = false;
  readonly #restarts = new Set<Promise<void>>();
  #writes: Promise<unknown> = Promise.resolve();

  constructor(ref: PodRef, options: PodOptions, cluster: Cluster, changed: EventEmitter) {
    this.ref = ref;
    this.#options = options;
    this.#cluster = cluster;
    this.#changed = changed;
    for (const name of options.containers) this.#containers.set(name, [newInstance(0, true)]);
  }

  /** Sets what happens at the next restarts of this container. */
  script(container: string, script: Script): void {
    this.#scripts.set(container, script);
  }

  /** The newest instance. */
  newest(container: string): Readonly<Instance> | undefined {
    return this.#containers.get(container)?.at(-1);
  }

  /** How often this container was restarted. */
  restartsOf(container: string): number {
    return this.newest(container)?.restartCount ?? -1;
  }

  /** Waits until this container has been restarted this often: the stop that caused it may end a moment later. */
  async restarted(container: string, times: number): Promise<void> {
    await waitFor(`${container} to be restarted ${times} times`, (see) => see(this.restartsOf(container)) === times);
  }

  /**
   * Waits until the status of the pod shows that this container has been restarted this often; nodes know it before.
   */
  async reportedRestarts(container: string, times: number): Promise<void> {
    await waitFor(`the status to show ${times} restarts of ${container}`, async (see) => {
      const statuses = (await this.read())?.status?.containerStatuses ?? [];
      return see(statuses.find(({ name }) => name === container)?.restartCount) === times;
    });
  }

  /** The pod in the API server. */
  read(): Promise<Pod | undefined> {
    return this.#cluster.find<Pod>(kubeResource.pods, this.ref);
  }

  /** Deletes the pod like a person; it is gone after `finishDeletion`, which plays the kubelet. */
  async delete(): Promise<void> {
    await this.#cluster.kube.delete(kubeResource.pods, this.ref, { preconditions: { uid: this.ref.uid } });
  }

  async finishDeletion(): Promise<void> {
    await this.#cluster.kube.delete(kubeResource.pods, this.ref, { gracePeriodSeconds: 0 });
  }

  /** Ends the newest instance like a crash. The kubelet starts the next one. */
  async crash(container: string): Promise<void> {
    this.exit(container);
    await Promise.all(this.#restarts);
  }

  /** Makes the newest instance this much older. */
  age(container: string, ms: number): void {
    const instance = this.#containers.get(container)?.at(-1);
    if (instance) instance.startedAtMs -= ms;
  }

  /** For the node: the newest instance has exited, and the kubelet reacts. */
  exit(container: string, exitCode = this.scriptOf(container).exitCode ?? 0): void {
    const instance = this.#containers.get(container)?.at(-1);
    if (!instance?.running) return;
    Object.assign(instance, { running: false, ready: false, exitCode });
    const restart = this.#restart(container, instance.restartCount + 1).finally(() => this.#restarts.delete(restart));
    this.#restarts.add(restart);
  }

  /** For the node: the current script. */
  scriptOf(container: string): Script {
    return this.#scripts.get(container) ?? {};
  }

  /**
   * Writes the status of the pod like a kubelet: its own conditions only, and all container statuses. While the API
   * server is away it retries.
   */
  async report(): Promise<void> {
    const write = this.#writes.then(() =>
      waitFor(`the status of pod ${this.ref.name} to be written`, async () => {
        await this.#report();
        return true;
      }),
    );
    this.#writes = write.catch(() => undefined);
    await write;
  }

  async #restart(container: string, restartCount: number): Promise<void> {
    const { startTakes, readyTakes } = this.scriptOf(container);
    await this.report();
    if (!this.#isStartedAgain(container) || isFinal((await this.read())?.status?.phase)) return;
    await startTakes;
    const instance = newInstance(restartCount, false);
    if (this.#options.follows) {
      const live = await waitFor('the pod to be read', () => this.read());
      instance.envHash = expectedEnvHash(this.#spec(container), live.metadata);
    }
    this.#containers.get(container)?.push(instance);
    await this.report();
    await readyTakes;
    instance.ready = instance.running;
    await this.report();
  }

  #isStartedAgain(container: string): boolean {
    if (this.#isOver) return false;
    const { restartPolicy = 'Always' } = this.#options;
    if (restartPolicy === 'OnFailure') return this.newest(container)?.exitCode !== 0;
    return restartPolicy === 'Always';
  }

  /** Like a kubelet's; a final phase stays. */
  #phase(known: string | undefined): string {
    if (isFinal(known)) return known;
    const names = [...this.#containers.keys()];
    if (names.some((name) => this.newest(name)?.running || this.#isStartedAgain(name))) return 'Running';
    return names.every((name) => this.newest(name)?.exitCode === 0) ? 'Succeeded' : 'Failed';
  }

  async #report(): Promise<void> {
    const live = await this.read();
    if (live?.metadata.uid !== this.ref.uid) return;
    const containerStatuses = [...this.#containers].map(([name, instances]) => this.#statusOf(name, instances));
    const containersReady = containerStatuses.every(({ ready }) => ready);
    const gate = live.status?.conditions?.find(({ type }) => type === podReadinessGate);
    const gateOpen = (live.spec.readinessGates ?? []).length === 0 || gate?.status === 'True';
    const condition = (type: string, isTrue: boolean) => {
      const status = isTrue ? 'True' : 'False';
      const before = live.status?.conditions?.find((found) => found.type === type);
      const since = before?.status === status ? before.lastTransitionTime : undefined;
      return { type, status, lastTransitionTime: since ?? timestamp(Date.now()) };
    };
    const conditions = [
      condition('Initialized', true),
      condition('ContainersReady', containersReady),
      condition('Ready', containersReady && gateOpen),
    ];
    const phase = this.#phase(live.status?.phase);
    this.#isOver ||= phase === 'Succeeded' || phase === 'Failed';
    const status = { phase, podIP: '10.0.0.1', podIPs: [{ ip: '10.0.0.1' }], containerStatuses, conditions };
    const metadata = this.#options.follows ? { annotations: this.#daemonReport() } : {};
    const body = { metadata, status };
    await this.#cluster.kube.patch(kubeResource.pods, this.ref, 'strategic', body, { subresource: 'status' });
    this.#changed.emit('changed');
  }

  #spec(name: string): Container {
    const fieldPath = this.#options.follows?.[name];
    const env = fieldPath === undefined ? [] : [{ name: 'SEEN', valueFrom: { fieldRef: { fieldPath } } }];
    return { name, image: 'busybox:1.36', env };
  }

  /** The daemon's report, which is written with the status here. */
  #daemonReport(): Readonly<Record<string, string>> {
    const { runtime = nodeRuntime, labels = {} } = this.#options;
    const metas = [...this.#containers].map(([name, instances]) => {
      const { id, restartCount, envHash } = instances.at(-1) ?? newInstance(0, false);
      const spec = this.#spec(name);
      const hash = envHash === 0 ? expectedEnvHash(spec, { labels }) : envHash;
      return { name, containerID: `${runtime}://${id}`, restartCount, plainHash: plainHash(spec), envHash: hash };
    });
    return { [inPlaceAnnotation.containersMeta]: formatContainersMeta(metas) };
  }

  #statusOf(name: string, instances: readonly Instance[]) {
    const { runtime = nodeRuntime, clockAheadMs = 0 } = this.#options;
    const { id, ready, running, restartCount, startedAtMs, exitCode } = instances.at(-1) ?? newInstance(0, false);
    const startedAt = new Date(startedAtMs + clockAheadMs).toISOString();
    const containerID = `${runtime}://${id}`;
    const image = 'busybox:1.36';
    const terminated = { exitCode, containerID, startedAt, finishedAt: startedAt };
    const state = running ? { running: { startedAt } } : { terminated };
    return { name, image, imageID: image, ready, restartCount, containerID, state };
  }
}

/** A node of which only the Node object is real. */
export class NodePlayer {
  readonly ref: NodeRef;
  /** Every stop that was begun, in order. */
  readonly stops: SeenStop[] = [];
  /** Every pull that has begun, in order. Attempts that join one, or come after it has succeeded, begin none. */
  readonly pulls: PullInput[] = [];
  /** The result of a pull; by default all succeed. */
  pull: (input: PullInput) => Promise<PullResult> = async ({ image }) => ({
    kind: 'succeeded',
    imageId: `${image.name}@sha256:${image.tag}`,
    pulled: true,
  });
  readonly #cluster: Cluster;
  readonly #pods = new Map<string, PlayedPod>();
  readonly #changed = new EventEmitter().setMaxListeners(0);
  readonly #stopping = new Map<string, Promise<StopResult>>();
  readonly #pulling = new Map<string, Promise<PullResult>>();
  #daemon: { readonly worker: Worker; readonly ended: Promise<void> } | undefined;

  private constructor(ref: NodeRef, cluster: Cluster) {
    this.ref = ref;
    this.#cluster = cluster;
  }

  /** Adds a node to the cluster, without a daemon. */
  static async join(cluster: Cluster): Promise<NodePlayer> {
    const { metadata } = await cluster.newNode();
    return new NodePlayer({ name: metadata.name, uid: metadata.uid }, cluster);
  }

  /** Starts the daemon: from now on the node answers. */
  async startDaemon(connection: NativeConnection): Promise<void> {
    const worker = await Worker.create({
      connection,
      taskQueue: queues.node(this.ref.uid),
      dataConverter,
      activities: this.#activities(),
      activityTaskPollerBehavior: { type: 'simple-maximum', maximum: 2 },
      // a machine that stalls for seconds must not make an attempt time out
      maxHeartbeatThrottleInterval: '1s',
      defaultHeartbeatThrottleInterval: '1s',
      shutdownGraceTime: 0,
      shutdownForceTime: '5s',
    });
    this.#daemon = { worker, ended: worker.run().catch(() => undefined) };
  }

  /** Stops the daemon; steps in progress are retried when it is back. Containers keep running. */
  async stopDaemon(): Promise<void> {
    this.#daemon?.worker.shutdown();
    await this.#daemon?.ended;
    this.#daemon = undefined;
  }

  /** Creates a pod on this node and starts all of its containers. */
  async runPod(options: PodOptions): Promise<PlayedPod> {
    const { namespace, containers, gate = false, graceSeconds = 5, restartPolicy = 'Always' } = options;
    const { follows, labels = {} } = options;
    const name = `pod-${randomUUID().slice(0, 8)}`;
    const spec = {
      nodeName: this.ref.name,
      restartPolicy,
      terminationGracePeriodSeconds: graceSeconds,
      automountServiceAccountToken: false,
      // the lease of such a node is not renewed, and in a long run its pods would be evicted
      tolerations: [{ operator: 'Exists' }],
      containers: containers.map((container) => {
        const fieldPath = follows?.[container];
        const seen = fieldPath === undefined ? [] : [{ name: 'SEEN', valueFrom: { fieldRef: { fieldPath } } }];
        const env = [...(options.env?.[container] ?? []), ...seen];
        return { name: container, image: 'busybox:1.36', env };
      }),
      readinessGates: [
        ...(gate ? [{ conditionType: podReadinessGate }] : []),
        ...(follows ? [{ conditionType: inPlaceReadinessGate }] : []),
      ],
    };
    const metadata = { namespace, name, labels };
    const created = await this.#cluster.kube.create<Pod>(kubeResource.pods, { metadata, spec });
    const pod = new PlayedPod({ namespace, name, uid: created.metadata.uid }, options, this.#cluster, this.#changed);
    this.#pods.set(pod.ref.uid, pod);
    await pod.report();
    return pod;
  }

  /** Waits until the stop of a container has begun: from then on it cannot be cancelled. */
  async begunToStop(pod: PlayedPod, container: string): Promise<void> {
    await waitFor(`the stop of container ${container} to begin`, (see) => see(this.stopsOf(pod)).includes(container));
  }

  /** The stops of one pod's containers, in order. */
  stopsOf(pod: PlayedPod): readonly string[] {
    return this.stops.filter((stop) => stop.pod === pod.ref.uid).map(({ container }) => container);
  }

  #activities(): NodeActivities & PullActivities {
    return {
      'node.v1.pullImage': async (input) => {
        const key = `${referenceOf(input.image)} ${input.version}`;
        const begun = this.#pulling.get(key) ?? this.#pull(input);
        this.#pulling.set(key, begun);
        const forget = () => this.#pulling.delete(key);
        // from then on the image exists, even if the answer is lost
        void begun.then(({ kind }) => kind === 'succeeded' || forget(), forget);
        return await beating(begun);
      },

      'node.v1.lookAtContainers': async ({ pod, containers, runtime: name }) => {
        if (name !== nodeRuntime) {
          return { kind: 'noRuntime', message: noRuntimeMessage(name) };
        }
        const played = this.#pods.get(pod.uid);
        const instances = containers.flatMap((container): readonly ContainerInstance[] => {
          const newest = played?.newest(container);
          if (!newest) return [];
          const { id, restartCount, running, startedAtMs } = newest;
          const startedAt = new Date(startedAtMs).toISOString();
          return [{ name: container, id, restartCount, state: running ? 'running' : 'exited', startedAt }];
        });
        return { kind: 'seen', instances };
      },

      'node.v1.stopContainer': async (input) => {
        const begun = this.#stopping.get(input.containerId) ?? this.#stop(input);
        this.#stopping.set(input.containerId, begun);
        void begun.finally(() => this.#stopping.delete(input.containerId)).catch(() => undefined);
        return await beating(begun);
      },

      'node.v1.refreshContainer': async (input) => {
        const begun = this.#stopping.get(input.containerId) ?? this.#refresh(input);
        this.#stopping.set(input.containerId, begun);
        void begun.finally(() => this.#stopping.delete(input.containerId)).catch(() => undefined);
        return await beating(begun);
      },

      'node.v1.awaitContainer': async ({ pod, container, notContainerId, minStartedSeconds, isYoung }) => {
        const { cancellationSignal: signal } = Context.current();
        const beats = beat();
        try {
          for (;;) {
            if (signal.aborted) throw interrupted(signal);
            const played = this.#pods.get(pod.uid);
            const live = played && (await played.read());
            if (live?.metadata.uid !== pod.uid || live.metadata.deletionTimestamp !== undefined) {
              return { kind: 'podGone' };
            }
            const newest = played?.newest(container);
            const ranMs = Date.now() - (newest?.startedAtMs ?? 0);
            const isReady = newest?.ready && newest.id !== notContainerId;
            if (isReady && ranMs > minStartedSeconds * 1_000) {
              return { kind: 'ready', containerId: newest.id, restartCount: newest.restartCount };
            }
            if (isYoung === false && isReady) return { kind: 'changed', isYoung: true };
            if (isYoung === true && !isReady) return { kind: 'changed', isYoung: false };
            const tick = AbortSignal.any([signal, AbortSignal.timeout(tickMs)]);
            await once(this.#changed, 'changed', { signal: tick }).catch(() => undefined);
          }
        } finally {
          clearInterval(beats);
        }
      },
    };
  }

  async #pull(input: PullInput): Promise<PullResult> {
    this.pulls.push(input);
    return await this.pull(input);
  }

  /** Like the daemon: reads the request, and stops this very instance or nothing. */
  async #stop(input: Parameters<NodeActivities['node.v1.stopContainer']>[0]): Promise<StopResult> {
    const { pod, container, containerId, request, graceSeconds, restartCount, runtime } = input;
    if (runtime !== nodeRuntime) return { kind: 'noRuntime', message: noRuntimeMessage(runtime) };
    const played = this.#pods.get(pod.uid);
    const newest = played?.newest(container);
    if (!played || newest?.id !== containerId || !newest.running) return { kind: 'alreadyGone' };
    if (restartCount !== undefined && newest.restartCount > restartCount) return { kind: 'alreadyGone' };

    const order = await this.#cluster.find<ContainerRecreateRequest>(crr, request);
    const alive = order?.metadata.uid === request.uid && order.metadata.deletionTimestamp === undefined;
    if (!order || !alive || isCompleted(order)) {
      throw ApplicationFailure.create({
        type: 'Superseded',
        message: `Cannot stop container "${container}": its request is gone or has completed`,
        nonRetryable: true,
      });
    }
    this.stops.push({ pod: pod.uid, container, containerId, request: request.name, graceSeconds });
    return await this.#end(played, container);
  }

  /** Like the daemon, without the delays for a real kubelet: this one reads the pod when it starts a container. */
  async #refresh(input: Parameters<NodeActivities['node.v1.refreshContainer']>[0]): Promise<StopResult> {
    const { pod, runtime, container, containerId } = input;
    const played = this.#pods.get(pod.uid);
    const live = await played?.read();
    const stale = live?.metadata.uid === pod.uid ? staleContainers(live) : [];
    if (!played || !stale.some(({ containerID }) => containerID === `${runtime}://${containerId}`)) {
      const message = `Cannot stop container "${container}": its environment no longer needs a refresh`;
      throw ApplicationFailure.create({ type: 'Superseded', message, nonRetryable: true });
    }
    const newest = played.newest(container);
    if (newest?.id !== containerId || !newest.running) return { kind: 'alreadyGone' };
    this.stops.push({ pod: pod.uid, container, containerId, request: 'environment', graceSeconds: 0 });
    return await this.#end(played, container);
  }

  async #end(played: PlayedPod, container: string): Promise<StopResult> {
    const { stopTakes, stopFails } = played.scriptOf(container);
    await stopTakes;
    if (stopFails !== undefined) return { kind: 'failed', message: stopFails };
    played.exit(container);
    return { kind: 'stopped' };
  }
}

function noRuntimeMessage(name: string): string {
  return `this node has no ${name}, only ${nodeRuntime}`;
}

/** Nothing is started in a completed pod. */
function isFinal(phase: string | undefined): phase is 'Succeeded' | 'Failed' {
  return phase === 'Succeeded' || phase === 'Failed';
}

/** Waits with heartbeats. A daemon that stops does not cancel the stop, and the next attempt joins it. */
async function beating<T>(outcome: Promise<T>): Promise<T> {
  const { cancellationSignal: signal } = Context.current();
  const beats = beat();
  const ends = new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => reject(interrupted(signal)), { once: true });
  });
  try {
    return await Promise.race([outcome, ends]);
  } finally {
    clearInterval(beats);
  }
}

function beat(): NodeJS.Timeout {
  const context = Context.current();
  return setInterval(() => context.heartbeat(), 500);
}

/** The failure of a cancelled attempt, or of one whose daemon stops. */
function interrupted({ reason }: AbortSignal): Error {
  const ends = reason instanceof CancelledFailure && reason.message === 'WORKER_SHUTDOWN';
  return ends ? ApplicationFailure.create({ type: 'Unreachable', message: 'the daemon ends' }) : reason;
}

function newInstance(restartCount: number, ready: boolean): Instance {
  const id = (randomUUID() + randomUUID()).replaceAll('-', '');
  return { id, restartCount, startedAtMs: Date.now(), envHash: 0, running: true, ready, exitCode: 0 };
}
