import type { KubeObject, Resource } from '../../api/core/meta.ts';
import { createCache } from '../../kube/cache.ts';
import type { KubeClient } from '../../kube/client.ts';
import { Reflector, type ReflectorLog } from '../../kube/reflector.ts';

export interface FollowOptions {
  readonly client: Pick<KubeClient, 'list' | 'watch'>;
  readonly log: ReflectorLog;
  /** Called at each change of any of the objects, and when they are first read. */
  readonly onChange: () => void;
  readonly trackReflector?: (
    resource: string,
    reflector: Pick<Reflector<KubeObject>, 'ageMs' | 'isSynced' | 'counts'>,
  ) => void;
}

/** Single objects change rarely, and the API server may send nothing about an unchanged resource for ten minutes. */
const silenceMs = 660_000;

/** Watches a few objects by name, so that RBAC has to grant no more than these names. */
export class FollowedObjects {
  readonly #options: FollowOptions;
  readonly #reflectors: Pick<Reflector<KubeObject>, 'stop' | 'synced' | 'trouble'>[] = [];

  constructor(options: FollowOptions) {
    this.#options = options;
  }

  /** Starts watching one object, trimmed by `trim`. The returned function returns its last known state. */
  follow<T extends KubeObject>(
    resource: Resource,
    { namespace = '', name }: { readonly namespace?: string; readonly name: string },
    trim: (object: T) => T,
  ): () => T | undefined {
    const { client, log, onChange, trackReflector } = this.#options;
    const onError = (err: unknown) => log.warn({ err, kind: resource.kind, name }, 'Cannot apply a watch event');
    const cache = createCache<T>({ onError });
    cache.onChange(onChange);
    const selection = { namespace, fieldSelector: `metadata.name=${name}` };
    const reflector = new Reflector<T>({ client, resource, cache, log, trim, silenceMs, ...selection });
    reflector.start();
    this.#reflectors.push(reflector);
    trackReflector?.(resource.plural, reflector);
    return () => cache.byName(namespace, name);
  }

  /** Resolves when each of the objects was read, or found not to exist. */
  async synced(): Promise<void> {
    await Promise.all(this.#reflectors.map((reflector) => reflector.synced()));
  }

  /** Why one of them cannot be watched now; undefined while all can. */
  get trouble(): string | undefined {
    return this.#reflectors.find((reflector) => reflector.trouble !== undefined)?.trouble;
  }

  async stop(): Promise<void> {
    await Promise.all(this.#reflectors.map((reflector) => reflector.stop()));
  }
}
