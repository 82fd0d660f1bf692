import { applyPatch, type Operation } from 'rfc6902';
import type { KubeObject, Resource } from '../../api/core/meta.ts';
import type { KubeClient, ListOptions, WatchEvent, WatchOptions } from '../../kube/client.ts';
import { pathOf } from '../../kube/client.ts';
import { KubeError } from '../../kube/failures.ts';
import { strategicMerge } from './simulated-pod.ts';

/** One call, as `verb plural/name`. */
export type CallLog = string[];

type Stored = KubeObject & Record<string, unknown>;

/**
 * An API server in memory, for tests that need objects and conflicts but no HTTP: resourceVersions, conflicts, merge
 * and JSON patches, lists and watches by field selector `metadata.name`. Several clients may share one.
 */
export class MemoryCluster {
  readonly calls: CallLog = [];
  /** Whether deleted pods stay, terminating, until `remove` is called. */
  keepsTerminating = false;
  readonly #objects = new Map<string, Stored>();
  readonly #watchers = new Set<(path: string, event: WatchEvent<Stored>) => void>();
  #version = 0;

  /** Creates or replaces an object, like another client. */
  put<T extends object>(resource: Resource, object: T & { metadata: { name: string; namespace?: string } }): void {
    const path = pathOf(resource, object.metadata);
    const before = this.#objects.get(path);
    this.#store(path, {
      apiVersion: resource.group === '' ? resource.version : `${resource.group}/${resource.version}`,
      kind: resource.kind,
      ...object,
      metadata: {
        uid: before?.metadata.uid ?? `uid-${path}-${this.#version}`,
        creationTimestamp: '2026-01-01T00:00:00Z',
        ...object.metadata,
        resourceVersion: '',
      },
    } as Stored);
  }

  /** The current object. */
  look(resource: Resource, ref: { readonly namespace?: string; readonly name: string }): Stored | undefined {
    return this.#objects.get(pathOf(resource, ref));
  }

  /** All current objects of a resource. */
  all(resource: Resource): readonly Stored[] {
    return [...this.#objects].filter(([path]) => matches(path, resource, {})).map(([, object]) => object);
  }

  /** Deletes an object; with `keepsTerminating` the kubelet removes pods later. */
  delete(resource: Resource, ref: { readonly namespace?: string; readonly name: string }): void {
    const object = this.look(resource, ref);
    if (object === undefined) return;
    if (!this.keepsTerminating || resource.plural !== 'pods') {
      this.remove(resource, ref);
      return;
    }
    const { resourceVersion: _, ...metadata } = object.metadata;
    this.put(resource, { ...object, metadata: { ...metadata, deletionTimestamp: '2026-01-01T00:00:00Z' } });
  }

  remove(resource: Resource, ref: { readonly namespace?: string; readonly name: string }): void {
    const path = pathOf(resource, ref);
    const object = this.#objects.get(path);
    if (object === undefined) return;
    this.#objects.delete(path);
    this.#version += 1;
    const gone = { ...object, metadata: { ...object.metadata, resourceVersion: String(this.#version) } };
    for (const watcher of this.#watchers) watcher(path, { type: 'DELETED', object: gone });
  }

  /** A client. `delay` is awaited before each call takes effect, so that a test can interleave calls. */
  client(delay: (call: string) => Promise<void> = () => Promise.resolve()): KubeClient {
    const begin = async (verb: string, resource: Resource, name: string, signal?: AbortSignal) => {
      const call = `${verb} ${resource.plural}/${name}`;
      this.calls.push(call);
      await delay(call);
      signal?.throwIfAborted();
    };
    const client = {
      get: async (
        resource: Resource,
        ref: { namespace?: string; name: string },
        options?: { signal?: AbortSignal },
      ) => {
        await begin('get', resource, ref.name, options?.signal);
        return this.#get(pathOf(resource, ref));
      },
      list: async (resource: Resource, options: ListOptions = {}) => {
        await begin('list', resource, options.fieldSelector ?? '', options.signal);
        const items = [...this.#objects]
          .filter(([path, object]) => matches(path, resource, options) && isSelected(object, options))
          .map(([, object]) => object);
        return { items, resourceVersion: String(this.#version) };
      },
      create: async (resource: Resource, object: Stored, options?: { signal?: AbortSignal }) => {
        await begin('create', resource, object.metadata.name, options?.signal);
        const path = pathOf(resource, object.metadata);
        if (this.#objects.has(path)) throw new KubeError({ status: 409, reason: 'AlreadyExists', message: 'exists' });
        this.put(resource, object);
        return this.#get(path);
      },
      patch: async (
        resource: Resource,
        ref: { namespace?: string; name: string },
        type: string,
        body: unknown,
        options?: { signal?: AbortSignal },
      ) => {
        await begin('patch', resource, ref.name, options?.signal);
        const path = pathOf(resource, ref);
        this.#store(path, patched(this.#get(path), type, body));
        return this.#get(path);
      },
      watch: (resource: Resource, options: WatchOptions) => this.#watch(resource, options),
      close: () => Promise.resolve(),
    };
    return client as unknown as KubeClient;
  }

  #get(path: string): Stored {
    const object = this.#objects.get(path);
    if (object === undefined) throw new KubeError({ status: 404, reason: 'NotFound', message: `${path} not found` });
    return structuredClone(object);
  }

  #store(path: string, object: Stored): void {
    const before = this.#objects.get(path);
    const same = (a: Stored) => JSON.stringify({ ...a, metadata: { ...a.metadata, resourceVersion: '' } });
    if (before !== undefined && same(before) === same(object)) return;
    this.#version += 1;
    const stored = { ...object, metadata: { ...object.metadata, resourceVersion: String(this.#version) } };
    this.#objects.set(path, structuredClone(stored));
    const type = before === undefined ? 'ADDED' : 'MODIFIED';
    for (const watcher of this.#watchers) watcher(path, { type, object: structuredClone(stored) });
  }

  async *#watch(resource: Resource, options: WatchOptions): AsyncGenerator<WatchEvent<Stored>> {
    const events: WatchEvent<Stored>[] = [];
    let wake = () => {};
    const watcher = (path: string, event: WatchEvent<Stored>) => {
      if (!matches(path, resource, options)) return;
      events.push(event);
      wake();
    };
    this.#watchers.add(watcher);
    const stop = () => wake();
    options.signal?.addEventListener('abort', stop);
    // Changes between the list and now.
    for (const [path, object] of this.#objects) {
      if (Number(object.metadata.resourceVersion) > Number(options.resourceVersion)) {
        watcher(path, { type: 'MODIFIED', object: structuredClone(object) });
      }
    }
    try {
      while (!options.signal?.aborted) {
        const next = events.shift();
        if (next !== undefined) yield next;
        else {
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
        }
      }
    } finally {
      this.#watchers.delete(watcher);
      options.signal?.removeEventListener('abort', stop);
    }
  }
}

function matches(path: string, resource: Resource, { namespace = '', fieldSelector }: Partial<ListOptions>): boolean {
  const name = fieldSelector?.replace('metadata.name=', '');
  if (name === undefined && resource.namespaced && namespace === '') {
    return path.startsWith(pathOf({ ...resource, plural: 'namespaces' })) && path.split('/').at(-2) === resource.plural;
  }
  if (name === undefined) return path.startsWith(`${pathOf(resource, { namespace })}/`);
  return path === pathOf(resource, { namespace, name });
}

/** Supports equality and existence, which is all that is needed here. */
function isSelected({ metadata }: Stored, { labelSelector = '' }: Partial<ListOptions>): boolean {
  return labelSelector
    .split(',')
    .filter((term) => term !== '')
    .every((term) => {
      const [key = '', value] = term.split('=');
      const label = metadata.labels?.[key];
      return value === undefined ? label !== undefined : label === value;
    });
}

function patched(object: Stored, type: string, body: unknown): Stored {
  if (type === 'json') {
    // values from structuredClone have lists of another realm, which the library does not accept
    const operations = JSON.parse(JSON.stringify(body)) as Operation[];
    const fits = applyPatch(object, operations).every((failure) => failure === null);
    if (!fits) {
      const message = 'the server rejected our request due to an error in our request';
      throw new KubeError({ status: 422, reason: 'Invalid', message });
    }
    return object;
  }
  const change = body as Stored;
  const merge = type === 'strategic' ? strategicMerge : merged;
  const version = change.metadata.resourceVersion;
  if (version !== undefined && version !== object.metadata.resourceVersion) {
    throw new KubeError({ status: 409, reason: 'Conflict', message: 'the object has been modified' });
  }
  return merge(object as never, change as never) as unknown as Stored;
}

function merged(target: unknown, change: unknown): unknown {
  if (typeof change !== 'object' || change === null || Array.isArray(change)) return change;
  const result: Record<string, unknown> = { ...(typeof target === 'object' ? target : {}) };
  for (const [key, value] of Object.entries(change)) {
    if (value === null) delete result[key];
    else result[key] = merged(result[key], value);
  }
  return result;
}
