import type { KubeObject } from '../api/core/meta.ts';
import { installation, kubeResource } from '../api/core/well-known.ts';
import { type InstallationRecord, readRecord } from '../api/engine/installation-record.ts';
import type { Cluster } from './cluster.ts';

/** Where the leading watcher publishes how it runs. */
export const publishedRef = { namespace: installation.namespace, name: installation.recordConfigMap } as const;

/** What it has published. Throws where that cannot be read. */
export async function published({ kube }: Pick<Cluster, 'kube'>): Promise<InstallationRecord> {
  interface ConfigMap extends KubeObject {
    readonly data?: unknown;
  }
  const { data } = await kube.get<ConfigMap>(kubeResource.configMaps, publishedRef, { deadlineMs: 10_000 });
  return readRecord(data);
}
