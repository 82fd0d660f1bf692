import type { JsonObject } from '../../api/base/json.ts';
import type { KubeObject } from '../../api/core/meta.ts';
import type { WaitingFor } from '../../api/engine/waiting-for.ts';
import type { KubeClient } from '../../kube/client.ts';
import { KubeError } from '../../kube/failures.ts';
import { attempt } from '../failure.ts';
import type { ExplainedWait, ObjectToRead } from './explanation.ts';

/** Reads the object in the first version that the API server serves: a cluster may serve only some of them. */
export async function readServed(
  kube: Pick<KubeClient, 'get'>,
  { versions, namespace, name }: ObjectToRead,
): Promise<JsonObject> {
  const refusals: KubeError[] = [];
  for (const version of versions) {
    try {
      return (await kube.get(version, { namespace, name })) as unknown as JsonObject;
    } catch (error) {
      if (!(error instanceof KubeError) || error.status !== 404) throw error;
      refusals.push(error);
    }
  }
  // A version that is not served answers 404 without a Status; a served one says that the object is missing.
  throw refusals.find(({ reason }) => reason === 'NotFound') ?? refusals[0];
}

/** The same of a kind whose versions do not differ. */
export async function readObject<T extends KubeObject>(kube: Pick<KubeClient, 'get'>, asked: ObjectToRead): Promise<T> {
  const [{ kind, namespaced }] = asked.versions as readonly [ObjectToRead['versions'][number]];
  const name = namespaced ? `${asked.namespace}/${asked.name}` : asked.name;
  return await attempt(`Cannot read ${kind} "${name}"`, async () => (await readServed(kube, asked)) as unknown as T);
}

/** The wait that a status has. */
export function waitIn(status: { readonly waitingFor?: WaitingFor } | undefined): readonly ExplainedWait[] {
  return status?.waitingFor ? [{ ...status.waitingFor, from: 'status' }] : [];
}

/** Says that a status is missing, or describes an earlier spec. */
export function staleNotes({
  metadata: { generation = 0 },
  status,
}: KubeObject & { readonly status?: { readonly observedGeneration?: number } }): readonly string[] {
  if (status === undefined) return ['it has no status: no watcher has reconciled it yet'];
  const { observedGeneration } = status;
  return observedGeneration !== undefined && observedGeneration < generation
    ? [`status.observedGeneration is ${observedGeneration}, metadata.generation is ${generation}`]
    : [];
}
