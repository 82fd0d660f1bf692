/**
 * Carries out what the planner of a workload wants done, one step at a time. Every write names the object that was decided
 * about by UID and version; one that finds another version writes nothing, since the event that brings it is a reason for
 * another look anyway.
 */

import type { JsonObject } from '../../api/base/json.ts';
import type { EventText } from '../../api/core/event.ts';
import { failureTypeOf } from '../../api/core/failure.ts';
import { labelMatcher } from '../../api/core/label-selector.ts';
import type { KubeObject } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import { isControlledBy } from '../../api/core/refs.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import {
  afterNameTaken,
  type ControllerRevision,
  type NewRevision,
  revisionBody,
  revisionMark,
} from '../../api/fleet/revision.ts';
import { type ImagePullJob, imagePullJobs } from '../../api/image-pull-job/types.ts';
import { type Cache, compareVersions } from '../../kube/cache.ts';
import { EventBudget, tellEvent } from '../../kube/events.ts';
import { KubeError } from '../../kube/failures.ts';
import type { KubeWriter } from '../../kube/fence.ts';
import { hasMovedOn, mayBeMade, unlessGone, unlessMovedOn, unlessNoDryRun } from '../../kube/moved-on.ts';
import { RecentlySeen } from '../../kube/recently-seen.ts';
import type { PodWrite } from '../../plan/fleet/in-place/update.ts';
import type { FleetInput } from '../../plan/fleet/input.ts';
import type { WorkloadPlanner } from '../../plan/fleet/planner.ts';
import { type AsSeen, asSeen } from '../../plan/fleet/pods.ts';
import type { Intention, UpdateTrial } from '../../plan/fleet/steps.ts';
import type { DrainedPod } from '../../plan/fleet/update.ts';
import type { Workload } from '../../plan/fleet/workload.ts';
import type { Drains } from '../drained.ts';
import { trimPod } from '../trim.ts';
import { messageOf } from './failed-steps.ts';
import type { Seen, Together } from './kind.ts';
import { deleteAsSeen, deletePullJob, patchAsSeen, patchStatus } from './object-writes.ts';

/** One thing to do for a workload. */
export type FleetStep<Status> = Intention | { readonly kind: 'writeStatus'; readonly status: Status };

/** The Events that users of a kind see about steps. */
export interface FleetEvents {
  created(pod: string): EventText;
  createFailed(pod: string, why: string): EventText;
  /** Those about PVCs are of kinds whose pods have some. Absent: nothing is said of PVCs that were created. */
  claimCreated?(claim: string, pod: string): EventText;
  claimCreateFailed?(claim: string, why: string, pod: string): EventText;
  deleted(pod: string): EventText;
  deleteFailed(pod: string, why: string): EventText;
  claimDeleteFailed?(claim: string, why: string): EventText;
  claimUpdateFailed?(claim: string, why: string): EventText;
  /** Of kinds whose PVCs are resized. */
  claimResized?(claim: string, pod: string): EventText;
  claimResizeFailed?(claim: string, why: string, pod: string): EventText;
  /** Of a write of a pod that is no update. Absent: nothing is said of it. */
  writeFailed?(pod: string, why: string): EventText;
  updatedInPlace(pod: string, revision: string): EventText;
  updateInPlaceFailed(pod: string, revision: string, why: string): EventText;
  /** Undefined: its deletion says enough. */
  recreated(pod: string, revision: string): EventText | undefined;
  recreateFailed(pod: string, revision: string, why: string): EventText;
  pullJobCreated(job: string, image: string): EventText;
  pullJobCreateFailed(job: string, why: string): EventText;
}

export interface FleetWriterOptions<Owner extends Workload, World extends FleetInput<Owner>> {
  readonly planner: Pick<WorkloadPlanner<Owner, World>, 'resource' | 'emptyStatus' | 'afterDrain'>;
  readonly events: FleetEvents;
  /** The component that Events name as their source. */
  readonly component: string;
  readonly kube: KubeWriter;
  readonly caches: {
    readonly owners: Cache<Owner>;
    readonly pods: Cache<Pod>;
    readonly claims: Cache<KubeObject>;
    readonly revisions: Cache<ControllerRevision>;
    readonly pullJobs: Cache<ImagePullJob>;
  };
  readonly drains: Pick<Drains, 'until'>;
  /** The wall clock. */
  readonly now: () => number;
  /** Notes that no pod of this workload can have this name. */
  readonly spend: (owner: Owner, podName: string) => void;
  /** Notes that these PVCs have to go if this pod is going. */
  readonly owe: (owner: Owner, pod: AsSeen, claims: readonly AsSeen[]) => void;
}

/** How steps go with their neighbours: those of different pods have nothing to do with each other. */
export function togetherOf({ kind }: FleetStep<unknown>): Together {
  switch (kind) {
    case 'createPod':
      return 'growing';
    case 'deletePod':
    case 'adoptPod':
    case 'writePod':
    case 'updatePod':
    case 'recreatePod':
    case 'createClaim':
    case 'deleteClaim':
    case 'writeClaim':
    case 'resizeClaim':
    case 'deleteRevision':
    case 'deletePullJob':
      return 'freely';
    default:
      return 'alone';
  }
}

/** Which steps wait for each other once one has failed: all creations of pods, since what refuses one refuses the next. */
export function retryKeyOf(step: FleetStep<unknown>): string {
  switch (step.kind) {
    case 'deletePod':
    case 'adoptPod':
    case 'writePod':
    case 'updatePod':
    case 'recreatePod':
      return `${step.kind} ${step.pod.uid}`;
    case 'createClaim':
      return `${step.kind} ${step.name}`;
    case 'deleteClaim':
    case 'writeClaim':
    case 'resizeClaim':
      return `${step.kind} ${step.claim.uid}`;
    case 'patchRevision':
    case 'deleteRevision':
    case 'preDownload':
      return `${step.kind} ${step.revision.uid}`;
    case 'deletePullJob':
      return `${step.kind} ${step.job.uid}`;
    default:
      return step.kind;
  }
}

/** Whether a step only reports, and changes nothing that is decided on. */
export function onlyTells({ kind }: FleetStep<unknown>): boolean {
  return kind === 'writeStatus' || kind === 'event';
}

/** The one writer of the workloads of a kind and of what they own. */
export class FleetWriter<Owner extends Workload, World extends FleetInput<Owner>> {
  readonly #options: FleetWriterOptions<Owner, World>;
  readonly #events: EventBudget;
  /** Revisions of which no job was allowed: they are asked for again, but not in every look. */
  readonly #pullsDenied = new RecentlySeen(pullsDeniedMs);
  /** Revisions of workloads of which a pod could not be created, and none could since. */
  readonly #podsFailed = new RecentlySeen(podsFailedMs);
  /** Revisions of workloads to which a pod was updated, and none was refused since. */
  readonly #accepted = new RecentlySeen(acceptedMs);
  /** Worked out once for each look, and for those steps only that need it. */
  readonly #scenes = new WeakMap<World, SceneOfLook>();

  constructor(options: FleetWriterOptions<Owner, World>) {
    this.#options = options;
    this.#events = new EventBudget(options.now);
  }

  /** Does one step, and emits its Event. Throws failures that a person should know of. */
  async act(
    step: FleetStep<Owner['status'] & object>,
    world: World,
    signal: AbortSignal,
    mayGoOn: () => boolean,
  ): Promise<Seen | undefined> {
    const { kube, caches, events } = this.#options;
    const { resource } = this.#options.planner;
    const { owner } = world;
    switch (step.kind) {
      case 'writeStatus':
        return patchStatus(kube, resource, caches.owners, owner, step.status);
      case 'writeOwner':
        return patchAsSeen(kube, resource, caches.owners, asSeen(owner), step.patch);
      case 'event':
        return this.#sayLasting(owner, step.event);
      case 'createRevision':
        return this.#createRevision(owner, step.revision);
      case 'patchRevision':
        return patchAsSeen(kube, kubeResource.controllerRevisions, caches.revisions, step.revision, step.patch);
      case 'deleteRevision':
        return deleteAsSeen(kube, kubeResource.controllerRevisions, caches.revisions, step.revision);
      case 'preDownload':
        return this.#preDownload(owner, step);
      case 'deletePullJob':
        return deletePullJob(this.#options.kube, this.#options.caches.pullJobs, step.job);
      case 'createPod':
        return this.#createPod(world, step);
      case 'deletePod':
        return mayGoOn() ? this.#deletePod(owner, step) : undefined;
      case 'adoptPod':
      case 'writePod':
        return this.#told(
          owner,
          step.kind === 'adoptPod' ? this.#adoptPod(owner, step) : this.#writePod(step.pod, step.writes),
          () => undefined,
          (why) => events.writeFailed?.(step.pod.name, why),
        );
      case 'updatePod':
        return this.#told(
          owner,
          this.#unlessRefused(owner, step, { mayGoOn, act: () => this.#updatePod(step, world, signal, mayGoOn) }),
          () => events.updatedInPlace(step.pod.name, step.revision),
          (why) => events.updateInPlaceFailed(step.pod.name, step.revision, why),
        );
      case 'recreatePod': {
        const { mark } = step;
        const act = () =>
          mark ? this.#writePod(step.pod, [mark.write]) : deleteAsSeen(kube, kubeResource.pods, caches.pods, step.pod);
        return this.#told(
          owner,
          this.#unlessRefused(owner, { revision: step.revision, ...(mark && { trial: mark.trial }) }, { mayGoOn, act }),
          (seen) => seen && (mark ? events.recreated(step.pod.name, step.revision) : events.deleted(step.pod.name)),
          (why) => events.recreateFailed(step.pod.name, step.revision, why),
        );
      }
      case 'tryUpdate':
        await this.#tryOut(step);
        return undefined;
      case 'createClaim':
        return this.#createClaim(owner, step.body, step.podName);
      case 'deleteClaim':
        return this.#told(
          owner,
          deleteAsSeen(kube, kubeResource.persistentVolumeClaims, caches.claims, step.claim, {
            evenIfChanged: step.ofDeletedPod ?? false,
          }),
          () => undefined,
          (why) => events.claimDeleteFailed?.(step.claim.name, why),
        );
      case 'writeClaim':
        if (!mayGoOn()) return undefined;
        return this.#told(
          owner,
          patchAsSeen(kube, kubeResource.persistentVolumeClaims, caches.claims, step.claim, step.patch, {
            as: 'strategic',
          }),
          () => undefined,
          (why) => events.claimUpdateFailed?.(step.claim.name, why),
        );
      case 'resizeClaim':
        return this.#told(
          owner,
          patchAsSeen(kube, kubeResource.persistentVolumeClaims, caches.claims, step.claim, step.patch),
          () => events.claimResized?.(step.claim.name, step.pod.name),
          (why) => events.claimResizeFailed?.(step.claim.name, why, step.pod.name),
        );
    }
  }

  /** CS-83. */
  async #createRevision(owner: Owner, revision: NewRevision): Promise<Seen | undefined> {
    const { kube, caches, planner } = this.#options;
    const { controllerRevisions } = kubeResource;
    const isSelected = labelMatcher(owner.spec.selector) ?? (() => false);
    // It would not be found again under any name, and the next look would create another one.
    if (!isSelected(revision.metadata.labels ?? {})) throw unselected();
    try {
      const { metadata } = await kube.create<ControllerRevision>(controllerRevisions, revisionBody(revision));
      return (signal) => caches.revisions.seen(metadata.uid, metadata.resourceVersion, signal);
    } catch (error) {
      if (!isTaken(error)) throw error;
      const { namespace = '', name } = revision.metadata;
      const existing = await kube.get<ControllerRevision>(controllerRevisions, { namespace, name });
      const { uid, resourceVersion } = existing.metadata;
      if (afterNameTaken(revision, existing, { uid: owner.metadata.uid, isSelected }).kind === 'adopt') {
        return (signal) => caches.revisions.seen(uid, resourceVersion, signal);
      }
      const before = owner.status ?? planner.emptyStatus;
      const status = { ...before, collisionCount: (before.collisionCount ?? 0) + 1 };
      return patchStatus(kube, planner.resource, caches.owners, owner, status);
    }
  }

  /**
   * PRE-2, PRE-10: what is refused as such is reported and left; what is not allowed or not answered is tried again with
   * another look. The update continues meanwhile, so none of that fails the pass.
   */
  async #preDownload(owner: Owner, step: Extract<Intention, { kind: 'preDownload' }>): Promise<Seen | undefined> {
    const { kube, caches, now, events } = this.#options;
    if (this.#pullsDenied.has(step.revision.uid, now())) return undefined;
    const seen: Seen[] = [];
    for (const job of step.jobs) {
      try {
        const { metadata } = await kube.create<KubeObject>(imagePullJobs, job, { deadlineMs: pullJobDeadlineMs });
        seen.push((signal) => caches.pullJobs.seen(metadata.uid, metadata.resourceVersion, signal));
        void this.#say(owner, events.pullJobCreated(nameIn(job), imageIn(job)));
      } catch (error) {
        const type = failureTypeOf(error);
        if (type === undefined) throw error;
        if (isTaken(error)) continue;
        void this.#say(owner, events.pullJobCreateFailed(nameIn(job), messageOf(error)));
        // without the marks, the next look wants these jobs again
        if (type === 'Denied') this.#pullsDenied.add(step.revision.uid, now());
        if (type !== 'Invalid') return seen.length > 0 ? all(seen) : undefined;
      }
    }
    const { controllerRevisions: resource } = kubeResource;
    const marked = step.marks && (await patchAsSeen(kube, resource, caches.revisions, step.revision, step.marks));
    if (marked) seen.push(marked);
    return seen.length > 0 ? all(seen) : undefined;
  }

  /**
   * CS-46, CS-70: the PVCs come first, since the pod cannot start without them. A PVC whose pod is refused is provisioned and
   * deleted again in each try, so after a failure a pod has to be accepted in a dry run before it gets any.
   */
  async #createPod(world: World, step: Extract<Intention, { kind: 'createPod' }>): Promise<Seen> {
    const { caches, events, now } = this.#options;
    const { owner } = world;
    const kindOfPod = `${owner.metadata.uid}/${revisionIn(step.pod)}`;
    const toldOfPod = <Result>(creation: Promise<Result>, done: () => EventText | undefined) =>
      this.#told(owner, creation, done, (why) => events.createFailed(step.name, why));
    try {
      if (step.claims.length > 0 && this.#podsFailed.has(kindOfPod, now())) {
        for (const claim of step.claims) await this.#createClaim(owner, claim, step.name, { dryRun: true });
        await toldOfPod(this.#tryPod(step), () => undefined);
      }
      const seen: Seen[] = [];
      for (const claim of step.claims) {
        const created = await this.#createClaim(owner, claim, step.name);
        if (created) seen.push(created);
      }
      const pod = await toldOfPod(this.#createOnce(world, step), () => events.created(step.name));
      this.#podsFailed.forget(kindOfPod);
      const { uid, resourceVersion } = pod.metadata;
      seen.push((signal) => caches.pods.seen(uid, resourceVersion, signal));
      return all(seen);
    } catch (error) {
      if (failureTypeOf(error) !== undefined && !isTaken(error)) this.#podsFailed.add(kindOfPod, now());
      throw error;
    }
  }

  /** Whose name is taken is left to the creation. */
  async #tryPod({ pod }: Extract<Intention, { kind: 'createPod' }>): Promise<void> {
    try {
      await this.#options.kube.create<Pod>(kubeResource.pods, pod, { dryRun: true });
    } catch (error) {
      if (!isTaken(error)) throw error;
    }
  }

  /** Undefined: there is one of this name, which the pod uses. */
  async #createClaim(owner: Owner, claim: JsonObject, pod: string, { dryRun = false } = {}): Promise<Seen | undefined> {
    const { kube, caches, events } = this.#options;
    try {
      const options = dryRun ? { dryRun } : {};
      const { metadata } = await kube.create<KubeObject>(kubeResource.persistentVolumeClaims, claim, options);
      if (dryRun) return undefined;
      const told = events.claimCreated?.(nameIn(claim), pod);
      if (told) void this.#say(owner, told);
      return (signal) => caches.claims.seen(metadata.uid, metadata.resourceVersion, signal);
    } catch (error) {
      if (isTaken(error)) return undefined;
      void this.#say(owner, events.claimCreateFailed?.(nameIn(claim), messageOf(error), pod));
      throw error;
    }
  }

  /**
   * A creation that was thought lost may have arrived meanwhile: the pod has this name then. One that the decision was made with
   * is none of these.
   */
  async #createOnce({ owner, pods }: World, { name, pod }: Extract<Intention, { kind: 'createPod' }>): Promise<Pod> {
    const { kube, spend } = this.#options;
    try {
      return await kube.create<Pod>(kubeResource.pods, pod);
    } catch (error) {
      if (!isTaken(error)) throw error;
      const { namespace = '' } = owner.metadata;
      const there = await unlessGone(kube.get<Pod>(kubeResource.pods, { namespace, name }));
      const isNew = there && !pods.some(({ metadata }) => metadata.uid === there.metadata.uid);
      if (isNew && isControlledBy(owner, there) && there.metadata.deletionTimestamp === undefined) return there;
      spend(owner, name);
      throw error;
    }
  }

  /** CS-35. */
  async #deletePod(owner: Owner, step: Extract<Intention, { kind: 'deletePod' }>): Promise<Seen | undefined> {
    const { kube, caches, owe, events } = this.#options;
    // Nothing else in the cluster says that they were to go with this pod, so that is kept in mind until they are gone.
    const oweClaims = () => owe(owner, step.pod, step.claims);
    const deletion = deleteAsSeen(kube, kubeResource.pods, caches.pods, step.pod).catch((error) => {
      if (mayBeMade(error)) oweClaims();
      throw error;
    });
    const pod = await this.#told(
      owner,
      deletion,
      (seen) => seen && events.deleted(step.pod.name),
      (why) => events.deleteFailed(step.pod.name, why),
    );
    if (pod === undefined) return undefined;
    oweClaims();
    const claims = await Promise.all(
      step.claims.map((claim) =>
        this.#told(
          owner,
          deleteAsSeen(kube, kubeResource.persistentVolumeClaims, caches.claims, claim, { evenIfChanged: true }),
          () => undefined,
          (why) => events.claimDeleteFailed?.(claim.name, why),
        ),
      ),
    );
    return all([pod, ...claims.filter((seen) => seen !== undefined)]);
  }

  /** The workload is asked for first: one that is being deleted, or that has been recreated, adopts nothing. */
  async #adoptPod(owner: Owner, step: Extract<Intention, { kind: 'adoptPod' }>): Promise<Seen | undefined> {
    const { kube, planner } = this.#options;
    const { namespace = '', name, uid } = owner.metadata;
    const live = await unlessGone(kube.get<Owner>(planner.resource, { namespace, name }));
    if (live?.metadata.uid !== uid || live.metadata.deletionTimestamp !== undefined) return undefined;
    return this.#writePod(step.pod, [{ kind: 'pod', patch: step.patch }]);
  }

  async #writePod(pod: AsSeen, writes: readonly PodWrite[]): Promise<Seen | undefined> {
    const written = await this.#send(pod, writes);
    return written && this.#podSeen(written);
  }

  /** Tries an update in dry runs, which change nothing. Throws what refuses it; a conflict as well, as the pod has moved on. */
  async #tryOut({ pod, writes, deletes }: UpdateTrial): Promise<void> {
    for (const write of writes) await this.#patch(pod, write, { dryRun: true }).catch(unlessNoDryRun);
    const { uid, resourceVersion } = pod;
    const options = { preconditions: { uid, resourceVersion }, dryRun: true };
    if (deletes) await this.#options.kube.delete(kubeResource.pods, pod, options).catch(unlessNoDryRun);
  }

  /**
   * P-7: an update that is more than one write is tried before the first one, as long as no pod was updated to its revision, or the
   * last one was refused; a resize always, since a quota allows some. Undefined: nothing was written.
   */
  async #unlessRefused(
    owner: Owner,
    { revision, trial }: { readonly revision: string; readonly trial?: UpdateTrial },
    { mayGoOn, act }: { readonly mayGoOn: () => boolean; readonly act: () => Promise<Seen | undefined> },
  ): Promise<Seen | undefined> {
    const { now } = this.#options;
    const key = `${owner.metadata.uid}/${revision}`;
    try {
      if (trial) {
        const { pod, writes } = trial;
        const isAccepted = this.#accepted.has(key, now());
        await this.#tryOut(
          isAccepted ? { pod, revision, writes: writes.filter(({ kind }) => kind === 'resize') } : trial,
        );
        if (!mayGoOn()) return undefined;
      }
      const seen = await act();
      if (seen) this.#accepted.add(key, now());
      return seen;
    } catch (error) {
      if (hasMovedOn(error)) return undefined;
      this.#accepted.forget(key);
      throw error;
    }
  }

  /**
   * Out of service first, and on only when Services have seen that. Between the two the kubelet may have written the pod,
   * so the update is worked out again for the pod as it is then. What comes in between leaves a pod that is out of service
   * for nothing; the planner brings it back, or continues with it.
   */
  async #updatePod(
    step: Extract<Intention, { kind: 'updatePod' }>,
    world: World,
    signal: AbortSignal,
    mayGoOn: () => boolean,
  ): Promise<Seen | undefined> {
    if (step.drain === undefined) return this.#writePod(step.pod, step.writes);
    const { afterDrain, pods } = this.#sceneOf(world);
    const before = pods.get(step.pod.uid);
    const drained = before && (await this.#send(step.pod, [step.drain]));
    if (before === undefined || drained === undefined) return undefined;
    const routing = await this.#options.drains.until(before, drained, signal);
    if (routing.length > 0) void this.#warnNotDrained(drained, routing);

    let live = this.#newest(drained);
    for (let attempt = 1; afterDrain && attempt <= attemptsAtOnce && mayGoOn(); attempt++) {
      const writes = live && afterDrain({ before, live, revision: step.revision });
      if (live === undefined || writes === undefined) break;
      const written = await this.#send(asSeen(live), writes);
      if (written) return this.#podSeen(written);
      live = await this.#live(step.pod);
    }
    return this.#podSeen(drained);
  }

  /** The pod as it was written, or as the cache shows it by now. */
  #newest(written: Pod): Pod | undefined {
    const { uid, resourceVersion } = written.metadata;
    const shown = this.#options.caches.pods.byUid(uid);
    const isNewer = shown !== undefined && compareVersions(shown.metadata.resourceVersion, resourceVersion) > 0;
    return unlessGoing(isNewer ? shown : trimPod(written));
  }

  async #live({ namespace, name, uid }: AsSeen): Promise<Pod | undefined> {
    try {
      const live = await this.#options.kube.get<Pod>(kubeResource.pods, { namespace, name });
      return live.metadata.uid === uid ? unlessGoing(trimPod(live)) : undefined;
    } catch (error) {
      if (hasMovedOn(error)) return undefined;
      throw error;
    }
  }

  #sceneOf(world: World): SceneOfLook {
    const known = this.#scenes.get(world) ?? {
      afterDrain: this.#options.planner.afterDrain(world),
      pods: new Map(world.pods.map((pod) => [pod.metadata.uid, pod])),
    };
    this.#scenes.set(world, known);
    return known;
  }

  /** The writes one after the other, each against the answer of the one before; undefined when the pod has moved on. */
  async #send(pod: AsSeen, writes: readonly PodWrite[]): Promise<Pod | undefined> {
    let { resourceVersion } = pod;
    let written: Pod | undefined;
    for (const write of writes) {
      try {
        written = await this.#patch({ ...pod, resourceVersion }, write);
      } catch (error) {
        if (hasMovedOn(error)) return written;
        throw error;
      }
      resourceVersion = written.metadata.resourceVersion;
    }
    return written;
  }

  async #patch(
    { namespace, name, uid, resourceVersion }: AsSeen,
    { kind, patch }: PodWrite,
    { dryRun = false } = {},
  ): Promise<Pod> {
    const body = { ...patch, metadata: { ...(patch.metadata as JsonObject | undefined), uid, resourceVersion } };
    const options = { ...(kind !== 'pod' && { subresource: kind }), ...(dryRun && { dryRun }) };
    try {
      return await this.#options.kube.patch<Pod>(kubeResource.pods, { namespace, name }, 'strategic', body, options);
    } catch (error) {
      if (await this.#isAsSent({ namespace, name, uid, resourceVersion }, error)) throw deniedByConflict(error);
      throw error;
    }
  }

  /** Whether the pod has not moved on, though a write was refused as if it had: a webhook may answer so. */
  async #isAsSent(pod: AsSeen, error: unknown): Promise<boolean> {
    const { caches, kube } = this.#options;
    if (failureTypeOf(error) !== 'Conflict') return false;
    if (caches.pods.byUid(pod.uid)?.metadata.resourceVersion !== pod.resourceVersion) return false;
    const live = await unlessMovedOn(kube.get<Pod>(kubeResource.pods, pod));
    return live?.metadata.uid === pod.uid && live.metadata.resourceVersion === pod.resourceVersion;
  }

  #podSeen({ metadata }: Pod): Seen {
    return (signal) => this.#options.caches.pods.seen(metadata.uid, metadata.resourceVersion, signal);
  }

  /** Tells users how it went. */
  async #told<Result>(
    owner: Owner,
    act: Promise<Result>,
    done: (result: Result) => EventText | undefined,
    failed: (why: string) => EventText | undefined,
  ): Promise<Result> {
    try {
      const result = await act;
      const event = done(result);
      if (event && result !== undefined) void this.#say(owner, event);
      return result;
    } catch (error) {
      const event = failureTypeOf(error) === undefined ? undefined : failed(messageOf(error));
      if (event) void this.#say(owner, event);
      throw error;
    }
  }

  async #warnNotDrained(pod: Pod, services: readonly string[]): Promise<void> {
    const message = `Continuing although Services still route to this pod: ${services.join(', ')}`;
    await this.#say(pod, { type: 'Warning', reason: 'NotDrained', message });
  }

  async #say(about: KubeObject, text: EventText | undefined): Promise<undefined> {
    if (text === undefined || !this.#events.take(about, text)) return undefined;
    return this.#write(about, text);
  }

  /** What the planner says in each pass, as long as it holds. */
  async #sayLasting(about: KubeObject, text: EventText): Promise<undefined> {
    return this.#events.takeLasting(about, text) ? this.#write(about, text) : undefined;
  }

  async #write(about: KubeObject, text: EventText): Promise<undefined> {
    const { kube, now, component } = this.#options;
    await tellEvent(kube, { ...text, about, component, atMs: now() });
    return undefined;
  }
}

interface SceneOfLook {
  readonly afterDrain: ((drained: DrainedPod) => readonly PodWrite[] | undefined) | undefined;
  /** By UID. */
  readonly pods: ReadonlyMap<string, Pod>;
}

/** What is refused as a conflict, and is none, is tried again like any other refusal. */
function deniedByConflict(error: unknown): KubeError {
  return new KubeError({ status: 403, message: messageOf(error) });
}

function unselected(): KubeError {
  return new KubeError({ status: 422, message: 'the labels of spec.template do not match spec.selector' });
}

function unlessGoing(pod: Pod): Pod | undefined {
  return pod.metadata.deletionTimestamp === undefined ? pod : undefined;
}

/** Nothing waits for the answer longer than this: the roll-out continues in the same pass. */
const pullJobDeadlineMs = 5_000;

/** Jobs that were not allowed are asked for again after so long. */
const pullsDeniedMs = 30_000;

/** For so long a pod may be drained without a dry run before. */
const acceptedMs = 3_600_000;

/** Longer than the longest pause before a creation is tried again. */
const podsFailedMs = 3_600_000;

/** How often an update that was drained for is tried against a pod that keeps changing. */
const attemptsAtOnce = 5;

function all(seen: readonly Seen[]): Seen {
  return async (signal) => {
    await Promise.all(seen.map((each) => each(signal)));
  };
}

function isTaken(error: unknown): boolean {
  return error instanceof Error && 'reason' in error && error.reason === 'AlreadyExists';
}

function revisionIn({ metadata }: JsonObject): string {
  return String((metadata as Pod['metadata'] | undefined)?.labels?.[revisionMark.podRevision]);
}

function nameIn({ metadata }: JsonObject): string {
  return String((metadata as { readonly name?: unknown } | undefined)?.name);
}

function imageIn({ spec }: JsonObject): string {
  return String((spec as { readonly image?: unknown } | undefined)?.image);
}
