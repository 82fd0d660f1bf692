import type { RestartOperation } from '../../api/container-recreate-request/operation.ts';
import type { ContainerRecreateRequest } from '../../api/container-recreate-request/types.ts';
import type { KubeObject } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import { crrLabel, podReadinessGate } from '../../api/core/well-known.ts';
import { type Cache, createCache } from '../../kube/cache.ts';
import { KubeError } from '../../kube/failures.ts';
import { aPod, type PodOverrides } from './objects/pod.ts';
import { aRecreateRequest } from './objects/recreate-request.ts';

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

/** The ID of the instance that ran in this container when its request was made. */
export function originalId(container: string): string {
  return `${container}-0`;
}

/** A request after admission, for a pod `web` on `node-1`. */
export function request(overrides: RequestOverrides = {}): ContainerRecreateRequest {
  const { name = 'crr-a', podUid = 'pod-1', containers = ['app'], metadata, spec, status } = overrides;
  const { uid = `uid-of-${name}` } = overrides;
  const labels = { [crrLabel.podUid]: podUid, [crrLabel.nodeName]: 'node-1', [crrLabel.active]: 'true' };
  return aRecreateRequest({
    metadata: { name, uid, labels, ...metadata },
    spec: {
      containers: containers.map((container) => ({
        name: container,
        statusContext: { containerID: `containerd://${originalId(container)}`, restartCount: 0 },
      })),
      ...spec,
    },
    ...(status && { status }),
  });
}

/** The pod of these requests, with the shared readiness gate and ready. */
export function gatedPod({ metadata, spec, status }: PodOverrides = {}): Pod {
  return aPod({
    ...(metadata && { metadata }),
    spec: { readinessGates: [{ conditionType: podReadinessGate }], ...spec },
    status: {
      conditions: [
        { type: 'Ready', status: 'True' },
        { type: 'ContainersReady', status: 'True' },
        { type: podReadinessGate, status: 'True' },
      ],
      ...status,
    },
  });
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

/** The answer of the API server to a write on an old version. */
export function conflict(): KubeError {
  return new KubeError({ status: 409, reason: 'Conflict', message: 'the object has been modified' });
}

/** The error of an API server that is shutting down. */
export function unavailable(): KubeError {
  return new KubeError({ status: 503, message: 'etcd is away' });
}
