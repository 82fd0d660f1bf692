/** What the watcher keeps of the objects that it does not own: memory grows with what is kept, so that is what is read. */
import { cloneSets } from '../api/cloneset/types.ts';
import {
  barrierOwners,
  type LaunchBarrier,
  launchBarrierEnv,
  launchMark,
  publishedKeys,
} from '../api/container-launch-priority.ts';
import {
  apiVersionOf,
  type KubeObject,
  type ObjectMeta,
  type OwnerReference,
  type Resource,
} from '../api/core/meta.ts';
import type { Node, NodeCondition } from '../api/core/node.ts';
import { type Container, type ContainerStatus, isActive, type Pod } from '../api/core/pod.ts';
import { group, kubeResource, podReadinessGate, windlassAnnotation } from '../api/core/well-known.ts';
import type { ControllerRevision } from '../api/fleet/revision.ts';
import { hasInPlaceGate } from '../api/in-place/annotations.ts';
import { terminationMark } from '../api/job-sidecar-termination.ts';
import { type PerKind, partsOf } from '../api/per-kind.ts';
import { type EndpointSlice, type Service, serviceLabel } from '../workflows/plan/drain.ts';
import { commandIn } from './operator-commands.ts';

/** How objects of this resource are trimmed; undefined where all of an object is kept. */
export function trimOf(resource: Resource): ((object: KubeObject) => KubeObject) | undefined {
  return trims.get(keyOf(resource));
}

/**
/**
 * What is kept of a pod. Of one that a kind of ours controls, or that is updated in place, all that is read for that; of
 * one that is marked, what is read of its containers; of others only whose it is, whether it goes, and what the shared
 * gate says; and, while a marker may select it, what that is decided on.
 */
export function trimPod(pod: Pod): Pod {
  const controller = pod.metadata.ownerReferences?.find((reference) => reference.controller);
  if ((controller && isOurs(controller)) || hasInPlaceGate(pod)) return trimOwnPod(pod);
  return isMarked(pod) ? withContainers(trimForeignPod(pod), pod) : trimForeignPod(pod);
}

/** Variables by which users ask for something, and that are read of any pod. */
const launchEnv: readonly string[] = [launchMark.env, launchBarrierEnv];
const sidecarEnv: readonly string[] = [
  terminationMark.env,
  terminationMark.imageEnv,
  terminationMark.ignoreExitCodeEnv,
];
const markEnv: readonly string[] = [...launchEnv, ...sidecarEnv];
const markAnnotations: readonly string[] = [
  launchMark.annotation,
  launchMark.completed,
  launchMark.status,
  terminationMark.status,
];

function isMarked({ metadata, spec }: Pod): boolean {
  if (metadata.annotations?.[launchMark.annotation] !== undefined) return true;
  // A pod that never ends has no sidecars that end with it.
  const marks = (spec.restartPolicy ?? 'Always') === 'Always' ? launchEnv : markEnv;
  return spec.containers.some(({ env = [] }) => env.some(({ name }) => marks.includes(name)));
}

/** What marks are about: the containers with their marks, and how they are. */
function withContainers(trimmed: Pod, { metadata, spec, status }: Pod): Pod {
  const marks = Object.entries(metadata.annotations ?? {}).filter(([key]) => markAnnotations.includes(key));
  const { annotations: command, ...commander } = commandIn(metadata);
  const annotations = { ...Object.fromEntries(marks), ...command };
  const { nodeName, restartPolicy } = spec;
  const containers = spec.containers.map(({ name, image, env = [] }) => {
    const markers = env.filter((variable) => markEnv.includes(variable.name));
    return { name, ...present({ image }), ...(markers.length > 0 && { env: markers }) };
  });
  const containerStatuses = status?.containerStatuses?.map(({ name, ready, restartCount, containerID, state }) => ({
    name,
    ready,
    restartCount,
    ...present({ containerID, state: state && trimState(state) }),
  }));
  return {
    ...trimmed,
    metadata: {
      ...trimmed.metadata,
      ...(Object.keys(annotations).length > 0 && { annotations }),
      ...commander,
    },
    spec: { ...trimmed.spec, ...present({ nodeName, restartPolicy }), containers },
    ...(status && { status: { ...trimmed.status, ...present({ phase: status.phase, containerStatuses }) } }),
  };
}

/** Which state it is and how it ended; messages of runtimes are long and not read. */
function trimState({ waiting, running, terminated }: ContainerState): ContainerState {
  if (terminated) return { terminated: { exitCode: terminated.exitCode } };
  if (running) return { running: {} };
  return { waiting: present({ reason: waiting?.reason }) };
}

type ContainerState = NonNullable<ContainerStatus['state']>;

function isOurs({ apiVersion }: OwnerReference): boolean {
  return apiVersion.startsWith(`${group.apps}/`);
}

function trimForeignPod(pod: Pod): Pod {
  const { metadata, spec, status } = pod;
  const gates = spec.readinessGates?.filter(({ conditionType }) => conditionType === podReadinessGate) ?? [];
  const mayBeSelected = isActive(pod);
  const conditions = status?.conditions?.filter(({ type }) =>
    mayBeSelected ? !unreadConditions.has(type) : type === podReadinessGate,
  );
  const read = {
    ...(conditions && conditions.length > 0 && { conditions }),
    ...(mayBeSelected && status && present({ phase: status.phase, podIP: status.podIP })),
  };
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      ...identity(metadata),
      ...(mayBeSelected && present({ labels: metadata.labels })),
      ...(metadata.ownerReferences?.some(({ controller }) => controller) && { ownerReferences: ofAnother }),
    },
    spec: {
      containers: [],
      ...(gates.length > 0 ? { readinessGates: gates } : {}),
      ...(mayBeSelected && present({ nodeName: spec.nodeName })),
    },
    ...(Object.keys(read).length > 0 && { status: read }),
  };
}

/** Kept in place of the controller of a pod that is another's: one list for all, so that none of them is an orphan. */
const ofAnother: readonly OwnerReference[] = [{ apiVersion: '', kind: '', name: '', uid: '', controller: true }];

/** The kubelet's own, which every pod has and nobody asks for. */
const unreadConditions: ReadonlySet<string> = new Set([
  'PodScheduled',
  'PodReadyToStartContainers',
  'ContainersReady',
  'Ready',
]);

function trimOwnPod({ metadata, spec, status }: Pod): Pod {
  const { generation, labels, annotations, finalizers, ownerReferences } = metadata;
  const { nodeName, restartPolicy, readinessGates, containers, initContainers } = spec;
  const { phase, observedGeneration, podIP, conditions, containerStatuses } = status ?? {};
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      ...identity(metadata),
      ...commandIn(metadata),
      ...present({ generation, labels, annotations, finalizers, ownerReferences }),
    },
    spec: {
      ...present({ nodeName, restartPolicy, readinessGates, initContainers: initContainers?.map(trimContainer) }),
      containers: containers.map(trimContainer),
    },
    ...(status && { status: present({ phase, observedGeneration, podIP, conditions, containerStatuses }) }),
  };
}

/** Plain values of environment variables are not read but for our marks, and may be anybody's secret. */
function trimContainer({ name, image, env, resources, resizePolicy }: Container): Container {
  const read = env?.filter(
    (variable) =>
      variable.valueFrom?.fieldRef || variable.valueFrom?.configMapKeyRef || markEnv.includes(variable.name),
  );
  return { name, ...present({ image, resources, resizePolicy }), ...(read && read.length > 0 && { env: read }) };
}

function identity({ name, namespace, uid, resourceVersion, creationTimestamp, deletionTimestamp }: ObjectMeta) {
  return { name, uid, resourceVersion, creationTimestamp, ...present({ namespace, deletionTimestamp }) };
}

/**
 * What is kept of a ConfigMap with the label of barriers, which anybody may set: of which pods it is the barrier, and the
 * priorities that it publishes.
 */
function trimConfigMap({ apiVersion, kind, metadata, data }: LaunchBarrier): LaunchBarrier {
  const named = { metadata: { ...identity(metadata), ...present({ ownerReferences: metadata.ownerReferences }) } };
  const owners = barrierOwners(named);
  const ownerReferences = metadata.ownerReferences?.filter(({ kind, uid }) => kind === 'Pod' && owners.includes(uid));
  const keys = owners.length === 0 ? [] : publishedKeys(present({ data }));
  return {
    apiVersion,
    kind,
    metadata: { ...identity(metadata), ...present({ ownerReferences }) },
    data: Object.fromEntries(keys.map((key) => [key, 'true'])),
  };
}

/** What is kept of a node: that it is there, as which one, by what labels it is chosen, and since when it is ready. */
function trimNode({ apiVersion, kind, metadata, status }: Node): Node {
  const ready = status?.conditions?.filter(({ type }) => type === 'Ready').map(trimCondition) ?? [];
  return {
    apiVersion,
    kind,
    metadata: { ...identity(metadata), ...present({ labels: metadata.labels }) },
    ...(ready.length > 0 && { status: { conditions: ready } }),
  };
}

/** Without the heartbeat, and the text that nobody reads. */
function trimCondition({ type, status, lastTransitionTime }: NodeCondition): NodeCondition {
  return { type, status, ...present({ lastTransitionTime }) };
}

/** What is kept of a revision: of one that may be ours all but who wrote it, of others whose it is. */
function trimRevision(revision: ControllerRevision): ControllerRevision {
  const { labels, annotations, ownerReferences } = revision.metadata;
  const controller = ownerReferences?.find((reference) => reference.controller);
  const isForeign = controller !== undefined && !isOurs(controller);
  const metadata = { ...identity(revision.metadata), ...present({ ownerReferences }) };
  if (isForeign) return { ...revision, metadata, data: {} };
  return { ...revision, metadata: { ...metadata, ...present({ labels, annotations }) } };
}

function trimClaim({ apiVersion, kind, metadata }: KubeObject): KubeObject {
  const { labels, ownerReferences } = metadata;
  return { apiVersion, kind, metadata: { ...identity(metadata), ...present({ labels, ownerReferences }) } };
}

/** What is kept of a set: all but who wrote its fields, unless somebody has left a command. */
function trimSet(set: KubeObject): KubeObject {
  if (set.metadata.annotations?.[windlassAnnotation.command] !== undefined) return set;
  const { managedFields: _, ...metadata } = set.metadata;
  return { ...set, metadata };
}

function trimSlice({ apiVersion, kind, metadata, endpoints }: EndpointSlice): EndpointSlice {
  const service = metadata.labels?.[serviceLabel];
  return {
    apiVersion,
    kind,
    metadata: { ...identity(metadata), ...(service !== undefined && { labels: { [serviceLabel]: service } }) },
    endpoints: (endpoints ?? []).flatMap(({ conditions, targetRef }) =>
      targetRef?.uid === undefined
        ? []
        : [{ conditions: present({ ready: conditions?.ready }), targetRef: { uid: targetRef.uid } }],
    ),
  };
}

function trimService({ apiVersion, kind, metadata, spec }: Service): Service {
  const { publishNotReadyAddresses } = spec;
  return { apiVersion, kind, metadata: identity(metadata), spec: present({ publishNotReadyAddresses }) };
}

function trimmed<T extends KubeObject>(resource: Resource, trim: (object: T) => KubeObject) {
  // Whoever asks for a resource knows what its objects look like.
  return [keyOf(resource), (object: KubeObject) => trim(object as T)] as const;
}

function keyOf(resource: Resource): string {
  return `${apiVersionOf(resource)}/${resource.kind}`;
}

/** How objects of our own kinds are trimmed. */
const trimsOfKinds: PerKind<ReturnType<typeof trimmed>> = {
  CloneSet: trimmed(cloneSets, trimSet),
  ContainerRecreateRequest: 'none',
  PodProbeMarker: 'none',
  NodePodProbe: 'none',
  ImageListPullJob: 'none',
  ImagePullJob: 'none',
  NodeImage: 'none',
};

const trims = new Map<string, (object: KubeObject) => KubeObject>([
  trimmed(kubeResource.pods, trimPod),
  trimmed(kubeResource.nodes, trimNode),
  trimmed(kubeResource.configMaps, trimConfigMap),
  trimmed(kubeResource.controllerRevisions, trimRevision),
  trimmed(kubeResource.persistentVolumeClaims, trimClaim),
  trimmed(kubeResource.endpointSlices, trimSlice),
  trimmed(kubeResource.services, trimService),
  ...partsOf(trimsOfKinds),
]);

/** The fields that are there. */
function present<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}
