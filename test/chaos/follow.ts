// The watch of the API server, recorded without a hole: a version is told exactly once and in order, so "before" and
// "after" do not depend on any clock.
import { setTimeout as pause } from 'node:timers/promises';
import type { KubeObject, Resource } from '../../api/core/meta.ts';
import type { KubeClient, Selection } from '../../kube/client.ts';

/** What follows some objects. */
export interface Follower<T extends KubeObject> {
  /** One version, `isGone` for the last of an object. A version may be told twice. */
  seen(object: T, isGone: boolean): void;
  /** Nothing that happens from now on is missed, and these are there. After a gap it begins anew. */
  begun(there: readonly T[]): void;
  /** The server has forgotten where the watch was: versions may have been missed. */
  gap(): void;
}

/** Follows the objects of a selection until the signal aborts, through every outage. */
export async function follow<T extends KubeObject>(
  kube: Pick<KubeClient, 'list' | 'watch'>,
  resource: Resource,
  selection: Selection,
  follower: Follower<T>,
  signal: AbortSignal,
): Promise<void> {
  let from: string | undefined;
  while (!signal.aborted) {
    try {
      if (from === undefined) {
        const page = await kube.list<T>(resource, { ...selection, signal });
        for (const object of page.items) follower.seen(object, false);
        from = page.resourceVersion;
        follower.begun(page.items);
      }
      for await (const event of kube.watch<T>(resource, { ...selection, resourceVersion: from, signal })) {
        if (event.type === 'BOOKMARK') {
          from = event.resourceVersion;
          continue;
        }
        follower.seen(event.object, event.type === 'DELETED');
        from = event.object.metadata.resourceVersion;
      }
    } catch (error) {
      if (signal.aborted) return;
      // after an outage the watch goes on where it was; only versions that the server has forgotten are lost
      if (isForgotten(error)) {
        from = undefined;
        follower.gap();
      }
      await pause(250, undefined, { signal }).catch(() => undefined);
    }
  }
}

function isForgotten(error: unknown): boolean {
  return error instanceof Error && 'status' in error && error.status === 410;
}

/** One version of an object, as the watch told it. */
export interface Version<T> {
  readonly seenAtMs: number;
  readonly object: T;
  /** It was deleted in this version. */
  readonly isGone: boolean;
}

/** Every version of the objects of a selection, from `start` to `stop`. */
export class ObjectRecord<T extends KubeObject> {
  readonly #versions = new Map<string, Version<T>[]>();
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;
  #gaps = 0;

  private constructor(
    kube: Pick<KubeClient, 'list' | 'watch'>,
    resource: Resource,
    selection: Selection,
    begun: () => void,
  ) {
    const follower: Follower<T> = {
      seen: (object, isGone) => this.#add(object, isGone),
      begun: (there) => {
        this.#missDeleted(there);
        begun();
      },
      gap: () => {
        this.#gaps += 1;
      },
    };
    this.#running = follow(kube, resource, selection, follower, this.#stop.signal);
  }

  /** Resolves when nothing that happens from now on is missed. */
  static async start<T extends KubeObject>(
    kube: Pick<KubeClient, 'list' | 'watch'>,
    resource: Resource,
    selection: Selection,
  ): Promise<ObjectRecord<T>> {
    const begun = Promise.withResolvers<void>();
    const record = new ObjectRecord<T>(kube, resource, selection, begun.resolve);
    await begun.promise;
    return record;
  }

  /** The objects that are there, as they are now. */
  get now(): readonly T[] {
    return [...this.#versions.values()].flatMap((versions) => {
      const last = versions.at(-1);
      return last === undefined || last.isGone ? [] : [last.object];
    });
  }

  /** The versions of each object, oldest first. */
  get all(): readonly (readonly Version<T>[])[] {
    return [...this.#versions.values()];
  }

  /** The versions of the object of this name that is there now, or was last. */
  versionsOf(name: string): readonly Version<T>[] {
    return this.all.findLast((versions) => versions[0]?.object.metadata.name === name) ?? [];
  }

  get gaps(): number {
    return this.#gaps;
  }

  async stop(): Promise<void> {
    this.#stop.abort(new Error('nothing more is recorded'));
    await this.#running;
  }

  /** What went in a gap has nobody told of. */
  #missDeleted(there: readonly T[]): void {
    const uids = new Set(there.map(({ metadata }) => metadata.uid));
    for (const object of this.now) if (!uids.has(object.metadata.uid)) this.#add(object, true);
  }

  #add(object: T, isGone: boolean): void {
    const { uid, resourceVersion } = object.metadata;
    const versions = this.#versions.get(uid) ?? [];
    this.#versions.set(uid, versions);
    if (!isGone && versions.at(-1)?.object.metadata.resourceVersion === resourceVersion) return;
    versions.push({ seenAtMs: Date.now(), object, isGone });
  }
}
