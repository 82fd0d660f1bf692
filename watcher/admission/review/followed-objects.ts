import type { KubeObject, Resource } from '../../../api/core/meta.ts';
import { createCache } from '../../../kube/cache.ts';
import type { KubeClient } from '../../../kube/client.ts';
import { Reflector, type ReflectorLog } from '../../../kube/reflector.ts';

export interface FollowOptions {
  readonly client: Pick<KubeClient, 'list' | 'watch'>;
  readonly log: ReflectorLog;
  /** Called at each change of any of the objects, and when they are seen first. */
  readonly onChange: () => void;
  readonly trackReflector?: (
    resource: string,
    reflector: Pick<Reflector<KubeObject>, 'ageMs' | 'isSynced' | 'counts'>,
  ) => void;
}

/** Single objects change rarely, and about a quiet resource the API server may say nothing for ten minutes. */
const silenceMs = 660_000;

/** Watches a handful of objects by their names, which is all that RBAC then has to grant. */
export class FollowedObjects {
  readonly #options: FollowOptions;
  readonly #reflectors: Pick<Reflector<KubeObject>, 'stop' | 'synced' | 'trouble'>[] = [];

  constructor(options: FollowOptions) {
    this.#options = options;
  }

  /** Begins to follow one object, keeping only what `trim` leaves. The returned function gives it as last seen. */
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

  /** Resolves when each of the objects was seen, or seen not to be there. */
  async synced(): Promise<void> {
    await Promise.all(this.#reflectors.map((reflector) => reflector.synced()));
  }

  /** Why one of them cannot be followed now; undefined while all is well. */
  get trouble(): string | undefined {
    return this.#reflectors.find((reflector) => reflector.trouble !== undefined)?.trouble;
  }

  async stop(): Promise<void> {
    await Promise.all(this.#reflectors.map((reflector) => reflector.stop()));
  }
}
