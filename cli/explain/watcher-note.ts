import type { KubeObject } from '../../api/core/meta.ts';
import { installation, kubeResource } from '../../api/core/well-known.ts';
import type { KubeClient } from '../../kube/client.ts';
import { KubeError } from '../../kube/failures.ts';

interface Lease extends KubeObject {
  readonly spec?: { readonly renewTime?: string };
}

/** The next watcher leads within this time of the death of the one before. */
const silentMs = 15_000;

/** A leader renews its Lease at least this often. */
const renewsWithinMs = 3_000;

/** The clock of the user may be wrong: whoever renews the Lease meanwhile leads, whatever its time says. */
export interface Clock {
  readonly now: () => number;
  readonly pause: (ms: number) => Promise<void>;
}

/** That no watcher leads, so that statuses are old; undefined when one does, or when the user may not know. */
export async function watcherNote(kube: Pick<KubeClient, 'get'>, { now, pause }: Clock): Promise<string | undefined> {
  const { namespace, watcherLease: name } = installation;
  const lastRenewal = async () => (await kube.get<Lease>(kubeResource.leases, { namespace, name })).spec?.renewTime;
  try {
    const renewTime = await lastRenewal();
    if (renewTime === undefined || Math.abs(now() - Date.parse(renewTime)) < silentMs) return undefined;
    await pause(renewsWithinMs);
    if ((await lastRenewal()) !== renewTime) return undefined;
    return `no watcher leads: Lease ${namespace}/${name} was last renewed at ${renewTime}, so statuses are as old and nothing new begins; bring back Deployment windlass-watcher, or who runs role watcher`;
  } catch (error) {
    if (error instanceof KubeError) return undefined;
    throw error;
  }
}
