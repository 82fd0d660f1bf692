/**
 * SidecarSets that OpenKruise has stored as v1alpha1 can be read only while the webhook converts them. A watcher that starts
 * while it is away could not read them.
 * Writing an object as it is stores it in the present version; one that is stored so already is not written.
 */
import { failureTypeOf } from '../../../api/core/failure.ts';
import { type SidecarSet, sidecarSets } from '../../../api/sidecar-set/types.ts';
import type { Cache } from '../../../kube/cache.ts';
import { unlessGone } from '../../../kube/moved-on.ts';
import type { ControllerContext } from '../../controller.ts';

/** Returns the function that has each SidecarSet written as it is, to be called once a term. */
export function storingSidecarSets(
  { queue, kube, log }: Pick<ControllerContext, 'queue' | 'kube' | 'log'>,
  sets: Cache<SidecarSet>,
): () => void {
  const stored = queue('sidecar-set-storage', async (uid) => {
    const { name, deletionTimestamp } = sets.byUid(uid)?.metadata ?? {};
    if (name !== undefined && deletionTimestamp === undefined) await store(name, uid);
    return undefined;
  });

  async function store(name: string, uid: string): Promise<void> {
    try {
      await unlessGone(kube.patch<SidecarSet>(sidecarSets, { name }, 'merge', { metadata: { uid } }));
    } catch (error) {
      const type = failureTypeOf(error);
      if (type !== 'Denied' && type !== 'Invalid') throw error;
      log.warn({ name, err: error }, 'Cannot store a SidecarSet in the present version');
    }
  }

  return () => {
    for (const { metadata } of sets.all()) stored.add(metadata.uid);
  };
}
