import { randomUUID } from 'node:crypto';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { restartContainersId } from '../../api/container-recreate-request/operation.ts';
import { recreateMessage } from '../../api/container-recreate-request/texts.ts';
import { type ContainerRecreateRequest, crr, isCompleted } from '../../api/container-recreate-request/types.ts';
import type { KubeObject, Resource } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { logFile } from '../../deploy/local/parts.ts';
import { isGone } from '../../kube/failures.ts';
import { createNamespace } from '../support/cluster.ts';
import { recordedHistory } from '../support/history.ts';
import { waitFor } from '../support/wait.ts';
import type { Report } from './campaign.ts';
import { type Evidence, type Expectation, violationsIn } from './judge.ts';
import { Subject, type SubjectPlan } from './subject.ts';
import { patienceMs, untilDone, type World } from './world.ts';

/** How a subject is judged, where that differs from "each container that was asked for, once". */
export interface Judgement {
  /** By container; those that are absent: once if a request names them, else never. */
  readonly expected?: Readonly<Record<string, Expectation>>;
  /** How often the process that ran a hook was killed. */
  readonly deaths?: number;
  /** The requests were deleted. */
  readonly requestsGone?: boolean;
  /** The pod was deleted, and with it what can be said about its containers. */
  readonly podGone?: boolean;
  /** The node never answered, and the requests had to end without it. */
  readonly nodeSilent?: boolean;
}

/** Some pods in a namespace of their own, each with its requests. */
export class Fleet {
  readonly world: World;
  readonly namespace: string;
  readonly subjects: readonly Subject[];
  readonly #createdAtMs = Date.now();

  /** Writes down what is known about it, and removes it. */
  readonly #leftover = {
    remove: async (): Promise<void> => {
      for (const subject of this.subjects) await this.#keep(subject).catch(() => undefined);
      await this.remove();
    },
  };

  constructor(world: World, namespace: string, plans: readonly SubjectPlan[]) {
    this.world = world;
    this.namespace = namespace;
    this.subjects = plans.map((plan) => new Subject(world, namespace, plan));
  }

  /** Makes all pods and waits until they are ready. */
  static async create(world: World, plans: readonly SubjectPlan[]): Promise<Fleet> {
    const namespace = `chaos-${randomUUID().slice(0, 8)}`;
    const { kube } = world;
    mkdirSync(join(world.shared.here, 'chaos', namespace), { recursive: true });
    await untilDone(`namespace ${namespace} to be created`, async () => {
      await createNamespace(kube, namespace);
    });
    const fleet = new Fleet(world, namespace, plans);
    world.leftovers.add(fleet.#leftover);
    await Promise.all(fleet.subjects.map((subject) => subject.create()));
    await Promise.all(fleet.subjects.map((subject) => subject.ready()));
    return fleet;
  }

  /**
   * Creates the requests that are to be held, and waits until each stands at its step; those whose step passes by itself
   * come last.
   */
  async hold(): Promise<void> {
    const held = this.subjects.filter(({ plan }) => plan.requested === undefined);
    for (const subjects of [held.filter(({ isTimed }) => !isTimed), held.filter(({ isTimed }) => isTimed)]) {
      await Promise.all(subjects.map((subject) => subject.request()));
      await Promise.all(
        subjects.map((subject) =>
          waitFor(`${subject.name} to be ${subject.plan.step}`, () => subject.arrived(), { deadlineMs: patienceMs }),
        ),
      );
    }
  }

  /** Creates the requests that belong to this moment. */
  async request(when: NonNullable<SubjectPlan['requested']>): Promise<void> {
    await Promise.all(this.subjects.filter(({ plan }) => plan.requested === when).map((subject) => subject.request()));
  }

  /** Prints for each subject where it stands and what its history ends with. */
  async tellWhere(): Promise<void> {
    const lines = await Promise.all(
      this.subjects
        .filter(({ plan }) => plan.requested === undefined)
        .map(async ({ plan, uid }) => `   ${plan.step.padEnd(22)} ${await this.world.lastEvent(uid)}`),
    );
    for (const line of lines) this.world.say(line);
  }

  release(): void {
    for (const subject of this.subjects) subject.release();
  }

  /** Waits until every request that is still there is over. */
  async completed(): Promise<void> {
    await waitFor(
      `the requests of ${this.namespace} to complete`,
      async (see) => {
        const { items } = await this.world.kube.list<ContainerRecreateRequest>(crr, { namespace: this.namespace });
        const open = items.filter((request) => !isCompleted(request));
        see(open.map(({ metadata, status }) => ({ name: metadata.name, status })));
        return open.length === 0;
      },
      { deadlineMs: patienceMs },
    );
  }

  /**
   * Judges every subject. What takes its time (events, holds that are given back) is waited for; what can only have
   * gone wrong is reported at once. To be asked twice: what was right must stay so.
   */
  async judge(
    report: Report,
    judgementOf: (subject: Subject) => Judgement = () => ({}),
    deadlineMs = 240_000,
  ): Promise<void> {
    let found: ReadonlyMap<Subject, readonly string[]> | undefined;
    const isSettled = async (): Promise<boolean> => {
      found = await this.#objections(judgementOf);
      return found.size === 0;
    };
    let late: unknown;
    await waitFor('nothing to object to', isSettled, { deadlineMs }).catch((error: unknown) => {
      late = error;
    });
    // without a verdict there is no acquittal
    if (late !== undefined && (found === undefined || found.size === 0))
      report.violation(`not judged: ${String(late)}`);
    for (const [subject, violations] of found ?? []) {
      for (const text of violations) report.violation(`${subject.plan.step}: ${text}`);
      await this.#keep(subject);
    }
  }

  /** Deletes the namespace with all that is in it, and waits until it is gone. */
  async remove(): Promise<void> {
    this.release();
    // by themselves: the controller of namespaces takes a rest for as long as pods may take to end
    const podsLeft = async (): Promise<readonly Pod[]> =>
      (await this.world.kube.list<Pod>(kubeResource.pods, { namespace: this.namespace })).items;
    const pods = await untilDone('the pods to be listed', podsLeft);
    for (const { metadata } of pods) {
      const ref = { namespace: this.namespace, name: metadata.name };
      await this.#delete(kubeResource.pods, ref, { gracePeriodSeconds: 1 });
    }
    await untilDone('the pods to be gone', async () => {
      const names = (await podsLeft()).map(({ metadata }) => metadata.name);
      if (names.length > 0) throw new Error(`${names.join(', ')} are there`);
    });
    await this.deleteNamespace();
    rmSync(join(this.world.shared.here, 'chaos', this.namespace), { recursive: true, force: true });
    this.world.leftovers.delete(this.#leftover);
  }

  /** Deletes the namespace as a person does, with all that is in it, and waits until it is gone. */
  async deleteNamespace(): Promise<void> {
    const ref = { name: this.namespace };
    await this.#delete(kubeResource.namespaces, ref);
    let changedAtMs = performance.now();
    await untilDone(
      `namespace ${this.namespace} to be gone`,
      async () => {
        const found = await this.world.find<KubeObject & { readonly status?: object }>(kubeResource.namespaces, ref);
        if (!found) return;
        // its controller looks again after half of the grace of the pods that it has seen, or when the namespace changes
        if (performance.now() - changedAtMs > 5_000) {
          changedAtMs = performance.now();
          const annotations = { 'windlass.test/changed': new Date().toISOString() };
          await this.world.kube.patch(kubeResource.namespaces, ref, 'merge', { metadata: { annotations } });
        }
        throw new Error(JSON.stringify(found.status));
      },
      patienceMs,
    );
  }

  async #delete(
    resource: Resource,
    ref: { readonly namespace?: string; readonly name: string },
    options: { readonly gracePeriodSeconds?: number } = {},
  ): Promise<void> {
    await untilDone(`${resource.kind} ${ref.name} to be deleted`, async () => {
      await this.world.kube.delete(resource, ref, options).catch((error: unknown) => {
        if (!isGone(error)) throw error;
      });
    });
  }

  /** Asks all witnesses, and answers what speaks against each subject; nothing speaks against those left out. */
  async #objections(judgementOf: (subject: Subject) => Judgement): Promise<ReadonlyMap<Subject, readonly string[]>> {
    const { world, namespace } = this;
    const [pods, instances, open] = await Promise.all([
      world.kube.list<Pod>(kubeResource.pods, { namespace }),
      world.runtime.instancesIn(namespace),
      world.openOperations(this.subjects.map(({ uid }) => uid)),
    ]);
    const found = new Map<Subject, readonly string[]>();
    for (const subject of this.subjects) {
      const {
        expected = {},
        deaths = 0,
        requestsGone = false,
        podGone = false,
        nodeSilent = false,
      } = judgementOf(subject);
      const endsBy = podGone ? recreateMessage.podGone : nodeSilent ? recreateMessage.nodeSilent : undefined;
      const pod = pods.items.find(({ metadata }) => metadata.uid === subject.uid);
      const own = instances.filter(({ podUid }) => podUid === subject.uid);
      const requests = await subject.requestsNow();
      const asked = new Set(subject.plan.requests.flatMap(({ containers }) => containers));
      const problems = [
        ...(requests.length < subject.plan.requests.length && !requestsGone ? ['a request is gone'] : []),
        ...(requests.length > 0 && requestsGone ? ['a deleted request is still there'] : []),
        ...(pod && podGone ? ['a deleted pod is still there'] : []),
        ...(!pod && !podGone ? ['the pod is gone'] : []),
      ];
      const ids = new Set([...own.map(({ id }) => id), ...originalsOf(subject)]);
      const evidence: Evidence = {
        subject: subject.name,
        containers: subject.plan.containers.map(({ name }) => ({
          name,
          expected: expected[name] ?? (asked.has(name) ? 'once' : 'never'),
          originalId: subject.originalOf(name),
          starts: subject.startsOf(name),
          laterTerms: podGone ? 0 : subject.laterTermsOf(name),
          preStops: podGone ? 0 : subject.preStopsOf(name),
        })),
        ordered: subject.plan.requests
          .filter(({ strategy }) => strategy?.orderedRecreate)
          .map(({ containers }) => containers),
        serial: subject.plan.requests.map(({ containers }) => containers),
        mostPreStops: 1 + deaths,
        ...(pod ? { pod } : {}),
        versions: world.pods.versionsOf(subject.uid),
        versionsComplete: world.pods.gaps === 0,
        instances: own,
        exits: new Map([...ids].flatMap((id) => exitsEntry(id, world.runtime.exitsOf(id)))),
        exitsComplete: world.runtime.isComplete(subject.pod.spec.nodeName ?? '', this.#createdAtMs),
        requests: endsBy === undefined ? requests : requests.filter((request) => !isOverBy(request, endsBy)),
        operationOpen: open.includes(subject.uid),
      };
      const objections = [...problems.map((text) => `${subject.name}: ${text}`), ...violationsIn(evidence)];
      if (objections.length > 0) found.set(subject, objections);
    }
    return found;
  }

  /** Writes down what is known about a subject that something is wrong with. */
  async #keep(subject: Subject): Promise<void> {
    const { world } = this;
    const folder = join(logFile(world.instance, 'chaos').replace(/\.log$/, ''));
    mkdirSync(folder, { recursive: true });
    const file = join(folder, `${subject.namespace}-${subject.plan.name}.json`);
    const known = {
      plan: subject.plan,
      requests: await subject.requestsNow().catch(String),
      pod: await world.kube
        .get<Pod>(kubeResource.pods, { namespace: subject.namespace, name: subject.plan.name })
        .catch(String),
      versions: world.pods.versionsOf(subject.uid),
      instances: await world.runtime.instancesIn(subject.namespace).catch(String),
      exits: subject.plan.containers.map(({ name }) => [name, world.runtime.exitsOf(subject.originalOf(name))]),
      history: await recordedHistory(world.temporal.workflow.getHandle(restartContainersId(subject.uid))).catch(String),
    };
    writeFileSync(file, JSON.stringify(known, undefined, 1));
    world.say(`   what is known about it: ${file}`);
  }
}

function originalsOf(subject: Subject): readonly string[] {
  return subject.plan.containers.map(({ name }) => subject.originalOf(name));
}

function exitsEntry(id: string, exits: readonly string[]): readonly [string, readonly string[]][] {
  return exits.length > 0 ? [[id, exits]] : [];
}

/** A request that something puts an end to says so and holds nothing; then nothing is wrong with it. */
function isOverBy({ metadata, status }: ContainerRecreateRequest, message: string): boolean {
  const isEnded = status?.phase === 'Completed' && status.message === message;
  const holdsNothing = (metadata.finalizers ?? []).length === 0 && !metadata.labels?.['crr.apps.kruise.io/active'];
  return isEnded && holdsNothing && !status?.waitingFor;
}

/** A call whose answer was lost has been made all the same. */
