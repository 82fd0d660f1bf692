import type { KubeObject } from '../../api/core/meta.ts';
import { installation, kubeResource } from '../../api/core/well-known.ts';
import type { KubeClient } from '../../kube/client.ts';
import { KubeError } from '../../kube/failures.ts';

interface Lease extends KubeObject {
  readonly spec?: { readonly holderIdentity?: string; readonly renewTime?: string };
}

/** The next watcher leads within 15 s; the clocks of cluster and user may differ by the rest. */
const silentMs = 60_000;

/** That no watcher leads, so that statuses are old; undefined when one does, or when the user may not know. */
export async function watcherNote(kube: Pick<KubeClient, 'get'>, nowMs: number): Promise<string | undefined> {
  const { namespace, watcherLease: name } = installation;
  try {
    const { spec = {} } = await kube.get<Lease>(kubeResource.leases, { namespace, name });
    const { renewTime } = spec;
    if (renewTime === undefined || nowMs - Date.parse(renewTime) < silentMs) return undefined;
    return `no watcher leads: Lease ${namespace}/${name} was last renewed at ${renewTime}, so statuses are as old and nothing new begins; bring back Deployment windlass-watcher, or who runs role watcher`;
  } catch (error) {
    if (error instanceof KubeError) return undefined;
    throw error;
  }
}
