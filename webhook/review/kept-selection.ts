import { sidecarSelectionName } from '../../api/sidecar-set/selection.ts';
import type { KubeClient } from '../../kube/client.ts';
import { derivedObjectWriter } from '../../kube/derived-object.ts';
import { KeyedQueue } from '../../kube/keyed-queue.ts';
import { concernsSelection, keptSelection, wantedSelection } from '../../plan/sidecar-set/selection.ts';
import type { FollowedSidecarSets } from './followed-sidecar-sets.ts';

export interface SelectionMeans {
  readonly client: Pick<KubeClient, 'get' | 'create' | 'patch' | 'delete'>;
  readonly sidecars: Pick<FollowedSidecarSets, 'all' | 'reached' | 'onChange' | 'synced'>;
  readonly log: { readonly warn: (fields: object, message: string) => void };
  /** How often the object is looked at without a change of a SidecarSet: a minute. */
  readonly everyMs?: number;
}

/**
 * Has the SidecarSelection written after each change of a SidecarSet, and every minute, by each webhook process. Ends with the
 * returned function.
 */
export function keepSelection({ client, sidecars, log, everyMs = 60_000 }: SelectionMeans): () => Promise<void> {
  const write = derivedObjectWriter(client, log, keptSelection);
  const passes = new KeyedQueue({
    async pass() {
      await sidecars.synced();
      await write(wantedSelection(sidecars.all()), sidecars.reached());
      return { againInMs: everyMs };
    },
    onError: (_, err) => log.warn({ err }, 'Cannot write the SidecarSelection'),
    concurrency: 1,
  });
  sidecars.onChange((before, after) => {
    if (concernsSelection(before, after)) passes.add(sidecarSelectionName);
  });
  passes.add(sidecarSelectionName);
  return () => passes.stop();
}
