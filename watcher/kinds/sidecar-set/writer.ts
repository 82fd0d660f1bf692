/**
 * Carries out what is decided about SidecarSets, one step at a time. A pod is read again before it is changed, and what is
 * written is decided on what it is by then.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { type JsonObject, objectOr } from '../../../api/base/json.ts';
import type { EventText } from '../../../api/core/event.ts';
import { failureTypeOf } from '../../../api/core/failure.ts';
import type { KubeObject } from '../../../api/core/meta.ts';
import type { Pod } from '../../../api/core/pod.ts';
import { qualifiedName } from '../../../api/core/refs.ts';
import { eventComponent, kubeResource } from '../../../api/core/well-known.ts';
import { type ControllerRevision, revisionBody } from '../../../api/fleet/revision.ts';
import { type ImagePullJob, imagePullJobs } from '../../../api/image-pull-job/types.ts';
import { isRevisionOf, newSidecarRevision, sidecarRevisions } from '../../../api/sidecar-set/revision.ts';
import { sidecarSetEvent } from '../../../api/sidecar-set/texts.ts';
import { type SidecarSet, type SidecarSetStatus, sidecarSets } from '../../../api/sidecar-set/types.ts';
import type { Cache } from '../../../kube/cache.ts';
import { EventBudget, tellEvent } from '../../../kube/events.ts';
import type { KubeWriter } from '../../../kube/fence.ts';
import { hasMovedOn, unlessGone, unlessMovedOn, unlessNoDryRun } from '../../../kube/moved-on.ts';
import type { PodWrite } from '../../../plan/fleet/in-place/update.ts';
import { type AsSeen, asSeen } from '../../../plan/fleet/pods.ts';
import type { SidecarSetInput, SidecarSetStep } from '../../../plan/sidecar-set/input.ts';
import type { SidecarSetScene } from '../../../plan/sidecar-set/scene.ts';
import { freshSwap } from '../../../plan/sidecar-set/swaps.ts';
import { type FreshWrite, freshWrite } from '../../../plan/sidecar-set/update.ts';
import { upgradableWrite } from '../../../plan/sidecar-set/upgradable.ts';
import { messageOf } from '../../fleet/failed-steps.ts';
import type { Seen } from '../../fleet/kind.ts';
import { deletePullJob, patchAsSeen, patchStatus } from '../../fleet/object-writes.ts';
import { ImpossibleUpdate, isRefused } from '../../fleet/refused-pods.ts';

export interface SidecarSetWriterOptions {
  readonly kube: Pick<KubeWriter, 'get' | 'create' | 'patch' | 'delete'>;
  readonly sets: Pick<Cache<SidecarSet>, 'seen'>;
  readonly pods: Pick<Cache<Pod>, 'seen'>;
  readonly revisions: Pick<Cache<ControllerRevision>, 'seen' | 'deletionSeen'>;
  readonly pullJobs: Pick<Cache<ImagePullJob>, 'seen' | 'deletionSeen'>;
  /** Whether the SidecarSet manages the pod as it was just read. */
  readonly manages: (set: SidecarSet, pod: Pod) => boolean;
  /** The wall clock. */
  readonly now: () => number;
  /** Something else has changed the object of a write meanwhile: the SidecarSet has to be looked at once more. */
  readonly overtaken: (uid: string) => void;
}

/** A pass and what was decided in it. */
export interface SidecarSetPass {
  readonly input: SidecarSetInput;
  readonly scene: SidecarSetScene;
}

const resource = kubeResource.controllerRevisions;
/** SCS-186: so many attempts in all, with pauses that grow fivefold. */
const attempts = 4;
const firstPauseMs = 10;

/** The one writer of SidecarSets, and of what they change in pods. */
export class SidecarSetWriter {
  readonly #options: SidecarSetWriterOptions;
  readonly #events: EventBudget;
  /** Of passes that found the name of their revision taken: what the status is to say instead. */
  readonly #collided = new WeakMap<SidecarSetInput, Pick<SidecarSetStatus, 'latestRevision' | 'collisionCount'>>();

  constructor(options: SidecarSetWriterOptions) {
    this.#options = options;
    this.#events = new EventBudget(options.now);
  }

  /** Does one step. Throws failures that a person should know of. */
  async act(
    step: SidecarSetStep,
    pass: SidecarSetPass,
    signal: AbortSignal,
    mayGoOn: () => boolean,
  ): Promise<Seen | undefined> {
    const { owner } = pass.input;
    switch (step.kind) {
      case 'registerContent':
        return await this.#register(pass.input, step.number, signal);
      case 'patchRevision':
        return await this.#patchRevision(step.revision, step.patch, signal);
      case 'deleteRevision':
        return await this.#deleteRevision(step.revision, signal);
      case 'writeStatus':
        return await this.#writeStatus(pass.input, step.status);
      case 'writeOwner':
        return await this.#orLookAgain(
          owner,
          patchAsSeen(this.#options.kube, sidecarSets, this.#options.sets, asSeen(owner), step.patch),
        );
      case 'createPullJob':
        return await this.#createPullJob(step.job);
      case 'deletePullJob':
        return await deletePullJob(this.#options.kube, this.#options.pullJobs, step.job);
      case 'event':
        return await this.#say(owner, step.event);
      case 'writeCondition':
        return await this.#orLookAgain(owner, this.#mark(step.pod, step.write));
      case 'updateSidecars':
        return await this.#toldIfRefused(step, pass, this.#update(step, pass, signal, mayGoOn));
      case 'swapSidecars':
        return await this.#toldIfRefused(step, pass, this.#swap(step, pass, signal, mayGoOn));
      case 'tryUpdate':
        return await this.#tryOut(step, pass, signal);
    }
  }

  // The revision is seen before anything else of the pass is written; a further pass is not needed for it (SCS-131a).

  /** A name that is taken by other content gets a counterpart (SCS-207, SCS-210). */
  async #register(input: SidecarSetInput, number: number, signal: AbortSignal): Promise<undefined> {
    const { kube, revisions } = this.#options;
    const { owner, revisionNamespace: namespace } = input;
    const before = owner.status?.collisionCount ?? 0;
    for (let collisions = before; ; collisions++) {
      const wanted = newSidecarRevision(owner, namespace, number, { collisions, before });
      const { name } = wanted.metadata;
      if (collisions > before) this.#collided.set(input, { latestRevision: name, collisionCount: collisions });
      try {
        const { metadata } = await kube.create<ControllerRevision>(resource, revisionBody(wanted));
        await revisions.seen(metadata.uid, metadata.resourceVersion, signal);
        return;
      } catch (error) {
        if (!hasMovedOn(error)) throw error;
        const existing = await kube.get<ControllerRevision>(resource, { namespace, name });
        // The cache may not show yet what an earlier pass has created.
        if (sidecarRevisions(owner, [existing]).length > 0 && isRevisionOf(owner, existing)) return;
      }
    }
  }

  async #patchRevision({ namespace, name, uid }: AsSeen, patch: JsonObject, signal: AbortSignal): Promise<undefined> {
    const { kube, revisions } = this.#options;
    const body = { ...patch, metadata: { ...objectOr(patch.metadata), uid } };
    const { metadata } = await kube.patch<ControllerRevision>(resource, { namespace, name }, 'merge', body);
    await revisions.seen(uid, metadata.resourceVersion, signal);
  }

  async #deleteRevision({ namespace, name, uid }: AsSeen, signal: AbortSignal): Promise<undefined> {
    const { kube, revisions } = this.#options;
    await unlessGone(kube.delete(resource, { namespace, name }, { preconditions: { uid } }));
    await revisions.deletionSeen(uid, signal);
  }

  /** One of this name may be there already, from a write without an answer. */
  async #createPullJob(job: JsonObject): Promise<Seen | undefined> {
    const { kube, pullJobs } = this.#options;
    const created = await unlessMovedOn(kube.create<ImagePullJob>(imagePullJobs, job));
    return created && ((signal) => pullJobs.seen(created.metadata.uid, created.metadata.resourceVersion, signal));
  }

  /** The counts and observedGeneration of one write belong together: it must be the SidecarSet that was read. */
  async #writeStatus(input: SidecarSetInput, status: SidecarSetStatus): Promise<Seen | undefined> {
    const { kube, sets } = this.#options;
    const wanted = { ...status, ...this.#collided.get(input) };
    return await this.#orLookAgain(input.owner, patchStatus(kube, sidecarSets, sets, input.owner, wanted));
  }

  async #orLookAgain({ metadata }: SidecarSet, write: Promise<Seen | undefined>): Promise<Seen | undefined> {
    const seen = await write;
    if (seen === undefined) this.#options.overtaken(metadata.uid);
    return seen;
  }

  /** A step of a swap that comes later than its update is told by its operation. */
  async #toldIfRefused(
    step: Extract<SidecarSetStep, { readonly kind: 'updateSidecars' | 'swapSidecars' }>,
    { input: { owner } }: SidecarSetPass,
    write: Promise<Seen | undefined>,
  ): Promise<Seen | undefined> {
    try {
      return await write;
    } catch (error) {
      if ('revision' in step && isRefused(error, 1)) {
        await this.#say(owner, sidecarSetEvent.updateFailed(qualifiedName(step.pod), step.revision, messageOf(error)));
      }
      throw error;
    }
  }

  /** The pod, then its condition, before any other pod (SCS-186, SCS-191). */
  async #update(
    { pod, isFree }: Extract<SidecarSetStep, { readonly kind: 'updateSidecars' }>,
    { input, scene }: SidecarSetPass,
    signal: AbortSignal,
    mayGoOn: () => boolean,
  ): Promise<Seen | undefined> {
    const freshOf = (live: Pod) => freshWrite(scene, live, isFree);
    const written = await this.#writePod(pod, { input, signal, mayGoOn, freshOf });
    if (written === undefined) {
      this.#options.overtaken(input.owner.metadata.uid);
      return undefined;
    }
    return this.#podSeen(await this.#markUpgradable(written, scene, signal));
  }

  /** One step of a swap; a reset is announced on the pod. */
  async #swap(
    { pod, step }: Extract<SidecarSetStep, { readonly kind: 'swapSidecars' }>,
    { input, scene }: SidecarSetPass,
    signal: AbortSignal,
    mayGoOn: () => boolean,
  ): Promise<Seen | undefined> {
    const freshOf = (live: Pod) => freshSwap(scene, live, step);
    const write = this.#writePod(pod, { input, signal, mayGoOn, freshOf });
    if (step === 'reset') write.catch((error) => this.#sayOfPod(pod, sidecarSetEvent.resetFailed(messageOf(error))));
    const written = await write;
    if (written === undefined) {
      this.#options.overtaken(input.owner.metadata.uid);
      return undefined;
    }
    if (step === 'reset') await this.#sayOfPod(pod, sidecarSetEvent.reset());
    return this.#podSeen(step === 'begin' ? await this.#markUpgradable(written, scene, signal) : written);
  }

  async #tryOut(
    { pod, isSwap }: Extract<SidecarSetStep, { readonly kind: 'tryUpdate' }>,
    { input, scene }: SidecarSetPass,
    signal: AbortSignal,
  ): Promise<undefined> {
    const freshOf = (live: Pod) => (isSwap ? freshSwap(scene, live, 'begin') : freshWrite(scene, live, false));
    await this.#writePod(pod, { input, signal, freshOf, mayGoOn: () => true, dryRun: true }).catch(unlessNoDryRun);
  }

  async #sayOfPod(pod: AsSeen, text: EventText): Promise<void> {
    const about = { apiVersion: 'v1', kind: 'Pod', metadata: { ...pod, creationTimestamp: '' } };
    await this.#say(about, text).catch(() => undefined);
  }

  /** Writes the pod as it is by now; undefined: there is nothing to write, or it may not be any more. */
  async #writePod(
    pod: AsSeen,
    {
      input,
      signal,
      mayGoOn,
      freshOf,
      dryRun = false,
    }: {
      readonly input: SidecarSetInput;
      readonly signal: AbortSignal;
      readonly mayGoOn: () => boolean;
      readonly freshOf: (live: Pod) => FreshWrite;
      readonly dryRun?: boolean;
    },
  ): Promise<Pod | undefined> {
    const { kube, manages } = this.#options;
    return await this.#despiteConflicts(signal, async () => {
      const live = await unlessGone(kube.get<Pod>(kubeResource.pods, pod));
      const isThere = live?.metadata.uid === pod.uid && manages(input.owner, live);
      const fresh = isThere ? freshOf(live) : undefined;
      if (live === undefined || fresh === undefined || fresh.kind === 'nothing' || !mayGoOn()) return undefined;
      if (fresh.kind === 'impossible') throw new ImpossibleUpdate(fresh.why);
      return await this.#send(asSeen(live), fresh.write, { dryRun });
    });
  }

  /** The pod as it is then. Whatever fails here, its update was not refused: what has failed is told. */
  async #markUpgradable(written: Pod, scene: SidecarSetScene, signal: AbortSignal): Promise<Pod> {
    const { owner, target, now } = scene;
    let live: Pod | undefined = written;
    try {
      const marked = await this.#despiteConflicts(signal, async () => {
        live ??= await unlessGone(this.#options.kube.get<Pod>(kubeResource.pods, asSeen(written)));
        const pod = live;
        live = undefined;
        if (pod?.metadata.uid !== written.metadata.uid) return undefined;
        const write = upgradableWrite(pod, target.setName, true, now);
        return write && (await this.#send(asSeen(pod), write));
      });
      return marked ?? written;
    } catch (error) {
      await this.#say(owner, sidecarSetEvent.markFailed(qualifiedName(asSeen(written)), messageOf(error)));
      return written;
    }
  }

  async #mark(pod: AsSeen, write: PodWrite): Promise<Seen | undefined> {
    const written = await unlessMovedOn(this.#send(pod, write));
    return written && this.#podSeen(written);
  }

  async #send(
    { namespace, name, uid, resourceVersion }: AsSeen,
    { kind, patch }: PodWrite,
    { dryRun = false } = {},
  ): Promise<Pod> {
    const body = { ...patch, metadata: { ...objectOr(patch.metadata), uid, resourceVersion } };
    const options = { ...(kind !== 'pod' && { subresource: kind }), ...(dryRun && { dryRun }) };
    return await this.#options.kube.patch<Pod>(kubeResource.pods, { namespace, name }, 'strategic', body, options);
  }

  /** The kubelet and the owner of the pod write it, too. A pod that is gone meanwhile needs nothing. */
  async #despiteConflicts<Result>(
    signal: AbortSignal,
    write: () => Promise<Result | undefined>,
  ): Promise<Result | undefined> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await write();
      } catch (error) {
        if (failureTypeOf(error) === 'Superseded') return undefined;
        if (failureTypeOf(error) !== 'Conflict' || attempt === attempts) throw error;
      }
      await delay(firstPauseMs * 5 ** (attempt - 1), undefined, { signal });
    }
  }

  #podSeen({ metadata }: Pod): Seen {
    return (signal) => this.#options.pods.seen(metadata.uid, metadata.resourceVersion, signal);
  }

  async #say(about: KubeObject, text: EventText): Promise<undefined> {
    const { kube, now } = this.#options;
    if (!this.#events.take(about, text)) return;
    await tellEvent(kube, { ...text, about, component: eventComponent.sidecarSet, atMs: now() });
  }
}
