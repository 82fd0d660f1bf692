// Images that are pulled for jobs on every node from a registry that answers when it is let.

import type { KubeObject } from '../../../api/core/meta.ts';
import { installation, kubeResource, pullSecretAnnotation } from '../../../api/core/well-known.ts';
import { pullOnNodesId } from '../../../api/image-pull-job/operation.ts';
import {
  type ImageListPullJob,
  type ImagePullJob,
  imageListPullJobs,
  imagePullJobs,
} from '../../../api/image-pull-job/types.ts';
import { pullImagesId } from '../../../api/node-image/operation.ts';
import { findTag, findTagStatus, type NodeImage, nodeImages } from '../../../api/node-image/types.ts';
import { nodePlace } from '../../../deploy/local/instance.ts';
import { reachableByNodes } from '../../e2e/reachable-registry.ts';
import { type Gate, newGate } from '../../support/gate.ts';
import { TestRegistry } from '../../support/test-registry.ts';
import { waitFor } from '../../support/wait.ts';
import type { Report } from '../campaign.ts';
import { type ChaosSubject, type Objections, type SubjectKind, type SubjectStep, soon } from '../chaos-subject.ts';
import { freezes, freezesInTurns, frozenSeconds, kills } from '../fault-plan.ts';
import type { ObjectRecord } from '../follow.ts';
import { jobViolations, pullViolations } from '../judges/pull-judge.ts';
import { Room } from '../room.ts';
import { patienceMs, untilDone, type World } from '../world.ts';

const list = 'several';
const single = 'single';
const tag = '1';
const user = { name: 'ann', password: 'a:b c' };
/** The images of the list, pulled by two nodes at a time, and the one that wants a password, node after node. */
const listed = ['a', 'b', 'c', 'last'] as const;
const images = [...listed, 'secret'] as const;
type Image = (typeof images)[number];

/** An ImageListPullJob of four images, and an ImagePullJob that always asks the registry, from creation to the verdict. */
export class ImagePulls implements ChaosSubject {
  readonly #world: World;
  readonly #room: Room;
  readonly #registry: TestRegistry;
  readonly #gates: Readonly<Record<Image, Gate>>;
  readonly #host: string;
  readonly #jobs: ObjectRecord<ImagePullJob>;
  readonly #lists: ObjectRecord<ImageListPullJob>;
  readonly #nodes: ObjectRecord<NodeImage>;

  private constructor(
    world: World,
    room: Room,
    registry: { readonly registry: TestRegistry; readonly host: string; readonly gates: Readonly<Record<Image, Gate>> },
    records: {
      readonly jobs: ObjectRecord<ImagePullJob>;
      readonly lists: ObjectRecord<ImageListPullJob>;
      readonly nodes: ObjectRecord<NodeImage>;
    },
  ) {
    this.#world = world;
    this.#room = room;
    this.#registry = registry.registry;
    this.#host = registry.host;
    this.#gates = registry.gates;
    this.#jobs = records.jobs;
    this.#lists = records.lists;
    this.#nodes = records.nodes;
  }

  /** A registry with fresh images, and a namespace with the Secret for one of them; no job yet. */
  static async prepare(world: World): Promise<ImagePulls> {
    const room = await Room.create(world);
    const { namespace } = room;
    const registry = new TestRegistry();
    await registry.start();
    const gates = Object.fromEntries(images.map((image) => [image, newGate()])) as Record<Image, Gate>;
    for (const image of images) {
      const script = { bytes: 262_144, takesMs: 100, until: gates[image].opened };
      registry.serve(`${namespace}/${image}`, image === 'secret' ? { ...script, user } : script);
    }
    const host = reachableByNodes(registry.port);
    const auths = { [host]: { username: user.name, password: user.password } };
    await room.make(kubeResource.secrets, 'credentials', {
      type: 'kubernetes.io/dockerconfigjson',
      stringData: { '.dockerconfigjson': JSON.stringify({ auths }) },
    });
    const [jobs, lists, nodes] = await Promise.all([
      room.record<ImagePullJob>(imagePullJobs),
      room.record<ImageListPullJob>(imageListPullJobs),
      room.record<NodeImage>(nodeImages, 'everywhere'),
    ]);
    const pulls = new ImagePulls(world, room, { registry, host, gates }, { jobs, lists, nodes });
    world.leftovers.add(pulls);
    await soon('a NodeImage for each node', () => world.nodes.every((node) => pulls.#nodeImage(node) !== undefined));
    return pulls;
  }

  get namespace(): string {
    return this.#room.namespace;
  }

  get steps(): readonly SubjectStep[] {
    return [
      { name: 'pulls asked for', reach: () => this.#ask() },
      {
        name: 'pulling',
        reach: () => soon('every node to pull', () => ['a', 'b'].every((image) => this.#isUnderWay(image as Image))),
      },
      {
        name: 'pulled, and not yet told',
        reach: async () => {
          this.#gates.a.open();
          this.#gates.b.open();
          await soon('an image to come to a node', () => this.#isAnywhere('a') || this.#isAnywhere('b'));
        },
      },
      {
        name: 'the last image comes',
        reach: async () => {
          this.#gates.c.open();
          this.#gates.secret.open();
          await soon('all other images to be there', () => this.#jobs.now.filter(isOver).length === images.length - 1);
          this.#gates.last.open();
          await soon('the last image to come to a node', () => this.#isAnywhere('last'));
        },
      },
    ];
  }

  workflows(): ReturnType<ChaosSubject['workflows']> {
    return {
      pullOnNodes: this.#jobs.now.map(({ metadata }) => pullOnNodesId(metadata)),
      pullImages: this.#nodes.now.map(({ metadata }) => pullImagesId(metadata)),
    };
  }

  async settled(): Promise<void> {
    await waitFor(
      `the jobs of ${this.namespace} to end`,
      (see) => {
        const objects = [...this.#lists.now, ...this.#jobs.now];
        see(objects.map(({ metadata, status }) => ({ name: metadata.name, status })));
        return objects.length === images.length + 1 && objects.every(isOver);
      },
      { deadlineMs: patienceMs },
    );
  }

  async objections(): Promise<Objections> {
    const lasting: string[] = [];
    for (const versions of this.#jobs.all) {
      const jobs = versions.map(({ object }) => object);
      const isSingle = jobs[0]?.metadata.name === single;
      const expected = { nodes: this.#world.nodes.length, parallelism: isSingle ? 1 : 2 };
      lasting.push(...jobViolations(jobs, expected));
    }
    if (this.#jobs.all.length !== images.length) lasting.push(`there were ${this.#jobs.all.length} jobs`);
    const status = this.#lists.now[0]?.status;
    if (status?.succeeded !== listed.length) lasting.push(`the list says ${JSON.stringify(status)}`);
    for (const node of this.#world.nodes) {
      const onNode = await this.#world.runtime.imagesOn(node);
      for (const image of images) lasting.push(...(await this.#violationsOf(node, image, onNode)));
    }
    const named = (text: string): string => `${this.namespace}: ${text}`;
    return { lasting: lasting.map(named), pending: (await this.#leftOpen()).map(named) };
  }

  summarise(report: Report): void {
    const layers = this.#registry.calls.filter(({ what }) => what === 'layer');
    report.outcome('as it should be');
    report.figure(
      `${this.namespace}: ${images.length} images on ${this.#world.nodes.length} nodes, layers asked for ` +
        `${layers.length} times and ${layers.filter(({ end }) => end?.whole).length} times sent to the end`,
    );
    const gaps = this.#jobs.gaps + this.#nodes.gaps;
    if (gaps > 0) report.figure(`${this.namespace}: ${gaps} gaps in the watch`);
  }

  async remove(): Promise<void> {
    for (const image of images) this.#gates[image].open();
    await this.#room.drop(imageListPullJobs, list);
    await this.#room.drop(imagePullJobs, single);
    await untilDone('the nodes to want nothing of it any more', async () => {
      for (const { metadata, spec } of this.#nodes.now) {
        const names = Object.keys(spec.images ?? {}).filter((name) => name.includes(this.namespace));
        if (names.length > 0) throw new Error(`${metadata.name} still has ${names.join(', ')}`);
      }
    });
    await Promise.all([this.#room.remove(), this.#registry.stop()]);
    this.#world.leftovers.delete(this);
  }

  async #ask(): Promise<void> {
    const name = (image: Image): string => `${this.#repository(image)}:${tag}`;
    const spec = { images: listed.map(name), parallelism: 2 };
    const one = { image: name('secret'), parallelism: 1, imagePullPolicy: 'Always', pullSecrets: ['credentials'] };
    await Promise.all([
      this.#room.make(imageListPullJobs, list, { spec }),
      this.#room.make(imagePullJobs, single, { spec: one }),
    ]);
  }

  async #violationsOf(node: string, image: Image, onNode: ReadonlyMap<string, string>): Promise<readonly string[]> {
    const repository = this.#repository(image);
    const reference = `${repository}:${tag}`;
    const number = Number(node.replace('node-', ''));
    const from = nodePlace(this.#world.instance, number).address;
    return pullViolations({
      subject: `${reference}@${node}`,
      calls: this.#callsFor(image).filter((call) => call.from.endsWith(from)),
      arrivedAtMs: this.#world.runtime.imageSinceMs(node, reference),
      isListed: onNode.get(reference) === (await this.#registry.digest(`${this.namespace}/${image}`)),
      always: image === 'secret',
      statuses: this.#nodes.versionsOf(node).flatMap(({ seenAtMs, object }) => {
        const status = findTagStatus(object, repository, tag);
        const isWanted = findTag(object, repository, tag) !== undefined;
        return isWanted && status ? [{ seenAtMs, status }] : [];
      }),
    });
  }

  /** What should have been given back or ended, in words. */
  async #leftOpen(): Promise<readonly string[]> {
    const { kube } = this.#world;
    const open = await this.#world.openWorkflows(Object.values(this.workflows()).flat());
    const copies = await kube.list<KubeObject>(kubeResource.secrets, { namespace: installation.daemonConfigNamespace });
    return [
      ...open.map((id) => `workflow ${id} is still open`),
      ...copies.items
        .filter(({ metadata }) => metadata.annotations?.[pullSecretAnnotation.sourceKey]?.startsWith(this.namespace))
        .map(({ metadata }) => `copy ${metadata.name} of a Secret is still there`),
      ...this.#jobs.now.flatMap(({ metadata }) => metadata.finalizers ?? []).map((text) => `finalizer ${text} is held`),
      ...this.#nodes.now.flatMap(({ metadata, status }) =>
        status?.waitingFor ? [`${metadata.name} still waits for ${status.waitingFor.reason}`] : [],
      ),
    ];
  }

  #callsFor(image: Image) {
    return this.#registry.calls.filter(({ repository }) => repository === `${this.namespace}/${image}`);
  }

  #isUnderWay(image: Image): boolean {
    const layers = this.#callsFor(image).filter(({ what, end }) => what === 'layer' && end === undefined);
    return new Set(layers.map(({ from }) => from)).size === this.#world.nodes.length;
  }

  #isAnywhere(image: Image): boolean {
    const reference = `${this.#repository(image)}:${tag}`;
    return this.#world.nodes.some((node) => this.#world.runtime.imageSinceMs(node, reference) !== undefined);
  }

  #nodeImage(node: string): NodeImage | undefined {
    return this.#nodes.now.find(({ metadata }) => metadata.name === node);
  }

  #repository(image: Image): string {
    return `${this.#host}/${this.namespace}/${image}`;
  }
}

function isOver({ status }: { readonly status?: { readonly completionTime?: string } }): boolean {
  return status?.completionTime !== undefined;
}

export const imagePulls: SubjectKind = {
  name: 'images',
  about: 'pulls of five images on each node',
  prepare: (world) => ImagePulls.prepare(world),
  endures: [
    ...kills(['daemon', 'worker', 'watcher', 'temporal', 'apiserver'], [0, 3]),
    ...freezes({ daemon: frozenSeconds.daemon }),
    freezesInTurns(frozenSeconds.watcher),
  ],
  hurried: true,
};
