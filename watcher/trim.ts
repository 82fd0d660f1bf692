/** What the watcher keeps of the objects that it does not own: memory grows with what is kept, so that is what is read. */
import { apiVersionOf, type KubeObject, type ObjectMeta, type Resource } from '../api/meta.ts';
import type { Container, Pod } from '../api/pod.ts';
import { group, kubeResource, podReadinessGate } from '../api/well-known.ts';

/** How objects of this resource are trimmed; undefined where all of an object is kept. */
export function trimOf(resource: Resource): ((object: KubeObject) => KubeObject) | undefined {
  return trims.get(`${apiVersionOf(resource)}/${resource.kind}`);
}

/**
 * What is kept of a pod. Of one that a kind of ours controls, all that its planner reads; of others only whose it is,
 * whether it goes, and what the shared gate says.
 */
export function trimPod(pod: Pod): Pod {
  const isOurs = pod.metadata.ownerReferences?.some(
    ({ controller, apiVersion }) => controller && apiVersion.startsWith(`${group.apps}/`),
  );
  return isOurs ? trimOwnPod(pod) : trimForeignPod(pod);
}

function trimForeignPod({ metadata, spec, status }: Pod): Pod {
  const gates = spec.readinessGates?.filter(({ conditionType }) => conditionType === podReadinessGate) ?? [];
  const conditions = status?.conditions?.filter(({ type }) => type === podReadinessGate) ?? [];
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: identity(metadata),
    spec: { containers: [], ...(gates.length > 0 ? { readinessGates: gates } : {}) },
    ...(conditions.length > 0 ? { status: { conditions } } : {}),
  };
}

function trimOwnPod({ metadata, spec, status }: Pod): Pod {
  const { generation, labels, annotations, finalizers, ownerReferences } = metadata;
  const { nodeName, readinessGates, containers, initContainers } = spec;
  const { phase, observedGeneration, conditions, containerStatuses } = status ?? {};
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      ...identity(metadata),
      ...present({ generation, labels, annotations, finalizers, ownerReferences }),
    },
    spec: {
      ...present({ nodeName, readinessGates, initContainers: initContainers?.map(trimContainer) }),
      containers: containers.map(trimContainer),
    },
    ...(status && { status: present({ phase, observedGeneration, conditions, containerStatuses }) }),
  };
}

/** Plain values of environment variables are not read, and may be anybody's secret. */
function trimContainer({ name, image, env, resources, resizePolicy }: Container): Container {
  const read = env?.filter(({ valueFrom }) => valueFrom?.fieldRef !== undefined || valueFrom?.configMapKeyRef);
  return { name, ...present({ image, resources, resizePolicy }), ...(read && read.length > 0 && { env: read }) };
}

function identity({ name, namespace, uid, resourceVersion, creationTimestamp, deletionTimestamp }: ObjectMeta) {
  return { name, uid, resourceVersion, creationTimestamp, ...present({ namespace, deletionTimestamp }) };
}

/** What is kept of a node: that it is there, as which one, and by what labels it is chosen. */
function trimNode({ apiVersion, kind, metadata }: KubeObject): KubeObject {
  return { apiVersion, kind, metadata: { ...identity(metadata), ...present({ labels: metadata.labels }) } };
}

const trims = new Map<string, (object: KubeObject) => KubeObject>([
  [`${apiVersionOf(kubeResource.pods)}/Pod`, (object) => trimPod(object as Pod)],
  [`${apiVersionOf(kubeResource.nodes)}/Node`, trimNode],
]);

/** The fields that are there. */
function present<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}
