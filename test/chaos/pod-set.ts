// A CloneSet that is made for one scenario, with a recorded watch of all of its pods: what the verdict rests on.
import { randomUUID } from 'node:crypto';
import type { JsonObject } from '../../api/base/json.ts';
import { type CloneSet, cloneSets } from '../../api/cloneset/types.ts';
import { isActive, type Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { rollOutId } from '../../api/fleet/operation.ts';
import { inPlaceAnnotation, inPlaceReadinessGate } from '../../api/in-place/annotations.ts';
import { isGone } from '../../kube/failures.ts';
import { createNamespace, unlessThere } from '../support/cluster.ts';
import { type FleetWatch, isServing, watchFleet } from '../support/fleet-watch.ts';
import { waitFor } from '../support/wait.ts';
import type { Report } from './campaign.ts';
import { patienceMs, untilDone, type World } from './world.ts';

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

/** What the pods of a set were like before they were updated. */
type Before = ReadonlyMap<string, Readonly<Record<string, number>>>;

/** The pods of one set from their creation to the verdict. */
export class PodSet {
  readonly #world: World;
  readonly namespace: string;
  readonly #violations: string[] = [];
  readonly #awaited = new Set<{ readonly step: UpdateStep; readonly reached: () => void }>();
  #watch: FleetWatch | undefined;
  #uid = '';
  #wanted: number;
  /** Pods by UID, with the restarts of their containers; from the moment at which all were ready. */
  #before: Before = new Map();

  private constructor(world: World, namespace: string, wanted: number) {
    this.#world = world;
    this.namespace = namespace;
    this.#wanted = wanted;
  }

  /** A set of so many pods of two containers, of which the second has an annotation in its environment; all ready. */
  static async create(world: World, replicas: number, rollingUpdate: JsonObject = {}): Promise<PodSet> {
    const { kube } = world;
    const namespace = `chaos-${randomUUID().slice(0, 8)}`;
    await untilDone(`namespace ${namespace} to be created`, async () => {
      await createNamespace(kube, namespace);
    });
    const set = new PodSet(world, namespace, replicas);
    world.leftovers.add(set);
    set.#watch = await watchFleet(kube, namespace, (pod) => set.#hear(pod));
    await untilDone(`CloneSet ${namespace}/${name} to be created`, async () => {
      await kube.create(cloneSets, bodyOf(namespace, replicas, rollingUpdate)).catch(unlessThere);
    });
    await set.settled();
    set.#uid = (await set.#get()).metadata.uid;
    set.#before = new Map(set.#pods().map((pod) => [pod.metadata.uid, restartsOf(pod)]));
    set.#watch.take();
    return set;
  }

  /** Asks for another image of the first container, and for another environment of the second. */
  async update(): Promise<void> {
    await this.#patch(`the update of ${this.namespace}`, {
      spec: { template: { metadata: { annotations: { greeting: 'new' } }, spec: podSpec(images.new) } },
    });
  }

  /** Asks for so many more pods. */
  async grow(by: number): Promise<void> {
    this.#wanted += by; // before, since it may be seen before we have the answer
    await this.#patch(`${this.namespace} to grow`, { spec: { replicas: this.#wanted } });
  }

  /** Resolves as soon as the watch shows a pod at this step. */
  async reaches(step: UpdateStep): Promise<void> {
    const pods = this.#pods();
    if (pods.some((pod) => step.holds(pod, pods))) return;
    let awaited: { readonly step: UpdateStep; readonly reached: () => void } | undefined;
    const reached = new Promise<void>((resolve) => {
      awaited = { step, reached: resolve };
      this.#awaited.add(awaited);
    });
    const late = AbortSignal.timeout(patienceMs);
    await Promise.race([
      reached,
      new Promise((_, reject) =>
        late.addEventListener('abort', () => reject(new Error(`no pod came to the step "${step.name}"`))),
      ),
    ]);
    if (awaited) this.#awaited.delete(awaited);
  }

  /** Waits until there are as many pods as wanted, all of them ready, updated, and told so. */
  async settled(): Promise<void> {
    await waitFor(
      `${this.namespace} to settle`,
      async (see) => {
        const { status, metadata } = see(await this.#get());
        const counts = [status?.replicas, status?.readyReplicas, status?.updatedReadyReplicas];
        return status?.observedGeneration === metadata.generation && counts.every((count) => count === this.#wanted);
      },
      { deadlineMs: patienceMs },
    );
  }

  /** Judges what the watch has recorded since the set was complete, and how the set is now. */
  async judge(report: Report, least: number, expected: { readonly isUpdated: boolean }): Promise<void> {
    const moments = this.#watch?.take() ?? [];
    const fewest = Math.min(...moments.map(({ ready }) => ready));
    const violation = (text: string): void => report.violation(`${this.namespace}: ${text}`);
    for (const text of this.#violations) violation(text);
    if (fewest < least) {
      const worst = moments.find(({ ready }) => ready === fewest);
      violation(`only ${fewest} pods were ready at ${worst?.at}, after ${worst?.event}`);
    }
    const now = new Map(this.#pods().map((pod) => [pod.metadata.uid, pod]));
    for (const [uid, restarts] of this.#before) {
      const pod = now.get(uid);
      if (!pod) {
        violation(`pod ${uid} is gone`);
        continue;
      }
      for (const [container, count] of Object.entries(restartsOf(pod))) {
        const more = count - (restarts[container] ?? 0);
        if (more !== Number(expected.isUpdated))
          violation(`${pod.metadata.name}: ${container} was restarted ${more} times`);
      }
      if (expected.isUpdated && !isUpdated(pod)) violation(`${pod.metadata.name} is not updated`);
    }
    await this.#judgeSet(violation);
    report.figure(
      `${this.namespace}: ${moments.length} moments, never less than ${fewest} ready` +
        `${this.#watch?.gaps ? `, ${this.#watch.gaps} gaps in the watch` : ''}`,
    );
  }

  /** Deletes the set with its pods and its namespace, and waits until all is gone. */
  async remove(): Promise<void> {
    const { kube } = this.#world;
    this.#watch?.stop();
    await untilDone(`the pods of ${this.namespace} to be gone`, async () => {
      await kube.delete(cloneSets, { namespace: this.namespace, name }).catch(unlessGone);
      const { items } = await kube.list<Pod>(kubeResource.pods, { namespace: this.namespace });
      if (items.length > 0) throw new Error(`${items.length} pods are there`);
    });
    await untilDone(`namespace ${this.namespace} to be deleted`, async () => {
      await kube.delete(kubeResource.namespaces, { name: this.namespace }).catch(unlessGone);
    });
    this.#world.leftovers.delete(this);
  }

  /** What is waited for is true at last; nothing of it may be wrong for long. */
  async #judgeSet(violation: (text: string) => void): Promise<void> {
    let objections: readonly string[] = ['not judged'];
    await waitFor('nothing to object to', async () => {
      const { status } = await this.#get();
      const operation = await this.#world.temporal.workflow
        .getHandle(rollOutId(this.#uid))
        .describe()
        .catch(() => undefined);
      objections = [
        ...(status?.waitingFor ? [`waits for ${status.waitingFor.reason}`] : []),
        ...(status?.conditions ?? []).map(({ type, message }) => `has condition ${type}: ${message}`),
        ...(operation?.status.name === 'RUNNING' ? ['its roll-out is still open'] : []),
        ...this.#pods().flatMap((pod) => (isOutOfService(pod) ? [`${pod.metadata.name} is out of service`] : [])),
      ];
      return objections.length === 0;
    }).catch(() => objections.forEach(violation));
  }

  #hear(pod: Pod): void {
    const pods = this.#pods();
    if (pods.length > this.#wanted) {
      this.#violations.push(
        `there were ${pods.length} pods, and ${this.#wanted} wanted, at ${new Date().toISOString()}`,
      );
    }
    for (const awaited of this.#awaited) if (awaited.step.holds(pod, pods)) awaited.reached();
  }

  #pods(): readonly Pod[] {
    return [...(this.#watch?.pods.values() ?? [])].filter(isActive);
  }

  async #get(): Promise<CloneSet> {
    return await this.#world.kube.get<CloneSet>(cloneSets, { namespace: this.namespace, name });
  }

  async #patch(what: string, body: object): Promise<void> {
    const ref = { namespace: this.namespace, name };
    await untilDone(what, () => this.#world.kube.patch(cloneSets, ref, 'merge', body));
  }
}

function bodyOf(namespace: string, replicas: number, rollingUpdate: JsonObject): object {
  const labels = { app: name };
  return {
    apiVersion: 'apps.kruise.io/v1beta1',
    kind: 'CloneSet',
    metadata: { namespace, name },
    spec: {
      replicas,
      selector: { matchLabels: labels },
      updateStrategy: { rollingUpdate: { podUpdatePolicy: 'InPlaceIfPossible', ...rollingUpdate } },
      template: { metadata: { labels, annotations: { greeting: 'old' } }, spec: podSpec(images.old) },
    },
  };
}

function podSpec(image: string): object {
  const command = ['sh', '-c', `trap 'exit 0' TERM; sleep 99999 & wait`];
  const fieldRef = { fieldPath: `metadata.annotations['greeting']` };
  return {
    terminationGracePeriodSeconds: 1,
    containers: [
      { name: 'app', image, command },
      { name: 'greeter', image: images.old, command, env: [{ name: 'GREETING', valueFrom: { fieldRef } }] },
    ],
  };
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

/** A call whose answer was lost has been made all the same. */
function unlessGone(error: unknown): void {
  if (!isGone(error)) throw error;
}
