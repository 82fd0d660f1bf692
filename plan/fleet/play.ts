/**
 * Plays a planner to the end on a simulated cluster: what happens to each pod if nothing fails.
 *
 * All steps of a pass are complete before the next pass: new and changed pods run and are ready, deleted pods are gone, hooks
 * and grace periods take no time, and the clock has advanced by minReadySeconds. What holds a roll-out only for a while is
 * ignored: pauses, aborts, images that are being pulled. Pods that are not ready become so after the first pass, and what that
 * pass waits for is part of the result.
 */
import { type JsonObject, mergePatch, objectOr } from '../../api/base/json.ts';
import { timestamp } from '../../api/base/time.ts';
import type { KubeObject } from '../../api/core/meta.ts';
import { isFinished, nodeOf, type Pod } from '../../api/core/pod.ts';
import { isControlledBy } from '../../api/core/refs.ts';
import { isWorkingState, lifecycleMark, lifecycleStateOf } from '../../api/fleet/lifecycle.ts';
import { type ControllerRevision, isAtRevision, type NewRevision, revisionMark } from '../../api/fleet/revision.ts';
import { ordersOf } from '../../api/fleet/roll-out-orders.ts';
import { inPlaceAnnotation } from '../../api/in-place/annotations.ts';
import { firstWait, type Rule, type Wait } from '../decision.ts';
import { ownersAfter } from './claims.ts';
import { batchesOf, type PodWrite, type RecreateCause } from './in-place/update.ts';
import type { FleetInput, VolumeClaim } from './input.ts';
import type { FleetPlanner, ScalePlan, Situation } from './kind.ts';
import { planFleet } from './plan.ts';
import { type FleetPod, podRef } from './pods.ts';
import {
  type FleetScene,
  isAtGoal,
  isUpToDate,
  nextRevision,
  skippedPods,
  type UpdateDemand,
  volumesOf,
} from './scene.ts';
import type { Intention } from './steps.ts';
import { decideUpdate, type UpdateLine } from './update.ts';
import type { Workload } from './workload.ts';

/** What happens to a pod that stays, or is replaced. */
export type PodPath =
  | { readonly kind: 'kept'; readonly because: KeptReason }
  /** Only its PVCs change: these. */
  | { readonly kind: 'expand'; readonly claims: readonly string[] }
  /** Its containers change, in these batches; empty when only metadata changes. */
  | { readonly kind: 'inPlace'; readonly containers: readonly (readonly string[])[] }
  | { readonly kind: 'recreate'; readonly because: RecreateCause }
  /** It would have to be recreated, and may not be. */
  | { readonly kind: 'impossible'; readonly because: RecreateCause };

export type KeptReason =
  /** It is already of the wanted revision. */
  | 'Arrived'
  /** The partition keeps it, or it is not among the pods that are taken back. */
  | 'Partition'
  /** The selector of nodes leaves it out. */
  | 'NotSelected'
  /** The user updates pods by deleting them. */
  | 'OnDelete'
  /** An operator leaves it out. */
  | 'Skipped'
  /** It is held by an earlier change, or waits for its deletion, and something else blocks that. */
  | 'UnderWay';

export type DeletedReason =
  /** By its label, or by the workload. */
  | 'Named'
  | 'Surplus'
  /** It was held before its deletion already. */
  | 'Leaving'
  /** It has ended, and another takes its place. */
  | 'Finished';

export interface PlayedPod {
  readonly pod: string;
  readonly path: PodPath;
  /** Its batch, from 1. Absent: it is not updated. */
  readonly batch?: number;
}

/** What happens to a workload. */
export interface Play {
  /** The revision that its pods are to have. */
  readonly revision: string;
  /** The revision that they have; the same as `revision` when nothing is rolled out. */
  readonly currentRevision: string;
  /** How many pods are updated at the same time. */
  readonly atOnce: number;
  /** How many pods are created of which revision, besides those that take the place of recreated ones. */
  readonly created: readonly { readonly revision: string; readonly count: number }[];
  readonly deleted: readonly { readonly pod: string; readonly because: DeletedReason }[];
  /** The pods that stay: in the order of their update, and then those that are kept. */
  readonly updated: readonly PlayedPod[];
  /**
   * What has to end before anything is done, and does not end by minReadySeconds. Absent: something is done at once, or there
   * is nothing to do.
   */
  readonly wait?: Wait;
  /** False: the limit of pods to look at was reached. The rest follows from the last pass. */
  readonly isPlayedOut: boolean;
}

/** The maximum number of pods that are looked at, in all passes together. That takes about a second. */
const mostLooks = 200_000;

/** Undefined when the selector is malformed. */
export function play<
  Owner extends Workload,
  Input extends FleetInput<Owner>,
  Scene extends FleetScene<Owner, Input>,
  Scale extends ScalePlan,
  Demand extends UpdateDemand,
>(kind: FleetPlanner<Owner, Input, Scene, Scale, Demand>, input: Input, looks = mostLooks): Play | undefined {
  const unhindered = { lifecycle: undefined, graceSeconds: 0 };
  const planner = { ...kind, strategy: (seen: Input) => ({ ...kind.strategy(seen), ...unhindered }) };
  const { paused: _paused, aborted: _aborted, ...orders } = ordersOf(input.owner) ?? {};
  const facts = {
    ...input,
    ...('revision' in orders && { held: { orders } }),
    gates: { ...input.gates, PreDownloadImageForInPlaceUpdate: false, PreDownloadImageForDaemonSetUpdate: false },
  };
  const passMs = (Math.max(kind.membership(input).minReadySeconds, 0) + 1) * 1000;
  // Once, rather than in every pass: it may be given all PVCs of a namespace.
  const isOwn = (claim: VolumeClaim) => kind.ownsClaim?.(input.owner, claim) ?? isControlledBy(input.owner, claim);
  const cluster = new PlayedCluster({ ...input, claims: input.claims.filter(isOwn) });
  const record = new PlayRecord();
  let [to, left, owner] = ['', looks, unpaused(input.owner)];
  for (;;) {
    // The permit names every pod, for the revision that pods are brought to.
    const seen = cluster.seen();
    const permit = { pods: new Map(seen.pods.map(({ metadata }) => [metadata.uid, to])), chooses: false };
    const plan = planFleet(planner, { ...facts, ...seen, owner, permit });
    const { situation, named = { to }, status = owner.status } = plan;
    if (named.to !== to) {
      to = named.to;
      continue;
    }
    if (left <= 0) return situation && record.result(planner, situation, false);
    const steps = [...plan.upkeep, ...plan.disruption];
    if (situation) record.add(planner, situation, steps);
    const isAwaited = situation?.scene.counted.some(({ availableAtMs }) => availableAtMs !== undefined);
    // Before the template is recorded no pod is looked at.
    if (!cluster.carryOut(steps, situation ? passMs : 0) && !isAwaited)
      return situation && record.result(planner, situation, true);
    owner = { ...owner, status };
    left -= seen.pods.length + 1;
  }
}

function unpaused<Owner extends Workload>(owner: Owner): Owner {
  if (!owner.spec.updateStrategy?.rollingUpdate?.paused) return owner;
  const patch = { spec: { updateStrategy: { rollingUpdate: { paused: false } } } };
  return mergePatch(owner as unknown as JsonObject, patch) as unknown as Owner;
}

/** The objects around a workload, and the kubelets that change them. */
class PlayedCluster {
  readonly #input: FleetInput<unknown>;
  readonly #pods: Map<string, Pod>;
  readonly #orphans: Map<string, Pod>;
  readonly #claims: Map<string, VolumeClaim>;
  readonly #revisions: Map<string, ControllerRevision>;
  readonly #spent = new Set<string>();
  /** The names of revisions that were created. */
  readonly #recorded = new Set<string>();
  /** The pods that their kubelets have not seen yet. */
  #changed: Set<string>;
  #nowMs: number;

  constructor(input: FleetInput<unknown>) {
    this.#input = input;
    this.#pods = byName(input.pods);
    this.#orphans = byName(input.orphans ?? []);
    this.#claims = byName(input.claims);
    this.#revisions = byName(input.revisions);
    this.#changed = new Set(this.#pods.keys());
    this.#nowMs = input.nowMs;
  }

  /** What a planner sees of it. */
  seen() {
    return {
      pods: [...this.#pods.values()],
      orphans: [...this.#orphans.values()],
      claims: [...this.#claims.values()],
      revisions: [...this.#revisions.values()],
      nowMs: this.#nowMs,
      isSpent: (name: string) => this.#spent.has(name) || this.#input.isSpent(name),
    };
  }

  /** Carries out the steps, and what follows from them in this time, if it is any. Returns whether anything has changed. */
  carryOut(steps: readonly Intention[], ms: number): boolean {
    const hasActed = steps.filter((step) => this.#take(step)).length > 0;
    if (ms === 0) return hasActed;
    const hasMoved = hasActed || this.#changed.size > 0;
    for (const name of this.#changed) this.#bringIntoService(name);
    this.#changed = new Set();
    this.#nowMs += ms;
    return this.#collectClaims() || hasMoved;
  }

  #take(step: Intention): boolean {
    switch (step.kind) {
      case 'createRevision':
        return this.#record(step.revision);
      case 'patchRevision':
        return patchIn(this.#revisions, step.revision.name, step.patch);
      case 'deleteRevision':
        return this.#revisions.delete(step.revision.name);
      case 'createPod':
        for (const claim of step.claims) this.#create(this.#claims, claim);
        this.#changed.add(step.name);
        return this.#create(this.#pods, step.pod);
      case 'deletePod':
        for (const { name } of step.claims) this.#claims.delete(name);
        return this.#delete(step.pod.name);
      case 'recreatePod':
        return step.mark ? this.#write(step.pod.name, [step.mark.write]) : this.#delete(step.pod.name);
      case 'writePod':
      case 'updatePod':
        if (step.kind === 'writePod' && step.why === 'release') return this.#pods.delete(step.pod.name);
        return this.#write(step.pod.name, step.writes);
      case 'createClaim':
        return this.#create(this.#claims, step.body);
      case 'deleteClaim':
        return this.#claims.delete(step.claim.name);
      case 'writeClaim':
        return this.#changeOwners(step.claim.name, step.patch);
      case 'resizeClaim':
        return this.#expand(step.claim.name, step.patch);
      case 'adoptPod':
        return this.#adopt(step.pod.name, step.patch);
      default:
        return false; // affects no pod
    }
  }

  #delete(name: string): boolean {
    this.#spent.add(name);
    return this.#pods.delete(name);
  }

  #write(name: string, writes: readonly PodWrite[]): true {
    this.#changed.add(name);
    // Containers do not matter to a planner, and conditions are those of a pod in service.
    for (const { patch } of writes) patchIn(this.#pods, name, { metadata: objectOr(patch.metadata) });
    return true;
  }

  /** Once: a revision that is to be created again is one that its selector does not select, in every pass. */
  #record(revision: NewRevision): boolean {
    const { name } = revision.metadata;
    if (this.#recorded.has(name)) return false;
    this.#recorded.add(name);
    return this.#create(this.#revisions, revision);
  }

  #changeOwners(name: string, patch: JsonObject): boolean {
    const claim = this.#claims.get(name);
    if (claim === undefined) return false;
    const ownerReferences = ownersAfter(claim, patch);
    this.#claims.set(name, { ...claim, metadata: { ...claim.metadata, ownerReferences } });
    return true;
  }

  #expand(name: string, patch: JsonObject): boolean {
    patchIn(this.#claims, name, patch);
    const storage = this.#claims.get(name)?.spec?.resources?.requests?.storage;
    return patchIn(this.#claims, name, { status: { capacity: storage === undefined ? {} : { storage } } });
  }

  #adopt(name: string, patch: JsonObject): boolean {
    const orphan = this.#orphans.get(name);
    if (orphan === undefined) return false;
    this.#orphans.delete(name);
    this.#pods.set(name, orphan);
    return patchIn(this.#pods, name, patch);
  }

  #create<Of extends Pick<KubeObject, 'metadata'>>(objects: Map<string, Of>, body: object): true {
    const { metadata, ...rest } = body as Of;
    const uid = `${metadata.name}-${this.#nowMs}`;
    const born = { ...metadata, uid, resourceVersion: '', creationTimestamp: timestamp(this.#nowMs) };
    objects.set(metadata.name, { ...rest, metadata: born } as unknown as Of);
    return true;
  }

  #bringIntoService(name: string): void {
    const pod = this.#pods.get(name);
    if (pod?.metadata.deletionTimestamp !== undefined) this.#pods.delete(name);
    else if (pod && !isFinished(pod)) patchIn(this.#pods, name, inService(pod, timestamp(this.#nowMs)));
  }

  /** As the garbage collector does. */
  #collectClaims(): boolean {
    const uids = new Set([...this.#pods.values()].map(({ metadata }) => metadata.uid));
    const gone = [...this.#claims.values()].filter(
      ({ metadata: { deletionTimestamp, ownerReferences = [] } }) =>
        deletionTimestamp !== undefined || ownerReferences.some(({ kind, uid }) => kind === 'Pod' && !uids.has(uid)),
    );
    for (const { metadata } of gone) this.#claims.delete(metadata.name);
    return gone.length > 0;
  }
}

function byName<Of extends Pick<KubeObject, 'metadata'>>(objects: readonly Of[]): Map<string, Of> {
  return new Map(objects.map((object) => [object.metadata.name, object]));
}

function patchIn<Of extends object>(objects: Map<string, Of>, name: string, patch: JsonObject): boolean {
  const before = objects.get(name);
  if (before) objects.set(name, mergePatch(before as unknown as JsonObject, patch) as unknown as Of);
  return before !== undefined;
}

/** The patch of a pod that runs, is ready, and of which every change is complete. */
function inService(pod: Pod, now: string): JsonObject {
  const before = new Map(pod.status?.conditions?.map((condition) => [condition.type, condition]));
  const gates = (pod.spec.readinessGates ?? []).map(({ conditionType }) => conditionType);
  const conditions = [...new Set([...before.keys(), ...gates, 'ContainersReady', 'Ready'])].map((type) => {
    const { status, lastTransitionTime = now } = before.get(type) ?? {};
    return { type, status: 'True', lastTransitionTime: status === 'True' ? lastTransitionTime : now };
  });
  const { containersMeta: _, ...records } = inPlaceAnnotation;
  const isHeld = ['PreparingUpdate', 'PreparingDelete'].includes(lifecycleStateOf(pod));
  return {
    metadata: {
      annotations: Object.fromEntries(Object.values(records).map((key) => [key, null])),
      ...(!isHeld && { labels: { [lifecycleMark.state]: 'Normal' } }),
    },
    spec: { nodeName: nodeOf(pod) ?? 'node' },
    status: { phase: 'Running', conditions },
  };
}

/** What begins the update of a pod. */
const updates: readonly Intention['kind'][] = ['resizeClaim', 'updatePod', 'recreatePod'];

/** Records what happens to each pod. */
class PlayRecord {
  #first: FleetScene | undefined;
  #wait: Wait | undefined;
  readonly #batches: PlayedPod[][] = [];
  readonly #paths = new Map<string, PodPath>();
  readonly #deleted = new Map<string, DeletedReason>();
  /** The revisions of pods that were created, and those that pods were recreated for. */
  readonly #created = new Map<string, string>();
  readonly #recreated = new Map<string, string>();

  /** Adds what these steps of a pass do. */
  add<Of extends Situation>(
    { rules }: { readonly rules: readonly Rule<Of>[] },
    situation: Of,
    steps: readonly Intention[],
  ): void {
    const { scene, update } = situation;
    if (this.#first === undefined) this.#wait = heldUpBy(rules, situation);
    this.#first ??= scene;
    const pods = new Map(scene.counted.map((pod) => [pod.name, pod]));
    const batch: PlayedPod[] = [];
    for (const step of steps) {
      if (step.kind === 'createPod') this.#created.set(step.name, revisionIn(scene, step.pod as unknown as Pod));
      const pod = 'pod' in step ? pods.get(String(step.pod.name)) : undefined;
      if (pod && step.kind === 'deletePod') this.#delete(pod);
      if (pod && updates.includes(step.kind) && !this.#isKnown(pod)) {
        const path = pathOf(scene, pod, update.demand);
        this.#paths.set(pod.name, path);
        if (step.kind === 'recreatePod') this.#recreated.set(pod.name, step.revision);
        batch.push({ pod: pod.name, path, batch: this.#batches.length + 1 });
      }
    }
    if (batch.length > 0) this.#batches.push(batch);
  }

  #isKnown({ name }: FleetPod): boolean {
    return this.#paths.has(name) || this.#created.has(name);
  }

  #delete(pod: FleetPod): void {
    if (this.#created.delete(pod.name) || this.#recreated.has(pod.name)) return;
    this.#deleted.set(pod.name, deletedBecause(pod));
  }

  /** The result after the last pass. */
  result<Scene extends FleetScene, Demand extends UpdateDemand>(
    { line: lineOf }: { line(scene: Scene, demand: Demand): UpdateLine },
    { scene, scale, update: { demand } }: Situation<Scene, ScalePlan, Demand>,
    isPlayedOut: boolean,
  ): Play {
    // What is labelled to be recreated and still there, because the play ends early, is neither gone nor replaced.
    for (const pod of scene.counted) if (!isAtGoal(scene, pod)) this.#recreated.delete(pod.name);
    // With too many pods, a pod that is recreated is not replaced.
    const unreplaced = Math.max(this.#recreated.size - this.#created.size - scale.missing, 0);
    for (const pod of [...this.#recreated.keys()].slice(this.#recreated.size - unreplaced)) {
      this.#recreated.delete(pod);
      this.#deleted.set(pod, 'Surplus');
    }
    const line = demand.left === 0 || scene.strategy.isOnDelete ? undefined : lineOf(scene, demand);
    const left = (line?.pods ?? []).filter((pod) => !this.#isKnown(pod));
    const admitted = left.filter((pod) => line?.admits(pod)).length;
    const atOnce = Math.max(1, admitted, ...this.#batches.map(({ length }) => length));
    const rest = left.map((pod, index) => ({
      pod: pod.name,
      path: pathOf(scene, pod, demand),
      batch: this.#batches.length + Math.floor(index / atOnce) + 1,
    }));
    const others = scene.counted.filter((pod) => !this.#isKnown(pod) && !left.includes(pod));
    const kept = others.map(
      (pod) => ({ pod: pod.name, path: { kind: 'kept', because: keptBecause(scene, demand, pod) } }) as const,
    );
    const { target, revisions } = this.#first ?? scene;
    return {
      revision: target.metadata.name,
      currentRevision: revisions.current.metadata.name,
      atOnce,
      created: this.#creations(scene, scale, demand),
      deleted: [...this.#deleted].map(([pod, because]) => ({ pod, because })),
      updated: [...this.#batches.flat().filter(({ pod }) => !this.#deleted.has(pod)), ...rest, ...kept],
      ...(this.#wait && { wait: this.#wait }),
      isPlayedOut,
    };
  }

  /** Including pods that are still missing: old ones up to the partition. */
  #creations(scene: FleetScene, { missing }: ScalePlan, { keeps }: UpdateDemand): Play['created'] {
    const { other, target, counted } = scene;
    const old = counted.filter((pod) => !isAtGoal(scene, pod)).length;
    const missingOld = Math.min(Math.max(keeps - old, 0), missing);
    const counts = new Map<string, number>();
    const count = (revision: string, pods: number) => counts.set(revision, (counts.get(revision) ?? 0) + pods);
    for (const revision of this.#created.values()) count(revision, 1);
    for (const revision of this.#recreated.values()) count(revision, -1);
    count(other.metadata.name, missingOld);
    count(target.metadata.name, missing - missingOld);
    return [...counts].filter(([, pods]) => pods > 0).map(([revision, pods]) => ({ revision, count: pods }));
  }
}

/** What keeps pods from being created, deleted or updated in this pass, where any are to be. */
function heldUpBy<Of extends Situation>(rules: readonly Rule<Of>[], situation: Of): Wait | undefined {
  const { scene, scale, update } = situation;
  const isUpdate = update.demand.left !== 0 && !scene.strategy.isOnDelete;
  const isScale = scale.missing + scale.surplus + scale.spared.length > 0;
  const begins = scale.steps.some(({ kind }) => kind !== 'writePod') || update.upkeep.length + update.begun.length > 0;
  if (begins || !(isUpdate || isScale)) return undefined;
  const wait = firstWait(rules, situation);
  const isTimed = scene.counted.some((pod) => pod.availableAtMs !== undefined && wait?.blockedBy.includes(podRef(pod)));
  return isTimed ? undefined : wait;
}

function revisionIn({ revisions }: FleetScene, { metadata }: Pod): string {
  const label = metadata.labels?.[revisionMark.podRevision];
  return revisions.all.find((revision) => isAtRevision(label, revision.metadata.name))?.metadata.name ?? '';
}

function deletedBecause({ isSpecified, state, pod }: FleetPod): DeletedReason {
  if (isSpecified) return 'Named';
  if (state === 'PreparingDelete') return 'Leaving';
  return isFinished(pod) ? 'Finished' : 'Surplus';
}

function keptBecause(scene: FleetScene, { isLeftOut }: UpdateDemand, pod: FleetPod): KeptReason {
  if (isUpToDate(scene, pod)) return 'Arrived';
  if (pod.isSpecified || !isWorkingState(pod.state)) return 'UnderWay';
  if (scene.strategy.isOnDelete) return 'OnDelete';
  if (skippedPods(scene).has(pod.name)) return 'Skipped';
  return isLeftOut?.(pod) ? 'NotSelected' : 'Partition';
}

function pathOf(scene: FleetScene, pod: FleetPod, demand: UpdateDemand): PodPath {
  const { due } = volumesOf(scene, pod);
  if (due.length > 0 && isAtGoal(scene, pod)) return { kind: 'expand', claims: due.map(({ claim }) => claim.name) };
  const decision = decideUpdate(scene, pod, nextRevision(scene, demand));
  switch (decision.kind) {
    case 'inPlace':
      return { kind: 'inPlace', containers: batchesOf(pod.pod, decision.change) };
    case 'recreate':
      return decision;
    case 'refused':
      return { kind: 'impossible', because: decision.because };
  }
}
