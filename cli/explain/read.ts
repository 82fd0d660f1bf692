import type { JsonObject } from '../../api/base/json.ts';
import type { KubeClient } from '../../kube/client.ts';
import { KubeError } from '../../kube/failures.ts';
import type { ObjectToRead } from './explanation.ts';

/** The object in the first of the versions in which the API server has it: a cluster may serve only some of them. */
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
  // A version that is not served is a page that is not found; one that is served says that the object is missing.
  throw refusals.find(({ reason }) => reason === 'NotFound') ?? refusals[0];
}
