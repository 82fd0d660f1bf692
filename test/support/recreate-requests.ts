import type { RestartOperation } from '../../api/container-recreate-request/operation.ts';
import type { ContainerRecreateRequest } from '../../api/container-recreate-request/types.ts';
import type { KubeObject } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import { crrLabel, podReadinessGate } from '../../api/core/well-known.ts';
import { type Cache, createCache } from '../../kube/cache.ts';
import type { KubeClient } from '../../kube/client.ts';
import { KubeError } from '../../kube/failures.ts';
import type { MemoryCluster } from './memory-kube-client.ts';

/** The fields of an object that a test sets; the rest has defaults. */
export interface RequestOverrides {
  readonly name?: string;
  readonly uid?: string;
  readonly podUid?: string;
  readonly containers?: readonly string[];
  readonly metadata?: Partial<ContainerRecreateRequest['metadata']>;
  readonly spec?: Partial<ContainerRecreateRequest['spec']>;
  readonly status?: ContainerRecreateRequest['status'];
}

/** The creation time of all objects here. */
export const createdAt = '2026-01-01T00:00:00Z';

/** The ID of the instance of this container at the creation of its request. */
export function originalId(container: string): string {
  return `${container}-0`;
}

/** A request after admission, for a pod `web` on `node-1`. */
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
export function gatedPod(overrides: PodOverrides = {}): Pod {
  const { metadata, spec, status } = overrides;
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
  };
}

export interface PodOverrides {
  readonly metadata?: Partial<Pod['metadata']>;
  readonly spec?: Pod['spec'];
  readonly status?: NonNullable<Pod['status']>;
}

/** The operation of such a request. */
export function operationFor(of: ContainerRecreateRequest): RestartOperation {
  const { namespace = '', name, uid, labels } = of.metadata;
  return {
    request: { namespace, name, uid },
    pod: { namespace, name: of.spec.podName, uid: labels?.[crrLabel.podUid] ?? '' },
    node: { name: 'node-1', uid: 'uid-of-node-1' },
  };
}

/** A cache with these objects. */
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

/** A call of a client: the verb, the object, and the body of a write. */
export interface SeenCall {
  readonly verb: 'get' | 'list' | 'patch' | 'create' | 'delete';
  readonly plural: string;
  readonly name: string;
  readonly body?: unknown;
}

/**
 * A client of an API server in memory that returns parsed JSON and checks UIDs, like a real one. `meet` is called
 * before each call takes effect, which waits for it; the call fails with what it throws.
 */
export function plainClient(
  cluster: MemoryCluster,
  meet: (call: SeenCall) => void | Promise<void> = () => undefined,
): Pick<KubeClient, 'get' | 'patch' | 'create' | 'delete'> {
  const kube = cluster.client();
  return {
    get: async (resource, ref, options) => {
      await meet({ verb: 'get', plural: resource.plural, name: ref.name });
      return parsed(await kube.get(resource, ref, options));
    },
    patch: async (resource, ref, type, body, options) => {
      await meet({ verb: 'patch', plural: resource.plural, name: ref.name, body });
      const { uid } = (body as { readonly metadata?: { readonly uid?: string } }).metadata ?? {};
      refuseOther(cluster.look(resource, ref), uid);
      return parsed(await kube.patch(resource, ref, type, body, options));
    },
    create: async (resource, object, options) => {
      const { name } = (object as { readonly metadata: { readonly name: string } }).metadata;
      await meet({ verb: 'create', plural: resource.plural, name, body: object });
      return parsed(await kube.create(resource, object, options));
    },
    delete: async (resource, ref, { preconditions } = {}) => {
      await meet({ verb: 'delete', plural: resource.plural, name: ref.name });
      const found: KubeObject = await kube.get(resource, ref);
      refuseOther(found, preconditions?.uid);
      cluster.delete(resource, ref);
    },
  };
}

/** The API server's error for a write on an old version. */
export function conflict(): KubeError {
  return new KubeError({ status: 409, reason: 'Conflict', message: 'the object has been modified' });
}

/** The error of an API server that is shutting down. */
export function unavailable(): KubeError {
  return new KubeError({ status: 503, message: 'etcd is away' });
}

function refuseOther(found: KubeObject | undefined, uid: string | undefined): void {
  if (found === undefined || uid === undefined || uid === found.metadata.uid) return;
  const message = `Precondition failed: UID in precondition: ${uid}, UID in object meta: ${found.metadata.uid}`;
  throw new KubeError({ status: 409, reason: 'Conflict', message });
}

function parsed<T>(answer: T): T {
  return JSON.parse(JSON.stringify(answer));
}
