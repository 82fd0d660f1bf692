import { failureTypeOf } from '../../../api/core/failure.ts';
import { type NodeImage, type NodeImageSpec, nodeImages } from '../../../api/node-image/types.ts';
import type { Cache } from '../../../kube/cache.ts';
import type { KubeClient } from '../../../kube/client.ts';
import { unlessGone } from '../../../kube/moved-on.ts';
import { despiteConflicts } from '../../../kube/retry-on-conflict.ts';

/**
 * Returns the changed spec of the NodeImage; the same value: no change. It may be called with several versions of the
 * object.
 */
export type NodeImageEdit = (nodeImage: NodeImage) => NodeImageSpec;

interface Wanted {
  readonly edit: NodeImageEdit;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** The API server has answered, so its watch delivers the change soon. */
const seenWithinMs = 30_000;

/**
 * Writes the specs of NodeImages. Many jobs edit the NodeImage of one node at the same time: their edits are combined
 * into one write, and each caller continues when the cache shows it. Where the API server rejects a combined write,
 * each edit is written by itself.
 */
export class NodeImageEdits {
  readonly #kube: Pick<KubeClient, 'get' | 'patch'>;
  readonly #cache: Cache<NodeImage>;
  readonly #waiting = new Map<string, Wanted[]>();
  readonly #running = new Set<string>();

  constructor(kube: Pick<KubeClient, 'get' | 'patch'>, cache: Cache<NodeImage>) {
    this.#kube = kube;
    this.#cache = cache;
  }

  /** Resolves when the edit is written and in the cache, or the NodeImage is gone. */
  edit(name: string, edit: NodeImageEdit): Promise<void> {
    return new Promise((resolve, reject) => {
      const wanted = { edit, resolve, reject };
      const waiting = this.#waiting.get(name);
      if (waiting) waiting.push(wanted);
      else this.#waiting.set(name, [wanted]);
      if (!this.#running.has(name)) void this.#run(name);
    });
  }

  async #run(name: string): Promise<void> {
    this.#running.add(name);
    try {
      // edits of the same turn of the event loop are written together
      await Promise.resolve();
      for (;;) {
        const batch = this.#waiting.get(name);
        if (batch === undefined) return;
        this.#waiting.delete(name);
        const refusal = await this.#settle(name, batch);
        if (refusal !== 'refused') continue;
        // an invalid edit must not block the others
        for (const wanted of batch) await this.#settle(name, [wanted]);
      }
    } finally {
      this.#running.delete(name);
    }
  }

  /** Writes the edits as one; where the API server rejects several together, no caller gets an error yet. */
  async #settle(name: string, batch: readonly Wanted[]): Promise<'refused' | undefined> {
    try {
      await this.#write(
        name,
        batch.map(({ edit }) => edit),
      );
      for (const { resolve } of batch) resolve();
    } catch (error) {
      if (batch.length > 1 && failureTypeOf(error) === 'Invalid') return 'refused';
      for (const { reject } of batch) reject(error);
    }
    return undefined;
  }

  async #write(name: string, edits: readonly NodeImageEdit[]): Promise<void> {
    let isRead = false;
    await unlessGone(
      despiteConflicts(async () => {
        // from the cache first: mostly there was no other write
        const live = isRead ? await this.#kube.get<NodeImage>(nodeImages, { name }) : this.#cache.byName('', name);
        isRead = true;
        if (live === undefined) return;
        const spec = edits.reduce((seen, edit) => edit({ ...live, spec: seen }), live.spec);
        if (spec === live.spec) return;
        const { uid, resourceVersion } = live.metadata;
        const patch = [
          { op: 'test', path: '/metadata/resourceVersion', value: resourceVersion },
          { op: 'add', path: '/spec', value: spec },
        ];
        const written = await this.#kube.patch<NodeImage>(nodeImages, { name }, 'json', patch);
        await this.#cache.seen(uid, written.metadata.resourceVersion, AbortSignal.timeout(seenWithinMs));
      }),
    );
  }
}
