/**
 * SidecarSets as a fleet: one queue in which each has one writer, and the roll-outs that give the permits to update running
 * pods. A SidecarSet keeps no pods of its own; it is a sibling of workloads on the same queue.
 */

import type { JsonObject } from '../../../api/base/json.ts';
import { failureTypeOf } from '../../../api/core/failure.ts';
import type { KubeObject } from '../../../api/core/meta.ts';
import type { Pod } from '../../../api/core/pod.ts';
import { qualifiedName } from '../../../api/core/refs.ts';
import { kubeResource } from '../../../api/core/well-known.ts';
import { rollOutId } from '../../../api/fleet/operation.ts';
import { prefetchShare } from '../../../api/fleet/pre-download.ts';
import type { ControllerRevision } from '../../../api/fleet/revision.ts';
import { type ImagePullJob, imagePullJobs } from '../../../api/image-pull-job/types.ts';
import { type NodeImage, nodeImages } from '../../../api/node-image/types.ts';
import { conflictingSets } from '../../../api/sidecar-set/conflicts.ts';
import { sidecarSetLabel } from '../../../api/sidecar-set/marks.ts';
import { sidecarRevisions } from '../../../api/sidecar-set/revision.ts';
import { swapWaits } from '../../../api/sidecar-set/swap.ts';
import { type SidecarSet, sidecarSets } from '../../../api/sidecar-set/types.ts';
import type { Cache } from '../../../kube/cache.ts';
import type { Term } from '../../../kube/leader.ts';
import { unlessGone } from '../../../kube/moved-on.ts';
import { type Wait, waitFor } from '../../../plan/decision.ts';
import type { Permit } from '../../../plan/fleet/permit.ts';
import type { PodOfFleet } from '../../../plan/fleet/roll-out-orders.ts';
import type {
  SidecarSetFailures,
  SidecarSetInput,
  SidecarSetPlan,
  SidecarSetStep,
} from '../../../plan/sidecar-set/input.ts';
import { planSidecarSet } from '../../../plan/sidecar-set/planner.ts';
import { isManaged, listedSets } from '../../../plan/sidecar-set/pods.ts';
import type { SidecarSetScene } from '../../../plan/sidecar-set/scene.ts';
import { type SidecarTarget, targetOfSpec } from '../../../plan/sidecar-set/target.ts';
import type { SwapOfPod } from '../../../plan/sidecar-swap/model.ts';
import { type SwapStanding, swapStanding } from '../../../plan/sidecar-swap/standing.ts';
import type { ControllerContext } from '../../controller.ts';
import { messageOf } from '../../fleet/failed-steps.ts';
import { imagesOn } from '../../fleet/images-on-nodes.ts';
import type { FleetKind, Seen, StepPod, Together, UpdateInStep } from '../../fleet/kind.ts';
import { ownedBy, ownedIndex } from '../../fleet/owned.ts';
import { FleetQueue, type PassReason } from '../../fleet/queue.ts';
import { RollOuts } from '../../fleet/roll-outs.ts';
import { SwapOperations } from './swap-operations.ts';
import { Swaps } from './swaps.ts';
import { type SidecarSetPass, SidecarSetWriter } from './writer.ts';

/** The index of pods by the SidecarSets that they list. */
const podsBySidecarSet = 'sidecarSet';
/** The index of ControllerRevisions by the SidecarSet in their label. */
const revisionsBySidecarSet = 'sidecarSet';

/** How many SidecarSets are worked on at once, and how many pods of one are marked at once. */
const concurrency = 16;
const parallelSteps = 16;
/** Status is to follow pods within 200 ms. */
const restMs = 50;
/** After a conflict everything is counted again. */
const overtakenMs = 100;
/** A write without an answer is waited for no longer. */
const catchUpMs = 10_000;

/** Keeps the revisions and the status of SidecarSets, and updates their pods. */
export class SidecarSetFleet implements FleetKind<SidecarSetInput, SidecarSetStep, SidecarSetPlan> {
  readonly kind = sidecarSets.kind;
  readonly sets: Cache<SidecarSet>;
  readonly pods: Cache<Pod>;
  readonly rollOuts: RollOuts<SidecarSet>;
  readonly #context: ControllerContext;
  readonly #namespaces: Cache<KubeObject>;
  readonly #revisions: Cache<ControllerRevision>;
  readonly #nodes: Cache<KubeObject>;
  /** The jobs that have images pulled before a roll-out. */
  readonly pullJobs: Cache<ImagePullJob>;
  readonly nodeImages: Cache<NodeImage>;
  readonly #writer: SidecarSetWriter;
  readonly #timers: ReturnType<ControllerContext['queue']>;
  /** What was decided on in a pass. */
  readonly #scenes = new WeakMap<SidecarSetInput, SidecarSetScene>();
  #queue: FleetQueue<SidecarSetInput, SidecarSetStep, SidecarSetPlan> | undefined;
  /** What the operations of pods have handed in. */
  #swaps: Swaps | undefined;
  #operations: SwapOperations | undefined;
  /** What the pods of a SidecarSet are to become, as of its last pass. */
  readonly #targets = new Map<string, { readonly generation: number | undefined; readonly target: SidecarTarget }>();

  constructor(context: ControllerContext) {
    this.#context = context;
    const { cache, kube, now } = context;
    this.sets = cache<SidecarSet>(sidecarSets);
    this.pods = cache<Pod>(kubeResource.pods, { [podsBySidecarSet]: listedSets });
    this.#namespaces = cache<KubeObject>(kubeResource.namespaces);
    this.#revisions = cache<ControllerRevision>(kubeResource.controllerRevisions, {
      [revisionsBySidecarSet]: ({ metadata }) => [metadata.labels?.[sidecarSetLabel.name] ?? []].flat(),
    });
    this.#nodes = cache<KubeObject>(kubeResource.nodes);
    this.pullJobs = cache<ImagePullJob>(imagePullJobs, ownedIndex);
    this.nodeImages = cache<NodeImage>(nodeImages);
    this.rollOuts = new RollOuts(context, {
      resource: sidecarSets,
      owners: this.sets,
      queue: 'sidecar-set-roll-outs',
      podsOf: (uid) => this.#podsOf(uid),
      fleet: () => this.#queue,
    });
    this.#writer = new SidecarSetWriter({
      ...{ kube, now, sets: this.sets, pods: this.pods, revisions: this.#revisions, pullJobs: this.pullJobs },
      manages: (set, pod) => this.manages(set, pod),
      overtaken: (uid) => this.addAfter(uid, overtakenMs),
    });
    this.#timers = context.queue('sidecar-sets', async (uid) => {
      this.add(uid, 'changed');
      return undefined;
    });
  }

  /** Where roll-outs submit their permits; undefined while this process does not lead. */
  get queue(): FleetQueue<SidecarSetInput, SidecarSetStep, SidecarSetPlan> | undefined {
    return this.#context.isLeading() ? this.#queue : undefined;
  }

  /** Where swaps hand in their steps; undefined while this process does not lead. */
  get swaps(): Swaps | undefined {
    return this.#context.isLeading() ? this.#swaps : undefined;
  }

  begin(term: Term): void {
    const { log, metrics, now, starter } = this.#context;
    const wake = (uid: string) => this.add(uid, 'permit');
    this.#swaps = new Swaps({ term, look: (of) => this.#standingOf(of), wake, nowMs: now });
    this.#operations = new SwapOperations({ starter, wake });
    this.#targets.clear();
    this.rollOuts.begin();
    const queue = new FleetQueue<SidecarSetInput, SidecarSetStep, SidecarSetPlan>({
      ...{ fleet: this, term, log, concurrency, parallelSteps, restMs, nowMs: now },
    });
    metrics.trackQueue(sidecarSets.plural, () => queue.depth);
    this.#queue = queue;
  }

  async stop(): Promise<void> {
    await this.#queue?.stop();
  }

  /** Requests a pass over this SidecarSet. */
  add(uid: string, reason: PassReason): void {
    this.queue?.add(uid, reason);
  }

  /** Requests a pass after a time; of several requests the earliest counts. */
  addAfter(uid: string, ms: number): void {
    this.#timers.addAfter(uid, ms);
  }

  /** Whether the roll-out of this SidecarSet goes on, or has to. */
  isRollingOut(uid: string): boolean {
    return this.rollOuts.wanted(uid)?.isWanted === true || this.#queue?.hasRollOut(uid) === true;
  }

  /** The pods of this SidecarSet. Those that are skipped use up nothing. */
  #podsOf(uid: string): readonly PodOfFleet[] {
    const owner = this.sets.byUid(uid);
    if (owner === undefined) return [];
    const pods = this.pods.byIndex(podsBySidecarSet, owner.metadata.name).filter((pod) => this.manages(owner, pod));
    return pods.map((pod) => ({ name: qualifiedName(pod.metadata), spendsBudget: false }));
  }

  look(uid: string): SidecarSetInput | undefined {
    const owner = this.sets.byUid(uid);
    if (owner === undefined) {
      this.rollOuts.forgetPermit(uid);
      this.#operations?.forget(uid);
      this.#targets.delete(uid);
      return undefined;
    }
    const { config, now, starter } = this.#context;
    const { name } = owner.metadata;
    const revisionNamespace = config.podNamespace;
    const labelled = this.#revisions
      .byIndex(revisionsBySidecarSet, name)
      .filter(({ metadata }) => metadata.namespace === revisionNamespace);
    const engine = starter.trouble(rollOutId(owner.metadata), undefined, { fleet: true });
    const failures = this.#failuresOf(uid);
    const swaps = new Map(this.#swaps?.dueSteps(uid).map(({ pod, step }) => [pod.uid, step]));
    const inFront = this.#operations?.inFrontOf(uid);
    const conflicts = conflictingSets(asJson(owner), [...this.sets.all()].map(asJson));
    const pods = this.pods.byIndex(podsBySidecarSet, name).filter((pod) => this.manages(owner, pod));
    const uids = new Set(pods.map(({ metadata }) => metadata.uid));
    const refused = this.#queue?.refused(uid, (podUid) => uids.has(podUid));
    const inDoubt = this.#queue?.inDoubt(uid);
    const pullJobs = ownedBy(this.pullJobs, sidecarSets, uid);
    const { KruiseDaemon, ImagePullJobGate } = config.featureGates;
    const isPrefetched = prefetchShare(owner) !== undefined && KruiseDaemon && ImagePullJobGate;
    return {
      owner,
      pods,
      ...(pullJobs.length > 0 && { pullJobs }),
      ...(isPrefetched && { nodeImages: imagesOn(pods, this.#nodes, this.nodeImages) }),
      history: sidecarRevisions(owner, labelled),
      revisionNamespace,
      nowMs: now(),
      ...(swaps.size > 0 && { swaps }),
      ...(inFront && inFront.size > 0 && { inFront }),
      ...(conflicts.length > 0 && { conflicts }),
      ...(engine && { engine }),
      ...this.rollOuts.held(uid),
      ...(failures && { failures }),
      ...(refused && { refused }),
      ...(inDoubt && { inDoubt }),
    };
  }

  plan(input: SidecarSetInput, permit: Permit | undefined, nowMs: number): SidecarSetPlan {
    const withoutPermitSinceMs = this.rollOuts.withoutPermitSinceMs(input.owner.metadata.uid) ?? nowMs;
    const plan = planSidecarSet({ ...input, nowMs, withoutPermitSinceMs, ...(permit && { permit }) });
    if (plan.situation) this.#scenes.set(input, plan.situation.scene);
    return plan;
  }

  planned(input: SidecarSetInput, plan: SidecarSetPlan, nowMs: number): void {
    const { owner } = input;
    const { uid, generation } = owner.metadata;
    const { swaps } = plan;
    if (swaps) {
      for (const [podUid, why] of swaps.nothing) this.#swaps?.nothing(podUid, why);
      for (const [podUid, wait] of swaps.waits) this.#swaps?.waits(podUid, wait);
      this.#operations?.want(owner, swaps.wanted, swaps.target);
    }
    const scene = this.#scenes.get(input);
    if (scene) this.#targets.set(uid, { generation, target: scene.target });
    this.rollOuts.planned(uid, plan, nowMs);
  }

  wake(uid: string): void {
    this.rollOuts.wake(uid);
  }

  /** One pod is updated after another, and an error ends the round (SCS-133). */
  together({ kind }: SidecarSetStep): Together {
    return kind === 'writeCondition' ? 'freely' : 'alone';
  }

  tells({ kind }: SidecarSetStep): boolean {
    return kind === 'writeStatus' || kind === 'event';
  }

  retryKey(step: SidecarSetStep): string {
    switch (step.kind) {
      case 'writeCondition':
      case 'updateSidecars':
      case 'swapSidecars':
        return `${step.kind} ${step.pod.uid}`;
      case 'patchRevision':
      case 'deleteRevision':
        return `${step.kind} ${step.revision.uid}`;
      case 'deletePullJob':
        return `${step.kind} ${step.job.uid}`;
      default:
        return step.kind;
    }
  }

  podOf(step: SidecarSetStep): StepPod | undefined {
    const update = this.updateIn(step);
    return update?.isWhole ? update.pod : undefined;
  }

  updateIn(step: SidecarSetStep): UpdateInStep | undefined {
    if (step.kind === 'tryUpdate') return { pod: step.pod, revision: step.revision, isWhole: false };
    const isBegin = step.kind === 'updateSidecars' || (step.kind === 'swapSidecars' && step.step === 'begin');
    return isBegin ? { pod: step.pod, revision: step.revision, isWhole: true } : undefined;
  }

  isForbidden(uid: string, pod: StepPod): boolean {
    return this.rollOuts.isForbidden(uid, pod);
  }

  async act(
    step: SidecarSetStep,
    input: SidecarSetInput,
    signal: AbortSignal,
    mayGoOn: () => boolean,
  ): Promise<Seen | undefined> {
    const scene = this.#scenes.get(input);
    if (scene === undefined) return undefined;
    const pass = { input, scene };
    if (step.kind === 'swapSidecars') return await this.#swap(step, pass, signal, mayGoOn);
    return await this.#writer.act(step, pass, signal, mayGoOn);
  }

  /** Writes a step while the operation that has handed it in waits for it, and tells it once the caches show it. */
  async #swap(
    step: Extract<SidecarSetStep, { readonly kind: 'swapSidecars' }>,
    pass: SidecarSetPass,
    signal: AbortSignal,
    mayGoOn: () => boolean,
  ): Promise<Seen | undefined> {
    const { uid, name } = pass.input.owner.metadata;
    const swaps = this.#swaps;
    const of = { pod: step.pod, set: { name, uid }, step: step.step };
    const mayWrite = () => swaps?.mayWrite(of) === true && mayGoOn();
    if (!mayWrite()) return undefined;
    const over = swaps?.writing(step.pod.uid);
    let seen: Seen | undefined;
    try {
      seen = await this.#writer.act(step, pass, signal, mayWrite);
    } catch (error) {
      swaps?.waits(step.pod.uid, refusedSwap(error));
      throw error;
    } finally {
      if (seen === undefined) over?.();
    }
    const shown = seen;
    return (
      shown &&
      (async (until) => {
        await shown(until).finally(over);
        swaps?.podChanged(step.pod.uid);
      })
    );
  }

  /** How far the swap of a pod is. */
  #standingOf({ pod: { uid, name }, set }: SwapOfPod): SwapStanding {
    const owner = this.sets.byUid(set.uid);
    if (owner === undefined) return goneBecause(`SidecarSet "${set.name}" was deleted`);
    const pod = this.pods.byUid(uid);
    if (pod === undefined) return goneBecause(`Pod "${name}" was deleted`);
    if (!this.manages(owner, pod)) return goneBecause(`SidecarSet "${set.name}" does not manage pod "${name}"`);
    const known = this.#targets.get(set.uid);
    const target =
      known !== undefined && known.generation === owner.metadata.generation
        ? { ...known.target, version: owner.metadata.resourceVersion }
        : targetOfSpec(owner, owner.status?.latestRevision ?? '');
    return swapStanding({ set: owner, target, pod, nowMs: this.#context.now() });
  }

  /** Reads what was written without an answer, and waits until the caches show it as it is by then. */
  async catchUp(uid: string, stop: AbortSignal, pods: readonly StepPod[]): Promise<void> {
    const signal = AbortSignal.any([stop, AbortSignal.timeout(catchUpMs)]);
    const { kube, config } = this.#context;
    const owner = this.sets.byUid(uid);
    if (owner === undefined) return;
    const { name } = owner.metadata;
    const labelSelector = `${sidecarSetLabel.name}=${name}`;
    const { podNamespace: namespace } = config;
    const podSeen = async (pod: StepPod) => {
      const live = await unlessGone(kube.get<Pod>(kubeResource.pods, pod, { signal }));
      if (live === undefined) return await this.pods.deletionSeen(pod.uid, signal);
      await this.pods.seen(live.metadata.uid, live.metadata.resourceVersion, signal);
    };
    const [set, { items }] = await Promise.all([
      unlessGone(kube.get<SidecarSet>(sidecarSets, { name }, { signal })),
      kube.list<ControllerRevision>(kubeResource.controllerRevisions, { namespace, labelSelector, signal }),
    ]);
    await Promise.all([
      set ? this.sets.seen(uid, set.metadata.resourceVersion, signal) : this.sets.deletionSeen(uid, signal),
      ...items.map(({ metadata }) => this.#revisions.seen(metadata.uid, metadata.resourceVersion, signal)),
      ...pods.map(podSeen),
    ]);
  }

  /** Whether the SidecarSet manages the pod, as the caches show both. */
  manages(set: SidecarSet, pod: Pod): boolean {
    const namespace = this.#namespaces.byName('', pod.metadata.namespace ?? '');
    return isManaged(set, pod, namespace && (namespace.metadata.labels ?? {}));
  }

  #failuresOf(uid: string): SidecarSetFailures | undefined {
    const failed = (this.#queue?.failedSteps(uid) ?? []).flatMap(({ step, error }) => {
      const pod = this.podOf(step);
      return pod === undefined ? [] : [{ pod: pod.uid, error }];
    });
    const [first] = failed;
    if (first === undefined) return undefined;
    const type = failureTypeOf(first.error);
    return {
      pods: new Set(failed.map(({ pod }) => pod)),
      message: messageOf(first.error),
      ...(type && { type }),
      retriedWithinMs: this.#queue?.longestPauseMs(uid) ?? 0,
    };
  }
}

function refusedSwap(error: unknown): Wait {
  const reason = failureTypeOf(error) === 'Denied' ? 'Denied' : 'Parked';
  return waitFor(reason, [], `${swapWaits[reason]}; ${messageOf(error)}`);
}

function goneBecause(why: string): SwapStanding {
  return { look: { kind: 'gone', why } };
}

function asJson(set: SidecarSet): JsonObject {
  return set as unknown as JsonObject;
}
