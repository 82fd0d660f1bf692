// Pods with requests to recreate their containers, which are held at each of their steps.
import { mkdirSync, writeFileSync } from 'node:fs';
import { recreateMessage } from '../../../api/container-recreate-request/texts.ts';
import { type ContainerRecreateRequest, crr, isCompleted } from '../../../api/container-recreate-request/types.ts';
import type { Pod } from '../../../api/core/pod.ts';
import { kubeResource } from '../../../api/core/well-known.ts';
import type { EngineReason } from '../../../api/engine/engine-trouble.ts';
import { logFile } from '../../../deploy/local/parts.ts';
import { recordedHistory } from '../../support/history.ts';
import { waitFor } from '../../support/wait.ts';
import type { Report } from '../campaign.ts';
import type { ChaosSubject, Objections, SubjectKind, SubjectStep } from '../chaos-subject.ts';
import { freezes, freezesInTurns, kills } from '../fault-plan.ts';
import { type Evidence, type Expectation, violationsIn } from '../judges/recreate-judge.ts';
import type { Random } from '../random.ts';
import { Room } from '../room.ts';
import { patienceMs, seconds, untilDone, type World } from '../world.ts';
import { RecreatedPod, type RecreatedPodPlan } from './recreated-pod.ts';
import { atTheMoment, eachStep, someOf } from './recreated-pods.ts';

/** How a pod is judged, where that differs from "each container that was asked for, once". */
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
  /** The namespace was deleted: no operation is open. */
  readonly namespaceGone?: boolean;
}

/** When requests are created, and for how long they are held. */
export interface RequestOptions {
  readonly plans: readonly RecreatedPodPlan[];
  /** `held`, which is the default: at their steps. `atOnce`: all together. Else at any time within so many seconds. */
  readonly created?: 'held' | 'atOnce' | { readonly random: Random; readonly withinSeconds: number };
  /** How many steps pass until they are let go. Absent: one. */
  readonly steps?: number;
  /** Those that are let go during the last of these steps; all others after it. Absent: none. */
  readonly letGo?: (plan: RecreatedPodPlan) => boolean;
  /** One more step, so many seconds after all of them were let go. */
  readonly stepAfterSeconds?: number;
  /** So many more steps after everything has come to its end, as it should. */
  readonly stepsAfterEnd?: number;
  readonly judgementOf?: (pod: RecreatedPod) => Judgement;
  /** What has become of the requests when nothing was objected to. Absent: `Completed`. */
  readonly outcome?: string;
}

/** Some pods in a namespace of their own, each with its requests. */
export class RecreateRequests implements ChaosSubject {
  readonly pods: readonly RecreatedPod[];
  readonly #world: World;
  readonly #room: Room;
  readonly #options: RequestOptions;
  readonly #preparedAtMs = Date.now();
  /** Requests that are being created: something that is broken may refuse them for a while. */
  readonly #creations: Promise<void>[] = [];
  #objected: readonly RecreatedPod[] = [];
  #begunAtMs = 0;
  #createdAtMs = 0;
  #endedAtMs = 0;

  /** Writes down what is known about it, and removes it. */
  readonly #leftover = {
    remove: async (): Promise<void> => {
      for (const pod of this.pods) await this.#keep(pod).catch(() => undefined);
      await this.remove();
    },
  };

  private constructor(world: World, room: Room, options: RequestOptions) {
    this.#world = world;
    this.#room = room;
    this.#options = options;
    this.pods = options.plans.map((plan) => new RecreatedPod(world, room, plan));
  }

  /** Creates all pods and waits until they are ready; no request yet. */
  static async prepare(world: World, options: RequestOptions): Promise<RecreateRequests> {
    const requests = new RecreateRequests(world, await Room.create(world), options);
    world.leftovers.add(requests.#leftover);
    await Promise.all(requests.pods.map((pod) => pod.create()));
    await Promise.all(requests.pods.map((pod) => pod.ready()));
    return requests;
  }

  get namespace(): string {
    return this.#room.namespace;
  }

  get steps(): readonly SubjectStep[] {
    const { steps: count = 1, stepAfterSeconds, stepsAfterEnd = 0, letGo = () => false, created } = this.#options;
    const held = Array.from({ length: count }, (_, index): SubjectStep => {
      const [isFirst, isLast] = [index === 0, index === count - 1];
      return {
        name: isFirst ? 'requests at each of their steps' : 'requests are held',
        reach: async () => {
          if (isFirst) await this.#begin();
          if (typeof created === 'object') await seconds(created.random.within(0, 5));
        },
        meanwhile: async () => {
          if (isFirst) this.#creations.push(this.#request('meanwhile'));
          if (isLast) for (const pod of this.pods) if (letGo(pod.plan)) pod.release();
          if (isFirst) await this.created();
        },
      };
    });
    const letGoNow: SubjectStep = {
      name: 'requests were let go',
      reach: async () => {
        this.#release();
        await seconds(stepAfterSeconds ?? 0);
      },
    };
    const over: SubjectStep = {
      name: 'everything is over',
      reach: async () => {
        await this.settled();
        await waitFor('nothing to object to', async (see) => see((await this.objections()).pending).length === 0);
      },
    };
    return [
      ...held,
      ...(stepAfterSeconds === undefined ? [] : [letGoNow]),
      ...Array.from({ length: stepsAfterEnd }, () => over),
    ];
  }

  workflows(): ReturnType<ChaosSubject['workflows']> {
    return { restartContainers: this.pods.map(({ operation }) => operation) };
  }

  /** Resolves when every request is there whose turn has come. */
  async created(): Promise<void> {
    await Promise.all(this.#creations);
  }

  async settled(): Promise<void> {
    await this.created();
    this.#createdAtMs ||= performance.now();
    this.#release();
    await waitFor(
      `the requests of ${this.namespace} to complete`,
      async (see) => {
        const open = (await this.#room.list<ContainerRecreateRequest>(crr)).filter((request) => !isCompleted(request));
        see(open.map(({ metadata, status }) => ({ name: metadata.name, status })));
        return open.length === 0;
      },
      { deadlineMs: patienceMs },
    );
    this.#endedAtMs ||= performance.now();
  }

  async objections(): Promise<Objections> {
    const found = await this.#found();
    this.#objected = [...found.keys()];
    const pending = [...found].flatMap(([{ plan }, texts]) => texts.map((text) => `${plan.step}: ${text}`));
    return { lasting: [], pending };
  }

  summarise(report: Report): void {
    const { outcome = 'Completed', created, plans } = this.#options;
    const count = plans.flatMap(({ requests }) => requests).length;
    report.outcome(outcome, count);
    if (created !== 'atOnce') return;
    const took = (toMs: number): string => ((toMs - this.#begunAtMs) / 1000).toFixed(1);
    report.figure(
      `${count} requests over ${plans.length} pods: created in ${took(this.#createdAtMs)} s, ` +
        `all completed after ${took(this.#endedAtMs)} s`,
    );
  }

  async keepEvidence(): Promise<void> {
    for (const pod of this.#objected) await this.#keep(pod);
  }

  async remove(): Promise<void> {
    this.#release();
    await this.#room.dropPods();
    await this.#room.remove();
    this.#world.leftovers.delete(this.#leftover);
  }

  /** Deletes the namespace as a person does, with all that is in it, and waits until it is gone. */
  async deleteNamespace(): Promise<void> {
    this.#release();
    await this.#room.gone();
  }

  /**
   * Waits until each request that is not over says so: the one that is worked on, and not the one behind it. `every`: none
   * may be over.
   */
  async say(reason: EngineReason, report: Report, { every }: { readonly every: boolean }): Promise<void> {
    const said = await Promise.all(
      this.pods.map((pod) =>
        untilDone(`${pod.name} to say ${reason}`, async () => {
          const [request] = await pod.requestsNow();
          if (request?.status?.waitingFor?.reason === reason) return 1;
          if (!every && !request && pod.plan.requested === 'meanwhile') return 0;
          if (!every && request && isCompleted(request)) return 0;
          throw new Error(JSON.stringify(request?.status ?? 'nothing'));
        }),
      ),
    );
    const count = said.filter(Boolean).length;
    report.figure(`${count} requests said ${reason}`);
    const held = this.pods.filter(({ isTimed, plan }) => !isTimed && plan.hold.kind !== 'none').length;
    if (count < held) report.violation(`only ${count} of ${held} held requests said ${reason}`);
  }

  /** Creates the first requests, and waits until those that are to be held stand at their steps. */
  async #begin(): Promise<void> {
    const { created = 'held' } = this.#options;
    this.#begunAtMs = performance.now();
    if (created === 'held') {
      await this.#hold();
      await this.#tellWhere();
      this.#creations.push(this.#request('justBefore'));
    } else if (created === 'atOnce') {
      await Promise.all(this.pods.map((pod) => pod.requestAtOnce()));
      this.#createdAtMs = performance.now();
    } else {
      this.#creations.push(...this.pods.map((pod) => atAnyTime(pod, created)));
    }
    for (const creation of this.#creations) creation.catch(() => undefined); // it is waited for later
  }

  /** Those whose step passes by itself come last. */
  async #hold(): Promise<void> {
    const held = this.pods.filter(({ plan }) => plan.requested === undefined);
    for (const pods of [held.filter(({ isTimed }) => !isTimed), held.filter(({ isTimed }) => isTimed)]) {
      await Promise.all(pods.map((pod) => pod.request()));
      await Promise.all(
        pods.map((pod) =>
          waitFor(`${pod.name} to be ${pod.plan.step}`, () => pod.arrived(), { deadlineMs: patienceMs }),
        ),
      );
    }
  }

  async #request(when: NonNullable<RecreatedPodPlan['requested']>): Promise<void> {
    await Promise.all(this.pods.filter(({ plan }) => plan.requested === when).map((pod) => pod.request()));
  }

  /** Prints for each pod where it stands and what its history ends with. */
  async #tellWhere(): Promise<void> {
    const held = this.pods.filter(({ plan }) => plan.requested === undefined && plan.hold.kind !== 'none');
    const last = await Promise.all(held.map(({ operation }) => this.#world.lastEvent(operation)));
    for (const [index, { plan }] of held.entries()) this.#world.say(`   ${plan.step.padEnd(22)} ${last[index]}`);
  }

  #release(): void {
    for (const pod of this.pods) pod.release();
  }

  /** Asks all witnesses, and answers what speaks against each pod; nothing speaks against those left out. */
  async #found(): Promise<ReadonlyMap<RecreatedPod, readonly string[]>> {
    const { judgementOf = () => ({}) } = this.#options;
    const [pods, instances, open] = await Promise.all([
      this.#room.list<Pod>(kubeResource.pods),
      this.#world.runtime.instancesIn(this.namespace),
      this.#world.openOperations(this.pods.map(({ uid }) => uid)),
    ]);
    const found = new Map<RecreatedPod, readonly string[]>();
    for (const pod of this.pods) {
      const judgement: Judgement = judgementOf(pod);
      const isOpen = open.includes(pod.uid);
      const now = pods.find(({ metadata }) => metadata.uid === pod.uid);
      const texts = judgement.namespaceGone
        ? [...(isOpen ? [`${pod.name}: its operation is still open in Temporal`] : [])]
        : await this.#violationsOf(pod, judgement, { now, instances, isOpen });
      if (texts.length > 0) found.set(pod, texts);
    }
    return found;
  }

  async #violationsOf(
    pod: RecreatedPod,
    judgement: Judgement,
    seen: {
      readonly now: Pod | undefined;
      readonly instances: Evidence['instances'];
      readonly isOpen: boolean;
    },
  ): Promise<readonly string[]> {
    const { expected = {}, deaths = 0, requestsGone = false, podGone = false, nodeSilent = false } = judgement;
    const { runtime, pods: record } = this.#world;
    const { plan } = pod;
    const endsBy = podGone ? recreateMessage.podGone : nodeSilent ? recreateMessage.nodeSilent : undefined;
    const instances = seen.instances.filter(({ podUid }) => podUid === pod.uid);
    const requests = await pod.requestsNow();
    const asked = new Set(plan.requests.flatMap(({ containers }) => containers));
    const problems = [
      ...(requests.length < plan.requests.length && !requestsGone ? ['a request is gone'] : []),
      ...(requests.length > 0 && requestsGone ? ['a deleted request is still there'] : []),
      ...(seen.now && podGone ? ['a deleted pod is still there'] : []),
      ...(!seen.now && !podGone ? ['the pod is gone'] : []),
    ];
    const ids = new Set([...instances.map(({ id }) => id), ...plan.containers.map(({ name }) => pod.originalOf(name))]);
    const violations = violationsIn({
      subject: pod.name,
      containers: plan.containers.map(({ name }) => ({
        name,
        expected: expected[name] ?? (asked.has(name) ? 'once' : 'never'),
        originalId: pod.originalOf(name),
        starts: pod.startsOf(name),
        laterTerms: podGone ? 0 : pod.laterTermsOf(name),
        preStops: podGone ? 0 : pod.preStopsOf(name),
      })),
      ordered: plan.requests.filter(({ strategy }) => strategy?.orderedRecreate).map(({ containers }) => containers),
      serial: plan.requests.map(({ containers }) => containers),
      mostPreStops: 1 + deaths,
      ...(seen.now ? { pod: seen.now } : {}),
      versions: record.versionsOf(pod.uid),
      versionsComplete: record.gaps === 0,
      instances,
      exits: new Map([...ids].flatMap((id) => exitsEntry(id, runtime.exitsOf(id)))),
      exitsComplete: runtime.isComplete(pod.pod.spec.nodeName ?? '', this.#preparedAtMs),
      requests: endsBy === undefined ? requests : requests.filter((request) => !isOverBy(request, endsBy)),
      operationOpen: seen.isOpen,
    });
    return [...problems.map((text) => `${pod.name}: ${text}`), ...violations];
  }

  /** Writes down what is known about a pod that something is wrong with. */
  async #keep(pod: RecreatedPod): Promise<void> {
    const { kube, pods, runtime, temporal, instance, say } = this.#world;
    const { namespace, plan, uid, operation } = pod;
    const folder = logFile(instance, 'chaos').replace(/\.log$/, '');
    mkdirSync(folder, { recursive: true });
    const file = `${folder}/${namespace}-${plan.name}.json`;
    const known = {
      plan,
      requests: await pod.requestsNow().catch(String),
      pod: await kube.get<Pod>(kubeResource.pods, { namespace, name: plan.name }).catch(String),
      versions: pods.versionsOf(uid),
      instances: await runtime.instancesIn(namespace).catch(String),
      exits: plan.containers.map(({ name }) => [name, runtime.exitsOf(pod.originalOf(name))]),
      history: await recordedHistory(temporal.workflow.getHandle(operation)).catch(String),
    };
    writeFileSync(file, JSON.stringify(known, undefined, 1));
    say(`   what is known about it: ${file}`);
  }
}

async function atAnyTime(
  pod: RecreatedPod,
  { random, withinSeconds }: { readonly random: Random; readonly withinSeconds: number },
): Promise<void> {
  const own = random.fork(`times of ${pod.plan.name}`);
  await seconds(own.within(0, withinSeconds));
  await pod.request();
  await seconds(own.within(0, 20));
  pod.release();
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

export const recreateRequests: SubjectKind = {
  name: 'requests',
  about: 'requests to recreate containers',
  prepare: (world, { deaths, random }) => {
    const plans = [...eachStep(), ...atTheMoment()];
    const judgementOf = (): Judgement => ({ deaths });
    return RecreateRequests.prepare(world, { plans, letGo: someOf(plans, random), judgementOf });
  },
  // held at each of their steps until the last fault
  prepareBeside: (world, { deaths, random }, faults) =>
    RecreateRequests.prepare(world, {
      plans: [...eachStep({ forceRecreate: random.chance(0.5) }), ...atTheMoment()],
      ...{ steps: faults, letGo: () => true, judgementOf: () => ({ deaths }) },
    }),
  endures: [
    ...kills(['worker', 'daemon', 'watcher', 'webhook', 'temporal'], [0, 4]),
    ...freezes({ daemon: 45 }),
    freezesInTurns(40),
  ],
};
