/**
 * What the watcher does for a kind of workload: it keeps the caches in which the planner looks, one queue in which each
 * workload has one writer, and the roll-outs that give the permits to disrupt. A kind brings what it is made of as a
 * `FleetDefinition`; which pods there are to be is decided by its planner.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { sameJson } from '../../api/base/json.ts';
import { type FailureType, failureTypeOf } from '../../api/core/failure.ts';
import { formatSelector, isSelected, labelMatcher } from '../../api/core/label-selector.ts';
import type { KubeObject, Resource } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import { qualifiedName } from '../../api/core/refs.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { rollOutId, rollOutType } from '../../api/fleet/operation.ts';
import { prefetchShare } from '../../api/fleet/pre-download.ts';
import type { ControllerRevision } from '../../api/fleet/revision.ts';
import { ordersOf } from '../../api/fleet/roll-out-orders.ts';
import { type ImagePullJob, imagePullJobs } from '../../api/image-pull-job/types.ts';
import { type NodeImage, nodeImages } from '../../api/node-image/types.ts';
import { seriesOf } from '../../api/stateful-set/ordinals.ts';
import { type Cache, compareVersions } from '../../kube/cache.ts';
import type { ListOptions } from '../../kube/client.ts';
import type { Term } from '../../kube/leader.ts';
import { mayBeMade } from '../../kube/moved-on.ts';
import { RecentlySeen } from '../../kube/recently-seen.ts';
import { type FleetFailures, type FleetInput, fleetInput } from '../../plan/fleet/input.ts';
import type { FleetPlan, Permit } from '../../plan/fleet/permit.ts';
import type { WorkloadPlanner } from '../../plan/fleet/planner.ts';
import { type AsSeen, isPodReady } from '../../plan/fleet/pods.ts';
import type { Intention } from '../../plan/fleet/steps.ts';
import type { Workload } from '../../plan/fleet/workload.ts';
import type { Controller, ControllerContext } from '../controller.ts';
import { Drains } from '../drained.ts';
import { isDueEarlier, isEdited } from './changes.ts';
import { messageOf } from './failed-steps.ts';
import { imagesOn } from './images-on-nodes.ts';
import type { FleetKind, Seen, StepPod, UpdateInStep } from './kind.ts';
import {
  inNamespace,
  isOrphan,
  namespaceIndex,
  orphanIndex,
  orphansIn,
  ownedBy,
  ownedIndex,
  ownerIn,
  seriesIndex,
} from './owned.ts';
import { FleetQueue } from './queue.ts';
import { type ForRollOut, RollOuts } from './roll-outs.ts';
import { requestMs } from './unanswered-updates.ts';
import { type FleetStep, FleetWriter, type FleetWriterOptions, onlyTells, retryKeyOf, togetherOf } from './writer.ts';

/** For so long no new pod gets the name of one that has gone: people and logs know pods by name. */
const spentMs = 600_000;
/** How many workloads are worked on at once, and how many pods of one. */
const concurrency = 16;
const parallelSteps = 64;
/** Status is to follow pods within 200 ms. */
const restMs = 50;
/** A write without an answer is waited for no longer: the names of new pods keep one that arrives late from being made twice. */
const catchUpMs = 10_000;
/** How long after a failed attempt the API server is asked again what it serves. */
const discoverAgainMs = 1_000;
/** How many objects one page of a list holds. */
const pageSize = 500;

/**
 * What one pass does at most: pods that have come up meanwhile, and users who think better of it, must not wait for the
 * last of thousands.
 */
const mostAtOnce = { starts: 64, others: 256 } as const;

/** What a kind of workload is made of. */
export interface FleetDefinition<Owner extends Workload, Input extends FleetInput<Owner>>
  extends Pick<FleetWriterOptions<Owner, Input>, 'events' | 'component'> {
  readonly planner: WorkloadPlanner<Owner, Input>;
  /** The name of the queue of its roll-outs, in metrics. */
  readonly rollOuts: string;
  /** Whether pods without a controller may be adopted by a workload. Absent: no. */
  readonly adopts?: boolean;
  /**
   * The names of its PVCs without their ordinals: `data-web`. For PVCs that belong to a pod by their name and not by their
   * controller. Absent: the workload controls its PVCs.
   */
  readonly claimSeries?: (owner: Owner) => readonly string[];
  /** What the planner sees, with what only this kind looks at. */
  readonly input: (input: FleetInput<Owner>) => Input;
  /** Subscribes to what only this kind looks at: `changed` requests a reconcile of a workload. Absent: there is nothing of that sort. */
  readonly listen?: (owners: Pick<Cache<Owner>, 'all' | 'byUid' | 'onChange'>, changed: (uid: string) => void) => void;
}

/** Keeps the workloads of one kind, and rolls out what changes. */
export class FleetController<Owner extends Workload, World extends FleetInput<Owner>>
  implements FleetKind<World, FleetStep<Owner['status'] & object>, Planned<Owner>>
{
  readonly kind: string;
  readonly together = togetherOf;
  readonly tells = onlyTells;
  readonly retryKey = retryKeyOf;
  readonly #definition: FleetDefinition<Owner, World>;
  readonly #context: ControllerContext;
  readonly #owners: Cache<Owner>;
  readonly #pods: Cache<Pod>;
  readonly #claims: Cache<KubeObject>;
  readonly #revisions: Cache<ControllerRevision>;
  readonly #pullJobs: Cache<ImagePullJob>;
  readonly #nodes: Cache<KubeObject>;
  readonly #images: Cache<NodeImage>;
  readonly #writer: FleetWriter<Owner, World>;
  readonly #rollOuts: RollOuts<Owner>;
  /** Names of pods that have gone, or are another's. */
  readonly #spent = new RecentlySeen(spentMs);
  /** Workloads of which a pod was created since one could not be. */
  readonly #growing = new Set<string>();
  /** UIDs of PVCs that have to go if their pod is going, with that of the pod; by workload. */
  readonly #owedClaims = new Map<string, ReadonlyMap<string, string>>();
  /** UIDs of PVCs of which a change, and of pods of which a deletion, got no answer. */
  readonly #unanswered = new RecentlySeen(requestMs);
  #queue: FleetQueue<World, FleetStep<Owner['status'] & object>, Planned<Owner>> | undefined;
  #hasResizeSubresource: boolean | undefined;

  constructor(context: ControllerContext, definition: FleetDefinition<Owner, World>) {
    this.#context = context;
    this.#definition = definition;
    const { resource } = definition.planner;
    this.kind = resource.kind;
    const { cache, kube, now } = context;
    const { adopts, claimSeries } = definition;
    this.#owners = cache<Owner>(resource, {
      ...(adopts && namespaceIndex),
      // an object of this cache is one of this kind
      ...(claimSeries && { series: (owner: KubeObject) => seriesKeys(owner, claimSeries(owner as Owner)) }),
    });
    this.#pods = cache<Pod>(kubeResource.pods, { ...ownedIndex, ...(adopts && orphanIndex) });
    this.#claims = cache<KubeObject>(kubeResource.persistentVolumeClaims, {
      ...ownedIndex,
      ...(claimSeries && seriesIndex),
    });
    this.#revisions = cache<ControllerRevision>(kubeResource.controllerRevisions, { ...ownedIndex, ...orphanIndex });
    this.#pullJobs = cache<ImagePullJob>(imagePullJobs, ownedIndex);
    this.#nodes = cache<KubeObject>(kubeResource.nodes);
    this.#images = cache<NodeImage>(nodeImages);
    this.#writer = new FleetWriter({
      ...definition,
      kube,
      caches: {
        ...{ owners: this.#owners, pods: this.#pods, claims: this.#claims, revisions: this.#revisions },
        pullJobs: this.#pullJobs,
      },
      drains: new Drains(context),
      now,
      spend: (owner, podName) => this.#spent.add(nameBeside(owner, podName), now()),
      owe: (owner, pod, owed) => this.#owe(owner, pod, owed),
    });
    this.#rollOuts = new RollOuts(context, {
      ...{ resource, owners: this.#owners, queue: definition.rollOuts },
      podsOf: (uid) =>
        ownedBy(this.#pods, resource, uid).map((pod) => ({ name: pod.metadata.name, spendsBudget: !isPodReady(pod) })),
      fleet: () => this.#queue,
    });
    this.#listen();
  }

  /** As the watcher runs it. */
  get controller(): Controller {
    return {
      wantAll: () => this.#wantAll(),
      begin: (term) => this.#begin(term),
      workflowTypes: [rollOutType],
      fleet: {
        kind: this.kind,
        queue: () => (this.#context.isLeading() ? this.#queue : undefined),
        commands: () => (this.#context.isLeading() ? this.#rollOuts.commands : undefined),
      },
      operations: () => ({
        kind: this.kind,
        states: [...this.#owners.all()].map((owner) => this.#rollOuts.stateOf(owner)),
      }),
      stop: async () => this.#queue?.stop(),
    };
  }

  look(uid: string): World | undefined {
    const owner = this.#owners.byUid(uid);
    if (owner === undefined) {
      this.#growing.delete(uid);
      this.#owedClaims.delete(uid);
      this.#rollOuts.forgetPermit(uid);
      return undefined;
    }
    const { config, now, starter } = this.#context;
    const { resource } = this.#definition.planner;
    const workflowId = rollOutId(owner.metadata);
    const engine = starter.trouble(workflowId, undefined, { fleet: true });
    const failures = this.#failuresOf(uid);
    const refused = this.#queue?.refused(uid, (pod) => this.#pods.byUid(pod) !== undefined);
    const inDoubt = this.#queue?.inDoubt(uid);
    const owedClaims = this.#stillOwed(uid);
    const { namespace = '' } = owner.metadata;
    const found = {
      pods: ownedBy(this.#pods, resource, uid),
      ...(this.#definition.adopts && { orphans: orphansIn(this.#pods, namespace) }),
      claims: this.#claimsOf(owner),
      revisions: [...ownedBy(this.#revisions, resource, uid), ...orphansIn(this.#revisions, namespace)],
      pullJobs: ownedBy(this.#pullJobs, resource, uid),
    };
    const unanswered = this.#unansweredOf(found.claims, found.pods);
    const isPrefetched = prefetchShare(owner) !== undefined;
    const around = { ...found, ...(isPrefetched && { nodeImages: imagesOn(found.pods, this.#nodes, this.#images) }) };
    const input = fleetInput(owner, around, {
      ...(owedClaims && { owedClaims }),
      gates: config.featureGates,
      hasResizeSubresource: this.#hasResizeSubresource ?? false,
      nowMs: now(),
      ...(engine && { engine }),
      ...this.#rollOuts.held(uid),
      daemonTrouble: ({ spec: { nodeName } }) =>
        nodeName === undefined ? undefined : starter.trouble(workflowId, undefined, { node: { name: nodeName } }),
      isSpent: (podName) => this.#spent.has(nameBeside(owner, podName), now()),
      spentNames: this.#spent.size,
      ...(refused && { refused }),
      ...(inDoubt && { inDoubt }),
      ...(unanswered && { unanswered }),
      // a failing pod that is tried first in each pass would starve those behind it
      ...(failures ? { failures } : { mostStarts: mostAtOnce.starts }),
    });
    return this.#definition.input(input);
  }

  plan(world: World, permit: Permit | undefined, nowMs: number): Planned<Owner> {
    const { owner, failures } = world;
    const withoutPermitSinceMs = this.#rollOuts.withoutPermitSinceMs(owner.metadata.uid) ?? nowMs;
    const plan = this.#definition.planner.plan({ ...world, nowMs, withoutPermitSinceMs, ...(permit && { permit }) });
    const { status, upkeep } = plan;
    const report = status ? [{ kind: 'writeStatus', status } as const] : [];
    return { ...plan, upkeep: [...report, ...bounded(upkeep, failures !== undefined)] };
  }

  /** Keeps what follows from a plan for the next look, and for the roll-out. */
  planned(world: World, plan: Planned<Owner>, nowMs: number): void {
    this.#rollOuts.planned(world.owner.metadata.uid, plan, nowMs);
  }

  wake(uid: string): void {
    this.#rollOuts.wake(uid);
  }

  podOf(step: FleetStep<Owner['status'] & object>): StepPod | undefined {
    switch (step.kind) {
      case 'writePod':
      case 'updatePod':
      case 'recreatePod':
      case 'resizeClaim':
        return step.pod;
      default:
        return undefined;
    }
  }

  async act(
    step: FleetStep<Owner['status'] & object>,
    world: World,
    signal: AbortSignal,
    mayGoOn: () => boolean,
  ): Promise<Seen | undefined> {
    const { uid } = world.owner.metadata;
    const isCreation = step.kind === 'createPod';
    try {
      const seen = await this.#writer.act(step, world, signal, mayGoOn);
      if (isCreation) this.#growing.add(uid);
      return seen;
    } catch (error) {
      if (isCreation) this.#growing.delete(uid);
      const about = 'claim' in step ? step.claim : step.kind === 'deletePod' ? step.pod : undefined;
      if (about && mayBeMade(error)) this.#unanswered.add(about.uid, this.#context.now());
      throw error;
    }
  }

  updateIn(step: FleetStep<Owner['status'] & object>): UpdateInStep | undefined {
    switch (step.kind) {
      case 'updatePod':
      case 'recreatePod':
        return { pod: step.pod, revision: step.revision, isWhole: true };
      case 'tryUpdate':
        return { pod: step.pod, revision: step.revision, isWhole: false };
      case 'writePod':
        return step.revision === undefined ? undefined : { pod: step.pod, revision: step.revision, isWhole: false };
      default:
        return undefined;
    }
  }

  isForbidden(uid: string, pod: StepPod): boolean {
    return this.#rollOuts.isForbidden(uid, pod);
  }

  isCurrent({ owner, held }: World): boolean {
    const now = this.#owners.byUid(owner.metadata.uid);
    if (now === undefined || now.metadata.generation !== owner.metadata.generation) return false;
    return sameJson(this.#rollOuts.ordersNow(now), held?.orders ?? ordersOf(owner));
  }

  /** Lists what the workload controls as it is at this moment, and waits until the caches show that. */
  async catchUp(uid: string, stop: AbortSignal): Promise<void> {
    const owner = this.#owners.byUid(uid);
    if (owner === undefined) return;
    const { resource } = this.#definition.planner;
    const signal = AbortSignal.any([stop, AbortSignal.timeout(catchUpMs)]);
    const { kube } = this.#context;
    const { name, namespace = '' } = owner.metadata;
    const selected = {
      matches: labelMatcher(owner.spec.selector) ?? (() => false),
      labelSelector: formatSelector(owner.spec.selector),
    };

    const shown = async <T extends KubeObject>(
      of: Resource,
      cache: Cache<T>,
      present: readonly T[] = ownedBy(cache, resource, uid),
      { matches, ...selection }: { readonly matches: typeof selected.matches } & ListOptions = selected,
    ) => {
      const listed = new Set<string>();
      const seen: Promise<void>[] = [];
      for (let next: string | undefined, more = true; more; more = next !== undefined) {
        const page = await kube.list<T>(of, {
          ...selection,
          namespace,
          limit: pageSize,
          continue: next,
          signal,
        });
        for (const { metadata } of page.items) listed.add(metadata.uid);
        const newest = page.items
          .map(({ metadata }) => metadata)
          .toSorted(byVersion)
          .at(-1);
        if (newest) seen.push(cache.seen(newest.uid, newest.resourceVersion, signal));
        next = page.continue;
      }
      // What is not listed is gone or has other labels by now, and the cache will show that. What had other labels before was
      // not to be listed.
      const isExpected = ({ metadata }: KubeObject) =>
        metadata.deletionTimestamp === undefined && matches(metadata.labels) && !listed.has(metadata.uid);
      const missing = present.filter(isExpected);
      await Promise.all([
        ...seen,
        ...missing.map(({ metadata }) => {
          const held = () => cache.byUid(metadata.uid);
          const isShown = () => {
            const now = held();
            return now === undefined || !isExpected(now);
          };
          return cache.until(isShown, { signal, uid: metadata.uid, what: `${metadata.name} is seen gone` });
        }),
      ]);
    };
    const { metadata } = await kube.get<Owner>(resource, { namespace, name }, { signal });
    await Promise.all([
      this.#owners.seen(metadata.uid, metadata.resourceVersion, signal),
      shown(kubeResource.pods, this.#pods),
      shown(kubeResource.controllerRevisions, this.#revisions),
      owner.spec.volumeClaimTemplates
        ? shown(
            kubeResource.persistentVolumeClaims,
            this.#claims,
            this.#claimsOf(owner),
            this.#definition.claimSeries && whateverLabels,
          )
        : undefined,
    ]);
  }

  #begin(term: Term): void {
    this.#growing.clear();
    this.#owedClaims.clear();
    this.#rollOuts.begin();
    this.#queue = undefined;
    if (this.#hasResizeSubresource !== undefined) this.#open(term);
    else void this.#openOnceKnown(term);
  }

  /** Nothing is decided on before it is known how pods are resized: resources that are written in the other way are refused. */
  async #openOnceKnown(term: Term): Promise<void> {
    while (!(await this.#discover()) && !term.lost.aborted) {
      await sleep(discoverAgainMs, undefined, { signal: term.lost }).catch(() => undefined);
    }
    if (!term.isLeading()) return;
    this.#open(term);
    this.#wantAll();
  }

  #open(term: Term): void {
    const { log, metrics, now } = this.#context;
    const queue = new FleetQueue<World, FleetStep<Owner['status'] & object>, Planned<Owner>>({
      ...{ fleet: this, term, log, concurrency, parallelSteps, restMs, nowMs: now },
      shareOf: (uid) => this.#owners.byUid(uid)?.metadata.namespace ?? '',
    });
    metrics.trackQueue(this.#definition.planner.resource.plural, () => queue.depth);
    this.#queue = queue;
  }

  #wantAll(): void {
    for (const { metadata } of this.#owners.all()) {
      this.#queue?.add(metadata.uid, 'fullPass');
      this.#rollOuts.add(metadata.uid);
    }
  }

  #owe({ metadata }: Owner, pod: AsSeen, claims: readonly AsSeen[]): void {
    if (claims.length === 0) return;
    const known = this.#owedClaims.get(metadata.uid) ?? [];
    this.#owedClaims.set(metadata.uid, new Map([...known, ...claims.map(({ uid }) => [uid, pod.uid] as const)]));
  }

  #stillOwed(uid: string): ReadonlySet<string> | undefined {
    const owed = this.#owedClaims.get(uid);
    if (owed === undefined) return undefined;
    const isThere = (object: KubeObject | undefined) =>
      object !== undefined && object.metadata.deletionTimestamp === undefined;
    // a pod that is still there was not deleted after all
    const left = new Map(
      [...owed].filter(([claim, pod]) => isThere(this.#claims.byUid(claim)) && !isThere(this.#pods.byUid(pod))),
    );
    if (left.size === 0) this.#owedClaims.delete(uid);
    else this.#owedClaims.set(uid, left);
    return left.size === 0 ? undefined : new Set(left.keys());
  }

  #unansweredOf(...lists: readonly (readonly KubeObject[])[]): ReadonlyMap<string, number> | undefined {
    if (this.#unanswered.size === 0) return undefined;
    const nowMs = this.#context.now();
    const known = lists.flat().flatMap(({ metadata: { uid } }) => {
      const untilMs = this.#unanswered.untilMs(uid, nowMs);
      return untilMs === undefined ? [] : [[uid, untilMs] as const];
    });
    return known.length === 0 ? undefined : new Map(known);
  }

  /** The steps of a workload that have failed and are still to be done, as input of the planner. */
  #failuresOf(uid: string): FleetFailures | undefined {
    const failed = this.#queue?.failedSteps(uid) ?? [];
    const scale = failed.find(({ step }) => partOf(step) === 'scale');
    const update = failed.find(({ step }) => partOf(step) === 'update');
    const revision = failed.find(({ step }) => step.kind === 'createRevision');
    if (!scale && !update && !revision) return undefined;
    const couldNotCreate = failed.some(({ step }) => step.kind === 'createPod');
    return {
      ...(scale && {
        ...{ scale: messageOf(scale.error), ...typed('scaleType', scale.error) },
        scaleStep: isCreationOf(scale.step) ? 'create' : 'delete',
      }),
      ...(update && { update: messageOf(update.error), ...typed('updateType', update.error) }),
      ...(revision && { revision: messageOf(revision.error), ...typed('revisionType', revision.error) }),
      ...(couldNotCreate && !this.#growing.has(uid) && { nothingCreated: true }),
      retriedWithinMs: this.#queue?.longestPauseMs(uid) ?? 0,
    };
  }

  #listen(): void {
    const { isLeading, now } = this.#context;
    const changed = (uid: string) => {
      if (isLeading()) this.#queue?.add(uid, 'changed');
    };
    const edited = (uid: string) => {
      if (isLeading()) this.#queue?.add(uid, 'edited');
    };
    this.#owners.onChange(({ before, after }) => {
      const uid = (after ?? before)?.metadata.uid;
      if (uid === undefined) return;
      if (isEdited(before, after)) edited(uid);
      else changed(uid);
      if (isLeading() && after) this.#rollOuts.changed(after);
      if (after === undefined) void this.#rollOuts.forget(uid);
    });
    for (const cache of [this.#pods, this.#claims, this.#revisions] as readonly Cache<KubeObject>[]) {
      cache.onChange(({ before, after }) => {
        if (before && after && isDueEarlier(before, after)) return;
        for (const uid of this.#ownersIn(before, after)) changed(uid);
      });
    }
    if (this.#definition.claimSeries) {
      this.#claims.onChange(({ before, after }) => {
        const claim = after ?? before;
        const keys = claim ? seriesIndex.series(claim) : [];
        for (const key of keys) for (const { metadata } of this.#owners.byIndex('series', key)) changed(metadata.uid);
      });
    }
    this.#pods.onChange(({ before, after }) => {
      if (before === undefined || after !== undefined) return;
      // what it took of a quota is free
      for (const uid of this.#ownersIn(before)) edited(uid);
      const isOurs = before.metadata.ownerReferences?.some(({ kind }) => kind === this.kind);
      if (isOurs) this.#spent.add(qualifiedName(before.metadata), now());
    });
    if (this.#definition.adopts) {
      this.#pods.onChange(({ before, after }) => {
        for (const uid of this.#adoptersOf(before, after)) changed(uid);
        // its name is free
        if (before && after === undefined) for (const uid of this.#namesakesOf(before)) edited(uid);
      });
    }
    this.#definition.listen?.(this.#owners, changed);
    // a node that can pull images from now on
    this.#images.onChange(({ before }) => {
      if (before !== undefined || !isLeading()) return;
      for (const owner of this.#owners.all()) if (prefetchShare(owner) !== undefined) changed(owner.metadata.uid);
    });
    // a workload looks at its jobs when they come and go, and when one has got its image onto another node
    this.#pullJobs.onChange(({ before, after }) => {
      const isSame =
        before?.metadata.uid === after?.metadata.uid &&
        before?.metadata.deletionTimestamp === after?.metadata.deletionTimestamp &&
        before?.status?.succeeded === after?.status?.succeeded &&
        before?.status?.failed === after?.status?.failed;
      if (!isSame) for (const uid of this.#ownersIn(before, after)) changed(uid);
    });
  }

  /** The PVCs that may be those of its pods. */
  #claimsOf(owner: Owner): readonly KubeObject[] {
    const { claimSeries, planner } = this.#definition;
    if (claimSeries === undefined) return ownedBy(this.#claims, planner.resource, owner.metadata.uid);
    return seriesKeys(owner, claimSeries(owner)).flatMap((key) => [...this.#claims.byIndex('series', key)]);
  }

  /** The workloads of this kind that control an object or did so before it changed. */
  #ownersIn(...objects: readonly (KubeObject | undefined)[]): ReadonlySet<string> {
    return new Set(objects.flatMap((object) => ownerIn(object, this.#definition.planner.resource) ?? []));
  }

  /** The workloads that may adopt a pod, or might have done so before it changed. */
  #adoptersOf(...pods: readonly (Pod | undefined)[]): ReadonlySet<string> {
    const orphans = pods.filter((pod) => pod !== undefined).filter(isOrphan);
    return new Set(
      orphans.flatMap((pod) =>
        inNamespace(this.#owners, pod.metadata.namespace ?? '')
          .filter(({ spec }) => isSelected(spec.selector, pod.metadata.labels))
          .map(({ metadata }) => metadata.uid),
      ),
    );
  }

  /** The workloads of which a pod may have the name of this one: `web` of `web-7`. */
  #namesakesOf({ metadata: { name, namespace = '' } }: Pod): readonly string[] {
    const ownerName = seriesOf(name);
    const owners = ownerName === undefined ? [] : inNamespace(this.#owners, namespace);
    return owners.filter(({ metadata }) => metadata.name === ownerName).map(({ metadata }) => metadata.uid);
  }

  /** Finds out whether pods are resized through a subresource of theirs, which is how 1.33 and later do it. */
  async #discover(): Promise<boolean> {
    try {
      const found = (await this.#context.kube.request('GET', '/api/v1')) as {
        readonly resources?: readonly { readonly name?: string }[];
      };
      this.#hasResizeSubresource = found.resources?.some(({ name }) => name === 'pods/resize') ?? false;
      return true;
    } catch (error) {
      this.#context.log.warn({ err: error }, 'Cannot ask the API server whether pods can be resized');
      return false;
    }
  }
}

/** PVCs that belong to a pod by their name may have been created by users. */
const whateverLabels = { matches: () => true, metadataOnly: true } as const;

type Planned<Owner extends Workload> = FleetPlan<FleetStep<Owner['status'] & object>> & ForRollOut;

/** The steps without those that are left to the next pass. */
function bounded(steps: readonly Intention[], hasFailures: boolean): readonly Intention[] {
  let others: number = hasFailures ? Number.POSITIVE_INFINITY : mostAtOnce.others;
  return steps.filter((step) => togetherOf(step) !== 'freely' || others-- > 0);
}

function typed<Key extends string>(key: Key, error: unknown): { readonly [key in Key]?: FailureType } {
  const type = failureTypeOf(error);
  return type === undefined ? {} : ({ [key]: type } as { readonly [key in Key]: FailureType });
}

/** As which failure of the status a failed step is reported; undefined: in the log only. */
function partOf({ kind }: FleetStep<unknown>): 'scale' | 'update' | undefined {
  switch (kind) {
    case 'createPod':
    case 'deletePod':
    case 'createClaim':
    case 'deleteClaim':
    case 'writeClaim':
      return 'scale';
    case 'adoptPod':
    case 'writePod':
    case 'updatePod':
    case 'recreatePod':
    case 'resizeClaim':
      return 'update';
    default:
      return undefined;
  }
}

function isCreationOf({ kind }: FleetStep<unknown>): boolean {
  return kind === 'createPod' || kind === 'createClaim';
}

function byVersion(left: { readonly resourceVersion: string }, right: { readonly resourceVersion: string }): number {
  return compareVersions(left.resourceVersion, right.resourceVersion);
}

/** As in `seriesIndex`. */
function seriesKeys({ metadata: { namespace = '' } }: KubeObject, names: readonly string[]): readonly string[] {
  return names.map((name) => `${namespace}/${name}`);
}

/** The name of a pod in the namespace of a workload. */
function nameBeside({ metadata: { namespace } }: KubeObject, name: string): string {
  return qualifiedName({ ...(namespace !== undefined && { namespace }), name });
}
