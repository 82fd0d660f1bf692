import { objectOr } from '../../../api/base/json.ts';
import { apiVersionOf, type KubeObject, type Resource } from '../../../api/core/meta.ts';
import { kubeResource } from '../../../api/core/well-known.ts';
import type {
  DeleteOptions,
  KubeClient,
  ListOptions,
  NameRef,
  Page,
  WatchEvent,
  WatchOptions,
} from '../../../kube/client.ts';
import { pathOf } from '../../../kube/client.ts';
import { toKubeError } from '../../../kube/failures.ts';
import { discover, type Served } from './discovery.ts';
import { parsePath } from './http-requests.ts';
import { Refused } from './refusals.ts';
import { createObject, deleteObject, getObject, patchObject } from './requests.ts';
import { type NewObject, ObjectStore, type StoreEvent } from './store.ts';
import { overTheWire, type Place, type Stored } from './stored.ts';

/** What a test sees of the calls of a client: the verb, what it is about, and the body of a write. */
export interface SeenCall {
  readonly verb: 'get' | 'list' | 'patch' | 'create' | 'delete' | 'evict';
  readonly plural: string;
  readonly name: string;
  /** Of a list: its options. */
  readonly body?: unknown;
}

/** What else there is to know of a call. */
export interface AboutCall {
  readonly resource: Resource;
  readonly isDryRun: boolean;
}

/** Sees each call before it takes effect, which waits for it. What it throws, the call fails with. */
export type Meet = (call: SeenCall, about: AboutCall) => void | Promise<void>;

/** The parts of the body of an eviction that are read; budgets are not. */
interface Eviction {
  readonly deleteOptions?: Omit<DeleteOptions, 'dryRun'> & { readonly dryRun?: readonly string[] };
}

/** An API server in memory, for tests that need objects and races but no HTTP. Several clients may share one. */
export class MemoryCluster {
  /** Each call of a client, as `verb plural/name`. */
  readonly calls: string[] = [];
  readonly store = new ObjectStore();
  readonly #served: Served[] = [];

  /** From now on discovery names this kind; with a scale subresource its objects can be read through that one. */
  serve(resource: Resource, { hasScale = false } = {}): void {
    this.#served.push({ resource, hasScale });
  }

  /** Puts an object there, whatever was there before, as somebody else would. */
  put<T extends object>(resource: Resource, object: T & NewObject): void {
    this.store.put(pathOf(resource), { apiVersion: apiVersionOf(resource), kind: resource.kind, ...object });
  }

  /** The object as it is now. */
  look<T extends KubeObject = Stored>(resource: Resource, ref: NameRef): T | undefined {
    return this.store.find(placeOf(resource, ref)) as unknown as T | undefined;
  }

  /** All objects of a resource, as they are now. */
  all<T extends KubeObject = Stored>(resource: Resource): readonly T[] {
    return this.store.all(pathOf(resource)) as unknown as readonly T[];
  }

  /** Takes an object away at once, whatever holds it: of a pod, what its kubelet does. */
  remove(resource: Resource, ref: NameRef): void {
    this.store.remove(placeOf(resource, ref));
  }

  /** A client of its own, whose calls and answers are copies as over HTTP. */
  client(meet: Meet = () => undefined): KubeClient {
    const { store, calls } = this;
    const served = this.#served;

    async function ask(
      call: SeenCall,
      resource: Resource,
      options: { readonly signal?: AbortSignal | undefined; readonly dryRun?: boolean } | undefined,
      act: () => unknown,
    ): Promise<never> {
      calls.push(`${call.verb} ${call.plural}/${call.name}`);
      await meet(call, { resource, isDryRun: options?.dryRun ?? false });
      options?.signal?.throwIfAborted();
      return answered(`${call.verb} ${pathOf(resource)}/${call.name}`, act) as never;
    }

    return {
      get: (resource, ref, options) => {
        const call: SeenCall = { verb: 'get', plural: resource.plural, name: ref.name };
        return ask(call, resource, options, () => getObject(store, placeOf(resource, ref)));
      },
      list: (resource, options = {}) => {
        const call: SeenCall = { verb: 'list', plural: resource.plural, name: '', body: options };
        return ask(call, resource, options, () => pageOf(store, resource, options));
      },
      create: (resource, object, options) => {
        const { name = '', namespace } = (object as NewObject).metadata;
        const whole = { apiVersion: apiVersionOf(resource), kind: resource.kind, ...object };
        const call: SeenCall = { verb: 'create', plural: resource.plural, name, body: object };
        const isNowhere = resource.namespaced && !namespace;
        return ask(call, resource, options, () => {
          if (isNowhere) throw new Refused(405, 'MethodNotAllowed', 'the server does not allow this method');
          return createObject(store, pathOf(resource), whole, { ...options, namespace });
        });
      },
      patch: (resource, ref, type, body, options) => {
        const call: SeenCall = { verb: 'patch', plural: resource.plural, name: ref.name, body };
        return ask(call, resource, options, () => patchObject(store, placeOf(resource, ref), type, body, options));
      },
      delete: (resource, ref, options) => {
        const call: SeenCall = { verb: 'delete', plural: resource.plural, name: ref.name };
        return ask(call, resource, options, () => deleteObject(store, placeOf(resource, ref), options));
      },
      request: async (method, path, { body } = {}) => {
        const { collection, namespace, name = '', subresource } = parsePath(path);
        const scaled = served.find(({ resource, hasScale }) => hasScale && pathOf(resource) === collection)?.resource;
        if (scaled && subresource === 'scale') {
          const call: SeenCall = { verb: 'get', plural: `${scaled.plural}/scale`, name };
          return await ask(call, scaled, {}, () => scaleOf(getObject(store, { collection, namespace, name })));
        }
        if (method !== 'POST' || collection !== pathOf(kubeResource.pods) || subresource !== 'eviction') {
          return answered(`${method} ${path}`, () => discover(method, path, served));
        }
        const { dryRun = [], ...options } = (body as Eviction).deleteOptions ?? {};
        const isDryRun = dryRun.includes('All');
        const call: SeenCall = { verb: 'evict', plural: 'pods', name, body };
        return await ask(call, kubeResource.pods, { dryRun: isDryRun }, () =>
          deleteObject(store, { collection, namespace, name }, { ...options, dryRun: isDryRun }),
        );
      },
      watch: <T extends KubeObject>(resource: Resource, options: WatchOptions) =>
        watch(store, resource, options) as unknown as AsyncIterable<WatchEvent<T>>,
      close: () => Promise.resolve(),
    };
  }
}

/** What the scale subresource shows of a kind whose selector is the text `status.selector`. */
function scaleOf({ metadata, spec, status }: Stored): object {
  const { replicas } = objectOr(spec);
  return {
    ...{ apiVersion: 'autoscaling/v1', kind: 'Scale', metadata },
    spec: { ...(replicas !== 0 && { replicas }) },
    status: { selector: objectOr(status).selector },
  };
}

function placeOf(resource: Resource, { namespace, name }: NameRef): Place {
  pathOf(resource, { name, ...(namespace !== undefined && { namespace }) }); // throws for what is no name
  return { collection: pathOf(resource), name, ...(resource.namespaced && { namespace }) };
}

/** What the request answers, read from its JSON. */
function answered(request: string, act: () => unknown): unknown {
  const answer = orRefused(request, act);
  return answer === undefined ? undefined : overTheWire(answer);
}

/** Refusals are read by the same code as those of a real API server. */
function orRefused<Result>(request: string, act: () => Result): Result {
  try {
    return act();
  } catch (error) {
    if (error instanceof Refused) throw toKubeError(request, error.status, JSON.stringify(error.body));
    throw error;
  }
}

function pageOf(store: ObjectStore, resource: Resource, options: ListOptions): Page<object> {
  const page = store.list(pathOf(resource), options);
  if (!options.metadataOnly) return page;
  return { ...page, items: page.items.map(({ apiVersion, kind, metadata }) => ({ apiVersion, kind, metadata })) };
}

async function* watch(
  store: ObjectStore,
  resource: Resource,
  { signal, ...selection }: WatchOptions,
): AsyncGenerator<StoreEvent> {
  const events: StoreEvent[] = [];
  let wake = () => {};
  const hear = (event: StoreEvent) => {
    events.push(overTheWire(event));
    wake();
  };
  const stop = () => wake();
  const unfollow = orRefused(`GET ${pathOf(resource)}`, () => store.follow(pathOf(resource), selection, hear));
  signal?.addEventListener('abort', stop);
  try {
    while (!signal?.aborted) {
      const next = events.shift();
      if (next !== undefined) yield next;
      else {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    }
  } finally {
    unfollow();
    signal?.removeEventListener('abort', stop);
  }
}
