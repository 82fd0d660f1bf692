// A pod that is made for one scenario, its requests, and the folder by which its containers and the test talk: it holds
// a container in its preStop or before it becomes ready, and containers write down there what happens to them.
import type { JsonObject } from '../../../api/base/json.ts';
import { restartContainersId } from '../../../api/container-recreate-request/operation.ts';
import { type ContainerRecreateRequest, crr, crrV1alpha1 } from '../../../api/container-recreate-request/types.ts';
import type { Pod } from '../../../api/core/pod.ts';
import { kubeResource, podReadinessGate } from '../../../api/core/well-known.ts';
import { containersOf, recordedLabel } from '../pod-record.ts';
import type { Room, SharedFolder } from '../room.ts';
import { patienceMs, untilDone, type World } from '../world.ts';

/** A container of such a pod. */
export interface ContainerPlan {
  readonly name: string;
  /** It has a preStop hook, which can be held. */
  readonly preStop?: boolean;
  /** It has a readiness probe, which can be held. */
  readonly probe?: boolean;
}

/** A request for such a pod. */
export interface RequestPlan {
  readonly name: string;
  readonly containers: readonly string[];
  readonly strategy?: ContainerRecreateRequest['spec']['strategy'];
  readonly activeDeadlineSeconds?: number;
  readonly version?: 'v1alpha1' | 'v1beta1';
}

/** Where a request is to be held. */
export type Hold =
  | { readonly kind: 'none' }
  /** In the preStop hook of a container. */
  | { readonly kind: 'stopping'; readonly container: string }
  /** With a new instance of a container that is not ready. */
  | { readonly kind: 'starting'; readonly container: string }
  /** In the time between unready and the first stop; it passes by itself. */
  | { readonly kind: 'draining' }
  /** With a new instance that has not run long enough; it passes by itself. */
  | { readonly kind: 'young'; readonly container: string }
  /** The first request is held in the preStop hook of a container, and the last waits behind it. */
  | { readonly kind: 'queued'; readonly container: string };

/** What is made, and where it is held. */
export interface RecreatedPodPlan {
  readonly name: string;
  /** What a person calls the step at which it is held. */
  readonly step: string;
  readonly containers: readonly ContainerPlan[];
  readonly requests: readonly RequestPlan[];
  readonly hold: Hold;
  /** When its requests are created. Absent: at the beginning, and the fault waits until they stand at their step. */
  readonly requested?: 'justBefore' | 'meanwhile';
  /** The pod has the readiness gate of drains. */
  readonly gate?: boolean;
  readonly node?: string;
}

const image = 'busybox:1.36';

/**
 * Each instance of a container makes a folder i0, i1 … and is ready once there is a file `ready` in it. It notes a TERM.
 * A hold on readiness counts from the second instance on.
 */
const containerScript = `
cd /shared/$NAME; n=0; while [ -e i$n ]; do n=$((n+1)); done; mkdir i$n
trap "echo TERM >> /shared/$NAME/i$n/term; exit 0" TERM
if [ $n = 0 ] || [ ! -e hold-ready ]; then touch i$n/ready; fi
if [ -n "$PORT" ]; then httpd -p $PORT -h /shared/$NAME/i$n; fi
sleep 99999 & wait`;

const preStopScript =
  'echo preStop >> /shared/$NAME/pre-stops; while [ -e /shared/$NAME/hold-stop ]; do sleep 0.3; done';

/** One pod and its requests. */
export class RecreatedPod {
  readonly plan: RecreatedPodPlan;
  readonly #world: World;
  readonly #room: Room;
  #pod: Pod | undefined;
  #heldSinceMs = 0;
  #wasHeldToTheEnd = true;

  constructor(world: World, room: Room, plan: RecreatedPodPlan) {
    this.#world = world;
    this.#room = room;
    this.plan = plan;
  }

  get namespace(): string {
    return this.#room.namespace;
  }

  get name(): string {
    return `${this.namespace}/${this.plan.name}`;
  }

  /** The pod as it was when it had become ready. */
  get pod(): Pod {
    if (!this.#pod) throw new Error(`Pod ${this.name} has not become ready yet`);
    return this.#pod;
  }

  get uid(): string {
    return this.pod.metadata.uid;
  }

  /** The workflow ID of what restarts its containers. */
  get operation(): string {
    return restartContainersId(this.pod.metadata);
  }

  /** Creates the pod. */
  async create(): Promise<void> {
    const { plan } = this;
    const { volume } = this.#room.folder(plan.name);
    for (const { name } of plan.containers) this.#folder(name);
    await this.#room.make(kubeResource.pods, plan.name, podObject(plan, volume));
  }

  /** Waits until the pod is ready for the first time. One whose containers had a bad start is made anew. */
  async ready(): Promise<void> {
    const ref = { namespace: this.namespace, name: this.plan.name };
    this.#pod = await untilDone(
      `pod ${this.name} to be ready`,
      async () => {
        const pod = await this.#world.kube.get<Pod>(kubeResource.pods, ref);
        if (containersOf(pod).some(({ restartCount }) => restartCount > 0)) {
          await this.#world.kube.delete(kubeResource.pods, ref, { gracePeriodSeconds: 0 });
          this.#room.forget(this.plan.name);
          await this.create();
          throw new Error('its containers were restarted before anything was done to them');
        }
        const isReady = pod.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True');
        if (!isReady) throw new Error(JSON.stringify(pod.status?.containerStatuses ?? pod.status));
        return pod;
      },
      patienceMs,
    );
  }

  /** The step at which it is held passes by itself. */
  get isTimed(): boolean {
    return this.plan.hold.kind === 'draining' || this.plan.hold.kind === 'young';
  }

  /** Nothing can have begun beyond the step at which it was held when its requests were withdrawn. */
  get wasHeldToTheEnd(): boolean {
    return this.#wasHeldToTheEnd;
  }

  /** To be called when its requests are withdrawn: on a machine that stalls a step may have passed before. */
  withdrawn(): void {
    const { requests, hold } = this.plan;
    const { unreadyGracePeriodSeconds = 0, minStartedSeconds = 0 } = requests[0]?.strategy ?? {};
    const lastsMs = (hold.kind === 'draining' ? unreadyGracePeriodSeconds : minStartedSeconds) * 1000;
    this.#wasHeldToTheEnd = !this.isTimed || Date.now() < this.#heldSinceMs + lastsMs;
  }

  /** The instance that ran in a container before anything happened. */
  originalOf(container: string): string {
    return containersOf(this.pod).find(({ name }) => name === container)?.id ?? '';
  }

  /** Creates its requests, one after the other; one that is refused because something is down is tried again. */
  async request(): Promise<void> {
    const { hold } = this.plan;
    if (hold.kind === 'stopping' || hold.kind === 'queued') this.#folder(hold.container).touch('hold-stop');
    if (hold.kind === 'starting') this.#folder(hold.container).touch('hold-ready');
    this.#heldSinceMs = Date.now();
    for (const request of this.plan.requests) await this.#create(request);
  }

  /** Creates all of its requests at once. */
  async requestAtOnce(): Promise<void> {
    await Promise.all(this.plan.requests.map((request) => this.#create(request)));
  }

  /** Whether its request stands at the step where it is to be held, by what the containers themselves say. */
  async arrived(): Promise<boolean> {
    const { hold, requests } = this.plan;
    switch (hold.kind) {
      case 'none':
        return true;
      case 'stopping':
        return this.preStopsOf(hold.container) > 0;
      case 'starting':
        return this.startsOf(hold.container) > 1;
      case 'young': {
        const { name } = this.plan;
        const pod = await this.#world.find<Pod>(kubeResource.pods, { namespace: this.namespace, name });
        const now = pod && containersOf(pod).find((container) => container.name === hold.container);
        if (now?.id === this.originalOf(hold.container)) this.#heldSinceMs = Date.now();
        return now?.ready === true && now.id !== this.originalOf(hold.container);
      }
      case 'draining':
        return (await this.#requestNow(requests[0]))?.status?.waitingFor?.reason === 'Draining';
      case 'queued':
        return (await this.#requestNow(requests.at(-1)))?.status?.waitingFor?.reason === 'Queued';
    }
  }

  /** Lets it go on. */
  release(): void {
    for (const { name } of this.plan.containers) {
      const folder = this.#folder(name);
      folder.remove('hold-stop');
      folder.remove('hold-ready');
      // one that starts now has made its folder before it looks for the hold
      for (let start = 0; start < this.startsOf(name); start += 1) folder.touch(`i${start}/ready`);
    }
  }

  /** How often a container was started, as it counted itself. */
  startsOf(container: string): number {
    const folder = this.#folder(container);
    let starts = 0;
    while (folder.has(`i${starts}`)) starts += 1;
    return starts;
  }

  /** How many instances from the second on were told to end. */
  laterTermsOf(container: string): number {
    const later = Array.from({ length: this.startsOf(container) }, (_, start) => `i${start}/term`).slice(1);
    return later.filter((file) => this.#folder(container).has(file)).length;
  }

  /** How often the preStop hook of a container was begun. */
  preStopsOf(container: string): number {
    return this.#folder(container).lines('pre-stops').length;
  }

  /** Its requests as they are now; those that are gone are left out. */
  async requestsNow(): Promise<readonly ContainerRecreateRequest[]> {
    const found = await Promise.all(this.plan.requests.map((request) => this.#requestNow(request)));
    return found.filter((request) => request !== undefined);
  }

  async #create(request: RequestPlan): Promise<void> {
    await this.#room.make(resourceOf(request), request.name, requestObject(this.plan, request));
  }

  async #requestNow(request: RequestPlan | undefined): Promise<ContainerRecreateRequest | undefined> {
    if (!request) return undefined;
    return await this.#world.find<ContainerRecreateRequest>(crr, { namespace: this.namespace, name: request.name });
  }

  /** Where a container and the test talk. */
  #folder(container: string): SharedFolder {
    return this.#room.folder(`${this.plan.name}/${container}`);
  }
}

function podObject(plan: RecreatedPodPlan, volume: JsonObject): JsonObject {
  return {
    metadata: { labels: { [recordedLabel.key]: recordedLabel.value } },
    spec: {
      // long, because hooks are held; processes end at once
      terminationGracePeriodSeconds: 600,
      enableServiceLinks: false,
      automountServiceAccountToken: false,
      ...(plan.node === undefined ? {} : { nodeName: plan.node }),
      ...(plan.gate ? { readinessGates: [{ conditionType: podReadinessGate }] } : {}),
      volumes: [volume],
      containers: plan.containers.map(({ name, preStop, probe }, index) => ({
        name,
        image,
        command: ['sh', '-c', containerScript],
        env: [{ name: 'NAME', value: name }, ...(probe ? [{ name: 'PORT', value: String(8080 + index) }] : [])],
        volumeMounts: [{ name: 'shared', mountPath: '/shared' }],
        ...(preStop ? { lifecycle: { preStop: { exec: { command: ['sh', '-c', preStopScript] } } } } : {}),
        ...(probe
          ? { readinessProbe: { httpGet: { path: '/ready', port: 8080 + index }, periodSeconds: 1, timeoutSeconds: 5 } }
          : {}),
      })),
    },
  };
}

function resourceOf({ version }: RequestPlan) {
  return version === 'v1alpha1' ? crrV1alpha1 : crr;
}

function requestObject({ name }: RecreatedPodPlan, { containers, strategy, activeDeadlineSeconds }: RequestPlan) {
  return {
    spec: {
      podName: name,
      containers: containers.map((container) => ({ name: container })),
      ...(strategy && { strategy: strategy as JsonObject }),
      ...(activeDeadlineSeconds !== undefined && { activeDeadlineSeconds }),
    },
  };
}
