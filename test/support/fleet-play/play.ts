import { type JsonObject, listOr, objectOr } from '../../../api/base/json.ts';
import { isActive, nodeOf, type Pod } from '../../../api/core/pod.ts';
import { isControlledBy } from '../../../api/core/refs.ts';
import { type FeatureGate, parseFeatureGates } from '../../../api/feature-gates.ts';
import { lifecycleStateOf, marksMissing, marksOn } from '../../../api/fleet/lifecycle.ts';
import { prefetchShare } from '../../../api/fleet/pre-download.ts';
import { type ControllerRevision, isAtRevision, revisionMark } from '../../../api/fleet/revision.ts';
import type { RollOutOrders } from '../../../api/fleet/roll-out-orders.ts';
import type { ImagePullJob } from '../../../api/image-pull-job/types.ts';
import type { NodeImage } from '../../../api/node-image/types.ts';
import { batchesOf, podsOf } from '../../../plan/fleet/batch.ts';
import type { PodWrite } from '../../../plan/fleet/in-place/update.ts';
import type { FleetInput, VolumeClaim } from '../../../plan/fleet/input.ts';
import type { ScalePlan } from '../../../plan/fleet/kind.ts';
import { type Permit, question, type Undo } from '../../../plan/fleet/permit.ts';
import { planFleet } from '../../../plan/fleet/plan.ts';
import { type AsSeen, asSeen, membersOf } from '../../../plan/fleet/pods.ts';
import { chooseRevisions } from '../../../plan/fleet/revisions.ts';
import type { FleetScene, UpdateDemand } from '../../../plan/fleet/scene.ts';
import type { Intention } from '../../../plan/fleet/steps.ts';
import { template } from '../cloneset-world.ts';
import { type NodeStep, PodOnNode, StoppedInService } from '../pod-on-node.ts';
import { nodeImage } from '../pull-objects.ts';
import { checkPlan } from './promises.ts';
import { PlayedPulls, pullingNodes } from './pulls.ts';
import { condition, conditionsPatch, describe, imageOf, isPaused, isReady } from './steps.ts';
import {
  asJson,
  Conflict,
  cached,
  type Kind,
  kinds,
  newWriter,
  PlayedStore,
  show,
  type Unborn,
  type Writer,
} from './store.ts';
import {
  BrokenPromise,
  type PlayCast,
  type PlayedOwner,
  type PlayedPlan,
  type Stage,
  type Step,
  type Subject,
} from './subject.ts';

/** A write was refused, because somebody else leads. */
class Fenced extends Error {}
/** A creation was refused. */
class Refused extends Error {}
/** Nobody knows whether a write is made. */
class NoAnswer extends Error {}

/** What becomes of the next write: it is made, and nobody hears of it; or it is made later, if at all. */
type Fate = 'answered' | 'unheard' | 'late';

/** A write that was sent and may still be made. */
interface OnTheWay {
  readonly kind: Kind;
  readonly what: string;
  readonly untilMs: number;
  readonly arrive: () => void;
}

/** So long after it was sent a write may be made. */
const requestMs = 60_000;

export const images: readonly string[] = ['nginx:1', 'nginx:2', 'nginx:3'];

/**
 * A workload with its pods between a user, a kubelet, a roll-out workflow and leaders that plan and write, each of which
 * takes a small step whenever it is its turn. After each step the promises of the planner are checked.
 */
export class FleetPlay<
  Owner extends PlayedOwner,
  Input extends FleetInput<Owner>,
  Scene extends FleetScene<Owner, Input>,
  Scale extends ScalePlan,
  Demand extends UpdateDemand,
> implements Stage<Owner>
{
  readonly store: PlayedStore = new PlayedStore();
  /** What has happened, for whoever has to find out why. */
  readonly story: string[] = [];
  readonly late = new Set<string>();
  readonly #subject: Subject<Owner, Input, Scene, Scale, Demand>;
  readonly #cast: PlayCast;
  readonly #pulls = new PlayedPulls(this.store);
  #writers: Writer[] = [];
  #writerCount = 0;
  #onTheWay: readonly OnTheWay[] = [];
  #fate: Fate = 'answered';
  #permit: Permit | undefined;
  #undo: Undo | undefined;
  #hasQuota = false;
  #areHooksAlive = true;
  #isWorkflowAlive = true;
  /** What the nodes have of each pod. */
  readonly #nodes = new Map<string, PodOnNode>();
  /** The revision that each pod was last started for. */
  readonly #startedFor = new Map<string, string>();
  #lastPlan: PlayedPlan<Owner, Scene, Scale, Demand> | undefined;
  /** The plan whose pods have been permitted. */
  #followed: PlayedPlan<Owner, Scene, Scale, Demand> | undefined;

  constructor(subject: Subject<Owner, Input, Scene, Scale, Demand>, cast: PlayCast) {
    this.#subject = subject;
    this.#cast = cast;
    this.store.put('set', subject.ownerWith(this.#template(images[0] ?? '')));
    if (cast.pulls !== undefined) {
      this.#pulls.await(cast.pulls.awaited);
      for (const node of pullingNodes) this.store.put('nodeImage', nodeImage(node));
    }
    this.#newLeader();
  }

  /** Takes the steps that the numbers choose. */
  play(choices: readonly number[]): void {
    for (const choice of choices) {
      const steps = this.#stepsOf(choice % 10);
      const step = steps[Math.floor(choice / 10) % steps.length];
      if (step) this.#take(step);
      if (this.#isWorkflowAlive) this.#followStanding();
    }
  }

  /** A roll-out that nobody disturbs. No pod goes but by our own doing, so the budget holds for what is really there. */
  rollOut(image: number, choices: readonly number[]): void {
    const wanted = images[image % images.length] ?? '';
    this.#take({
      what: `the user rolls out ${wanted}`,
      take: () => this.changeSpec({ template: this.#template(wanted) }),
    });
    for (const choice of choices) {
      const steps = this.#stepsOf(choice % 8);
      const step = steps[Math.floor(choice / 10) % steps.length];
      if (step) this.#take(step);
      this.#followStanding();
      this.#checkTruth();
    }
  }

  /** Lets everything come to rest. Answers the last plan. */
  settle(): PlayedPlan<Owner, Scene, Scale, Demand> {
    for (let round = 0; round < 600; round++) {
      const before = this.store.log.length;
      const failed = this.#leader.failures;
      this.#wholePass();
      // a pass that failed is made again, and knows it then
      if (this.#leader.failures !== undefined && failed === undefined) continue;
      for (const step of this.#natureSteps()) this.#take(step);
      const permit = this.#permit;
      this.#followStanding();
      if (this.store.log.length !== before || this.#permit !== permit) continue;

      const plan = this.#lastPlan;
      if (plan === undefined) throw this.broken('there is no plan');
      const againInMs = soonest(plan.againInMs, this.#inDoubtForMs());
      if (againInMs === undefined) {
        this.#checkRest(plan);
        return plan;
      }
      this.store.nowMs += Math.max(againInMs, 1);
    }
    throw this.broken('it does not come to rest');
  }

  /** Takes every obstacle away: whatever the pods and the user did, the roll-out can end now. */
  mend(): void {
    this.#say('everything is mended');
    this.#hasQuota = false;
    this.#areHooksAlive = true;
    this.#isWorkflowAlive = true;
    this.#pulls.isRegistryAlive = true;
    this.#undo = undefined;
    this.#order({});
    this.#pulls.dropFailed();
    for (const node of this.#nodes.values()) node.isCrashed = false;
    this.changeSpec(this.#subject.mended(this.owner));
    this.#subject.mend?.(this);
    for (const pod of this.#pods) {
      const { 'apps.kruise.io/inplace-update-state': state } = pod.metadata.annotations ?? {};
      if (state === '{')
        this.store.patchPod(pod, { metadata: { annotations: { 'apps.kruise.io/inplace-update-state': null } } });
    }
    this.#permit = undefined;
  }

  /** Takes back what the roll-out has changed, and lets that come to rest. */
  undo(): PlayedPlan<Owner, Scene, Scale, Demand> {
    // nothing can be taken back before it is known what has been rolled out
    this.#wholePass();
    this.#undoUpdate();
    return this.settle();
  }

  /** How many pods have which image. */
  imagesInUse(): Readonly<Record<string, number>> {
    const active = this.#pods.filter(isActive);
    const groups = Map.groupBy(active, (pod) => imageOf(pod));
    return Object.fromEntries([...groups].map(([image, pods]) => [image, pods.length]));
  }

  /** What is left to be wished for. */
  unfinished(): readonly string[] {
    const set = this.owner;
    const found = this.#revisions();
    if (found.kind === 'create') return ['the revision is not there'];
    const active = this.#pods.filter((pod) => isActive(pod) && isControlledBy(set, pod));
    const isUpdated = (pod: Pod) =>
      isAtRevision(pod.metadata.labels?.[revisionMark.podRevision], found.update.metadata.name);
    const wishes = active.flatMap((pod) => [
      ...(isUpdated(pod) ? [] : [`${pod.metadata.name} is old`]),
      ...(isReady(pod) ? [] : [`${pod.metadata.name} is not ready`]),
      ...(imageOf(pod) === imageOf(set.spec.template) ? [] : [`${pod.metadata.name} has another image`]),
    ]);
    const replicas = this.#subject.replicas?.() ?? set.spec.replicas ?? 1;
    for (const job of this.store.all<ImagePullJob>('job')) wishes.push(`${job.metadata.name} is left`);
    wishes.push(...(this.#subject.unfinished?.(this) ?? []));
    return active.length === replicas ? wishes : [`${active.length} of ${replicas} pods`, ...wishes];
  }

  // --------------------------------------------------------------------------------------------------- what may happen

  #stepsOf(turn: number): readonly Step[] {
    if (turn < 5) return this.#writers.flatMap((writer) => this.#leaderSteps(writer));
    if (turn < 7) return this.#natureSteps();
    if (turn === 7) return this.#clockSteps();
    return turn === 8 ? this.#userSteps() : this.#workflowSteps();
  }

  /** Most of its writes get an answer. */
  #leaderSteps(writer: Writer): readonly Step[] {
    const step = (fate: Fate): Step => ({
      what: `leader ${writer.id}`,
      take: () => {
        this.#fate = fate;
        this.#goOn(writer);
        this.#fate = 'answered';
      },
    });
    const fates: readonly Fate[] = this.#cast.losesAnswers ? ['answered', 'answered', 'unheard', 'late'] : ['answered'];
    return fates.map(step);
  }

  #clockSteps(): readonly Step[] {
    return [
      { what: 'time passes', take: () => this.#wait(1000) },
      { what: 'time passes', take: () => this.#wait(3000) },
      { what: 'much time passes', take: () => this.#wait(40_000) },
      { what: 'another leader', take: () => this.#newLeader() },
    ];
  }

  /** What happens by itself: kubelets, the scheduler, hooks, the end of what is being deleted. */
  #natureSteps(): readonly Step[] {
    return [
      ...this.#podSteps(),
      ...this.#pulls.steps(),
      ...(this.#subject.natureSteps?.(this) ?? []),
      ...this.#lateSteps(),
    ];
  }

  /** What got no answer, or was sent before the lease was lost, arrives, unless it was sent too long ago. */
  #lateSteps(): readonly Step[] {
    const first = this.#cast.losesAnswers ? this.#onTheWay : this.#onTheWay.slice(0, 1);
    return first.map((write) => {
      const isOver = write.untilMs < this.store.nowMs;
      const take = () => {
        this.#onTheWay = this.#onTheWay.filter((other) => other !== write);
        if (!isOver) unlessConflict(write.arrive);
      };
      return { what: `${write.what} ${isOver ? 'is lost' : 'arrives late'}`, take };
    });
  }

  #podSteps(): readonly Step[] {
    return this.#pods.flatMap((pod): readonly Step[] => {
      const { name, deletionTimestamp, finalizers = [] } = pod.metadata;
      const step = (what: string, patch: JsonObject): Step => ({
        what: `${name} ${what}`,
        take: () => this.store.patchPod(pod, patch),
      });
      if (deletionTimestamp !== undefined) {
        if (finalizers.length === 0) return [{ what: `${name} is gone`, take: () => this.store.remove('pod', name) }];
        return this.#areHooksAlive ? [{ what: `${name} loses its finalizers`, take: () => this.#free(pod) }] : [];
      }
      if (!isActive(pod)) return this.#hookSteps(pod);
      if (!pod.spec.nodeName && !this.#hasVolumes(pod)) return [];
      const node = nodeOf(pod) ?? `node-${this.#placeOf(name)}`;
      if (this.#subject.hasNode?.(node) === false) return [];
      if (!pod.spec.nodeName) return [step('is scheduled', { spec: { nodeName: node } })];
      return [...this.#kubeletSteps(pod, step), ...this.#hookSteps(pod)];
    });
  }

  #hasVolumes(pod: Pod): boolean {
    return listOr(objectOr(asJson(pod).spec).volumes).every((volume) => {
      const { claimName } = objectOr(objectOr(volume).persistentVolumeClaim);
      const claim = typeof claimName === 'string' ? this.store.objects.claim.get(claimName) : undefined;
      return claimName === undefined || (claim && claim.metadata.deletionTimestamp === undefined);
    });
  }

  #placeOf(name: string): number {
    if (this.#cast.pulls === undefined) return name.length % 3;
    return [...name].reduce((sum, letter) => sum + letter.charCodeAt(0), 0) % 3;
  }

  #kubeletSteps(pod: Pod, step: (what: string, patch: JsonObject) => Step): readonly Step[] {
    const { name, uid } = pod.metadata;
    const steps = this.#onNode(uid)
      .steps(pod, this.#cast.hasDaemon)
      .map(({ what, take }): Step => ({ what: `${name} ${what}`, take: () => this.#takeOnNode(pod, take) }));
    if (condition(pod, 'KruisePodReady') !== undefined) return steps;
    return [
      step('has its gate answered', conditionsPatch({ type: 'KruisePodReady', status: 'True', at: this.store.now })),
      ...steps,
    ];
  }

  #takeOnNode({ metadata: { name, uid } }: Pod, take: NodeStep['take']): void {
    const live = this.store.objects.pod.get(name);
    if (live?.metadata.uid !== uid) return;
    try {
      const patch = take(live as Pod, this.store.nowMs);
      if (patch !== undefined) this.store.patchPod(live as Pod, patch);
    } catch (error) {
      throw error instanceof StoppedInService ? this.broken(error.message) : error;
    }
  }

  #crash(uid: string, isCrashed: boolean): void {
    this.#onNode(uid).isCrashed = isCrashed;
  }

  #onNode(uid: string): PodOnNode {
    const known = this.#nodes.get(uid) ?? new PodOnNode();
    this.#nodes.set(uid, known);
    return known;
  }

  /** The user's controller of hooks. */
  #hookSteps(pod: Pod): readonly Step[] {
    const { preDelete, inPlaceUpdate, preNormal } = this.owner.spec.lifecycle ?? {};
    if (!this.#areHooksAlive) return [];
    const { name } = pod.metadata;
    switch (lifecycleStateOf(pod)) {
      case 'PreparingDelete':
        return marksOn(preDelete, pod).length > 0 ? [{ what: `${name} is drained`, take: () => this.#free(pod) }] : [];
      case 'PreparingUpdate':
        return marksOn(inPlaceUpdate, pod).length > 0
          ? [{ what: `${name} is drained`, take: () => this.#free(pod) }]
          : [];
      case 'Updated':
        return marksMissing(inPlaceUpdate, pod).length > 0
          ? [{ what: `${name} is registered`, take: () => this.#mark(pod, 'guard') }]
          : [];
      case 'PreparingNormal':
        return marksMissing(preNormal, pod).length > 0
          ? [{ what: `${name} is welcomed`, take: () => this.#mark(pod, 'born') }]
          : [];
      default:
        return [];
    }
  }

  #userSteps(): readonly Step[] {
    const { userSteps } = this.#cast;
    return this.#allUserSteps().filter(({ what }) => userSteps?.test(what) ?? true);
  }

  #allUserSteps(): readonly Step[] {
    const { spec } = this.owner;
    const rolling = (change: object) => this.#changeRolling(change);
    const step = (what: string, take: () => void): Step => ({ what: `the user ${what}`, take });
    const { replicas = 1 } = spec;
    return [
      ...[...images, ...images, ...images].map((image) =>
        step(`rolls out ${image}`, () => this.changeSpec({ template: this.#template(image) })),
      ),
      step('changes what needs new pods', () =>
        this.changeSpec({ template: this.#template(images[0] ?? '', { hostNetwork: true }) }),
      ),
      step('wants one pod more', () => this.changeSpec({ replicas: Math.min(replicas + 1, 7) })),
      step('wants one pod less', () => this.changeSpec({ replicas: Math.max(replicas - 1, 0) })),
      step('pauses', () => rolling({ paused: true })),
      step('goes on', () => rolling({ paused: false })),
      step('raises the partition', () => rolling({ partition: 2 })),
      step('lowers the partition', () => rolling({ partition: 0 })),
      step('changes the budget', () =>
        rolling({ maxUnavailable: this.#subject.budgets[this.store.nowMs % 3 === 0 ? 0 : 1] }),
      ),
      step('limits creation', () => this.changeSpec({ scaleStrategy: { ...spec.scaleStrategy, maxUnavailable: 1 } })),
      step('drops the hooks', () => this.#dropHooks()),
      step('stops the controller of hooks', () => {
        this.#areHooksAlive = false;
      }),
      step('starts the controller of hooks', () => {
        this.#areHooksAlive = true;
      }),
      step(this.#hasQuota ? 'lifts the quota' : 'sets a quota', () => {
        this.#hasQuota = !this.#hasQuota;
      }),
      ...(this.#cast.pulls === undefined ? [] : this.#pulls.userSteps()),
      ...this.#subject.userSteps(this),
      ...this.#pods.flatMap((pod) => this.#userStepsFor(pod)),
    ];
  }

  #userStepsFor(pod: Pod): readonly Step[] {
    const { name, uid, labels = {} } = pod.metadata;
    if (!isActive(pod)) return [];
    const mark = 'apps.kruise.io/specified-delete';
    return [
      { what: `${name} is broken`, take: () => this.#crash(uid, true) },
      ...(this.#onNode(uid).isCrashed ? [{ what: `${name} is mended`, take: () => this.#crash(uid, false) }] : []),
      { what: `the user deletes ${name}`, take: () => this.store.deletePod(pod) },
      { what: `${name} is evicted`, take: () => this.store.patchPod(pod, { status: { phase: 'Failed' } }) },
      {
        what: `the user ${labels[mark] === undefined ? 'marks' : 'unmarks'} ${name}`,
        take: () =>
          this.store.patchPod(pod, { metadata: { labels: { [mark]: labels[mark] === undefined ? 'yes' : null } } }),
      },
      ...this.#subject.userStepsFor(this, pod),
    ];
  }

  #workflowSteps(): readonly Step[] {
    const permit = this.#permit;
    const names = this.#pods.map(({ metadata }) => metadata.name);
    const { paused, skip = [] } = this.owner.status?.rollOut ?? {};
    return [
      {
        what: this.#isWorkflowAlive ? 'Temporal goes away' : 'Temporal is back',
        take: () => {
          this.#isWorkflowAlive = !this.#isWorkflowAlive;
          this.#permit = undefined;
        },
      },
      ...(permit === undefined
        ? []
        : [
            {
              what: paused ? 'an operator resumes' : 'an operator pauses',
              take: () => this.#order({ skip, ...(!paused && { paused: { by: 'ann', at: this.store.now } }) }),
            },
            {
              what: 'an operator skips a pod',
              take: () => this.#order({ skip: names.slice(0, 1), ...(paused && { paused }) }),
            },
          ]),
      ...(permit?.pods.size
        ? [
            {
              what: 'the batches in flight are given back',
              take: () => {
                this.#permit = { ...permit, pods: new Map() };
              },
            },
          ]
        : []),
      ...(this.store.nowMs % 40 === 0
        ? [{ what: 'an operator undoes the update', take: () => this.#undoUpdate() }]
        : []),
    ];
  }

  /** An operator orders this, and nothing else any more. */
  #order(orders: Pick<RollOutOrders, 'paused' | 'skip'>): void {
    const found = this.#revisions();
    // a pause is in effect whatever the revision
    const revision = found.kind === 'create' ? 'web-none' : found.update.metadata.name;
    const { version = 0 } = this.owner.status?.rollOut ?? {};
    const rollOut: RollOutOrders = { version: version + 1, revision, ...orders };
    this.store.put('set', { ...this.owner, status: { ...this.owner.status, rollOut } } as Owner);
  }

  #undoUpdate(): void {
    const found = this.#revisions();
    if (found.kind === 'create') return;
    const from = found.update.metadata.name;
    const to = found.all.findLast(({ metadata }) => metadata.name !== from)?.metadata.name;
    if (to !== undefined) this.#undo = { from, to };
  }

  /** The roll-out workflow: a permit for the pods that were chosen, which asks for more. */
  #followStanding(): void {
    const { standing, named } = this.#lastPlan ?? {};
    const permit = this.#permit;
    if (permit === undefined) {
      this.#permit = question;
      return;
    }
    const pods = this.#namedAfter(permit.pods, standing, named);
    this.#followed = this.#lastPlan;
    const isSame =
      pods.size === permit.pods.size && [...pods].every(([uid, revision]) => permit.pods.get(uid) === revision);
    if (!isSame) this.#permit = { ...permit, pods };
  }

  /** The pods in flight: those that are not through yet and still go to their revision, and those that were chosen. */
  #namedAfter(
    before: ReadonlyMap<string, string>,
    standing: PlayedPlan<Owner, Scene, Scale, Demand>['standing'] | undefined,
    named: PlayedPlan<Owner, Scene, Scale, Demand>['named'],
  ): ReadonlyMap<string, string> {
    const isInFlight = (uid: string) => ['next', 'underWay'].includes(named?.pods.get(uid)?.state ?? 'gone');
    const left =
      named === undefined
        ? before
        : new Map([...before].filter(([uid, revision]) => revision === named.to && isInFlight(uid)));
    if (standing?.kind !== 'pods') return left;
    if (standing.revision !== named?.to) throw this.broken(`pods are offered for ${standing.revision}`);
    const twice = standing.pods.find(({ uid }) => left.has(uid));
    if (twice && this.#followed !== this.#lastPlan) throw this.broken(`${twice.name} is chosen while it is in flight`);
    const chosen = batchesOf(standing.revision, standing.pods).flatMap(podsOf);
    return new Map([...left, ...chosen.map(({ uid }) => [uid, standing.revision] as const)]);
  }

  // -------------------------------------------------------------------------------------------------------- the leaders

  #newLeader(): void {
    for (const writer of this.#writers) writer.isLeading = false;
    const over = this.#onTheWay.filter(({ kind }) => endsWithTerm(kind));
    for (const { arrive } of over) unlessConflict(arrive);
    this.#onTheWay = this.#onTheWay.filter((write) => !over.includes(write));
    // a consistent list
    const writer = newWriter(++this.#writerCount, this.store);
    // one that has lost the lease may not know it yet
    this.#writers = [...this.#writers.slice(-1), writer];
  }

  get #leader(): Writer {
    const leader = this.#writers.find(({ isLeading }) => isLeading);
    if (leader === undefined) throw this.broken('nobody leads');
    return leader;
  }

  #wholePass(): void {
    const leader = this.#leader;
    while (leader.pass !== undefined) this.#goOn(leader);
    for (const kind of kinds) leader.mustShow[kind] = this.store.log.length;
    do {
      this.#goOn(leader);
    } while (leader.pass !== undefined);
  }

  /** Lets one leader take its next step: to look and plan, or to do one thing of its plan. */
  #goOn(writer: Writer): void {
    writer.pass ??= this.#pass(writer);
    try {
      const next = writer.pass.next();
      if (next.done) writer.pass = undefined;
      else this.#say(`leader ${writer.id}: ${next.value}`);
    } catch (error) {
      writer.pass = undefined;
      if (error instanceof BrokenPromise) throw error;
      this.#say(`leader ${writer.id} fails: ${String(error)}`);
      for (const kind of kinds) writer.mustShow[kind] = this.store.log.length;
      if (![Conflict, Fenced, Refused, NoAnswer].some((known) => error instanceof known)) throw error;
    }
  }

  *#pass(writer: Writer): Generator<string, void, void> {
    show(writer, this.store, this.#cast.hasStaleCaches);
    const [set] = cached<Owner>(writer, 'set');
    if (set === undefined) return;
    const { failures } = writer;
    writer.failures = undefined;
    const world = this.#world(writer, set, failures);
    const plan = planFleet(this.#subject.planner, world);
    checkPlan(this.#subject, this, plan, world);
    if (writer.isLeading) this.#lastPlan = plan;

    if (plan.status) {
      const { status } = plan;
      this.#write(writer, 'set', asSeen(set), () => this.store.put('set', { ...set, status }));
      yield `status ${plan.status.waitingFor?.reason ?? ''}`;
    }
    const lost: Intention[] = [];
    let refused = 0;
    let created = 0;
    for (const intention of plan.upkeep) {
      try {
        this.#act(writer, intention, plan.situation?.scene);
        created += Number(intention.kind === 'createPod');
      } catch (error) {
        if (error instanceof NoAnswer) lost.push(intention);
        else if (!(error instanceof Refused)) throw error;
        refused += Number(intention.kind === 'createPod');
      }
      yield describe(intention);
    }
    if (refused > 0) writer.failures = { scale: 'quota', ...(created === 0 && { nothingCreated: true }) };
    for (const intention of plan.disruption) {
      // the permit and the orders are asked for before each disruption
      if (this.#permit === undefined || this.#permit !== world.permit || isPaused(this.owner)) break;
      try {
        if (intention.kind === 'updatePod') yield* this.#update(writer, intention);
        else this.#act(writer, intention, plan.situation?.scene);
      } catch (error) {
        if (!(error instanceof NoAnswer)) throw error;
        lost.push(intention);
      }
      yield describe(intention);
    }
    this.#noteLost(writer, lost);
  }

  /** For how long at least an update that got no answer may still be made. */
  #inDoubtForMs(): number | undefined {
    const open = this.#stillOpen(this.#leader.inDoubt);
    return open.size === 0 ? undefined : Math.min(...open.values()) - this.store.nowMs;
  }

  /** What may still be made is kept in mind, and what has been made is seen before the next pass. */
  #noteLost(writer: Writer, lost: readonly Intention[]): void {
    const untilMs = this.store.nowMs + requestMs;
    for (const step of lost) {
      if (step.kind === 'writeClaim' || step.kind === 'resizeClaim') writer.unanswered.set(step.claim.uid, untilMs);
      if (step.kind === 'deletePod') writer.unanswered.set(step.pod.uid, untilMs);
      const isUpdate = step.kind === 'updatePod' || step.kind === 'recreatePod';
      if (isUpdate || (step.kind === 'writePod' && step.revision)) writer.inDoubt.set(step.pod.uid, untilMs);
    }
    if (lost.length > 0) for (const kind of kinds) writer.mustShow[kind] = this.store.log.length;
    if (lost.length > 0) writer.failures ??= { scale: 'no answer' };
  }

  #world(writer: Writer, set: Owner, failures: Writer['failures']): Input {
    const gates = { ...parseFeatureGates() };
    const pulling: readonly FeatureGate[] = ['PreDownloadImageForInPlaceUpdate', 'ImagePullJobGate'];
    for (const gate of [...this.#cast.gates, ...(this.#cast.pulls ? pulling : [])]) gates[gate] = true;
    const pods = cached<Pod>(writer, 'pod');
    const unanswered = this.#stillOpen(writer.unanswered);
    const inDoubt = this.#stillOpen(writer.inDoubt);
    return this.#subject.input({
      owner: set,
      pods,
      ...(this.#cast.pulls && { pullJobs: cached<ImagePullJob>(writer, 'job') }),
      ...(prefetchShare(set) !== undefined && { nodeImages: this.#imagesOn(writer, pods) }),
      claims: cached<VolumeClaim>(writer, 'claim'),
      revisions: cached<ControllerRevision>(writer, 'revision'),
      gates,
      hasResizeSubresource: true,
      nowMs: this.store.nowMs,
      ...(this.#permit && { permit: this.#permit }),
      ...(this.#undo && { undo: this.#undo }),
      ...(failures && { failures }),
      ...(unanswered.size > 0 && { unanswered }),
      ...(inDoubt.size > 0 && { inDoubt: new Set(inDoubt.keys()) }),
      isSpent: (podName) => this.store.spent.has(podName),
    });
  }

  #stillOpen(all: ReadonlyMap<string, number>): ReadonlyMap<string, number> {
    return new Map([...all].filter(([, untilMs]) => untilMs > this.store.nowMs));
  }

  /** Of nodes on which somebody pulls; the third one is none. */
  #imagesOn(writer: Writer, pods: readonly Pod[]): ReadonlyMap<string, NodeImage | undefined> {
    const names = new Set(pods.flatMap(({ spec }) => spec.nodeName ?? []));
    const images = cached<NodeImage>(writer, 'nodeImage');
    const pulling = pullingNodes.filter((name) => names.has(name));
    return new Map(pulling.map((name) => [name, images.find(({ metadata }) => metadata.name === name)]));
  }

  #act(writer: Writer, intention: Intention, scene: Scene | undefined): void {
    const { store } = this;
    if (scene) this.#subject.checkStep?.(this, intention, scene);
    switch (intention.kind) {
      case 'createRevision':
        if (!store.objects.revision.has(intention.revision.metadata.name))
          this.#create(writer, 'revision', intention.revision);
        return;
      case 'patchRevision':
        this.#write(writer, 'revision', intention.revision, () =>
          store.patch('revision', intention.revision.name, intention.patch),
        );
        return;
      case 'deleteRevision':
        this.#delete(writer, 'revision', intention.revision);
        return;
      case 'createPod':
        this.#createPod(writer, intention, scene);
        return;
      case 'deletePod':
        this.#write(writer, 'pod', intention.pod, () => store.deletePod(store.get<Pod>('pod', intention.pod.name)));
        for (const claim of intention.claims) this.#delete(writer, 'claim', claim);
        return;
      case 'writePod':
        if (intention.why === 'release') this.#release(writer, intention.pod);
        else this.#writePod(writer, intention.pod, intention.writes);
        return;
      case 'recreatePod':
        if (intention.mark) {
          this.#writePod(writer, intention.pod, [intention.mark.write]);
          return;
        }
        this.#write(writer, 'pod', intention.pod, () => store.deletePod(store.get<Pod>('pod', intention.pod.name)));
        return;
      case 'updatePod':
        for (const _ of this.#update(writer, intention));
        return;
      case 'createClaim':
        if (!store.objects.claim.has(intention.name)) this.#create(writer, 'claim', asClaim(intention.body));
        return;
      case 'deleteClaim':
        this.#delete(writer, 'claim', intention.claim);
        return;
      case 'writeClaim':
        this.#write(writer, 'claim', intention.claim, () =>
          store.merge('claim', intention.claim.name, intention.patch),
        );
        return;
      case 'resizeClaim':
        this.#write(writer, 'claim', intention.claim, () =>
          store.patch('claim', intention.claim.name, intention.patch),
        );
        return;
      case 'writeOwner': {
        const set = cached<Owner>(writer, 'set')[0] ?? this.owner;
        this.#write(writer, 'set', asSeen(set), () => store.mergeSpec('set', set, intention.patch));
        return;
      }
      case 'preDownload':
        for (const job of intention.jobs) {
          const wanted = job as unknown as ImagePullJob;
          if (!store.objects.job.has(wanted.metadata.name)) this.#create(writer, 'job', wanted);
        }
        if (intention.marks) {
          const { revision, marks } = intention;
          this.#write(writer, 'revision', revision, () => store.patch('revision', revision.name, marks));
        }
        return;
      case 'deletePullJob': {
        if (!writer.isLeading) throw new Fenced('lost');
        const live = store.objects.job.get(intention.job.name);
        if (live?.metadata.uid === intention.job.uid) this.#pulls.deleteJob(live as ImagePullJob);
        writer.mustShow.job = store.log.length;
        return;
      }
      case 'adoptPod':
        this.#write(writer, 'pod', intention.pod, () => store.merge('pod', intention.pod.name, intention.patch));
        return;
      case 'event':
      case 'tryUpdate':
        return;
    }
  }

  /** The pod is out of service for a while before its containers change. */
  *#update(
    writer: Writer,
    { pod, drain, writes, revision }: Extract<Intention, { kind: 'updatePod' }>,
  ): Generator<string, void, void> {
    let seen = pod;
    if (drain) {
      this.#writePod(writer, pod, [drain]);
      seen = { ...pod, resourceVersion: this.store.get<Pod>('pod', pod.name).metadata.resourceVersion };
      yield `drain ${pod.name}`;
    }
    const before = this.#startedFor.get(pod.uid);
    this.#writePod(writer, seen, writes);
    if (before === revision) throw this.broken(`${pod.name} is updated twice to ${revision}`);
    this.#startedFor.set(pod.uid, revision);
    writer.inDoubt.delete(pod.uid);
  }

  #createPod(
    writer: Writer,
    { pod, claims, name }: Extract<Intention, { kind: 'createPod' }>,
    scene: Scene | undefined,
  ): void {
    const { store } = this;
    const body = { ...(pod as unknown as Pod), status: { phase: 'Pending', conditions: [] } };
    const arrive = () => {
      if (store.objects.pod.has(name)) return;
      this.late.add(name);
      for (const claim of claims.map(asClaim))
        if (!store.objects.claim.has(claim.metadata.name)) store.create('claim', claim);
      store.create('pod', body);
    };
    const sendLate = () => this.#sendLate('pod', `the creation of ${name}`, arrive);
    if (!writer.isLeading) {
      sendLate();
      throw new Fenced('lost');
    }
    if (this.#hasQuota) throw new Refused('exceeded quota');
    for (const claim of claims.map(asClaim)) {
      if (!store.objects.claim.has(claim.metadata.name)) this.#create(writer, 'claim', claim);
    }
    const fate = this.#nextFate();
    if (fate === 'late') {
      sendLate();
      throw new NoAnswer(`create ${name}`);
    }
    const there = store.objects.pod.get(name) as Pod | undefined;
    if (there === undefined) this.#create(writer, 'pod', body);
    // one that was thought lost has arrived
    else if (isArrived(there, scene)) writer.mustShow.pod = store.log.length;
    else throw new Refused(`${name} is there already`);
    if (scene) this.#subject.checkCreated?.(this, scene);
    if (fate === 'unheard') throw new NoAnswer(`create ${name}`);
  }

  #writePod(writer: Writer, seen: AsSeen, writes: readonly PodWrite[]): void {
    let version = seen.resourceVersion;
    for (const { kind, patch } of writes) {
      const strange = Object.keys(patch).filter(
        (key) => key !== 'metadata' && key !== (kind === 'status' ? 'status' : 'spec'),
      );
      if (strange.length > 0) throw this.broken(`a write of ${kind} cannot change ${strange.join()}`);
      this.#write(writer, 'pod', { ...seen, resourceVersion: version }, () =>
        this.store.patchPod(this.store.get<Pod>('pod', seen.name), patch),
      );
      version = this.store.get<Pod>('pod', seen.name).metadata.resourceVersion;
    }
    writer.mustShow.pod = this.store.log.length;
  }

  #release(writer: Writer, seen: AsSeen): void {
    this.#write(writer, 'pod', seen, () => {
      const pod = this.store.get<Pod>('pod', seen.name);
      this.store.put('pod', { ...pod, metadata: { ...pod.metadata, ownerReferences: [] } });
    });
  }

  #create<T extends Unborn>(writer: Writer, kind: Kind, object: T): void {
    if (!writer.isLeading) throw new Fenced('lost');
    this.store.create(kind, object);
    writer.mustShow[kind] = this.store.log.length;
  }

  /** A write of the version of an object that was decided about. */
  #write(writer: Writer, kind: Kind, seen: AsSeen, write: () => void): void {
    const arrive = () => {
      this.store.expect(kind, seen);
      write();
    };
    const what = `a write of ${kind} ${seen.name}`;
    // nothing is decided by what becomes of a status
    const fate = kind === 'set' ? 'answered' : this.#nextFate();
    const isOver = !writer.isLeading;
    // the lease was there when it was sent
    if (fate === 'late' && !(isOver && endsWithTerm(kind))) this.#sendLate(kind, what, arrive);
    if (isOver) throw new Fenced('lost');
    if (fate === 'late') throw new NoAnswer(what);
    arrive();
    writer.mustShow[kind] = this.store.log.length;
    if (fate === 'unheard') throw new NoAnswer(what);
  }

  #sendLate(kind: Kind, what: string, arrive: () => void): void {
    this.#onTheWay = [...this.#onTheWay, { kind, what, arrive, untilMs: this.store.nowMs + requestMs }];
  }

  #nextFate(): Fate {
    const fate = this.#fate;
    this.#fate = 'answered';
    return fate;
  }

  #delete(writer: Writer, kind: Kind, seen: AsSeen): void {
    if (!writer.isLeading) throw new Fenced('lost');
    // deletes carry the UID; one that is gone already is as good
    if (this.store.objects[kind].get(seen.name)?.metadata.uid !== seen.uid) return;
    this.store.remove(kind, seen.name);
    writer.mustShow[kind] = this.store.log.length;
  }

  // ---------------------------------------------------------------------------------------------------------- promises

  #checkTruth(): void {
    const owner = this.owner;
    const membership = this.#subject.planner.membership({ owner } as Input);
    const members = membersOf(owner, membership, { pods: this.#pods, nowMs: this.store.nowMs });
    if (this.#revisions().kind === 'found' && members) this.#subject.checkTruth(this, members);
  }

  #revisions() {
    const revisions = this.store.all<ControllerRevision>('revision');
    return chooseRevisions(this.#subject.planner.revisions, { owner: this.owner, revisions });
  }

  /** Nothing is left to do, and who asks why hears it. */
  #checkRest({ upkeep, disruption, status, standing }: PlayedPlan<Owner, Scene, Scale, Demand>): void {
    const steps = [...upkeep, ...disruption].filter(({ kind }) => kind !== 'event');
    const isRefused = (step: Intention) =>
      step.kind === 'createPod' && (this.#hasQuota || this.store.objects.pod.has(step.name));
    const isTrying = steps.every(isRefused);
    if (status) throw this.broken('the status is written again and again');
    if (steps.length > 0 && !isTrying) throw this.broken(`does ${steps.map(describe).join()} again and again`);
    if (standing.kind === 'working') throw this.broken('stands still without a reason');
    if (standing.kind === 'waiting' && standing.wait.unblock === '') throw this.broken('does not say what helps');
  }

  broken(what: string): BrokenPromise {
    return new BrokenPromise(`${what}\n${this.story.slice(-60).join('\n')}`);
  }

  // --------------------------------------------------------------------------------------------------------- the store

  #take({ what, take }: Step): void {
    if (!what.startsWith('leader')) this.#say(what);
    take();
    this.store.nowMs += 10;
  }

  #say(what: string): void {
    this.story.push(what);
  }

  #wait(ms: number): void {
    this.store.nowMs += ms;
  }

  get owner(): Owner {
    return this.store.get<Owner>('set', 'web');
  }

  get #pods(): readonly Pod[] {
    return this.store.pods;
  }

  #free(pod: Pod): void {
    const live = this.store.objects.pod.get(pod.metadata.name);
    if (live === undefined) return;
    const { guard: _, ...labels } = live.metadata.labels ?? {};
    this.store.put('pod', { ...live, metadata: { ...live.metadata, labels, finalizers: [] } });
  }

  #mark(pod: Pod, label: 'guard' | 'born'): void {
    const finalizers = label === 'guard' ? { finalizers: ['example.com/drain'] } : {};
    this.store.patchPod(pod, { metadata: { labels: { [label]: 'on' }, ...finalizers } });
  }

  changeSpec(change: object): void {
    const set = this.owner;
    const generation = (set.metadata.generation ?? 0) + 1;
    this.store.put('set', {
      ...set,
      metadata: { ...set.metadata, generation },
      spec: { ...set.spec, ...change },
    } as Owner);
  }

  #changeRolling(change: object): void {
    const { updateStrategy } = this.owner.spec;
    this.changeSpec({
      updateStrategy: { ...updateStrategy, rollingUpdate: { ...updateStrategy?.rollingUpdate, ...change } },
    });
  }

  #dropHooks(): void {
    const set = this.owner;
    const { lifecycle: _, ...spec } = set.spec;
    this.store.put('set', { ...set, spec } as Owner);
  }

  #template(image: string, spec: object = {}) {
    const isHooked = this.#cast.lifecycle !== undefined;
    const labels = { app: 'web', ...(isHooked && { guard: 'on' }) };
    return template(image, spec, { labels, ...(isHooked && { finalizers: ['example.com/drain'] }) });
  }
}

/** What arrives late may find another version. */
function unlessConflict(write: () => void): void {
  try {
    write();
  } catch (error) {
    if (!(error instanceof Conflict)) throw error;
  }
}

function soonest(...dues: readonly (number | undefined)[]): number | undefined {
  const known = dues.filter((ms) => ms !== undefined);
  return known.length === 0 ? undefined : Math.min(...known);
}

/** Whether a pod of this name is the one that a creation was about. */
function isArrived(there: Pod, scene: FleetScene | undefined): boolean {
  const isNew = !scene?.input.pods.some(({ metadata }) => metadata.uid === there.metadata.uid);
  const isOurs = scene === undefined || isControlledBy(scene.owner, there);
  return isNew && isOurs && there.metadata.deletionTimestamp === undefined;
}

function asClaim(body: JsonObject): VolumeClaim {
  return body as unknown as VolumeClaim;
}

/**
 * Whether a write is made before the next term begins, if at all. Nothing tells a new leader of a change of a PVC that is not made
 * yet; the leases of two terms lie further apart than a write takes.
 */
function endsWithTerm(kind: Kind): boolean {
  return kind === 'claim';
}
