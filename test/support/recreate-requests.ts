import type { KubeClient } from '../../activities/kube/client.ts';
import type { ContainerRecreateRequest } from '../../api/container-recreate-request.ts';
import type { KubeObject } from '../../api/meta.ts';
import type { RestartOperation } from '../../api/operations.ts';
import type { Pod } from '../../api/pod.ts';
import { crrLabel, podReadinessGate } from '../../api/well-known.ts';
import { type Cache, createCache } from '../../watcher/cache.ts';
import type { MemoryCluster } from './memory-kube-client.ts';

/** What of an object a test names; the rest has defaults. */
export interface RequestOverrides {
  readonly name?: string;
  readonly uid?: string;
  readonly podUid?: string;
  readonly containers?: readonly string[];
  readonly metadata?: Partial<ContainerRecreateRequest['metadata']>;
  readonly spec?: Partial<ContainerRecreateRequest['spec']>;
  readonly status?: ContainerRecreateRequest['status'];
}

/** When everything here was made. */
export const createdAt = '2026-01-01T00:00:00Z';

/** The ID of the instance that ran in this container when its request was made. */
export function originalId(container: string): string {
  return `${container}-0`;
}

/** A request as admission leaves it, for a pod `web` on `node-1`. */
export function request(overrides: RequestOverrides = {}): ContainerRecreateRequest {
  const { name = 'crr-a', podUid = 'pod-1', containers = ['app'], metadata, spec, status } = overrides;
  const { uid = `uid-of-${name}` } = overrides;
  return {
    apiVersion: 'apps.kruise.io/v1beta1',
    kind: 'ContainerRecreateRequest',
    metadata: {
      namespace: 'shop',
      name,
      uid,
      resourceVersion: '1',
      generation: 1,
      creationTimestamp: createdAt,
      labels: { [crrLabel.podUid]: podUid, [crrLabel.nodeName]: 'node-1', [crrLabel.active]: 'true' },
      ...metadata,
    },
    spec: {
      podName: 'web',
      containers: containers.map((container) => ({
        name: container,
        statusContext: { containerID: `containerd://${originalId(container)}`, restartCount: 0 },
      })),
      ...spec,
    },
    ...(status ? { status } : {}),
  };
}

/** The pod of these requests, with the shared readiness gate and ready. */
export function gatedPod(overrides: { readonly metadata?: Partial<Pod['metadata']> } & Partial<Pod> = {}): Pod {
  const { metadata, spec, status, ...rest } = overrides;
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      namespace: 'shop',
      name: 'web',
      uid: 'pod-1',
      resourceVersion: '1',
      creationTimestamp: createdAt,
      ...metadata,
    },
    spec: { containers: [], readinessGates: [{ conditionType: podReadinessGate }], ...spec },
    status: {
      conditions: [
        { type: 'Ready', status: 'True' },
        { type: 'ContainersReady', status: 'True' },
        { type: podReadinessGate, status: 'True' },
      ],
      ...status,
    },
    ...rest,
  };
}

/** The operation of a request of these. */
export function operationFor(of: ContainerRecreateRequest): RestartOperation {
  const { namespace = '', name, uid, labels } = of.metadata;
  return {
    request: { namespace, name, uid },
    pod: { namespace, name: of.spec.podName, uid: labels?.[crrLabel.podUid] ?? '' },
    node: { name: 'node-1', uid: 'uid-of-node-1' },
  };
}

/** A cache that holds these objects. */
export function cacheOf<T extends KubeObject>(
  objects: readonly T[],
  indexes: Readonly<Record<string, (object: T) => readonly string[]>> = {},
): Cache<T> & { readonly put: (object: T) => void; readonly drop: (object: T) => void } {
  const failed = (error: unknown): never => {
    throw error;
  };
  const cache = createCache<T>({ indexes, onError: failed });
  cache.replace(objects, '1');
  let version = 1;
  const next = (object: T): T => ({ ...object, metadata: { ...object.metadata, resourceVersion: String(++version) } });
  return Object.assign(cache, {
    put: (object: T) => cache.apply('MODIFIED', next(object)),
    drop: (object: T) => cache.apply('DELETED', next(object)),
  });
}

/** A client of an API server in memory that answers with parsed JSON, as a real one does. */
export function plainClient(cluster: MemoryCluster): Pick<KubeClient, 'get' | 'patch' | 'create'> {
  const kube = cluster.client();
  return {
    get: async (...call) => parsed(await kube.get(...call)),
    patch: async (...call) => parsed(await kube.patch(...call)),
    create: async (...call) => parsed(await kube.create(...call)),
  };
}

function parsed<T>(answer: T): T {
  return JSON.parse(JSON.stringify(answer));
}
