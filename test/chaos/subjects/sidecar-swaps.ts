// Pods with a hot-upgrade sidecar and a cold one, whose images change.
import type { JsonObject } from '../../../api/base/json.ts';
import type { KubeObject, ObjectMeta } from '../../../api/core/meta.ts';
import type { Pod } from '../../../api/core/pod.ts';
import { kubeResource } from '../../../api/core/well-known.ts';
import { rollOutId } from '../../../api/fleet/operation.ts';
import { hotMark } from '../../../api/sidecar-set/marks.ts';
import { swapAnnotation, swapSidecarId } from '../../../api/sidecar-set/swap.ts';
import { hotPair, type SidecarSet, sidecarSets } from '../../../api/sidecar-set/types.ts';
import { isGone } from '../../../kube/failures.ts';
import { unlessThere } from '../../support/cluster.ts';
import { isServing } from '../../support/fleet-watch.ts';
import { waitFor } from '../../support/wait.ts';
import type { Report } from '../campaign.ts';
import { type ChaosSubject, type Objections, type SubjectKind, type SubjectStep, soon } from '../chaos-subject.ts';
import { cuts, freezes, kills } from '../fault-plan.ts';
import type { ObjectRecord } from '../follow.ts';
import { restartsOf, swapViolations } from '../judges/swap-judge.ts';
import { podWithFolder, Room } from '../room.ts';
import { patienceMs, untilDone, type World } from '../world.ts';

const sidecar = 'mesh';
const pair = hotPair(sidecar);
const [old, next] = pair;
const cold = 'logs';
/** The same image under several names: the kubelet restarts a container for each. */
const images = {
  old: 'busybox:1.35',
  new: 'docker.io/library/busybox:1.35',
  empty: 'busybox:1.36',
} as const;
/** Of the cold sidecar: two images, since one under two names shows no change where it restarts within a second. */
const coldImages = { old: 'busybox:1.35', new: 'busybox:1.36' } as const;
const app = { app: 'swapped' };

const script = `trap 'exit 0' TERM; sleep 99999 & wait`;
/** The first version and the idle one are always ready, each later one as soon as the test allows it. */
const isAllowed = `case "$SIDECARSET_VERSION" in 0|1) exit 0;; esac; test -e /shared/go`;

/** What happens while the new container of the first pods runs and is not ready. */
export type Middle = 'nothing' | 'imageOfBefore' | 'neverReady' | 'podDeleted' | 'bothRestarted';

interface Options {
  readonly pods: number;
  readonly middle: Middle;
}

/** The pods of one SidecarSet through one change of its images. */
export class SidecarSwaps implements ChaosSubject {
  readonly #world: World;
  readonly #room: Room;
  readonly #pods: ObjectRecord<Pod>;
  readonly #options: Options;
  readonly #names: readonly string[];
  readonly #set: string;
  /** How many versions each pod had before the change, by UID. */
  readonly #before = new Map<string, number>();
  readonly #deleted = new Set<string>();
  /** Pods whose swap was undone because the image of before was published. */
  readonly #undone = new Set<string>();
  /** Restarts beyond those of the swap, by pod and container. */
  readonly #more = new Map<string, Readonly<Record<string, number>>>();
  #setUid = '';
  #isActedOn = false;

  private constructor(world: World, room: Room, pods: ObjectRecord<Pod>, options: Options) {
    this.#world = world;
    this.#room = room;
    this.#pods = pods;
    this.#options = options;
    this.#set = `${room.namespace}-mesh`;
    this.#names = Array.from({ length: options.pods }, (_, index) => `hot-${index + 1}`);
  }

  /** All pods ready with the first version. */
  static async prepare(world: World, options: Options): Promise<SidecarSwaps> {
    const room = await Room.create(world);
    const swaps = new SidecarSwaps(world, room, await room.record<Pod>(kubeResource.pods), options);
    world.leftovers.add(swaps);
    await untilDone('the SidecarSet to be created', async () => {
      await world.kube.create(sidecarSets, swaps.#body()).catch(unlessThere);
    });
    await untilDone('the first revision of the SidecarSet', async () => {
      const { status, metadata } = await swaps.#get();
      if (!status?.latestRevision) throw new Error('there is none');
      swaps.#setUid = metadata.uid;
    });
    for (const name of swaps.#names)
      await room.make(
        kubeResource.pods,
        name,
        podWithFolder(room.folder(name), { labels: app, container: 'app', script }),
      );
    await waitFor('the pods to be ready', (see) => see(swaps.#now()).filter(isServing).length === options.pods, {
      deadlineMs: patienceMs,
    });
    for (const { metadata } of swaps.#now()) {
      swaps.#before.set(metadata.uid, swaps.#pods.versionsOf(metadata.name).length - 1);
    }
    return swaps;
  }

  get namespace(): string {
    return this.#room.namespace;
  }

  get steps(): readonly SubjectStep[] {
    return [
      { name: 'another image asked for', reach: () => this.#publish(images.new) },
      {
        name: 'the new image is written',
        reach: () => soon('a new image', () => this.#now().some(isBegun)),
      },
      {
        name: 'the new container runs and is not ready',
        reach: () => soon('a new container', () => this.#now().some(isHeld)),
        meanwhile: async () => {
          await this.#middle();
          this.#allow();
        },
      },
      {
        name: 'the old container is emptied',
        reach: () => soon('an empty image', () => this.#isUndone() || this.#now().some(isEmptied)),
      },
      {
        name: 'the last pod',
        reach: () =>
          soon('all but one to be swapped', () => {
            this.#allow();
            return this.#isUndone() || this.#now().filter(isEmptied).length >= this.#options.pods - 1;
          }),
      },
    ];
  }

  workflows(): ReturnType<ChaosSubject['workflows']> {
    const set = { name: this.#set, uid: this.#setUid };
    return { swapSidecar: this.#created().map((pod) => swapSidecarId(pod)), rollOut: [rollOutId(set)] };
  }

  async settled(): Promise<void> {
    this.#allow();
    await waitFor(`the swaps of ${this.namespace} to end`, async (see) => see(await this.#pending()).length === 0, {
      deadlineMs: patienceMs,
    });
  }

  async objections(): Promise<Objections> {
    const lasting = this.#pods.all.flatMap((versions) => {
      const { name, uid } = versions[0]?.object.metadata ?? { name: '', uid: '' };
      const seen = versions.slice(this.#before.get(uid)).map(({ object }) => object);
      if (this.#deleted.has(name)) return [];
      return swapViolations({
        subject: `${this.namespace}/${name}`,
        ...{ pair, emptyImage: images.empty, versions: seen },
        exitsOf: (id) => this.#world.runtime.exitsOf(id),
        restarts: this.#restartsOf(name),
        ...(this.#options.middle === 'bothRestarted' && this.#more.has(name) && { endedByTest: true as const }),
      });
    });
    return { lasting, pending: await this.#pending() };
  }

  summarise(report: Report): void {
    report.outcome('as it should be', this.#now().length);
    const restarts = this.#now().map((pod) => JSON.stringify(restartsOf(pod)));
    report.figure(`${this.namespace}: restarts ${restarts.join(' ')}, ${this.#pods.gaps} gaps in the watch`);
  }

  async remove(): Promise<void> {
    await untilDone('the SidecarSet to be deleted', async () => {
      await this.#world.kube.delete(sidecarSets, { name: this.#set }).catch((error: unknown) => {
        if (!isGone(error)) throw error;
      });
    });
    await this.#room.dropPods();
    await this.#room.remove();
    this.#world.leftovers.delete(this);
  }

  /** What is not as it should be in the end, and may only be late. */
  async #pending(): Promise<readonly string[]> {
    const { status, metadata } = await this.#get();
    const pods = this.#now();
    const wrong = pods.filter((pod) => {
      const [working, idle] = this.#isUndone() ? [old, next] : [next, old];
      const marked = pod.metadata.annotations?.[hotMark.working];
      return !(
        isServing(pod) &&
        imageOf(pod, working) === (this.#isUndone() ? images.old : images.new) &&
        imageOf(pod, idle) === images.empty &&
        imageOf(pod, cold) === (this.#options.middle === 'imageOfBefore' ? coldImages.old : coldImages.new) &&
        areReported(pod) &&
        marked === JSON.stringify({ [sidecar]: working })
      );
    });
    const open = await this.#world.openWorkflows(Object.values(this.workflows()).flat());
    return [
      ...wrong.map((pod) => `${pod.metadata.name} is not swapped: ${describe(pod)}`),
      ...(pods.length === this.#options.pods - this.#deleted.size ? [] : [`there are ${pods.length} pods`]),
      ...(status?.observedGeneration === metadata.generation && status?.updatedReadyPods === pods.length
        ? []
        : [`its status says ${JSON.stringify(status)}`]),
      ...open.map((id) => `${id} is still open`),
    ].map((text) => `${this.namespace}: ${text}`);
  }

  /** Does what the variation is about, to the first pod whose new container is held. */
  async #middle(): Promise<void> {
    if (this.#isActedOn) return;
    this.#isActedOn = true;
    const pod = this.#now().find(isHeld);
    if (!pod) return;
    const { name, uid } = pod.metadata;
    switch (this.#options.middle) {
      case 'imageOfBefore':
        await this.#publish(images.old);
        this.#undone.add(name);
        await soon('the swap to be undone', () =>
          this.#now().some((now) => now.metadata.uid === uid && imageOf(now, next) === images.empty),
        );
        return;
      case 'podDeleted':
        this.#deleted.add(name);
        await this.#room.drop(kubeResource.pods, name);
        return;
      case 'bothRestarted':
        this.#more.set(name, { [old]: 1, [next]: 1 });
        await this.#crash(pod);
        return;
      case 'neverReady':
      case 'nothing':
        return;
    }
  }

  async #crash(pod: Pod): Promise<void> {
    const { runtime } = this.#world;
    const of = pod.status?.containerStatuses?.filter(({ name }) => name === old || name === next) ?? [];
    const ids = of.map(({ containerID = '' }) => containerID.replace(/^.*:\/\//, ''));
    await Promise.all(ids.map((id) => runtime.crash(pod.spec.nodeName ?? '', id)));
    await soon('both containers to run again', () => {
      const now = this.#now().find(({ metadata }) => metadata.uid === pod.metadata.uid);
      const states = now?.status?.containerStatuses?.filter(({ name }) => name === old || name === next) ?? [];
      return states.every(
        ({ containerID = '', state }) => state?.running && !ids.some((id) => containerID.endsWith(id)),
      );
    });
  }

  /** The first version stays. */
  #isUndone(): boolean {
    return this.#options.middle === 'neverReady' || this.#options.middle === 'imageOfBefore';
  }

  /** New containers get ready from now on. */
  #allow(): void {
    if (!this.#isUndone()) for (const name of this.#names) this.#room.folder(name).touch('go');
  }

  #restartsOf(name: string): Readonly<Record<string, number>> {
    if (this.#options.middle === 'imageOfBefore') return this.#undone.has(name) ? { [cold]: 2, [next]: 2 } : {};
    const more = this.#more.get(name) ?? {};
    // a new container that never gets ready becomes idle again
    const swap = this.#isUndone() ? { [old]: 0, [next]: 2 } : { [old]: 1, [next]: 1 };
    return { [cold]: 1, [old]: (swap[old] ?? 0) + (more[old] ?? 0), [next]: (swap[next] ?? 0) + (more[next] ?? 0) };
  }

  #now(): readonly Pod[] {
    return this.#pods.now.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  }

  #created(): readonly ObjectMeta[] {
    return this.#pods.all.flatMap((versions) => versions[0]?.object.metadata ?? []);
  }

  async #get(): Promise<SidecarSet & KubeObject> {
    return await this.#world.kube.get<SidecarSet & KubeObject>(sidecarSets, { name: this.#set });
  }

  async #publish(image: string): Promise<void> {
    await untilDone('another image to be published', () =>
      this.#world.kube.patch(sidecarSets, { name: this.#set }, 'merge', { spec: { containers: containers(image) } }),
    );
  }

  #body() {
    const annotations = this.#options.middle === 'neverReady' ? { [swapAnnotation.deadline]: '5s' } : {};
    return {
      metadata: { name: this.#set, annotations },
      spec: {
        selector: { matchLabels: app },
        namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': this.namespace } },
        updateStrategy: { type: 'RollingUpdate', maxUnavailable: 1 },
        containers: containers(images.old),
      },
    };
  }
}

function containers(image: string): JsonObject[] {
  const command = ['sh', '-c', script];
  const shareVolumePolicy = { type: 'enabled' };
  return [
    {
      ...{ name: sidecar, image, command, shareVolumePolicy },
      readinessProbe: { exec: { command: ['sh', '-c', isAllowed] }, periodSeconds: 1, timeoutSeconds: 10 },
      upgradeStrategy: { upgradeType: 'HotUpgrade', hotUpgradeEmptyImage: images.empty },
    },
    { name: cold, image: image === images.old ? coldImages.old : coldImages.new, command, shareVolumePolicy },
  ];
}

function imageOf({ spec }: Pod, container: string): string | undefined {
  return spec.containers.find(({ name }) => name === container)?.image;
}

/** The kubelet runs what the spec says in both containers. */
function areReported(pod: Pod): boolean {
  return pair.every((container) => {
    const state = pod.status?.containerStatuses?.find(({ name }) => name === container);
    const isEmpty = state?.image?.endsWith(images.empty) ?? false;
    return state?.ready === true && isEmpty === (imageOf(pod, container) === images.empty);
  });
}

function isBegun(pod: Pod): boolean {
  return imageOf(pod, next) !== images.empty;
}

/** The new container runs, and is not ready. */
function isHeld(pod: Pod): boolean {
  const state = pod.status?.containerStatuses?.find(({ name }) => name === next);
  return isBegun(pod) && state?.state?.running !== undefined && !state.ready && !state.image?.endsWith(images.empty);
}

function isEmptied(pod: Pod): boolean {
  return imageOf(pod, old) === images.empty;
}

function describe(pod: Pod): string {
  const states = (pod.status?.containerStatuses ?? []).map(
    ({ name, image, ready }) => `${name} ${image} ${ready ? 'ready' : 'not ready'}`,
  );
  return [...states, pod.metadata.annotations?.[hotMark.working] ?? ''].join(', ');
}

export const sidecarSwaps: SubjectKind = {
  name: 'swap',
  about: 'the swap of a hot-upgrade sidecar beside a cold one in three pods',
  prepare: (world) => SidecarSwaps.prepare(world, { pods: 3, middle: 'nothing' }),
  prepareBeside: (world) => SidecarSwaps.prepare(world, { pods: 2, middle: 'nothing' }),
  endures: [
    ...kills(['worker', 'daemon', 'watcher', 'temporal', 'apiserver'], [0, 3]),
    ...freezes({ watcher: 15 }),
    ...cuts({ watcher: 15, worker: 12 }),
  ],
  hurried: true,
};
