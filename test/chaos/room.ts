// A namespace that is made for one scenario, and the folders by which its containers and the test talk.
import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { JsonObject } from '../../api/base/json.ts';
import type { KubeObject, Resource } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { isGone } from '../../kube/failures.ts';
import { createNamespace, unlessThere } from '../support/cluster.ts';
import { ObjectRecord } from './follow.ts';
import { patienceMs, untilDone, type World } from './world.ts';

/** A folder that the containers of a pod see as /shared, on whatever node. */
export interface SharedFolder {
  readonly volume: JsonObject;
  readonly mount: JsonObject;
  touch(file: string): void;
  remove(file: string): void;
  has(file: string): boolean;
  /** The lines of a file; none when there is no such file. */
  lines(file: string): readonly string[];
}

/** A pod with these labels whose only container runs this script and sees the folder. */
export function podWithFolder(
  { volume, mount }: SharedFolder,
  { labels, container, script }: { readonly labels: JsonObject; readonly container: string; readonly script: string },
): JsonObject {
  return {
    metadata: { labels },
    spec: {
      terminationGracePeriodSeconds: 2,
      enableServiceLinks: false,
      automountServiceAccountToken: false,
      volumes: [volume],
      containers: [{ name: container, image: 'busybox:1.36', command: ['sh', '-c', script], volumeMounts: [mount] }],
    },
  };
}

/** The namespace, for as long as the scenario lasts. */
export class Room {
  readonly namespace: string;
  readonly #world: World;
  readonly #folders = new Map<string, SharedFolder>();
  readonly #records: { stop(): Promise<void> }[] = [];

  private constructor(world: World, namespace: string) {
    this.#world = world;
    this.namespace = namespace;
  }

  static async create(world: World): Promise<Room> {
    const namespace = `chaos-${randomUUID().slice(0, 8)}`;
    await untilDone(`namespace ${namespace} to be created`, () => createNamespace(world.kube, namespace));
    return new Room(world, namespace);
  }

  /** Records every version of its objects of a kind from now on, or of those of the whole cluster. */
  async record<T extends KubeObject>(resource: Resource, where: 'here' | 'everywhere' = 'here') {
    const selection = where === 'here' ? { namespace: this.namespace } : {};
    const record = await ObjectRecord.start<T>(this.#world.kube, resource, selection);
    this.#records.push(record);
    return record;
  }

  /** The folder of this name, which is created when it is asked for first. */
  folder(name: string): SharedFolder {
    const folder = this.#folders.get(name) ?? this.#newFolder(name);
    this.#folders.set(name, folder);
    return folder;
  }

  #newFolder(name: string): SharedFolder {
    const path = join('chaos', this.namespace, name);
    const here = join(this.#world.shared.here, path);
    mkdirSync(here, { recursive: true });
    return {
      volume: { name: 'shared', hostPath: { path: join(this.#world.shared.inNodes, path), type: 'Directory' } },
      mount: { name: 'shared', mountPath: '/shared' },
      touch: (file) => writeFileSync(join(here, file), ''),
      remove: (file) => rmSync(join(here, file), { force: true }),
      has: (file) => existsSync(join(here, file)),
      lines: (file) =>
        existsSync(join(here, file)) ? readFileSync(join(here, file), 'utf8').split('\n').filter(Boolean) : [],
    };
  }

  /** Removes the folder of this name with those in it. */
  forget(name: string): void {
    rmSync(join(this.#world.shared.here, 'chaos', this.namespace, name), { recursive: true, force: true });
    for (const known of this.#folders.keys()) {
      if (known === name || known.startsWith(`${name}/`)) this.#folders.delete(known);
    }
  }

  /** Makes an object in it, however long that takes. */
  async make(resource: Resource, name: string, rest: JsonObject): Promise<void> {
    const { metadata, ...body } = rest;
    const object = { ...body, metadata: { ...(metadata as JsonObject | undefined), namespace: this.namespace, name } };
    await untilDone(`${resource.kind} ${name} to be created`, async () => {
      await this.#world.kube.create(resource, object).catch(unlessThere);
    });
  }

  /** Removes an object; it may be gone already. */
  async drop(resource: Resource, name: string): Promise<void> {
    await untilDone(`${resource.kind} ${name} to be deleted`, async () => {
      await this.#world.kube.delete(resource, { namespace: this.namespace, name }).catch(unlessGone);
    });
  }

  /** Deletes its pods, and waits until they are gone. */
  async dropPods(): Promise<void> {
    const { kube } = this.#world;
    const { namespace } = this;
    await untilDone(
      `the pods of ${namespace} to be gone`,
      async () => {
        const { items } = await kube.list<Pod>(kubeResource.pods, { namespace });
        for (const { metadata } of items) {
          const ref = { namespace, name: metadata.name };
          await kube.delete(kubeResource.pods, ref, { gracePeriodSeconds: 1 }).catch(unlessGone);
        }
        if (items.length > 0) throw new Error(`${items.map(({ metadata }) => metadata.name).join(', ')} are there`);
      },
      patienceMs,
    );
  }

  /** The objects of a kind in it. */
  async list<T extends KubeObject>(resource: Resource): Promise<readonly T[]> {
    return (await this.#world.kube.list<T>(resource, { namespace: this.namespace })).items;
  }

  /** Ends the records, and deletes the namespace with all that is left in it, and the folders. */
  async remove(): Promise<void> {
    await Promise.all(this.#records.map((record) => record.stop()));
    await this.#delete();
    rmSync(join(this.#world.shared.here, 'chaos', this.namespace), { recursive: true, force: true });
  }

  /** Deletes the namespace, and waits until it is gone. */
  async gone(): Promise<void> {
    const { kube, find } = this.#world;
    const ref = { name: this.namespace };
    await this.#delete();
    let changedAtMs = performance.now();
    await untilDone(
      `namespace ${this.namespace} to be gone`,
      async () => {
        const found = await find<KubeObject & { readonly status?: object }>(kubeResource.namespaces, ref);
        if (!found) return;
        // its controller looks again after half of the grace of the pods that it has seen, or when the namespace changes
        if (performance.now() - changedAtMs > 5_000) {
          changedAtMs = performance.now();
          const annotations = { 'windlass.test/changed': new Date().toISOString() };
          await kube.patch(kubeResource.namespaces, ref, 'merge', { metadata: { annotations } });
        }
        throw new Error(JSON.stringify(found.status));
      },
      patienceMs,
    );
  }

  async #delete(): Promise<void> {
    await untilDone(`namespace ${this.namespace} to be deleted`, async () => {
      await this.#world.kube.delete(kubeResource.namespaces, { name: this.namespace }).catch(unlessGone);
    });
  }
}

/** A call whose answer was lost has been made all the same. */
function unlessGone(error: unknown): void {
  if (!isGone(error)) throw error;
}
