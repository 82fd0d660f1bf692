// A SidecarSet with hot-upgrade sidecars, its controller and its pods, without Temporal and without a kubelet: both are played.
import type { JsonObject } from '../../api/base/json.ts';
import type { ContainerStatus, Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { rollOutId } from '../../api/fleet/operation.ts';
import { type SwapOperation, swapSidecarType } from '../../api/sidecar-set/swap.ts';
import { type SidecarSet, sidecarSets } from '../../api/sidecar-set/types.ts';
import {
  afterNews,
  begunSwap,
  type SwapNews,
  type SwapProgress,
  wantedWork,
} from '../../plan/sidecar-swap/progress.ts';
import { sidecarSetController } from '../../watcher/kinds/sidecar-set/controller.ts';
import type { WantedOperation } from '../../watcher/starter.ts';
import { type RunningController, runController } from './controller-context.ts';
import { MemoryCluster, type SeenCall } from './fake-api/memory-cluster.ts';
import { newGate } from './gate.ts';
import { alive, PlayedRollOut } from './played-roll-out.ts';
import { aSidecarSet, imagesOf, type SetFacts } from './sidecar-pods.ts';
import { waitFor } from './wait.ts';

/** One operation, as the workflow carries it out, on the holder of the controller. */
export class PlayedOperation {
  readonly operation: SwapOperation;
  readonly cause: string | undefined;
  progress: SwapProgress;
  readonly #world: SwapWorld;
  #wake: (() => void) | undefined;
  readonly #news: SwapNews[] = [];
  /** Its run: the next one on the pod begins after it. */
  readonly ended: Promise<void>;

  constructor(world: SwapWorld, operation: SwapOperation) {
    this.#world = world;
    this.operation = operation;
    this.cause = operation.cause;
    this.progress = begunSwap(operation.pod.name);
    this.ended = this.#run();
  }

  put(news: SwapNews): void {
    this.#news.push(news);
    this.#wake?.();
  }

  async #run(): Promise<void> {
    await this.#world.started;
    let looks = 0;
    let asked = '';
    while (this.progress.end === undefined && !this.#world.isOver) {
      const { progress, operation } = this;
      if (looks !== progress.looks) {
        looks = progress.looks;
        const { answers } = progress;
        const look = this.#world.holder.look(operation);
        this.put({ kind: 'looked', look, nth: looks, answers, atMs: Date.now() });
      }
      const work = wantedWork(progress);
      if (work && work.key !== asked) {
        asked = work.key;
        void this.#ask(work, progress).then(
          (news) => this.put(news),
          () => undefined,
        );
      }
      if (this.#news.length === 0) await this.#more();
      for (const news of this.#news.splice(0)) this.progress = afterNews(this.progress, news);
    }
  }

  #more(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  async #ask(
    work: NonNullable<ReturnType<typeof wantedWork>>,
    { waitingFor, reports }: SwapProgress,
  ): Promise<SwapNews> {
    const { holder } = this.#world;
    const { pod, set } = this.operation;
    const request = { pod, set, reports, ...(waitingFor && { told: waitingFor.reason }) };
    if (work.kind === 'await') {
      return {
        kind: 'awaited',
        until: work.until,
        answer: await holder.await({ ...request, until: work.until }, alive),
      };
    }
    return { kind: 'stepped', step: work.step, answer: await holder.step({ ...request, step: work.step }, alive) };
  }
}

export class SwapWorld {
  readonly cluster = new MemoryCluster();
  /** Every operation that was started, by pod and in order. */
  readonly operations: PlayedOperation[] = [];
  readonly #wanted = new Map<string, WantedOperation>();
  #running: RunningController | undefined;
  readonly #started = newGate();
  isOver = false;

  get started(): Promise<void> {
    return this.#started.opened;
  }

  /** Starts the controller. */
  async start(meet?: (call: SeenCall) => void): Promise<void> {
    this.cluster.put(kubeResource.namespaces, { metadata: { name: 'shop' } });
    this.#running = await runController(sidecarSetController, {
      cluster: this.cluster,
      ...(meet && { meet }),
      now: () => Date.parse('2026-01-01T02:00:00Z'),
      starter: {
        want: (operation) => this.#want(operation),
        forget: (workflowId) => void this.#wanted.delete(workflowId),
      },
    });
    this.#started.open();
  }

  get #controller(): RunningController {
    if (this.#running === undefined) throw new Error('the controller has not started');
    return this.#running;
  }

  get holder() {
    const holder = this.#controller.controller.swaps?.();
    if (holder === undefined) throw new Error('this controller does not lead');
    return holder;
  }

  get writes(): readonly SeenCall[] {
    return this.#controller.writes;
  }

  put(
    facts: SetFacts & { readonly generation?: number; readonly annotations?: Readonly<Record<string, string>> },
  ): SidecarSet {
    const { generation = 1, annotations = {}, ...rest } = facts;
    const set = aSidecarSet(rest);
    const { resourceVersion: _, ...metadata } = set.metadata;
    const stored = {
      ...set,
      metadata: { ...metadata, generation, annotations: { ...metadata.annotations, ...annotations } },
      status: this.setOf(metadata.name)?.status,
    };
    this.cluster.put(sidecarSets, stored as never);
    return set;
  }

  setOf(name: string): SidecarSet | undefined {
    return this.cluster.look<SidecarSet>(sidecarSets, { name });
  }

  addPod(pod: Pod): void {
    const { resourceVersion: _, ...metadata } = pod.metadata;
    this.cluster.put(kubeResource.pods, { ...pod, metadata } as never);
  }

  pod(name: string): Pod {
    const pod = this.cluster.look<Pod>(kubeResource.pods, { namespace: 'shop', name });
    if (pod === undefined) throw new Error(`pod ${name} is gone`);
    return pod;
  }

  images(name: string): Readonly<Record<string, string | undefined>> {
    return imagesOf(this.pod(name));
  }

  /** The kubelet runs what the spec says, in containers that this allows; others do not get ready. */
  kubelet(works: (container: string, image: string) => boolean = () => true): void {
    for (const pod of this.cluster.all<Pod>(kubeResource.pods)) {
      const images = new Map(pod.spec.containers.map(({ name, image = '' }) => [name, image]));
      const before = pod.status?.containerStatuses ?? [];
      const containerStatuses = before.map((state) => running(state, images.get(state.name) ?? '', works));
      if (JSON.stringify(containerStatuses) === JSON.stringify(before)) continue;
      const isReady = containerStatuses.every(({ ready }) => ready);
      const others = pod.status?.conditions?.filter(({ type }) => type !== 'Ready') ?? [];
      const conditions = [...others, { type: 'Ready', status: isReady ? 'True' : 'False' }];
      this.cluster.put(kubeResource.pods, {
        ...pod,
        status: { ...pod.status, containerStatuses, conditions },
      } as never);
    }
  }

  /** The processes of these containers end, and the pod is not ready; the next turn of the kubelet restarts them. */
  crash(name: string, containers: readonly string[]): void {
    const pod = this.pod(name);
    const containerStatuses = pod.status?.containerStatuses?.map((state) =>
      containers.includes(state.name)
        ? { ...state, ready: false, state: { waiting: { reason: 'CrashLoopBackOff', message: 'it has ended' } } }
        : state,
    );
    const others = pod.status?.conditions?.filter(({ type }) => type !== 'Ready') ?? [];
    const conditions = [...others, { type: 'Ready', status: 'False' }];
    this.cluster.put(kubeResource.pods, { ...pod, status: { ...pod.status, containerStatuses, conditions } } as never);
  }

  /** Grants what a roll-out of the SidecarSet asks for, for as long as the test runs. */
  rollOut(name = 'logs', times = 20): void {
    void this.#rollOut(name, times).catch(() => undefined);
  }

  async #rollOut(name: string, times: number): Promise<void> {
    const set = await waitFor('the status', () => this.setOf(name));
    const queue = this.#controller.controller.fleet?.queue();
    if (queue === undefined) throw new Error('this controller does not lead');
    const play = new PlayedRollOut(() => queue, set.metadata.uid);
    while (play.batches.length < times && !this.isOver) {
      play.ask();
      await new Promise((resolve) => void setTimeout(resolve, 20));
    }
  }

  async stop(): Promise<void> {
    this.isOver = true;
    await this.#running?.stop();
  }

  #want(wanted: WantedOperation): void {
    const before = this.#wanted.get(wanted.workflowId);
    this.#wanted.set(wanted.workflowId, wanted);
    if (wanted.workflowType !== swapSidecarType || before?.inputs === wanted.inputs) return;
    const operation = wanted.argument as SwapOperation;
    const known = this.operations.find(
      (one) => one.operation.pod.uid === operation.pod.uid && one.progress.end === undefined,
    );
    if (known === undefined) this.operations.push(new PlayedOperation(this, operation));
    else if (known.operation.set.uid === operation.set.uid) known.put({ kind: 'changed' });
    else void known.ended.then(() => this.operations.push(new PlayedOperation(this, operation)));
  }

  /** The writes of images of a pod. */
  swapsOf(name: string): readonly JsonObject[] {
    return this.writes
      .filter((call) => call.verb === 'patch' && call.plural === 'pods' && call.name === name)
      .map(({ body }) => body as JsonObject)
      .filter((body) => 'spec' in body);
  }
}

function running(
  state: ContainerStatus,
  image: string,
  works: (container: string, image: string) => boolean,
): ContainerStatus {
  const isThere = state.image === `docker.io/library/${image}` || image === '';
  if (isThere && state.ready) return state;
  if (!works(state.name, image)) {
    return { ...state, ready: false, state: { waiting: { reason: 'ImagePullBackOff', message: 'not found' } } };
  }
  const imageID = `docker.io/library/${image.replace(':', '@sha256:')}`;
  const restartCount = state.restartCount + 1;
  const startedAt = new Date().toISOString();
  const more = { restartCount, ready: true, state: { running: { startedAt } } };
  return isThere ? { ...state, ...more } : { ...state, image: `docker.io/library/${image}`, imageID, ...more };
}

export const rollOutOf = (set: SidecarSet) => rollOutId(set.metadata);
