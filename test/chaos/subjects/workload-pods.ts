// A workload that is made for one scenario, with a recorded watch of all of its pods: what the verdict rests on.
import type { JsonObject } from '../../../api/base/json.ts';
import { type CloneSet, cloneSets } from '../../../api/cloneset/types.ts';
import type { KubeObject, Resource } from '../../../api/core/meta.ts';
import { isActive, nodeOf, type Pod } from '../../../api/core/pod.ts';
import { kubeResource } from '../../../api/core/well-known.ts';
import { daemonSets } from '../../../api/daemon-set/types.ts';
import { rollOutId } from '../../../api/fleet/operation.ts';
import { inPlaceAnnotation, inPlaceReadinessGate } from '../../../api/in-place/annotations.ts';
import { type FleetMoment, type FleetWatch, isServing, watchFleet } from '../../support/fleet-watch.ts';
import { waitFor } from '../../support/wait.ts';
import type { Report } from '../campaign.ts';
import type { Objections } from '../chaos-subject.ts';
import { fewestReady, type PodNow, recreationViolations, rollOutViolations } from '../judges/roll-out-judge.ts';
import { Room } from '../room.ts';
import { patienceMs, untilDone, type World } from '../world.ts';

const images = { old: 'busybox:1.35', new: 'busybox:1.36' } as const;
const name = 'web';

/** Something that can be seen of the pods while they are updated. */
export interface UpdateStep {
  readonly name: string;
  /** Asked of each pod that changes, and of all pods as they are then. */
  readonly holds: (changed: Pod, all: readonly Pod[]) => boolean;
}

/** The steps of an update in place, in the order in which the first pods come to them. */
export const updateSteps: readonly UpdateStep[] = [
  { name: 'asked for', holds: () => true },
  { name: 'out of service', holds: (pod) => isOutOfService(pod) && stateOf(pod) !== 'Updating' },
  { name: 'in its grace period', holds: (pod) => pod.metadata.annotations?.[inPlaceAnnotation.grace] !== undefined },
  { name: 'containers change', holds: (pod) => isChanged(pod) && isOutOfService(pod) },
  { name: 'half is updated', holds: (_, all) => all.filter(isUpdated).length * 2 >= all.length },
  { name: 'the last pods', holds: (_, all) => all.filter(isUpdated).length >= all.length - 3 },
];

/** The steps of an update by recreation. */
export const recreationSteps: readonly UpdateStep[] = [
  { name: 'asked for', holds: () => true },
  { name: 'a pod goes', holds: (pod) => pod.metadata.deletionTimestamp !== undefined },
  { name: 'a pod comes', holds: (pod) => isChanged(pod) && !isServing(pod) },
  ...updateSteps.slice(-2),
];

/** What is promised of the pods from the moment at which all are ready. */
export interface WorkloadPlan {
  /** Absent: a CloneSet. */
  readonly resource?: Resource;
  readonly replicas: number;
  /** Beside what every workload has. */
  readonly spec?: JsonObject;
  /** Beside what the first container of every workload has. */
  readonly more?: JsonObject;
  readonly rollingUpdate?: JsonObject;
  /** So many pods are always ready. */
  readonly leastReady: number;
  /** All pods are updated, or none. */
  readonly expectsUpdate: boolean;
  /** They are updated by recreation, under their names or on their nodes. Absent: in place. */
  readonly recreates?: true;
}

interface WorkloadObject extends KubeObject {
  readonly status?: Pick<CloneSet['status'] & object, 'observedGeneration' | 'waitingFor'> & {
    readonly replicas?: number;
    readonly readyReplicas?: number;
    readonly updatedReadyReplicas?: number;
    /** Of a DaemonSet. */
    readonly desiredNumberScheduled?: number;
    readonly numberAvailable?: number;
    readonly updatedNumberScheduled?: number;
    readonly conditions?: readonly { readonly type: string; readonly message?: string }[];
  };
}

/** The pods of one workload from their creation to the verdict. */
export class WorkloadPods {
  readonly #world: World;
  readonly #room: Room;
  readonly #plan: WorkloadPlan;
  readonly #surplus: string[] = [];
  readonly #awaited = new Set<{ readonly step: UpdateStep; readonly reached: () => void }>();
  #moments: readonly FleetMoment[] = [];
  #watch: FleetWatch | undefined;
  #uid = '';
  #wanted: number;
  /** Pods by UID, with the restarts of their containers, when all were ready. */
  #before: ReadonlyMap<string, Readonly<Record<string, number>>> = new Map();
  #known: ReadonlySet<string> = new Set();
  /** The UIDs of all pods since then, by their place. */
  readonly #seen = new Map<string, Set<string>>();
  #claims: Readonly<Record<string, string>> = {};

  private constructor(world: World, room: Room, plan: WorkloadPlan) {
    this.#world = world;
    this.#room = room;
    this.#plan = plan;
    this.#wanted = plan.replicas;
  }

  /** All pods ready. They have two containers, of which the second has an annotation in its environment. */
  static async create(world: World, plan: WorkloadPlan): Promise<WorkloadPods> {
    const room = await Room.create(world);
    const pods = new WorkloadPods(world, room, plan);
    world.leftovers.add(pods);
    pods.#watch = await watchFleet(world.kube, room.namespace, (pod) => pods.#hear(pod));
    await room.make(pods.#resource, name, bodyOf(plan));
    await pods.settled();
    pods.#uid = (await pods.#get()).metadata.uid;
    pods.#before = new Map(pods.#pods().map((pod) => [pod.metadata.uid, restartsOf(pod)]));
    pods.#known = new Set(pods.#pods().map((pod) => pods.#placeOf(pod)));
    pods.#watch.take();
    pods.#seen.clear();
    pods.#claims = await pods.#claimsNow();
    return pods;
  }

  get namespace(): string {
    return this.#room.namespace;
  }

  /** The workflow ID of its roll-out. */
  get rollOut(): string {
    return rollOutId({ namespace: this.namespace, name, uid: this.#uid });
  }

  /** Asks for another image of the first container, and for another environment of the second. */
  async update(): Promise<void> {
    await this.#patch(`the update of ${this.namespace}`, {
      spec: {
        template: {
          metadata: { annotations: { greeting: 'new' } },
          spec: podSpec(images.new, this.#plan),
        },
      },
    });
  }

  /** Asks for so many more pods. */
  async grow(by: number): Promise<void> {
    this.#wanted += by; // before, since it may be seen before we have the answer
    await this.#patch(`${this.namespace} to grow`, { spec: { replicas: this.#wanted } });
  }

  /** Resolves as soon as the watch shows a pod at one of these steps. */
  async reaches(...steps: readonly UpdateStep[]): Promise<void> {
    const pods = this.#pods();
    if (pods.some((pod) => steps.some((step) => step.holds(pod, pods)))) return;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const awaited = steps.map((step) => ({ step, reached: resolve }));
    for (const one of awaited) this.#awaited.add(one);
    const names = steps.map((step) => `"${step.name}"`).join(' or ');
    const late = setTimeout(() => reject(new Error(`no pod came to the step ${names}`)), patienceMs);
    await promise.finally(() => {
      clearTimeout(late);
      for (const one of awaited) this.#awaited.delete(one);
    });
  }

  /** Waits until there are as many pods as wanted, all of them ready and updated, and the status says so. */
  async settled(): Promise<void> {
    await waitFor(
      `${this.namespace} to settle`,
      async (see) => {
        const { status, metadata } = see(await this.#get());
        const counts = goesByNodes(this.#plan)
          ? [status?.desiredNumberScheduled, status?.numberAvailable, status?.updatedNumberScheduled]
          : [status?.replicas, status?.readyReplicas, status?.updatedReadyReplicas];
        return status?.observedGeneration === metadata.generation && counts.every((count) => count === this.#wanted);
      },
      { deadlineMs: patienceMs },
    );
  }

  /** By what the watch has recorded since all pods were ready, and by how the CloneSet is now. */
  async objections(): Promise<Objections> {
    const { leastReady, expectsUpdate, recreates } = this.#plan;
    const now = new Map(
      this.#pods().map((pod): [string, PodNow] => [pod.metadata.uid, { ...podNow(pod), name: this.#placeOf(pod) }]),
    );
    const moments = this.#recorded();
    const evidence = { subject: this.namespace, moments, leastReady, before: this.#before, now, expectsUpdate };
    const places = new Map([...this.#seen].map(([place, uids]) => [place, uids.size]));
    const claims = { before: this.#claims, now: await this.#claimsNow() };
    const violations = recreates
      ? recreationViolations({ ...evidence, known: this.#known, places, claims })
      : rollOutViolations(evidence);
    return {
      lasting: [...this.#surplus.map((text) => `${this.namespace}: ${text}`), ...violations],
      pending: (await this.#pending()).map((text) => `${this.namespace}: ${text}`),
    };
  }

  summarise(report: Report): void {
    const moments = this.#recorded();
    report.outcome('as it should be');
    report.figure(
      `${this.namespace}: ${moments.length} moments, never less than ${fewestReady(moments)} ready` +
        `${this.#watch?.gaps ? `, ${this.#watch.gaps} gaps in the watch` : ''}`,
    );
  }

  /** Deletes the workload with its pods and its namespace, and waits until the pods are gone. */
  async remove(): Promise<void> {
    this.#watch?.stop();
    await this.#room.drop(this.#resource, name);
    await this.#room.dropPods();
    await this.#room.remove();
    this.#world.leftovers.delete(this);
  }

  /** What is still open or held. */
  async #pending(): Promise<readonly string[]> {
    const { status } = await this.#get();
    const isOpen = (await this.#world.openWorkflows([this.rollOut])).length > 0;
    return [
      ...(status?.waitingFor ? [`waits for ${status.waitingFor.reason}`] : []),
      ...(status?.conditions ?? []).map(({ type, message }) => `has condition ${type}: ${message}`),
      ...(isOpen ? ['its roll-out is still open'] : []),
      ...this.#pods().flatMap((pod) => (isOutOfService(pod) ? [`${pod.metadata.name} is out of service`] : [])),
    ];
  }

  #recorded(): readonly FleetMoment[] {
    this.#moments = [...this.#moments, ...(this.#watch?.take() ?? [])];
    return this.#moments;
  }

  get #resource(): Resource {
    return this.#plan.resource ?? cloneSets;
  }

  /** The UIDs of its PVCs by name. */
  async #claimsNow(): Promise<Readonly<Record<string, string>>> {
    const { items } = await this.#world.kube.list(kubeResource.persistentVolumeClaims, { namespace: this.namespace });
    return Object.fromEntries(items.map(({ metadata }) => [metadata.name, metadata.uid]));
  }

  #hear(pod: Pod): void {
    const place = this.#placeOf(pod);
    this.#seen.set(place, (this.#seen.get(place) ?? new Set()).add(pod.metadata.uid));
    const pods = this.#pods();
    if (pods.length > this.#wanted) {
      this.#surplus.push(`there were ${pods.length} pods, and ${this.#wanted} wanted, at ${new Date().toISOString()}`);
    }
    for (const { step, reached } of this.#awaited) if (step.holds(pod, pods)) reached();
  }

  /** Where a pod is recreated. */
  #placeOf(pod: Pod): string {
    return (goesByNodes(this.#plan) ? nodeOf(pod) : undefined) ?? pod.metadata.name;
  }

  #pods(): readonly Pod[] {
    return [...(this.#watch?.pods.values() ?? [])].filter(isActive);
  }

  async #get(): Promise<WorkloadObject> {
    return await this.#world.kube.get<WorkloadObject>(this.#resource, { namespace: this.namespace, name });
  }

  async #patch(what: string, body: object): Promise<void> {
    const ref = { namespace: this.namespace, name };
    await untilDone(what, () => this.#world.kube.patch(this.#resource, ref, 'merge', body));
  }
}

function bodyOf(plan: WorkloadPlan): JsonObject {
  const { replicas, rollingUpdate, spec, recreates } = plan;
  const labels = { app: name };
  const how = goesByNodes(plan)
    ? { rollingUpdateType: recreates ? 'Standard' : 'InPlaceIfPossible' }
    : { podUpdatePolicy: recreates ? 'ReCreate' : 'InPlaceIfPossible' };
  return {
    spec: {
      ...(goesByNodes(plan) ? {} : { replicas }),
      selector: { matchLabels: labels },
      updateStrategy: { rollingUpdate: { ...how, ...rollingUpdate } },
      template: { metadata: { labels, annotations: { greeting: 'old' } }, spec: podSpec(images.old, plan) },
      ...spec,
    },
  };
}

function goesByNodes({ resource }: WorkloadPlan): boolean {
  return resource?.kind === daemonSets.kind;
}

function podSpec(image: string, { more }: Pick<WorkloadPlan, 'more'>): JsonObject {
  const command = ['sh', '-c', `trap 'exit 0' TERM; sleep 99999 & wait`];
  const fieldRef = { fieldPath: `metadata.annotations['greeting']` };
  return {
    terminationGracePeriodSeconds: 1,
    containers: [
      { name: 'app', image, command, ...more },
      { name: 'greeter', image: images.old, command, env: [{ name: 'GREETING', valueFrom: { fieldRef } }] },
    ],
  };
}

function podNow(pod: Pod): PodNow {
  return { name: pod.metadata.name, isUpdated: isUpdated(pod), restarts: restartsOf(pod) };
}

function isOutOfService({ status }: Pod): boolean {
  return status?.conditions?.some(({ type, status: is }) => type === inPlaceReadinessGate && is === 'False') ?? false;
}

function stateOf({ metadata }: Pod): string | undefined {
  return metadata.labels?.['lifecycle.apps.kruise.io/state'];
}

/** Its containers are to change. */
function isChanged({ spec }: Pod): boolean {
  return spec.containers.some(({ image }) => image === images.new);
}

function isUpdated(pod: Pod): boolean {
  return isChanged(pod) && isServing(pod) && !isOutOfService(pod);
}

function restartsOf({ status }: Pod): Readonly<Record<string, number>> {
  return Object.fromEntries((status?.containerStatuses ?? []).map(({ name, restartCount }) => [name, restartCount]));
}
