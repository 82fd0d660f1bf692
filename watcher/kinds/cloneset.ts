/**
 * What the watcher does for CloneSets: it keeps the caches in which the planner looks, one queue in which each set has one
 * writer, and the roll-outs that give the leave to disrupt. Which pods there are to be is decided by
 * `workflows/plan/cloneset/plan.ts`, and carried out by `watcher/fleet/writer.ts`.
 */
import {
  type CloneSet,
  type CloneSetStatus,
  cloneSetCondition,
  cloneSetEvent,
  cloneSets,
  prefetchShare,
} from '../../api/cloneset.ts';
import { type FailureType, failureTypeOf } from '../../api/failure.ts';
import { type ImagePullJob, imagePullJobs } from '../../api/image-pull-job.ts';
import { isJsonObject } from '../../api/json.ts';
import { formatSelector, labelMatcher } from '../../api/label-selector.ts';
import type { KubeObject, Resource } from '../../api/meta.ts';
import { isVirtual } from '../../api/node.ts';
import { type NodeImage, nodeImages } from '../../api/node-image.ts';
import {
  queues,
  type RollOutChanged,
  type RollOutFacts,
  type RollOutOperation,
  rollOutCommandNames,
  rollOutId,
  rollOutType,
} from '../../api/operations.ts';
import type { Pod } from '../../api/pod.ts';
import { qualifiedName } from '../../api/refs.ts';
import type { ControllerRevision } from '../../api/revision.ts';
import { eventComponent, kubeResource } from '../../api/well-known.ts';
import type { OperationState } from '../../workers/metrics.ts';
import { type CloneSetPlan, planCloneSet, sceneIn } from '../../workflows/plan/cloneset/plan.ts';
import { isUpdateLeft, rollOutFacts } from '../../workflows/plan/cloneset/roll-out.ts';
import { updateAfterDrain } from '../../workflows/plan/cloneset/update.ts';
import type { CloneSetWorld, VolumeClaim } from '../../workflows/plan/cloneset/world.ts';
import type { AsSeen } from '../../workflows/plan/fleet/steps.ts';
import type { FleetPlan, Permit } from '../../workflows/plan/fleet-permit.ts';
import { type Cache, compareVersions } from '../cache.ts';
import type { Controller, WatcherHouse } from '../controller.ts';
import { Drains } from '../drained.ts';
import { orphanIndex, orphansIn, ownedBy, ownedIndex, ownerIn } from '../fleet/owned.ts';
import type { FleetKind, Seen } from '../fleet/permit.ts';
import { FleetQueue } from '../fleet/queue.ts';
import {
  type FleetStep,
  FleetWriter,
  type FleetWriterOptions,
  onlyTells,
  retryKeyOf,
  togetherOf,
} from '../fleet/writer.ts';
import type { PassResult } from '../keyed-queue.ts';
import type { Term } from '../leader.ts';
import { passOnCommand } from '../operator-commands.ts';
import { RecentlySeen } from '../recently-seen.ts';
import type { WantedOperation } from '../starter.ts';

/** For so long no new pod gets the name of one that has gone: people and logs know pods by name. */
const spentMs = 600_000;
/** A roll-out that waits for one thing so long tells of it. */
const blockedAfterMs = 5_000;
/** How many sets are worked on at once, and how many pods of one. */
const concurrency = 16;
const parallelSteps = 64;
/** Status is to follow pods within 200 ms. */
const restMs = 50;

/** A write without an answer is waited for no longer: the names of new pods keep one that arrives late from being made twice. */
const catchUpMs = 10_000;
/** How many objects one page of a list holds. */
const pageSize = 500;

/**
 * What one pass does at most: pods that have come up meanwhile, and users who think better of it, must not wait for the
 * last of thousands.
 */
const mostAtOnce = { starts: 64, others: 256 } as const;

/** Keeps the pods of CloneSets, and rolls out what changes. */
export function cloneSetController(house: WatcherHouse): Controller {
  const fleet = new CloneSetFleet(house);
  return {
    wantAll: () => fleet.wantAll(),
    begin: (term) => fleet.begin(term),
    workflowTypes: [rollOutType],
    fleet: { kind: cloneSets.kind, queue: () => fleet.queue },
    operations: () => ({ kind: cloneSets.kind, states: fleet.states() }),
    stop: () => fleet.stop(),
  };
}

type Claim = VolumeClaim & KubeObject;
type CloneSetStep = FleetStep<CloneSetStatus>;
type CloneSetWriterOptions = FleetWriterOptions<CloneSet, CloneSetWorld>;

/** How steps of CloneSets are carried out. */
export const cloneSetSteps: Pick<
  CloneSetWriterOptions,
  'resource' | 'events' | 'component' | 'lookedAt' | 'afterDrain'
> = {
  resource: cloneSets,
  events: cloneSetEvent,
  component: eventComponent.cloneSet,
  lookedAt: ({ set, pods }) => ({ owner: set, pods }),
  afterDrain(world) {
    const scene = sceneIn(world);
    return scene && ((drained) => updateAfterDrain(scene, drained));
  },
};

class CloneSetFleet implements FleetKind<CloneSetWorld, CloneSetStep> {
  readonly kind = cloneSets.kind;
  readonly together = togetherOf;
  readonly tells = onlyTells;
  readonly retryKey = retryKeyOf;
  readonly #house: WatcherHouse;
  readonly #sets: Cache<CloneSet>;
  readonly #pods: Cache<Pod>;
  readonly #claims: Cache<Claim>;
  readonly #revisions: Cache<ControllerRevision>;
  readonly #nodes: Cache<KubeObject>;
  readonly #pullJobs: Cache<ImagePullJob>;
  readonly #nodeImages: Cache<NodeImage>;
  readonly #writer: FleetWriter<CloneSet, CloneSetWorld>;
  readonly #operations: ReturnType<WatcherHouse['queue']>;
  /** Names of pods that have gone, or are another's. */
  readonly #spent = new RecentlySeen(spentMs);
  /** Sets of which a pod was created since one could not be. */
  readonly #growing = new Set<string>();
  /** UIDs of claims that have to go if their pod is going, with that of the pod; by set. */
  readonly #owedClaims = new Map<string, ReadonlyMap<string, string>>();
  /** Since when sets have waited for the permit of their roll-out. */
  readonly #withoutPermit = new Map<string, number>();
  /** What the roll-out of each set that has been looked at has to know, and whether there is one to be. */
  readonly #rollOuts = new Map<string, { readonly facts: RollOutFacts; readonly isWanted: boolean }>();
  #queue: FleetQueue<CloneSetWorld, CloneSetStep> | undefined;
  #hasResizeSubresource: boolean | undefined;

  constructor(house: WatcherHouse) {
    this.#house = house;
    const { cache, kube, now } = house;
    this.#sets = cache<CloneSet>(cloneSets);
    this.#pods = cache<Pod>(kubeResource.pods, ownedIndex);
    this.#claims = cache<Claim>(kubeResource.persistentVolumeClaims, ownedIndex);
    this.#revisions = cache<ControllerRevision>(kubeResource.controllerRevisions, { ...ownedIndex, ...orphanIndex });
    this.#nodes = cache<KubeObject>(kubeResource.nodes);
    this.#pullJobs = cache<ImagePullJob>(imagePullJobs, ownedIndex);
    this.#nodeImages = cache<NodeImage>(nodeImages);
    const caches = {
      ...{ owners: this.#sets, pods: this.#pods, claims: this.#claims, revisions: this.#revisions },
      pullJobs: this.#pullJobs,
    };
    const spend = (set: CloneSet, podName: string) => this.#spent.add(nameBeside(set, podName), now());
    const owe: CloneSetWriterOptions['owe'] = (set, pod, owed) => this.#owe(set, pod, owed);
    this.#writer = new FleetWriter({ ...cloneSetSteps, kube, caches, drains: new Drains(house), now, spend, owe });
    this.#operations = house.queue('roll-outs', (uid) => this.#passOverOperation(uid));
    this.#listen();
  }

  /** Where permits are handed in; undefined while this process does not lead. */
  get queue(): FleetQueue<CloneSetWorld, CloneSetStep> | undefined {
    return this.#house.isLeading() ? this.#queue : undefined;
  }

  begin(term: Term): void {
    this.#growing.clear();
    this.#owedClaims.clear();
    this.#withoutPermit.clear();
    this.#rollOuts.clear();
    const { log, metrics, now } = this.#house;
    const queue = new FleetQueue<CloneSetWorld, CloneSetStep>({
      ...{ fleet: this, term, log, blockedAfterMs, concurrency, parallelSteps, restMs, nowMs: now },
      shareOf: (uid) => this.#sets.byUid(uid)?.metadata.namespace ?? '',
    });
    metrics.trackQueue('clonesets', () => queue.depth);
    this.#queue = queue;
  }

  wantAll(): void {
    void this.#discover();
    for (const { metadata } of this.#sets.all()) {
      this.#queue?.add(metadata.uid, 'fullPass');
      this.#operations.add(metadata.uid);
    }
  }

  states(): readonly OperationState[] {
    return [...this.#sets.all()].map(({ metadata, status }) => ({
      phase: this.#rollOuts.get(metadata.uid)?.isWanted ? 'RollingOut' : 'Settled',
      ...(status?.waitingFor && {
        waiting: { reason: status.waitingFor.reason, sinceMs: Date.parse(status.waitingFor.since) },
      }),
    }));
  }

  async stop(): Promise<void> {
    await this.#queue?.stop();
  }

  look(uid: string): CloneSetWorld | undefined {
    const set = this.#sets.byUid(uid);
    if (set === undefined) {
      this.#growing.delete(uid);
      this.#owedClaims.delete(uid);
      this.#withoutPermit.delete(uid);
      return undefined;
    }
    const { config, now, starter } = this.#house;
    const engine = starter.trouble(rollOutId(uid));
    const failures = this.#failuresOf(uid);
    const pods = ownedBy(this.#pods, cloneSets, uid);
    const owedClaims = this.#stillOwed(uid);
    return {
      set,
      pods,
      claims: ownedBy(this.#claims, cloneSets, uid),
      ...(owedClaims && { owedClaims }),
      revisions: [
        ...ownedBy(this.#revisions, cloneSets, uid),
        ...orphansIn(this.#revisions, set.metadata.namespace ?? ''),
      ],
      nodes: this.#nodesFor(set),
      pullJobs: ownedBy(this.#pullJobs, cloneSets, uid),
      ...(prefetchShare(set) !== undefined && { nodeImages: this.#imagesOn(pods) }),
      gates: config.featureGates,
      hasResizeSubresource: this.#hasResizeSubresource ?? false,
      excludePreparingDelete: false,
      nowMs: now(),
      ...(engine && { engine }),
      isSpent: (podName) => this.#spent.has(nameBeside(set, podName), now()),
      spentNames: this.#spent.size,
      // What fails must not keep those behind it from their turn.
      ...(failures ? { failures } : { mostStarts: mostAtOnce.starts }),
    };
  }

  plan(seen: CloneSetWorld, permit: Permit | undefined, nowMs: number): FleetPlan<CloneSetStep> {
    const { uid } = seen.set.metadata;
    const withoutPermitSinceMs = this.#withoutPermit.get(uid) ?? nowMs;
    const plan = planCloneSet({ ...seen, nowMs, withoutPermitSinceMs, ...(permit && { permit }) });
    if (plan.situation?.update.stop.kind === 'noPermit') this.#withoutPermit.set(uid, withoutPermitSinceMs);
    else this.#withoutPermit.delete(uid);
    this.#noteRollOut(seen.set, plan);
    const { status, upkeep, disruption, standing, againInMs } = plan;
    return {
      upkeep: [...(status ? [{ kind: 'writeStatus', status } as const] : []), ...bounded(upkeep, seen)],
      disruption,
      standing,
      ...(againInMs !== undefined && { againInMs }),
    };
  }

  async act(
    step: CloneSetStep,
    world: CloneSetWorld,
    signal: AbortSignal,
    mayGoOn: () => boolean,
  ): Promise<Seen | undefined> {
    const { uid } = world.set.metadata;
    const isCreation = step.kind === 'createPod';
    try {
      const seen = await this.#writer.act(step, world, signal, mayGoOn);
      if (isCreation) this.#growing.add(uid);
      return seen;
    } catch (error) {
      if (isCreation) this.#growing.delete(uid);
      throw error;
    }
  }

  /** Lists what the set owns as it is at this moment, and waits until the caches show that. */
  async catchUp(uid: string, stop: AbortSignal): Promise<void> {
    const set = this.#sets.byUid(uid);
    if (set === undefined) return;
    const signal = AbortSignal.any([stop, AbortSignal.timeout(catchUpMs)]);
    const { kube } = this.#house;
    const { name, namespace = '' } = set.metadata;
    const matches = labelMatcher(set.spec.selector) ?? (() => false);
    const labelSelector = formatSelector(set.spec.selector);

    const shown = async <T extends KubeObject>(resource: Resource, cache: Cache<T>) => {
      const listed = new Set<string>();
      const seen: Promise<void>[] = [];
      for (let next: string | undefined, more = true; more; more = next !== undefined) {
        const page = await kube.list<T>(resource, {
          namespace,
          labelSelector,
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
      // What is not listed is gone or has other labels by now, and the cache will tell. What had other labels before was
      // not to be listed.
      const isExpected = ({ metadata }: KubeObject) =>
        metadata.deletionTimestamp === undefined && matches(metadata.labels) && !listed.has(metadata.uid);
      const missing = ownedBy(cache, cloneSets, uid).filter(isExpected);
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
    const { metadata } = await kube.get<CloneSet>(cloneSets, { namespace, name }, { signal });
    await Promise.all([
      this.#sets.seen(metadata.uid, metadata.resourceVersion, signal),
      shown(kubeResource.pods, this.#pods),
      shown(kubeResource.controllerRevisions, this.#revisions),
      set.spec.volumeClaimTemplates ? shown(kubeResource.persistentVolumeClaims, this.#claims) : undefined,
    ]);
  }

  #owe({ metadata }: CloneSet, pod: AsSeen, claims: readonly AsSeen[]): void {
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

  /** What has failed of the set and is still to be done, as the planner is told of it. */
  #failuresOf(uid: string): CloneSetWorld['failures'] {
    const failed = this.#queue?.failedSteps(uid) ?? [];
    const scale = failed.find(({ step }) => conditionOf(step) === cloneSetCondition.failedScale);
    const update = failed.find(({ step }) => conditionOf(step) === cloneSetCondition.failedUpdate);
    const revision = failed.find(({ step }) => step.kind === 'createRevision');
    if (!scale && !update && !revision) return undefined;
    const couldNotCreate = failed.some(({ step }) => step.kind === 'createPod');
    return {
      ...(scale && { scale: messageOf(scale.error), ...typed('scaleType', scale.error) }),
      ...(update && { update: messageOf(update.error), ...typed('updateType', update.error) }),
      ...(revision && { revision: messageOf(revision.error), ...typed('revisionType', revision.error) }),
      ...(couldNotCreate && !this.#growing.has(uid) && { nothingCreated: true }),
      retriedWithinMs: this.#queue?.longestPauseMs(uid) ?? 0,
    };
  }

  #nodesFor({ spec }: CloneSet): CloneSetWorld['nodes'] {
    const podSpec = isJsonObject(spec.template.spec) ? spec.template.spec : {};
    if (podSpec.topologySpreadConstraints === undefined) return new Map();
    return new Map([...this.#nodes.all()].map(({ metadata }) => [metadata.name, metadata.labels ?? {}]));
  }

  /** A node that is ready gets its NodeImage after a while, but for one that has no daemon. */
  #imagesOn(pods: readonly Pod[]): ReadonlyMap<string, NodeImage | undefined> {
    const names = [...new Set(pods.flatMap(({ spec }) => spec.nodeName ?? []))];
    const found = names.map((name) => [name, this.#nodeImages.byName('', name)] as const);
    return new Map(
      found.filter(([name, nodeImage]) => {
        const node = this.#nodes.byName('', name);
        return nodeImage !== undefined || (node !== undefined && !isVirtual(node));
      }),
    );
  }

  #listen(): void {
    const { isLeading } = this.#house;
    const changed = (uid: string) => {
      if (isLeading()) this.#queue?.add(uid, 'changed');
    };
    const edited = (uid: string) => {
      if (isLeading()) this.#queue?.add(uid, 'edited');
    };
    this.#sets.onChange(({ before, after }) => {
      const uid = (after ?? before)?.metadata.uid;
      if (uid === undefined) return;
      if (isEdited(before, after)) edited(uid);
      else changed(uid);
      if (isLeading()) this.#operations.add(uid);
      if (after === undefined) void this.#forget(uid);
    });
    for (const cache of [this.#pods, this.#claims, this.#revisions] as readonly Cache<KubeObject>[]) {
      cache.onChange(({ before, after }) => {
        for (const uid of ownersIn(before, after)) changed(uid);
      });
    }
    this.#pods.onChange(({ before, after }) => {
      if (before === undefined || after !== undefined) return;
      // what it took of a quota is free
      for (const uid of ownersIn(before)) edited(uid);
      const isOfSet = before.metadata.ownerReferences?.some(({ kind }) => kind === cloneSets.kind);
      if (isOfSet) this.#spent.add(qualifiedName(before.metadata), this.#house.now());
    });
    this.#listenToPullJobs(changed);
  }

  /** A set looks at its jobs when they come and go, and when one has got its image onto another node. */
  #listenToPullJobs(changed: (uid: string) => void): void {
    this.#pullJobs.onChange(({ before, after }) => {
      const isSame =
        before?.metadata.uid === after?.metadata.uid &&
        before?.metadata.deletionTimestamp === after?.metadata.deletionTimestamp &&
        before?.status?.succeeded === after?.status?.succeeded &&
        before?.status?.failed === after?.status?.failed;
      if (!isSame) for (const uid of ownersIn(before, after)) changed(uid);
    });
    // a node that can be asked from now on
    this.#nodeImages.onChange(({ before }) => {
      if (before !== undefined || !this.#house.isLeading()) return;
      for (const set of this.#sets.all()) if (prefetchShare(set) !== undefined) changed(set.metadata.uid);
    });
  }

  /** Keeps what the roll-out of this set has to know, and sees that it is told when that changes. */
  #noteRollOut({ metadata }: CloneSet, { situation }: CloneSetPlan): void {
    if (situation === undefined) return;
    const { uid } = metadata;
    const before = JSON.stringify(this.#rollOuts.get(uid));
    this.#rollOuts.set(uid, {
      facts: rollOutFacts(situation),
      isWanted: metadata.deletionTimestamp === undefined && isUpdateLeft(situation),
    });
    if (JSON.stringify(this.#rollOuts.get(uid)) !== before) this.#operations.add(uid);
  }

  async #passOverOperation(uid: string): Promise<PassResult | undefined> {
    const { kube, starter } = this.#house;
    const set = this.#sets.byUid(uid);
    const rollOut = this.#rollOuts.get(uid);
    if (set === undefined || rollOut === undefined) return undefined;
    const operation = operationOf(set, rollOut.facts);
    if (rollOut.isWanted) starter.want(operation);
    else starter.forget(rollOutId(uid));
    // An undo may come long after a roll-out has ended, so a command starts one.
    const commanded = { kind: 'started', operation } as const;
    return passOnCommand(set, cloneSets, rollOutCommandNames, commanded, { kube, starter });
  }

  async #forget(uid: string): Promise<void> {
    const rollOut = this.#rollOuts.get(uid);
    this.#rollOuts.delete(uid);
    if (!this.#house.isLeading()) return;
    this.#house.starter.forget(rollOutId(uid));
    const change: RollOutChanged = { withdrawn: true };
    if (rollOut?.isWanted) await this.#house.starter.tell(rollOutId(uid), change);
  }

  /** Whether pods are resized through a subresource of theirs, which is how 1.33 and later do it. */
  async #discover(): Promise<void> {
    if (this.#hasResizeSubresource !== undefined) return;
    try {
      const found = (await this.#house.kube.request('GET', '/api/v1')) as {
        readonly resources?: readonly { readonly name?: string }[];
      };
      this.#hasResizeSubresource = found.resources?.some(({ name }) => name === 'pods/resize') ?? false;
    } catch (error) {
      this.#house.log.warn({ err: error }, 'Cannot ask the API server whether pods can be resized');
    }
  }
}

/** The steps without those that are left to the next pass. */
function bounded(steps: CloneSetPlan['upkeep'], { failures }: CloneSetWorld): CloneSetPlan['upkeep'] {
  let others: number = failures ? Number.POSITIVE_INFINITY : mostAtOnce.others;
  return steps.filter((step) => togetherOf(step) !== 'freely' || others-- > 0);
}

/** Whether somebody has changed what the set asks for, or its marks; its status changes with whatever happens to it. */
function isEdited(before: CloneSet | undefined, after: CloneSet | undefined): boolean {
  const told = (set: CloneSet | undefined) => {
    const { generation, labels, annotations, deletionTimestamp } = set?.metadata ?? {};
    return JSON.stringify([generation, labels, annotations, deletionTimestamp]);
  };
  return told(before) !== told(after);
}

/** The sets that control an object or have done so before it changed. */
function ownersIn(...objects: readonly (KubeObject | undefined)[]): ReadonlySet<string> {
  return new Set(objects.flatMap((object) => ownerIn(object, cloneSets) ?? []));
}

function operationOf(set: CloneSet, facts: RollOutFacts): WantedOperation {
  const { namespace = '', name, uid } = set.metadata;
  const operation: RollOutOperation = { kind: cloneSets.kind, target: { namespace, name, uid }, facts };
  const change: RollOutChanged = facts;
  return {
    workflowId: rollOutId(uid),
    workflowType: rollOutType,
    taskQueue: queues.cluster,
    argument: operation,
    change,
    inputs: JSON.stringify(facts),
    summary: `roll out CloneSet ${namespace}/${name}`,
    about: { kind: cloneSets.kind, namespace, name, node: '' },
  };
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function typed<Key extends string>(key: Key, error: unknown): { readonly [key in Key]?: FailureType } {
  const type = failureTypeOf(error);
  return type === undefined ? {} : ({ [key]: type } as { readonly [key in Key]: FailureType });
}

/** CS-3: which condition tells of a step that has failed; undefined: the log alone. */
function conditionOf({ kind }: CloneSetStep): string | undefined {
  switch (kind) {
    case 'createPod':
    case 'deletePod':
    case 'deleteClaim':
    case 'writeClaim':
      return cloneSetCondition.failedScale;
    case 'writePod':
    case 'updatePod':
    case 'recreatePod':
      return cloneSetCondition.failedUpdate;
    default:
      return undefined;
  }
}

function byVersion(left: { readonly resourceVersion: string }, right: { readonly resourceVersion: string }): number {
  return compareVersions(left.resourceVersion, right.resourceVersion);
}

/** The name of a pod in the namespace of the set. */
function nameBeside({ metadata: { namespace } }: CloneSet, name: string): string {
  return qualifiedName({ ...(namespace !== undefined && { namespace }), name });
}
