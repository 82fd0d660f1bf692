// A pod that is made for one scenario, its requests, and the folder by which its containers and the test talk: it holds
// a container in its preStop or before it becomes ready, and containers write down there what happens to them.
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type ContainerRecreateRequest, crr, crrV1alpha1 } from '../../api/container-recreate-request/types.ts';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource, podReadinessGate } from '../../api/core/well-known.ts';
import { unlessThere } from '../support/cluster.ts';
import { containersOf, recordedLabel } from './pod-record.ts';
import { patienceMs, untilDone, type World } from './world.ts';

/** A container of a subject. */
export interface ContainerPlan {
  readonly name: string;
  /** It has a preStop hook, which can be held. */
  readonly preStop?: boolean;
  /** It has a readiness probe, which can be held. */
  readonly probe?: boolean;
}

/** A request for a subject. */
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
export interface SubjectPlan {
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
export class Subject {
  readonly plan: SubjectPlan;
  readonly namespace: string;
  readonly #world: World;
  readonly #folder: string;
  #pod: Pod | undefined;
  #heldSinceMs = 0;
  #wasHeldToTheEnd = true;

  constructor(world: World, namespace: string, plan: SubjectPlan) {
    this.#world = world;
    this.namespace = namespace;
    this.plan = plan;
    this.#folder = join(world.shared.here, 'chaos', namespace, plan.name);
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

  /** Makes the pod. */
  async create(): Promise<void> {
    for (const { name } of this.plan.containers) mkdirSync(join(this.#folder, name), { recursive: true });
    await untilDone(`pod ${this.name} to be created`, async () => {
      await this.#world.kube.create(kubeResource.pods, podObject(this)).catch(unlessThere);
    });
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
          this.forget();
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
    if (hold.kind === 'stopping' || hold.kind === 'queued') this.#mark(hold.container, 'hold-stop');
    if (hold.kind === 'starting') this.#mark(hold.container, 'hold-ready');
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
      rmSync(join(this.#folder, name, 'hold-stop'), { force: true });
      rmSync(join(this.#folder, name, 'hold-ready'), { force: true });
      // one that starts now has made its folder before it looks for the hold
      for (const instance of this.#instances(name)) writeFileSync(join(this.#folder, name, instance, 'ready'), '');
    }
  }

  /** How often a container was started, as it counted itself. */
  startsOf(container: string): number {
    return this.#instances(container).length;
  }

  /** How many instances from the second on were told to end. */
  laterTermsOf(container: string): number {
    return this.#instances(container).filter(
      (instance) => instance !== 'i0' && existsSync(join(this.#folder, container, instance, 'term')),
    ).length;
  }

  /** How often the preStop hook of a container was begun. */
  preStopsOf(container: string): number {
    const file = join(this.#folder, container, 'pre-stops');
    return existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n').length : 0;
  }

  /** Its requests as they are now; those that are gone are left out. */
  async requestsNow(): Promise<readonly ContainerRecreateRequest[]> {
    const found = await Promise.all(this.plan.requests.map((request) => this.#requestNow(request)));
    return found.filter((request) => request !== undefined);
  }

  /** Removes the folder. */
  forget(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }

  get folderInNodes(): string {
    return `${this.#world.shared.inNodes}/chaos/${this.namespace}/${this.plan.name}`;
  }

  async #create(request: RequestPlan): Promise<void> {
    await untilDone(`request ${this.namespace}/${request.name} to be created`, async () => {
      await this.#world.kube.create(resourceOf(request), requestObject(this, request)).catch(unlessThere);
    });
  }

  async #requestNow(request: RequestPlan | undefined): Promise<ContainerRecreateRequest | undefined> {
    if (!request) return undefined;
    return await this.#world.find<ContainerRecreateRequest>(crr, { namespace: this.namespace, name: request.name });
  }

  #mark(container: string, file: string): void {
    writeFileSync(join(this.#folder, container, file), '');
  }

  #instances(container: string): readonly string[] {
    const folder = join(this.#folder, container);
    return existsSync(folder) ? readdirSync(folder).filter((entry) => /^i\d+$/.test(entry)) : [];
  }
}

function podObject({ plan, namespace, folderInNodes }: Subject): object {
  return {
    metadata: { namespace, name: plan.name, labels: { [recordedLabel.key]: recordedLabel.value } },
    spec: {
      // long, because hooks are held; processes end at once
      terminationGracePeriodSeconds: 600,
      enableServiceLinks: false,
      automountServiceAccountToken: false,
      ...(plan.node === undefined ? {} : { nodeName: plan.node }),
      ...(plan.gate ? { readinessGates: [{ conditionType: podReadinessGate }] } : {}),
      volumes: [{ name: 'shared', hostPath: { path: folderInNodes, type: 'Directory' } }],
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

function requestObject({ plan, namespace }: Subject, request: RequestPlan): object {
  const { name, containers, strategy, activeDeadlineSeconds } = request;
  return {
    metadata: { namespace, name },
    spec: {
      podName: plan.name,
      containers: containers.map((container) => ({ name: container })),
      ...(strategy ? { strategy } : {}),
      ...(activeDeadlineSeconds === undefined ? {} : { activeDeadlineSeconds }),
    },
  };
}

/** A call whose answer was lost has been made all the same. */
