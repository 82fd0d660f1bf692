import { apiVersionOf, type KubeObject, type Resource } from '../../api/core/meta.ts';
import type { Cluster } from '../../cli/cluster.ts';
import { KubeError } from '../../kube/failures.ts';
import { MemoryCluster } from './fake-api/memory-cluster.ts';
import type { Stored } from './fake-api/stored.ts';

/** Tells what the API server says to a write; undefined: it takes it. */
export type Refuse = (object: Stored) => KubeError | undefined;

/**
 * An API server that holds these objects, for commands that read and try: a write that is no dry run is a mistake.
 */
export function smallCluster(
  objects: readonly KubeObject[],
  {
    namespace = 'shop',
    refuse = () => undefined,
    unserved = [],
  }: {
    readonly namespace?: string;
    readonly refuse?: Refuse;
    /** API versions of our kinds that it does not serve. */
    readonly unserved?: readonly string[];
  } = {},
): Cluster & { readonly calls: readonly string[]; readonly put: (object: KubeObject) => void } {
  const cluster = new MemoryCluster();
  const put = (object: KubeObject) => void cluster.put(resourceOf(object), object);
  for (const object of objects) put(object);
  cluster.store.admit = (object) => {
    const refusal = refuse(object);
    if (refusal) throw refusal;
  };
  const kube = cluster.client(({ verb }, { resource, isDryRun }) => {
    if (unserved.includes(apiVersionOf(resource))) {
      throw new KubeError({ status: 404, message: '404 page not found (HTTP 404)' });
    }
    if (!isDryRun && verb !== 'get' && verb !== 'list') throw new Error('a real write');
  });
  return { kube, namespace, calls: cluster.calls, put };
}

function resourceOf({ apiVersion, kind, metadata }: KubeObject): Resource {
  const [version = '', group = ''] = apiVersion.split('/').toReversed();
  return { group, version, plural: `${kind.toLowerCase()}s`, kind, namespaced: metadata.namespace !== undefined };
}
