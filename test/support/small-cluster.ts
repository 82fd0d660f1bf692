import type { JsonObject } from '../../api/base/json.ts';
import { apiVersionOf, type KubeObject, type Resource } from '../../api/core/meta.ts';
import { mergePatch } from '../../cli/apply.ts';
import type { Cluster } from '../../cli/cluster.ts';
import type { KubeClient, ListOptions, NameRef, WriteOptions } from '../../kube/client.ts';
import { KubeError } from '../../kube/failures.ts';

/** The API server's rejection of a write; undefined: it is accepted. */
export type Refuse = (object: JsonObject) => KubeError | undefined;

/**
 * An API server with these objects, for commands that read and make dry runs. It stores nothing: a write that is no dry
 * run is an error.
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
): Cluster & { readonly calls: string[] } {
  const calls: string[] = [];
  const kind = (resource: Resource) =>
    objects.filter((object) => object.kind === resource.kind && object.apiVersion === apiVersionOf(resource));

  function find(resource: Resource, { name, namespace: where }: NameRef): KubeObject {
    calls.push(`get ${resource.plural}/${name}`);
    if (unserved.includes(apiVersionOf(resource)))
      throw new KubeError({ status: 404, message: '404 page not found (HTTP 404)' });
    const found = kind(resource).find(({ metadata }) => metadata.name === name && metadata.namespace === where);
    if (!found)
      throw new KubeError({ status: 404, reason: 'NotFound', message: `${resource.plural} "${name}" not found` });
    return found;
  }

  function tried(object: JsonObject, options: WriteOptions): JsonObject {
    if (!options.dryRun) throw new Error('a real write');
    const refusal = refuse(object);
    if (refusal) throw refusal;
    return object;
  }

  const kube = {
    get: async (resource: Resource, ref: NameRef) => find(resource, ref),
    list: async (resource: Resource, options: ListOptions = {}) => {
      calls.push(`list ${resource.plural}`);
      const items = kind(resource).filter(
        ({ metadata }) => options.namespace === undefined || metadata.namespace === options.namespace,
      );
      return { items, resourceVersion: '1' };
    },
    create: async (resource: Resource, object: JsonObject, options: WriteOptions = {}) => {
      calls.push(`try to create ${resource.plural}`);
      return tried(object, options);
    },
    patch: async (resource: Resource, ref: NameRef, _: string, body: JsonObject, options: WriteOptions = {}) => {
      calls.push(`try to patch ${resource.plural}/${ref.name}`);
      return tried(mergePatch(find(resource, ref) as unknown as JsonObject, body), options);
    },
    request: async () => ({ resources: [{ name: 'pods/resize' }] }),
    close: async () => undefined,
  };
  return { kube: kube as unknown as KubeClient, namespace, calls };
}
