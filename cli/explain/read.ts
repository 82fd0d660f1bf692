import type { JsonObject } from '../../api/base/json.ts';
import type { KubeClient } from '../../kube/client.ts';
import { KubeError } from '../../kube/failures.ts';
import type { ObjectToRead } from './explanation.ts';

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
