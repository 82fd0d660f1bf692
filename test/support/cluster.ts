import { randomUUID } from 'node:crypto';
import type { Event } from '../../api/core/event.ts';
import type { KubeObject, Resource } from '../../api/core/meta.ts';
import type { Node } from '../../api/core/node.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { createKubeClient, type KubeClient } from '../../kube/client.ts';
import { isAlreadyExists, isGone } from '../../kube/failures.ts';
import { patient } from './patience.ts';
import type { TestPlatform } from './platform.ts';
import { waitFor } from './wait.ts';

const serviceAccounts: Resource = {
  group: '',
  version: 'v1',
  plural: 'serviceaccounts',
  kind: 'ServiceAccount',
  namespaced: true,
};

/** An Event as a list returns it. */
export type SeenEvent = KubeObject & Pick<Event, 'type' | 'reason' | 'message' | 'source' | 'firstTimestamp'>;

/** A real API server, accessed as administrator. */
export interface Cluster {
  readonly kube: KubeClient;
  /** A namespace for one test, ready for pods. */
  newNamespace(): Promise<string>;
  /** Deletes the namespaces that it has made; what is in them ends after that. */
  removeNamespaces(): Promise<void>;
  /** A Node object without a kubelet and a daemon, unless the test plays them. */
  newNode(labels?: Readonly<Record<string, string>>): Promise<Node>;
  /** The current object; undefined when it is gone. */
  find<T extends KubeObject>(resource: Resource, ref: { namespace?: string; name: string }): Promise<T | undefined>;
  /** Events about one object, oldest first. */
  eventsOf(object: KubeObject): Promise<readonly SeenEvent[]>;
  close(): Promise<void>;
}

/** Connects to the API server of the platform as its administrator. */
export function connectToCluster({ kubeconfig }: Pick<TestPlatform, 'kubeconfig'>): Cluster {
  const namespaces = new Set<string>();
  const kube = patient(createKubeClient({ kubeconfig, userAgent: 'windlass-test', qps: 1_000, burst: 2_000 }));

  async function find<T extends KubeObject>(resource: Resource, ref: { namespace?: string; name: string }) {
    try {
      return await kube.get<T>(resource, ref);
    } catch (error) {
      if (isGone(error)) return undefined;
      throw error;
    }
  }

  return {
    kube,
    find,
    close: () => kube.close(),

    async newNamespace() {
      const name = `test-${randomUUID().slice(0, 8)}`;
      namespaces.add(name);
      await createNamespace(kube, name);
      return name;
    },

    async removeNamespaces() {
      for (const name of namespaces) {
        await kube.delete(kubeResource.namespaces, { name }).catch((error: unknown) => {
          if (!isGone(error)) throw error;
        });
      }
      namespaces.clear();
    },

    async newNode(labels = {}) {
      const name = `node-${randomUUID().slice(0, 8)}`;
      return await kube.create<Node>(kubeResource.nodes, { metadata: { name, labels } });
    },

    async eventsOf({ metadata: { namespace = '', uid } }) {
      const { items } = await kube.list<SeenEvent>(kubeResource.events, {
        namespace,
        fieldSelector: `involvedObject.uid=${uid}`,
      });
      return items.toSorted((a, b) => a.firstTimestamp.localeCompare(b.firstTimestamp));
    },
  };
}

/** Waits until the API server serves a kind, which takes a moment after its CRD is created. */
export async function servedBy(cluster: Cluster, resource: Resource): Promise<void> {
  await waitFor(`${resource.plural} to be served`, async () => {
    await cluster.kube.list(resource, { limit: 1 });
    return true;
  });
}

/** Creates a namespace that is ready for pods; may be repeated when an answer was lost. */
export async function createNamespace(kube: Pick<KubeClient, 'create'>, name: string): Promise<void> {
  await kube.create(kubeResource.namespaces, { metadata: { name } }).catch(unlessThere);
  // pods are rejected until their namespace has this one; the controller that creates it takes its time
  await kube.create(serviceAccounts, { metadata: { namespace: name, name: 'default' } }).catch(unlessThere);
}

/** Rethrows any error except "already exists". */
export function unlessThere(error: unknown): void {
  if (!isAlreadyExists(error)) throw error;
}
