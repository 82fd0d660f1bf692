import { isJsonObject, type JsonObject, objectOr } from '../../api/base/json.ts';
import { timestamp } from '../../api/base/time.ts';
import type { CloneSet, CloneSetSpec, RollingUpdate } from '../../api/cloneset/types.ts';
import type { KubeObject, ObjectMeta } from '../../api/core/meta.ts';
import { isActive, type Pod, type PodCondition } from '../../api/core/pod.ts';
import { isControlledBy } from '../../api/core/refs.ts';
import { windlassAnnotation } from '../../api/core/well-known.ts';
import { type FeatureGate, parseFeatureGates } from '../../api/feature-gates.ts';
import { type Lifecycle, lifecycleStateOf, marksMissing, marksOn } from '../../api/fleet/lifecycle.ts';
import { prefetchShare } from '../../api/fleet/pre-download.ts';
import { type ControllerRevision, isAtRevision, revisionMark, templateOf } from '../../api/fleet/revision.ts';
import type { RollOutOrders } from '../../api/fleet/roll-out-orders.ts';
import { type ImagePullJob, isFinished } from '../../api/image-pull-job/types.ts';
import {
  findTag,
  findTagStatus,
  type ImageTag,
  type ImageTagStatus,
  type NodeImage,
} from '../../api/node-image/types.ts';
import { limitsOf } from '../../plan/cloneset/counts.ts';
import type { CloneSetInput } from '../../plan/cloneset/input.ts';
import { planCloneSet } from '../../plan/cloneset/planner.ts';
import { type CloneSetScene, replicasOf } from '../../plan/cloneset/scene.ts';
import { batchesOf, podsOf } from '../../plan/fleet/batch.ts';
import type { PodWrite } from '../../plan/fleet/in-place/update.ts';
import type { VolumeClaim } from '../../plan/fleet/input.ts';
import { type Permit, question } from '../../plan/fleet/permit.ts';
import { type AsSeen, type FleetPod, isOfRevision } from '../../plan/fleet/pods.ts';
import { isAtGoal } from '../../plan/fleet/scene.ts';
import type { Intention } from '../../plan/fleet/steps.ts';
import { meantNodes } from '../../plan/images/image-pull-job.ts';
import { cloneSet, membersFor, revisionsFor, template } from './cloneset-world.ts';
import { strategicMerge } from './fake-api/strategic-merge.ts';
import { type NodeStep, PodOnNode, StoppedInService } from './pod-on-node.ts';
import { endedTag, nodeImage, tagOf } from './pull-objects.ts';

/** What a play begins with. */
export interface Cast {
  readonly spec: Pick<CloneSetSpec, 'replicas' | 'minReadySeconds'> & { readonly maxSurge: number };
  readonly rollingUpdate: RollingUpdate;
  readonly lifecycle: Lifecycle | undefined;
  readonly keepsClaims: boolean;
  readonly hasClaims: boolean;
  readonly excludesPreparingDelete: boolean;
  readonly gates: readonly FeatureGate[];
  /** Whether caches show the writes of others late. */
  readonly hasStaleCaches: boolean;
  /** Whether daemons put pods back into service. */
  readonly hasDaemon: boolean;
  /** Jobs pull images ahead of updates, and the set may ask to wait for them. Absent: neither. */
  readonly pulls?: { readonly awaited: string | undefined };
}

type CloneSetPlan = ReturnType<typeof planCloneSet>;

/** A promise that was not kept, with the way that led there. */
export class BrokenPromise extends Error {}

type Stored = Pick<KubeObject, 'metadata'>;
interface Unborn {
  readonly metadata: Partial<ObjectMeta> & { readonly name: string };
}

const kinds = ['set', 'pod', 'claim', 'revision', 'job', 'nodeImage'] as const;
type Kind = (typeof kinds)[number];

function ofEachKind<Value>(make: () => Value): Record<Kind, Value> {
  return Object.fromEntries(kinds.map((kind) => [kind, make()])) as Record<Kind, Value>;
}

interface Step {
  readonly what: string;
  readonly take: () => void;
}

/** A write was refused, because the object is another one by now. */
class Conflict extends Error {}
/** A write was refused, because somebody else leads. */
class Fenced extends Error {}
/** A creation was refused. */
class Refused extends Error {}

/** A leader: what its caches show, and the pass that it is in. */
interface Writer {
  readonly id: number;
  readonly caches: Record<Kind, Map<string, Stored>>;
  /** How much of the log each cache has shown, and has to show before the next pass. */
  readonly shown: Record<Kind, number>;
  readonly mustShow: Record<Kind, number>;
  isLeading: boolean;
  pass: Generator<string, void, void> | undefined;
  failures: CloneSetInput['failures'];
}

const startMs = Date.parse('2026-11-21T06:00:00Z');
const images = ['nginx:1', 'nginx:2', 'nginx:3'];
/** On the third one nobody pulls ahead. */
const pullingNodes = ['node-0', 'node-1'];
const noPulls = { desired: 0, succeeded: 0, failed: 0, pulling: 0 };

/**
 * A CloneSet with its pods between a user, a kubelet, a roll-out workflow and leaders that plan and write, each of which
 * takes a small step whenever it is its turn. After each step the promises of the planner are checked.
 */
export class CloneSetPlay {
  readonly #cast: Cast;
  readonly #objects = ofEachKind(() => new Map<string, Stored>());
  readonly #log: { readonly kind: Kind; readonly name: string; readonly object: Stored | undefined }[] = [];
  #writers: Writer[] = [];
  #writerCount = 0;
  #nowMs = startMs;
  #version = 100;
  /** Names of pods that have gone. */
  readonly #spent = new Set<string>();
  /** Creations that somebody has sent who no longer leads; they arrive late. */
  readonly #onTheirWay: Pod[] = [];
  readonly #late = new Set<string>();
  #permit: Permit | undefined;
  #undo: CloneSetInput['undo'];
  #hasQuota = false;
  #areHooksAlive = true;
  #isWorkflowAlive = true;
  #isRegistryAlive = true;
  /** What the nodes have of each pod. */
  readonly #nodes = new Map<string, PodOnNode>();
  /** The revision that each pod was last started for. */
  readonly #startedFor = new Map<string, string>();
  #lastPlan: CloneSetPlan | undefined;
  /** What has happened, for whoever has to find out why. */
  readonly story: string[] = [];

  constructor(cast: Cast) {
    this.#cast = cast;
    const { maxSurge, ...spec } = cast.spec;
    this.#store('set', {
      ...cloneSet({
        ...spec,
        template: this.#template(images[0] ?? ''),
        rollingUpdate: { ...cast.rollingUpdate, maxSurge },
        ...(cast.lifecycle && { lifecycle: cast.lifecycle }),
        scaleStrategy: { enablePVCReuse: cast.keepsClaims },
        ...(cast.hasClaims && { volumeClaimTemplates: [{ metadata: { name: 'data' }, spec: {} }] }),
      }),
    });
    if (cast.pulls !== undefined) {
      this.#await(cast.pulls.awaited);
      for (const node of pullingNodes) this.#store('nodeImage', nodeImage(node));
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
      take: () => this.#changeSpec({ template: this.#template(wanted) }),
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
  settle(): CloneSetPlan {
    for (let round = 0; round < 600; round++) {
      const before = this.#log.length;
      const failed = this.#leader.failures;
      this.#wholePass();
      // a pass that failed is made again, and knows it then
      if (this.#leader.failures !== undefined && failed === undefined) continue;
      for (const step of this.#natureSteps()) this.#take(step);
      const permit = this.#permit;
      this.#followStanding();
      if (this.#log.length !== before || this.#permit !== permit) continue;

      const plan = this.#lastPlan;
      if (plan === undefined) throw this.#broken('there is no plan');
      if (plan.againInMs === undefined) {
        this.#checkRest(plan);
        return plan;
      }
      this.#nowMs += Math.max(plan.againInMs, 1);
    }
    throw this.#broken('it does not come to rest');
  }

  /** Takes every obstacle away: whatever the pods and the user did, the roll-out can end now. */
  mend(): void {
    this.#say('everything is mended');
    this.#hasQuota = false;
    this.#areHooksAlive = true;
    this.#isWorkflowAlive = true;
    this.#isRegistryAlive = true;
    this.#undo = undefined;
    this.#order({});
    this.#dropFailedPulls();
    for (const node of this.#nodes.values()) node.isCrashed = false;
    const { spec } = this.#set;
    const rollingUpdate = spec.updateStrategy?.rollingUpdate ?? {};
    this.#changeSpec({
      updateStrategy: {
        type: 'RollingUpdate',
        rollingUpdate: {
          ...rollingUpdate,
          podUpdatePolicy: 'InPlaceIfPossible',
          paused: false,
          partition: 0,
          maxUnavailable: 1,
        },
      },
      scaleStrategy: { ...spec.scaleStrategy, maxUnavailable: 100 },
    });
    for (const pod of this.#pods) {
      const { 'apps.kruise.io/inplace-update-state': state } = pod.metadata.annotations ?? {};
      if (state === '{')
        this.#patchPod(pod, { metadata: { annotations: { 'apps.kruise.io/inplace-update-state': null } } });
    }
    this.#permit = undefined;
  }

  /** Takes back what the roll-out has changed, and lets that come to rest. */
  undo(): CloneSetPlan {
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
    const set = this.#set;
    const found = revisionsFor({ owner: set, revisions: this.#all<ControllerRevision>('revision') });
    if (found.kind === 'create') return ['the revision is not there'];
    const active = this.#pods.filter((pod) => isActive(pod) && isControlledBy(set, pod));
    const isUpdated = (pod: Pod) =>
      isAtRevision(pod.metadata.labels?.[revisionMark.podRevision], found.update.metadata.name);
    const wishes = active.flatMap((pod) => [
      ...(isUpdated(pod) ? [] : [`${pod.metadata.name} is old`]),
      ...(isReady(pod) ? [] : [`${pod.metadata.name} is not ready`]),
      ...(imageOf(pod) === imageOf(set.spec.template) ? [] : [`${pod.metadata.name} has another image`]),
    ]);
    const replicas = replicasOf(set);
    for (const job of this.#all<ImagePullJob>('job')) wishes.push(`${job.metadata.name} is left`);
    return active.length === replicas ? wishes : [`${active.length} of ${replicas} pods`, ...wishes];
  }

  // --------------------------------------------------------------------------------------------------- what may happen

  #stepsOf(turn: number): readonly Step[] {
    if (turn < 5)
      return this.#writers.map((writer) => ({ what: `leader ${writer.id}`, take: () => this.#goOn(writer) }));
    if (turn < 7) return this.#natureSteps();
    if (turn === 7) return this.#clockSteps();
    return turn === 8 ? this.#userSteps() : this.#workflowSteps();
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
    return [...this.#podSteps(), ...this.#pullSteps(), ...this.#lateSteps()];
  }

  /** What a leader has sent arrives after it has lost the lease. */
  #lateSteps(): readonly Step[] {
    const [pod] = this.#onTheirWay;
    if (pod === undefined) return [];
    const take = () => {
      this.#onTheirWay.shift();
      const { name } = pod.metadata;
      if (this.#objects.pod.has(name)) return;
      this.#late.add(name);
      const uid = `${name}-${this.#version}`;
      const metadata = { ...pod.metadata, uid, creationTimestamp: this.#now, resourceVersion: '' };
      this.#store('pod', { ...pod, metadata });
    };
    return [{ what: `the creation of ${pod.metadata.name} arrives late`, take }];
  }

  #podSteps(): readonly Step[] {
    return this.#pods.flatMap((pod): readonly Step[] => {
      const { name, deletionTimestamp, finalizers = [] } = pod.metadata;
      const step = (what: string, patch: JsonObject): Step => ({
        what: `${name} ${what}`,
        take: () => this.#patchPod(pod, patch),
      });
      if (deletionTimestamp !== undefined) {
        if (finalizers.length === 0) return [{ what: `${name} is gone`, take: () => this.#remove('pod', name) }];
        return this.#areHooksAlive ? [{ what: `${name} loses its finalizers`, take: () => this.#free(pod) }] : [];
      }
      if (!isActive(pod)) return [];
      if (!pod.spec.nodeName) return [step('is scheduled', { spec: { nodeName: `node-${this.#placeOf(name)}` } })];
      return [...this.#kubeletSteps(pod, step), ...this.#hookSteps(pod)];
    });
  }

  #placeOf(name: string): number {
    if (this.#cast.pulls === undefined) return name.length % 3;
    return [...name].reduce((sum, letter) => sum + letter.charCodeAt(0), 0) % 3;
  }

  /** Nodes pull what jobs want, one after the other; jobs end, and go with what they have wanted. */
  #pullSteps(): readonly Step[] {
    return this.#all<ImagePullJob>('job').flatMap((job): readonly Step[] => {
      const { name, uid, deletionTimestamp } = job.metadata;
      if (deletionTimestamp !== undefined) return [{ what: `job ${name} is gone`, take: () => this.#removeJob(job) }];
      if (isFinished(job)) return [];
      const image = imageIn(job);
      const tags = this.#nodesOf(job).map((node) => ({ node, tag: findTag(node, image.name, image.tag) }));
      const open = tags.filter(({ tag }) => !tag?.ownerReferences?.some((owner) => owner.uid === uid));
      if (open.length === 0) return [{ what: `job ${name} ends`, take: () => this.#endJob(job) }];
      return open.map(({ node }) => ({
        what: `${node.metadata.name} ${this.#isRegistryAlive ? 'pulls' : 'fails to pull'} for ${name}`,
        take: () => this.#pull(node, job),
      }));
    });
  }

  #nodesOf(job: ImagePullJob): readonly NodeImage[] {
    const nodes = this.#all<NodeImage>('nodeImage');
    const byName = (name: string) => nodes.find(({ metadata }) => metadata.name === name);
    return meantNodes(job, { nodeImages: nodes, byName, pods: () => this.#pods });
  }

  /** What is there is not pulled again, and stays there. */
  #pull(node: NodeImage, job: ImagePullJob): void {
    const { name, tag } = imageIn(job);
    const { uid } = job.metadata;
    const before = findTag(node, name, tag);
    const ownerReferences = [
      ...(before?.ownerReferences ?? []),
      { kind: 'ImagePullJob', name: job.metadata.name, uid },
    ];
    const isThere = findTagStatus(node, name, tag)?.phase === 'Succeeded';
    const phase = isThere || this.#isRegistryAlive ? 'Succeeded' : 'Failed';
    this.#storeTag(node, tagOf(tag, { ownerReferences }), endedTag(tag, phase));
  }

  #storeTag(node: NodeImage, tag: ImageTag, status: ImageTagStatus): void {
    const without = withoutTags(node, (known) => known.tag !== tag.tag);
    const { images: { nginx } = {} } = without.spec;
    const told = without.status?.imageStatuses?.nginx?.tags ?? [];
    this.#store('nodeImage', {
      ...without,
      spec: { images: { nginx: { tags: [...(nginx?.tags ?? []), tag] } } },
      status: { ...noPulls, imageStatuses: { nginx: { tags: [...told, status] } } },
    });
  }

  #endJob(job: ImagePullJob): void {
    const { name, tag } = imageIn(job);
    const phases = this.#nodesOf(job).map((node) => findTagStatus(node, name, tag)?.phase);
    const failed = phases.filter((phase) => phase === 'Failed').length;
    const counts = { desired: phases.length, active: 0, succeeded: phases.length - failed, failed };
    this.#store('job', { ...job, status: { ...counts, completionTime: this.#now } });
  }

  #removeJob({ metadata: { name, uid } }: ImagePullJob): void {
    this.#remove('job', name);
    for (const node of this.#all<NodeImage>('nodeImage')) {
      const left = withoutTags(node, ({ ownerReferences = [] }) => ownerReferences.some((owner) => owner.uid !== uid));
      if (left !== node) this.#store('nodeImage', left);
    }
  }

  /** As a person does who has mended the registry: what has failed may be tried again, by whoever wants it. */
  #dropFailedPulls(): void {
    for (const node of this.#all<NodeImage>('nodeImage')) {
      const left = withoutTags(node, ({ tag }) => findTagStatus(node, 'nginx', tag)?.phase !== 'Failed');
      if (left !== node) this.#store('nodeImage', left);
    }
  }

  #deleteJob(job: ImagePullJob): void {
    if (job.metadata.deletionTimestamp !== undefined) return;
    this.#store('job', { ...job, metadata: { ...job.metadata, deletionTimestamp: this.#now } });
  }

  #await(share: string | undefined): void {
    const set = this.#set;
    const { [windlassAnnotation.prefetch]: _, ...annotations } = set.metadata.annotations ?? {};
    const wanted = share === undefined ? annotations : { ...annotations, [windlassAnnotation.prefetch]: share };
    this.#store('set', { ...set, metadata: { ...set.metadata, annotations: wanted } });
  }

  #kubeletSteps(pod: Pod, step: (what: string, patch: JsonObject) => Step): readonly Step[] {
    const { name, uid } = pod.metadata;
    const steps = this.#onNode(uid)
      .steps(pod, this.#cast.hasDaemon)
      .map(({ what, take }): Step => ({ what: `${name} ${what}`, take: () => this.#takeOnNode(pod, take) }));
    if (condition(pod, 'KruisePodReady') !== undefined) return steps;
    return [
      step('has its gate answered', conditionsPatch({ type: 'KruisePodReady', status: 'True', at: this.#now })),
      ...steps,
    ];
  }

  #takeOnNode({ metadata: { name, uid } }: Pod, take: NodeStep['take']): void {
    const live = this.#objects.pod.get(name);
    if (live?.metadata.uid !== uid) return;
    try {
      const patch = take(live as Pod, this.#nowMs);
      if (patch !== undefined) this.#patchPod(live as Pod, patch);
    } catch (error) {
      throw error instanceof StoppedInService ? this.#broken(error.message) : error;
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
    const { preDelete, inPlaceUpdate, preNormal } = this.#set.spec.lifecycle ?? {};
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
    const { spec } = this.#set;
    const rolling = (change: RollingUpdate) => this.#changeRolling(change);
    const step = (what: string, take: () => void): Step => ({ what: `the user ${what}`, take });
    const replicas = replicasOf(this.#set);
    return [
      ...[...images, ...images, ...images].map((image) =>
        step(`rolls out ${image}`, () => this.#changeSpec({ template: this.#template(image) })),
      ),
      step('changes what needs new pods', () =>
        this.#changeSpec({ template: this.#template(images[0] ?? '', { hostNetwork: true }) }),
      ),
      step('wants one pod more', () => this.#changeSpec({ replicas: Math.min(replicas + 1, 7) })),
      step('wants one pod less', () => this.#changeSpec({ replicas: Math.max(replicas - 1, 0) })),
      step('pauses', () => rolling({ paused: true })),
      step('goes on', () => rolling({ paused: false })),
      step('raises the partition', () => rolling({ partition: 2 })),
      step('lowers the partition', () => rolling({ partition: 0 })),
      step('changes the budget', () => rolling({ maxUnavailable: this.#nowMs % 3 === 0 ? '40%' : 2 })),
      step('limits creation', () => this.#changeSpec({ scaleStrategy: { ...spec.scaleStrategy, maxUnavailable: 1 } })),
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
      ...(this.#cast.pulls === undefined ? [] : this.#userStepsForPulls()),
      ...this.#pods.flatMap((pod) => this.#userStepsFor(pod)),
    ];
  }

  #userStepsForPulls(): readonly Step[] {
    const jobs = this.#all<ImagePullJob>('job');
    const turn: Step = {
      what: `the registry ${this.#isRegistryAlive ? 'goes away' : 'is back'}`,
      take: () => {
        this.#isRegistryAlive = !this.#isRegistryAlive;
      },
    };
    return [
      ...Array.from({ length: 6 }, () => turn),
      ...['100%', '50%', '1', undefined].map((share) => ({
        what: `the user waits for images on ${share ?? 'no'} nodes`,
        take: () => this.#await(share),
      })),
      ...jobs.map((job) => ({ what: `the user deletes ${job.metadata.name}`, take: () => this.#deleteJob(job) })),
      ...this.#all<NodeImage>('nodeImage').map((node) => ({
        what: `${node.metadata.name} forgets its images`,
        take: () => this.#store('nodeImage', nodeImage(node.metadata.name)),
      })),
    ];
  }

  #userStepsFor(pod: Pod): readonly Step[] {
    const { name, uid, labels = {} } = pod.metadata;
    if (!isActive(pod)) return [];
    const mark = 'apps.kruise.io/specified-delete';
    const { spec } = this.#set;
    const named = spec.scaleStrategy?.podsToDelete ?? [];
    return [
      { what: `${name} is broken`, take: () => this.#crash(uid, true) },
      ...(this.#onNode(uid).isCrashed ? [{ what: `${name} is mended`, take: () => this.#crash(uid, false) }] : []),
      { what: `the user deletes ${name}`, take: () => this.#deletePod(pod) },
      { what: `${name} is evicted`, take: () => this.#patchPod(pod, { status: { phase: 'Failed' } }) },
      {
        what: `the user ${labels[mark] === undefined ? 'marks' : 'unmarks'} ${name}`,
        take: () =>
          this.#patchPod(pod, { metadata: { labels: { [mark]: labels[mark] === undefined ? 'yes' : null } } }),
      },
      {
        what: `the user names ${name}`,
        take: () =>
          this.#changeSpec({ scaleStrategy: { ...spec.scaleStrategy, podsToDelete: [...new Set([...named, name])] } }),
      },
      {
        what: `${name} is no longer of the set`,
        take: () => this.#patchPod(pod, { metadata: { labels: { app: 'other' } } }),
      },
    ];
  }

  #workflowSteps(): readonly Step[] {
    const permit = this.#permit;
    const names = this.#pods.map(({ metadata }) => metadata.name);
    const { paused, skip = [] } = this.#set.status?.rollOut ?? {};
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
              take: () => this.#order({ skip, ...(!paused && { paused: { by: 'ann', at: this.#now } }) }),
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
      ...(this.#nowMs % 40 === 0 ? [{ what: 'an operator undoes the update', take: () => this.#undoUpdate() }] : []),
    ];
  }

  /** An operator orders this, and nothing else any more. */
  #order(orders: Pick<RollOutOrders, 'paused' | 'skip'>): void {
    const found = revisionsFor({ owner: this.#set, revisions: this.#all<ControllerRevision>('revision') });
    // a pause is in effect whatever the revision
    const revision = found.kind === 'create' ? 'web-none' : found.update.metadata.name;
    const { version = 0 } = this.#set.status?.rollOut ?? {};
    const rollOut: RollOutOrders = { version: version + 1, revision, ...orders };
    this.#store('set', { ...this.#set, status: { ...this.#set.status, rollOut } } as CloneSet);
  }

  #undoUpdate(): void {
    const found = revisionsFor({ owner: this.#set, revisions: this.#all<ControllerRevision>('revision') });
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
    const isSame =
      pods.size === permit.pods.size && [...pods].every(([uid, revision]) => permit.pods.get(uid) === revision);
    if (!isSame) this.#permit = { ...permit, pods };
  }

  /** The pods in flight: those that are not through yet and still go to their revision, and those that were chosen. */
  #namedAfter(
    before: ReadonlyMap<string, string>,
    standing: CloneSetPlan['standing'] | undefined,
    named: CloneSetPlan['named'],
  ): ReadonlyMap<string, string> {
    const isInFlight = (uid: string) => ['next', 'underWay'].includes(named?.pods.get(uid)?.state ?? 'gone');
    const left =
      named === undefined
        ? before
        : new Map([...before].filter(([uid, revision]) => revision === named.to && isInFlight(uid)));
    if (standing?.kind !== 'pods') return left;
    if (standing.revision !== named?.to) throw this.#broken(`pods are offered for ${standing.revision}`);
    const twice = standing.pods.find(({ uid }) => left.has(uid));
    if (twice) throw this.#broken(`${twice.name} is chosen while it is in flight`);
    const chosen = batchesOf(standing.revision, standing.pods).flatMap(podsOf);
    return new Map([...left, ...chosen.map(({ uid }) => [uid, standing.revision] as const)]);
  }

  // -------------------------------------------------------------------------------------------------------- the leaders

  #newLeader(): void {
    for (const writer of this.#writers) writer.isLeading = false;
    // a consistent list
    const writer: Writer = {
      id: ++this.#writerCount,
      caches: ofEachKind(() => new Map()),
      shown: ofEachKind(() => 0),
      mustShow: ofEachKind(() => this.#log.length),
      isLeading: true,
      pass: undefined,
      failures: undefined,
    };
    // one that has lost the lease may not know it yet
    this.#writers = [...this.#writers.slice(-1), writer];
  }

  get #leader(): Writer {
    const leader = this.#writers.find(({ isLeading }) => isLeading);
    if (leader === undefined) throw this.#broken('nobody leads');
    return leader;
  }

  #wholePass(): void {
    const leader = this.#leader;
    while (leader.pass !== undefined) this.#goOn(leader);
    for (const kind of kinds) leader.mustShow[kind] = this.#log.length;
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
      for (const kind of kinds) writer.mustShow[kind] = this.#log.length;
      if (!(error instanceof Conflict || error instanceof Fenced || error instanceof Refused)) throw error;
    }
  }

  *#pass(writer: Writer): Generator<string, void, void> {
    this.#show(writer);
    const [set] = this.#cached<CloneSet>(writer, 'set');
    if (set === undefined) return;
    const { failures } = writer;
    writer.failures = undefined;
    const world = this.#world(writer, set, failures);
    const plan = planCloneSet(world);
    this.#checkPlan(plan, world);
    if (writer.isLeading) this.#lastPlan = plan;

    if (plan.status) {
      this.#write(writer, 'set', set, { ...set, status: plan.status });
      yield `status ${plan.status.waitingFor?.reason ?? ''}`;
    }
    let refused = 0;
    let created = 0;
    for (const intention of plan.upkeep) {
      try {
        this.#act(writer, intention, plan.situation?.scene);
        created += Number(intention.kind === 'createPod');
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        refused++;
      }
      yield describe(intention);
    }
    if (refused > 0) writer.failures = { scale: 'quota', ...(created === 0 && { nothingCreated: true }) };
    for (const intention of plan.disruption) {
      // the permit and the orders are asked for before each disruption
      if (this.#permit === undefined || this.#permit !== world.permit || isPaused(this.#set)) return;
      if (intention.kind === 'updatePod') yield* this.#update(writer, intention);
      else this.#act(writer, intention, plan.situation?.scene);
      yield describe(intention);
    }
  }

  #world(writer: Writer, set: CloneSet, failures: CloneSetInput['failures']): CloneSetInput {
    const gates = { ...parseFeatureGates() };
    const pulling: readonly FeatureGate[] = ['PreDownloadImageForInPlaceUpdate', 'ImagePullJobGate'];
    for (const gate of [...this.#cast.gates, ...(this.#cast.pulls ? pulling : [])]) gates[gate] = true;
    const pods = this.#cached<Pod>(writer, 'pod');
    return {
      owner: set,
      pods,
      ...(this.#cast.pulls && { pullJobs: this.#cached<ImagePullJob>(writer, 'job') }),
      ...(prefetchShare(set) !== undefined && { nodeImages: this.#imagesOn(writer, pods) }),
      claims: this.#cached<VolumeClaim>(writer, 'claim'),
      revisions: this.#cached<ControllerRevision>(writer, 'revision'),
      nodes: new Map(),
      gates,
      hasResizeSubresource: true,
      excludePreparingDelete: this.#cast.excludesPreparingDelete,
      nowMs: this.#nowMs,
      ...(this.#permit && { permit: this.#permit }),
      ...(this.#undo && { undo: this.#undo }),
      ...(failures && { failures }),
      isSpent: (podName) => this.#spent.has(podName),
    };
  }

  /** Of nodes on which somebody pulls; the third one is none. */
  #imagesOn(writer: Writer, pods: readonly Pod[]): ReadonlyMap<string, NodeImage | undefined> {
    const names = new Set(pods.flatMap(({ spec }) => spec.nodeName ?? []));
    const images = this.#cached<NodeImage>(writer, 'nodeImage');
    const pulling = pullingNodes.filter((name) => names.has(name));
    return new Map(pulling.map((name) => [name, images.find(({ metadata }) => metadata.name === name)]));
  }

  #act(writer: Writer, intention: Intention, scene: CloneSetScene | undefined): void {
    switch (intention.kind) {
      case 'createRevision': {
        const { metadata } = intention.revision;
        if (!this.#objects.revision.has(metadata.name))
          this.#create(writer, 'revision', { ...intention.revision, metadata });
        return;
      }
      case 'patchRevision':
        this.#patch(writer, 'revision', intention.revision, intention.patch);
        return;
      case 'deleteRevision':
        this.#delete(writer, 'revision', intention.revision);
        return;
      case 'createPod':
        this.#createPod(writer, intention, scene);
        return;
      case 'deletePod':
        this.#mayWrite(writer, 'pod', intention.pod);
        this.#deletePod(this.#get<Pod>('pod', intention.pod.name));
        writer.mustShow.pod = this.#log.length;
        for (const claim of intention.claims) this.#delete(writer, 'claim', claim);
        return;
      case 'writePod':
        if (intention.why === 'release') this.#release(writer, intention.pod);
        else this.#writePod(writer, intention.pod, intention.writes);
        return;
      case 'recreatePod':
        this.#writePod(writer, intention.pod, intention.writes);
        return;
      case 'updatePod':
        for (const _ of this.#update(writer, intention));
        return;
      case 'deleteClaim':
        this.#delete(writer, 'claim', intention.claim);
        return;
      case 'writeClaim':
        this.#patch(writer, 'claim', intention.claim, intention.patch);
        return;
      case 'writeOwner': {
        const set = this.#cached<CloneSet>(writer, 'set')[0] ?? this.#set;
        const patched = strategicMerge(asJson(set), intention.patch) as unknown as CloneSet;
        const { scaleStrategy } = intention.patch.spec as {
          readonly scaleStrategy: { readonly podsToDelete: readonly string[] | null };
        };
        const { podsToDelete: _, ...rest } = patched.spec.scaleStrategy ?? {};
        const names = scaleStrategy.podsToDelete;
        this.#write(writer, 'set', set, {
          ...set,
          spec: { ...set.spec, scaleStrategy: { ...rest, ...(names && { podsToDelete: names }) } },
        });
        return;
      }
      case 'preDownload':
        for (const job of intention.jobs) {
          const wanted = job as unknown as ImagePullJob;
          if (!this.#objects.job.has(wanted.metadata.name)) this.#create(writer, 'job', wanted);
        }
        if (intention.marks) this.#patch(writer, 'revision', intention.revision, intention.marks);
        return;
      case 'deletePullJob': {
        if (!writer.isLeading) throw new Fenced('lost');
        const live = this.#objects.job.get(intention.job.name);
        if (live?.metadata.uid === intention.job.uid) this.#deleteJob(live as ImagePullJob);
        writer.mustShow.job = this.#log.length;
        return;
      }
      case 'adoptPod':
        throw this.#broken('a CloneSet adopts nothing');
      case 'createClaim':
      case 'resizeClaim':
        throw this.#broken('a CloneSet creates PVCs with their pods only, and resizes none');
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
      seen = { ...pod, resourceVersion: this.#get<Pod>('pod', pod.name).metadata.resourceVersion };
      yield `drain ${pod.name}`;
    }
    this.#writePod(writer, seen, writes);
    const before = this.#startedFor.get(pod.uid);
    if (before === revision) throw this.#broken(`${pod.name} is updated twice to ${revision}`);
    this.#startedFor.set(pod.uid, revision);
  }

  #createPod(
    writer: Writer,
    { pod, claims, name }: Extract<Intention, { kind: 'createPod' }>,
    scene: CloneSetScene | undefined,
  ): void {
    const body = { ...(pod as unknown as Pod), status: { phase: 'Pending', conditions: [] } };
    if (!writer.isLeading) {
      this.#onTheirWay.push(body);
      throw new Fenced('lost');
    }
    if (this.#hasQuota) throw new Refused('exceeded quota');
    for (const claim of claims) {
      const { metadata } = claim as unknown as VolumeClaim;
      if (!this.#objects.claim.has(metadata.name)) this.#create(writer, 'claim', claim as unknown as VolumeClaim);
    }
    // one that was thought lost has arrived
    if (this.#objects.pod.has(name)) writer.mustShow.pod = this.#log.length;
    else this.#create(writer, 'pod', body);

    if (scene === undefined) return;
    const { limits, input: world } = scene;
    // Nothing prevents a creation that another leader has sent: this leader knows of it once it has seen it.
    const isUnknown = (one: Pod) =>
      this.#late.has(one.metadata.name) && !scene.counted.some((seen) => seen.name === one.metadata.name);
    const excluded = this.#cast.excludesPreparingDelete || world.owner.spec.scaleStrategy?.excludePreparingDelete;
    const active = this.#pods.filter(
      (one) =>
        isActive(one) &&
        !isUnknown(one) &&
        isControlledBy(world.owner, one) &&
        one.metadata.labels?.app === 'web' &&
        !(excluded && lifecycleStateOf(one) === 'PreparingDelete'),
    );
    if (active.length > limits.replicas + limits.maxSurge) {
      throw this.#broken(`${active.length} pods, where ${limits.replicas} and ${limits.maxSurge} more are allowed`);
    }
  }

  #writePod(writer: Writer, seen: AsSeen, writes: readonly PodWrite[]): void {
    let version = seen.resourceVersion;
    for (const { kind, patch } of writes) {
      this.#mayWrite(writer, 'pod', { ...seen, resourceVersion: version });
      const strange = Object.keys(patch).filter(
        (key) => key !== 'metadata' && key !== (kind === 'status' ? 'status' : 'spec'),
      );
      if (strange.length > 0) throw this.#broken(`a write of ${kind} cannot change ${strange.join()}`);
      this.#patchPod(this.#get<Pod>('pod', seen.name), patch);
      version = this.#get<Pod>('pod', seen.name).metadata.resourceVersion;
    }
    writer.mustShow.pod = this.#log.length;
  }

  #release(writer: Writer, seen: AsSeen): void {
    this.#mayWrite(writer, 'pod', seen);
    const pod = this.#get<Pod>('pod', seen.name);
    this.#store('pod', { ...pod, metadata: { ...pod.metadata, ownerReferences: [] } });
    writer.mustShow.pod = this.#log.length;
  }

  #create<T extends Unborn>(writer: Writer, kind: Kind, object: T): void {
    if (!writer.isLeading) throw new Fenced('lost');
    const { name } = object.metadata;
    const metadata = {
      ...object.metadata,
      uid: `${name}-${this.#version}`,
      creationTimestamp: this.#now,
      resourceVersion: '',
    };
    this.#store(kind, { ...object, metadata });
    writer.mustShow[kind] = this.#log.length;
  }

  #patch(writer: Writer, kind: Kind, seen: AsSeen, patch: JsonObject): void {
    this.#mayWrite(writer, kind, seen);
    const before = asJson(this.#get(kind, seen.name));
    const { metadata, ...rest } = patch;
    const [metaBefore, metaPatch] = [objectOr(before.metadata), objectOr(metadata)];
    const marks = ['labels', 'annotations'].flatMap((field) =>
      metaPatch[field] === undefined
        ? []
        : [[field, { ...objectOr(metaBefore[field]), ...objectOr(metaPatch[field]) }] as const],
    );
    const merged = {
      ...before,
      ...rest,
      metadata: { ...metaBefore, ...metaPatch, ...Object.fromEntries(marks) },
    };
    this.#store(kind, merged as unknown as Stored);
    writer.mustShow[kind] = this.#log.length;
  }

  #write<T extends Stored>(writer: Writer, kind: Kind, seen: Stored, object: T): void {
    this.#mayWrite(writer, kind, { ...seen.metadata, namespace: '' });
    this.#store(kind, object);
    writer.mustShow[kind] = this.#log.length;
  }

  #delete(writer: Writer, kind: Kind, seen: AsSeen): void {
    if (!writer.isLeading) throw new Fenced('lost');
    // deletes carry the UID; one that is gone already is as good
    if (this.#objects[kind].get(seen.name)?.metadata.uid !== seen.uid) return;
    this.#remove(kind, seen.name);
    writer.mustShow[kind] = this.#log.length;
  }

  #mayWrite(writer: Writer, kind: Kind, { name, uid, resourceVersion }: AsSeen): void {
    if (!writer.isLeading) throw new Fenced('lost');
    const live = this.#objects[kind].get(name);
    if (live?.metadata.uid !== uid || live.metadata.resourceVersion !== resourceVersion) {
      throw new Conflict(`${kind} ${name} has changed`);
    }
  }

  /** Lets the caches show some more, at least all that this leader has written itself. */
  #show(writer: Writer): void {
    for (const kind of kinds) {
      const least = Math.max(writer.shown[kind], writer.mustShow[kind]);
      // every third event stays unseen for a while
      const isLate = this.#cast.hasStaleCaches && (this.#log.length + kind.length) % 3 !== 0;
      const end = isLate ? Math.max(least, this.#log.length - 4) : this.#log.length;
      for (const event of this.#log.slice(writer.shown[kind], end)) {
        if (event.kind !== kind) continue;
        if (event.object) writer.caches[kind].set(event.name, event.object);
        else writer.caches[kind].delete(event.name);
      }
      writer.shown[kind] = Math.max(end, writer.shown[kind]);
    }
  }

  // ---------------------------------------------------------------------------------------------------------- promises

  #checkPlan(plan: CloneSetPlan, world: CloneSetInput): void {
    const { permit } = world;
    const scene = plan.situation?.scene;
    if (scene === undefined) return;
    const { counted, limits } = scene;
    const available = new Map(counted.filter(({ isAvailable }) => isAvailable).map((pod) => [pod.name, pod]));
    const taken = [...plan.upkeep, ...plan.disruption].flatMap((step) => takenBy(step) ?? []);
    const hit = taken.filter((name) => available.has(name));

    const written = [...plan.upkeep, ...plan.disruption].flatMap((step) =>
      'pod' in step && step.kind !== 'createPod' ? [step.pod.name] : [],
    );
    if (new Set(written).size !== written.length) throw this.#broken('a pod is written twice in one pass');
    this.#checkHooks([...plan.upkeep, ...plan.disruption], scene);
    const left = available.size - hit.length;
    if (hit.length > 0 && left < limits.replicas - limits.maxUnavailable) {
      throw this.#broken(
        `takes ${hit.join()} although ${available.size} pods are available and ${limits.replicas} less ` +
          `${limits.maxUnavailable} have to be`,
      );
    }
    if (plan.disruption.length > 0 && permit === undefined) throw this.#broken('disrupts without a permit');
    if (plan.disruption.length > 0 && isPaused(world.owner)) throw this.#broken('disrupts while it is paused');
    this.#checkImages(plan, world);
    this.#checkUpkeep(plan.upkeep, scene, available);
    this.#checkBatch(plan, scene);
    this.#checkPartition(plan, scene);
  }

  /** No pod is disturbed before the images are on the nodes that the set asks for, unless they were once. */
  #checkImages({ disruption, situation }: CloneSetPlan, { owner: set, nodeImages }: CloneSetInput): void {
    const scene = situation?.scene;
    const share = prefetchShare(set);
    if (scene === undefined || share === undefined || nodeImages === undefined || scene.isUndo) return;
    if ((situation?.update.demand.numbers.updateNum ?? 0) < 0) return;
    const { current, update } = scene.revisions;
    const image = imageOfRevision(update);
    const { podUpdatePolicy = 'ReCreate' } = set.spec.updateStrategy?.rollingUpdate ?? {};
    const isInPlace = podUpdatePolicy !== 'ReCreate' && withoutImage(current) === withoutImage(update);
    if (!isInPlace || image === imageOfRevision(current)) return;
    if (update.metadata.annotations?.[windlassAnnotation.prefetched] === String(update.revision)) return;
    const begun = new Set(scene.counted.filter(({ state }) => state === 'PreparingUpdate').map(({ name }) => name));
    const fresh = disruption.filter((step) => 'pod' in step && !begun.has(step.pod.name as string));
    if (fresh.length === 0) return;

    const skipped = scene.orders?.skip ?? [];
    const old = scene.counted.filter((pod) => !isOfRevision(pod, update.metadata.name) && !skipped.includes(pod.name));
    const nodes = [...new Set(old.flatMap(({ pod }) => pod.spec.nodeName ?? []))].filter((name) =>
      nodeImages.has(name),
    );
    const [name = '', tag = ''] = image.split(':');
    const ready = nodes.filter((node) => {
      const known = nodeImages.get(node);
      return known !== undefined && findTagStatus(known, name, tag)?.phase === 'Succeeded';
    });
    const wanted = typeof share === 'number' ? share : Math.ceil((Number.parseInt(share, 10) * nodes.length) / 100);
    if (ready.length < Math.min(wanted, nodes.length)) {
      throw this.#broken(
        `${describe(fresh[0] as Intention)} with ${image} on ${ready.length} of ${nodes.length} nodes`,
      );
    }
  }

  /** Nobody is updated in place or deleted who still has a mark of the hook. */
  #checkHooks(steps: readonly Intention[], { counted, owner: set }: CloneSetScene): void {
    const { preDelete, inPlaceUpdate } = set.spec.lifecycle ?? {};
    for (const step of steps) {
      if (step.kind !== 'updatePod' && step.kind !== 'deletePod') continue;
      const pod = counted.find(({ name }) => name === step.pod.name);
      const hook = step.kind === 'deletePod' ? preDelete : inPlaceUpdate;
      if (pod === undefined || pod.state === 'Updating') continue;
      if (marksOn(hook, pod.pod).length > 0) throw this.#broken(`${describe(step)} although a hook holds it`);
    }
  }

  /** Upkeep takes an available pod only if somebody has named it, or if it is too many. */
  #checkUpkeep(upkeep: readonly Intention[], scene: CloneSetScene, available: ReadonlyMap<string, FleetPod>): void {
    const surplus = scene.counted.length - scene.limits.replicas;
    for (const step of upkeep) {
      const pod = available.get(takenBy(step) ?? '');
      if (pod === undefined || pod.isSpecified) continue;
      const isDelete = step.kind === 'deletePod' || (step.kind === 'writePod' && step.why === 'prepareDelete');
      if (!isDelete || surplus <= 0) throw this.#broken(`upkeep takes ${pod.name}: ${describe(step)}`);
    }
  }

  #checkBatch({ disruption, situation }: CloneSetPlan, scene: CloneSetScene): void {
    const isBack = (situation?.update.demand.numbers.updateNum ?? 0) < 0;
    const { name: revision } = (isBack ? scene.other : scene.target).metadata;
    const { pods } = scene.input.permit ?? question;
    const stranger = disruption.find((step) => pods.get(takenUid(step) ?? '') !== revision);
    if (stranger)
      throw this.#broken(`disrupts a pod that the permit does not name for ${revision}: ${describe(stranger)}`);
  }

  #checkPartition({ disruption, situation }: CloneSetPlan, scene: CloneSetScene): void {
    if (disruption.length === 0 || (situation?.update.demand.numbers.updateNum ?? 0) <= 0) return;
    const old = scene.counted.filter((pod) => !isAtGoal(scene, pod) && pod.state !== 'PreparingDelete');
    if (old.length - disruption.length < scene.limits.partition) {
      throw this.#broken(
        `leaves ${old.length - disruption.length} old pods, the partition is ${scene.limits.partition}`,
      );
    }
  }

  #checkTruth(): void {
    const set = this.#set;
    const found = revisionsFor({ owner: set, revisions: this.#all<ControllerRevision>('revision') });
    const looked = membersFor({ owner: set, pods: this.#pods, nowMs: this.#nowMs });
    if (found.kind === 'create' || looked === undefined) return;
    const { rollingUpdate } = set.spec.updateStrategy ?? {};
    const limits = limitsOf({ replicas: replicasOf(set), rollingUpdate, scaleMaxUnavailable: undefined });
    const available = looked.counted.filter(({ isAvailable }) => isAvailable).length;
    if (available < limits.replicas - limits.maxUnavailable) {
      throw this.#broken(
        `${available} pods of ${limits.replicas} are available, ${limits.maxUnavailable} may be missing`,
      );
    }
    const { excludesPreparingDelete } = this.#cast;
    const pods = looked.counted.filter(({ state }) => !(excludesPreparingDelete && state === 'PreparingDelete'));
    if (pods.length > limits.replicas + limits.maxSurge) {
      throw this.#broken(`${pods.length} pods of ${limits.replicas}, and ${limits.maxSurge} more are allowed`);
    }
  }

  /** Nothing is left to do, and who asks why hears it. */
  #checkRest({ upkeep, disruption, status, standing }: CloneSetPlan): void {
    const steps = [...upkeep, ...disruption].filter(({ kind }) => kind !== 'event');
    const isTrying = this.#hasQuota && steps.every(({ kind }) => kind === 'createPod');
    if (status) throw this.#broken('the status is written again and again');
    if (steps.length > 0 && !isTrying) throw this.#broken(`does ${steps.map(describe).join()} again and again`);
    if (standing.kind === 'working') throw this.#broken('stands still without a reason');
    if (standing.kind === 'waiting' && standing.wait.unblock === '') throw this.#broken('does not say what helps');
  }

  #broken(what: string): BrokenPromise {
    return new BrokenPromise(`${what}\n${this.story.slice(-60).join('\n')}`);
  }

  // --------------------------------------------------------------------------------------------------------- the store

  #take({ what, take }: Step): void {
    if (!what.startsWith('leader')) this.#say(what);
    take();
    this.#nowMs += 10;
  }

  #say(what: string): void {
    this.story.push(what);
  }

  get #now(): string {
    return timestamp(this.#nowMs);
  }

  #wait(ms: number): void {
    this.#nowMs += ms;
  }

  get #set(): CloneSet {
    return this.#get<CloneSet>('set', 'web');
  }

  get #pods(): readonly Pod[] {
    return this.#all<Pod>('pod');
  }

  #all<T extends Stored>(kind: Kind): readonly T[] {
    return [...this.#objects[kind].values()] as unknown as readonly T[];
  }

  #cached<T extends Stored>(writer: Writer, kind: Kind): readonly T[] {
    return [...writer.caches[kind].values()] as unknown as readonly T[];
  }

  #get<T extends Stored>(kind: Kind, name: string): T {
    const object = this.#objects[kind].get(name);
    if (object === undefined) throw new Conflict(`${kind} ${name} is gone`);
    return object as unknown as T;
  }

  #store<T extends Stored>(kind: Kind, object: T): void {
    const { name } = object.metadata;
    const metadata = { ...object.metadata, resourceVersion: String(++this.#version) };
    const stored = { ...object, metadata };
    this.#objects[kind].set(name, stored);
    this.#log.push({ kind, name, object: stored });
  }

  #remove(kind: Kind, name: string): void {
    if (kind === 'pod') this.#spent.add(name);
    this.#objects[kind].delete(name);
    this.#log.push({ kind, name, object: undefined });
  }

  #deletePod(pod: Pod): void {
    if (pod.metadata.deletionTimestamp !== undefined) return;
    this.#store('pod', { ...pod, metadata: { ...pod.metadata, deletionTimestamp: this.#now } });
  }

  #patchPod(seen: Pod, patch: JsonObject): void {
    const live = this.#objects.pod.get(seen.metadata.name);
    if (live?.metadata.uid !== seen.metadata.uid) return;
    const patched = strategicMerge(asJson(live), patch) as unknown as Pod;
    const generation = (live.metadata.generation ?? 1) + Number('spec' in patch);
    this.#store('pod', { ...patched, metadata: { ...patched.metadata, generation } });
  }

  #free(pod: Pod): void {
    const live = this.#objects.pod.get(pod.metadata.name);
    if (live === undefined) return;
    const { guard: _, ...labels } = live.metadata.labels ?? {};
    this.#store('pod', { ...live, metadata: { ...live.metadata, labels, finalizers: [] } });
  }

  #mark(pod: Pod, label: 'guard' | 'born'): void {
    const finalizers = label === 'guard' ? { finalizers: ['example.com/drain'] } : {};
    this.#patchPod(pod, { metadata: { labels: { [label]: 'on' }, ...finalizers } });
  }

  #changeSpec(change: Partial<CloneSetSpec>): void {
    const set = this.#set;
    const generation = (set.metadata.generation ?? 0) + 1;
    this.#store('set', {
      ...set,
      metadata: { ...set.metadata, generation },
      spec: { ...set.spec, ...change },
    } as CloneSet);
  }

  #changeRolling(change: RollingUpdate): void {
    const { updateStrategy } = this.#set.spec;
    this.#changeSpec({
      updateStrategy: { ...updateStrategy, rollingUpdate: { ...updateStrategy?.rollingUpdate, ...change } },
    });
  }

  #dropHooks(): void {
    const set = this.#set;
    const { lifecycle: _, ...spec } = set.spec;
    this.#store('set', { ...set, spec } as CloneSet);
  }

  #template(image: string, spec: object = {}) {
    const isHooked = this.#cast.lifecycle !== undefined;
    const labels = { app: 'web', ...(isHooked && { guard: 'on' }) };
    return template(image, spec, { labels, ...(isHooked && { finalizers: ['example.com/drain'] }) });
  }
}

/** The pod that a step writes or deletes in a way that may take it out of service. */
function takenUid(step: Intention): string | undefined {
  return step.kind === 'updatePod' || step.kind === 'recreatePod' || step.kind === 'writePod'
    ? step.pod.uid
    : undefined;
}

function takenBy(step: Intention): string | undefined {
  switch (step.kind) {
    case 'deletePod':
    case 'updatePod':
      return step.pod.name;
    case 'writePod':
      return step.why === 'prepareDelete' || step.why === 'prepareUpdate' ? step.pod.name : undefined;
    default:
      return undefined;
  }
}

function describe(intention: Intention): string {
  switch (intention.kind) {
    case 'createPod':
      return `create ${intention.name}`;
    case 'deletePod':
    case 'updatePod':
    case 'recreatePod':
      return `${intention.kind} ${intention.pod.name}`;
    case 'writePod':
      return `${intention.why} ${intention.pod.name}`;
    default:
      return intention.kind;
  }
}

function condition(pod: Pod, wanted: string): PodCondition | undefined {
  return pod.status?.conditions?.find(({ type }) => type === wanted);
}

function isPaused({ status }: CloneSet): boolean {
  return status?.rollOut?.paused !== undefined;
}

function isReady(pod: Pod): boolean {
  return condition(pod, 'Ready')?.status === 'True';
}

/** The image of a job, as NodeImages file it. */
function imageIn({ spec }: ImagePullJob): { readonly name: string; readonly tag: string } {
  const [name = '', tag = ''] = spec.image.split(':');
  return { name, tag };
}

/** The node without the tags that are not to be kept; the same one when all are. */
function withoutTags(node: NodeImage, keep: (tag: ImageTag) => boolean): NodeImage {
  const tags = node.spec.images?.nginx?.tags ?? [];
  const kept = tags.filter(keep);
  if (kept.length === tags.length) return node;
  const told = node.status?.imageStatuses?.nginx?.tags ?? [];
  const left = told.filter((status) => kept.some(({ tag }) => tag === status.tag));
  return {
    ...node,
    spec: kept.length > 0 ? { images: { nginx: { tags: kept } } } : {},
    status: { ...noPulls, imageStatuses: { nginx: { tags: left } } },
  };
}

function imageOfRevision(revision: ControllerRevision): string {
  return imageOf({ spec: templateOf(revision)?.spec } as CloneSetSpec['template']);
}

function withoutImage(revision: ControllerRevision): string {
  return JSON.stringify(templateOf(revision)?.spec ?? {}).replaceAll(imageOfRevision(revision), '');
}

function imageOf(of: Pod | CloneSetSpec['template']): string {
  const { spec } = of;
  const containers = isJsonObject(spec) ? (spec.containers as readonly { readonly image?: string }[]) : [];
  return containers[0]?.image ?? '';
}

function conditionsPatch(
  ...conditions: readonly { readonly type: string; readonly status: string; readonly at: string }[]
): JsonObject {
  return {
    status: { conditions: conditions.map(({ type, status, at }) => ({ type, status, lastTransitionTime: at })) },
  };
}

function asJson(value: object): JsonObject {
  const json: unknown = JSON.parse(JSON.stringify(value));
  return isJsonObject(json) ? json : {};
}
