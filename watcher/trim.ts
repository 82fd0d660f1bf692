/** What the watcher keeps of the objects that it does not own: exactly what is read, because memory grows with it. */
import { cloneSetMark, cloneSets } from '../api/cloneset/types.ts';
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
import type { Node, NodeCondition, Taint } from '../api/core/node.ts';
import {
  type Container,
  type ContainerStatus,
  isActive,
  isMirrorPod,
  mirrorAnnotation,
  nodeOf,
  onNode,
  type Pod,
} from '../api/core/pod.ts';
import { group, kubeResource, podReadinessGate, windlassAnnotation } from '../api/core/well-known.ts';
import { daemonSets } from '../api/daemon-set/types.ts';
import { lifecycleMark } from '../api/fleet/lifecycle.ts';
import { podMark } from '../api/fleet/marks.ts';
import { type ControllerRevision, revisionMark } from '../api/fleet/revision.ts';
import { hasInPlaceGate, inPlaceAnnotation } from '../api/in-place/annotations.ts';
import { envReferences } from '../api/in-place/env-hash.ts';
import { terminationMark } from '../api/job-sidecar-termination.ts';
import { type PerKind, partsOf } from '../api/per-kind.ts';
import { podBudgetMark, relatedBudget } from '../api/pod-unavailable-budget/types.ts';
import { hotMark, injectedListAnnotation } from '../api/sidecar-set/marks.ts';
import { sidecarSets } from '../api/sidecar-set/types.ts';
import { seriesOf } from '../api/stateful-set/ordinals.ts';
import { statefulSetMark, statefulSets } from '../api/stateful-set/types.ts';
import { type EndpointSlice, type Service, serviceLabel } from '../plan/drain.ts';
import type { VolumeClaim } from '../plan/fleet/input.ts';
import { moreLabels } from '../plan/fleet/pods.ts';
import { troubledInits, troubledState } from '../plan/pod-trouble.ts';
import {
  hasLongMark,
  hasMarks,
  longestMark,
  readMarks,
  sidecarAnnotations,
  unreadList,
  updateStateAnnotation,
} from '../plan/sidecar-set/pods.ts';
import { commandIn } from './operator-commands.ts';

/** The trim function of this resource; undefined where whole objects are kept. */
export function trimOf(resource: Resource): ((object: KubeObject) => KubeObject) | undefined {
  return trims.get(keyOf(resource));
}

/**
 * The kept parts of a pod. Of a pod that one of our kinds controls, or that is updated in place: everything that is
 * read for that; of a pod with marks (our labels, annotations or variables): its containers; of a pod with the stamp of a
 * budget whether it is available, and its owner; of other pods only whether they have an owner, the deletion, the shared
 * readiness gate, and, while a marker may select them, what that depends on.
 */
export function trimPod(pod: Pod): Pod {
  const controller = pod.metadata.ownerReferences?.find((reference) => reference.controller);
  if ((controller && isOurs(controller)) || hasInPlaceGate(pod)) return trimOwnPod(pod);
  if (isOversized(pod)) return trimForeignPod(pod);
  const marked = isMarked(pod) ? withContainers(trimForeignPod(pod), pod) : trimForeignPod(pod);
  const trimmed = pod.metadata.annotations?.[injectedListAnnotation] === undefined ? marked : withSidecars(marked, pod);
  return relatedBudget(pod) === undefined || !isActive(pod) ? trimmed : withBudget(trimmed, pod);
}

/**
 * Labels, and annotations, that are kept of a pod: each takes ten times its characters. A pod of another owner with more
 * is kept like one that is completed, which nothing selects. One of a kind of ours stays its own, whatever it has.
 */
const mostTexts = 512;
/** Characters of an annotation that nothing of ours reads. */
const longestText = 16 * 1024;
/** Characters of a version of a container: more than any number of 64 bits has. */
const longestVersion = 64;
/** Containers, init containers, and their statuses. */
const mostContainers = 1_024;
/** Owners of a PVC; of one with more, only those are kept that are read. */
const mostOwners = 64;
/** Access modes of a PVC: more than there are. */
const mostAccessModes = 8;

function isOversized({ metadata, spec }: Pod): boolean {
  return Object.keys(metadata.labels ?? {}).length > mostTexts || spec.containers.length > mostContainers;
}

type Texts = Readonly<Record<string, string>>;

/** The first of these texts; and those that are needed, however many there are. */
function firstOf(texts: Texts | undefined, isNeeded: (key: string) => boolean): Texts | undefined {
  const entries = Object.entries(texts ?? {});
  if (entries.length <= mostTexts) return texts;
  return Object.fromEntries(entries.filter(([key], at) => at < mostTexts || isNeeded(key)));
}

/** The annotations with the versions of containers of hot-upgrade sidecars. */
function versionMarks(containers: Pod['spec']['containers'], annotations: Texts = {}): readonly string[] {
  const keys = containers.flatMap(({ name }) => [`${hotMark.version}${name}`, `${hotMark.otherVersion}${name}`]);
  return keys.filter((key) => (annotations[key]?.length ?? 0) <= longestVersion);
}

function withAnnotations(pod: Pod, annotations: Texts): Pod {
  return { ...pod, metadata: { ...pod.metadata, annotations: { ...pod.metadata.annotations, ...annotations } } };
}

/**
 * What counts for SidecarSets: marks, names and images of containers, restarts, phase, and since when it is ready; of a pod
 * that they have updated also when its containers have started, and whether the kubelet has seen that.
 */
function withSidecars(trimmed: Pod, pod: Pod): Pod {
  // What can be read of the others would be read as if they were absent.
  if (hasLongMark(pod)) return withAnnotations(trimmed, { [injectedListAnnotation]: unreadList });
  const { metadata, spec, status } = pod;
  const isHot = metadata.annotations?.[hotMark.working] !== undefined;
  const versions = (isHot ? versionMarks(spec.containers, metadata.annotations) : []).flatMap((key) => {
    const text = metadata.annotations?.[key];
    return text === undefined ? [] : [[key, text] as const];
  });
  const wasUpdated = metadata.annotations?.[updateStateAnnotation] !== undefined;
  const known = new Map(trimmed.spec.containers.map((container) => [container.name, container]));
  const states = new Map((trimmed.status?.containerStatuses ?? []).map((state) => [state.name, state]));
  const containerStatuses = status?.containerStatuses?.map(
    ({ name, ready, restartCount, image, imageID, state, lastState }) => ({
      ...{ name, ready, restartCount },
      ...(isHot && state?.waiting && { state: trimState(state) }),
      ...troubledState({ ...present({ state, lastState }) }),
      ...states.get(name),
      ...present({ image, imageID }),
      ...(wasUpdated && state?.running && { state: { running: present({ startedAt: state.running.startedAt }) } }),
    }),
  );
  const ready = status?.conditions
    ?.filter(({ type }) => type === 'Ready')
    .map(({ type, status: is, lastTransitionTime }) => ({ type, status: is, ...present({ lastTransitionTime }) }));
  const conditions = [...(trimmed.status?.conditions ?? []), ...(ready ?? [])];
  const { generation } = metadata;
  const { phase, observedGeneration } = status ?? {};
  return {
    ...trimmed,
    metadata: {
      ...trimmed.metadata,
      ...(wasUpdated && present({ generation })),
      annotations: { ...trimmed.metadata.annotations, ...readMarks(pod), ...Object.fromEntries(versions) },
    },
    spec: {
      ...trimmed.spec,
      containers: spec.containers.map(({ name, image }) => ({ name, ...present({ image }), ...known.get(name) })),
    },
    ...(status && {
      status: {
        ...trimmed.status,
        ...{ conditions, ...present({ phase, containerStatuses }), ...initsOf({ status }) },
        ...(wasUpdated && present({ observedGeneration })),
      },
    }),
  };
}

/** What a budget counts: the stamp, the controller, whether the pod is ready, and whether updates of it have landed. */
function withBudget(trimmed: Pod, { metadata, spec, status }: Pod): Pod {
  const { annotations = {}, generation, ownerReferences } = metadata;
  const isUpdated = [inPlaceAnnotation.state, inPlaceAnnotation.oldState].some((key) => key in annotations);
  const isRead = (key: string) =>
    budgetAnnotations.includes(key) && (isUpdated || key !== inPlaceAnnotation.containersMeta);
  const read = Object.entries(annotations).filter(([key, text]) => isRead(key) && text.length <= longestText);
  const controller = ownerReferences?.find((reference) => reference.controller);
  const containers = new Map(trimmed.spec.containers.map((container) => [container.name, container]));
  const statuses = new Map((trimmed.status?.containerStatuses ?? []).map((one) => [one.name, one]));
  const conditions = trimmed.status?.conditions ?? [];
  const isSaid = conditions.some(({ type }) => type === 'Ready');
  const ready = isSaid ? [] : (status?.conditions?.filter(({ type }) => type === 'Ready') ?? []);
  return {
    ...trimmed,
    metadata: {
      ...trimmed.metadata,
      annotations: { ...trimmed.metadata.annotations, ...Object.fromEntries(read) },
      ...(controller && { ownerReferences: [controller] }),
      ...(isUpdated && present({ generation })),
    },
    spec: {
      ...trimmed.spec,
      containers: spec.containers.map(({ name, image }) => ({ name, ...present({ image }), ...containers.get(name) })),
    },
    status: {
      ...trimmed.status,
      ...(isUpdated && present({ observedGeneration: status?.observedGeneration })),
      conditions: [...conditions, ...ready.map(({ type, status: is }) => ({ type, status: is }))],
      containerStatuses: (status?.containerStatuses ?? []).slice(0, mostContainers).map((one) => ({
        ...{ name: one.name, ready: one.ready, restartCount: one.restartCount },
        ...present({ image: one.image, imageID: one.imageID }),
        ...(isUpdated && present({ containerID: one.containerID })),
        ...statuses.get(one.name),
      })),
    },
  };
}

const budgetAnnotations: readonly string[] = [
  ...[podBudgetMark.related, podBudgetMark.oldRelated],
  ...Object.values(inPlaceAnnotation),
];

/** Environment variables by which users request something, which are kept for every pod. */
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

/** Whether a mark is too long to be read. What an operator has decided in it must not count as absent: the pod has none. */
function isSaidAtLength({ annotations }: ObjectMeta): boolean {
  return markAnnotations.some((key) => (annotations?.[key]?.length ?? 0) > longestMark);
}

function isMarked({ metadata, spec }: Pod): boolean {
  if (isSaidAtLength(metadata)) return false;
  if (metadata.annotations?.[launchMark.annotation] !== undefined) return true;
  // The sidecars of a pod that never completes are not terminated.
  const marks = (spec.restartPolicy ?? 'Always') === 'Always' ? launchEnv : markEnv;
  return spec.containers.some(({ env = [] }) => env.some(({ name }) => marks.includes(name)));
}

/** What marks are about: the containers with their marks, and their statuses. */
function withContainers(trimmed: Pod, { metadata, spec, status }: Pod): Pod {
  const marks = Object.entries(metadata.annotations ?? {}).filter(([key]) => markAnnotations.includes(key));
  const { annotations: command, ...commander } = commandIn(metadata);
  const annotations = { ...trimmed.metadata.annotations, ...Object.fromEntries(marks), ...command };
  const { nodeName, restartPolicy } = spec;
  const containers = spec.containers.map(({ name, image, env = [] }) => {
    const markers = env.filter((variable) => markEnv.includes(variable.name));
    return { name, ...present({ image }), ...(markers.length > 0 && { env: markers }) };
  });
  const containerStatuses = status?.containerStatuses?.map(
    ({ name, ready, restartCount, containerID, image, state, lastState }) => ({
      ...{ name, ready, restartCount, ...present({ containerID, state: state && trimState(state) }) },
      ...troubledState({ ...present({ image, state, lastState }) }),
    }),
  );
  return {
    ...trimmed,
    metadata: {
      ...trimmed.metadata,
      ...(Object.keys(annotations).length > 0 && { annotations }),
      ...commander,
    },
    spec: { ...trimmed.spec, ...present({ nodeName, restartPolicy }), containers },
    ...(status && {
      status: { ...trimmed.status, ...present({ phase: status.phase, containerStatuses }), ...initsOf({ status }) },
    }),
  };
}

/** The init containers of which is said why the pod waits for them. */
function initsOf(pod: Pick<Pod, 'status'>): Pick<NonNullable<Pod['status']>, 'initContainerStatuses'> {
  const initContainerStatuses = troubledInits(pod).slice(0, mostContainers);
  return initContainerStatuses.length > 0 ? { initContainerStatuses } : {};
}

/** The kind of state and how it ended; the messages of most are not read. */
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
  const gates =
    spec.readinessGates?.filter(({ conditionType }) => conditionType === podReadinessGate).slice(0, 1) ?? [];
  const mayBeSelected = (isActive(pod) || mayBeReplaced(pod)) && !isOversized(pod);
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
      ...(isMirrorPod(pod) && { annotations: mirrorMark }),
      ...(metadata.ownerReferences?.some(({ controller }) => controller) && { ownerReferences: ofAnother }),
    },
    spec: {
      containers: [],
      ...(gates.length > 0 ? { readinessGates: gates } : {}),
      ...(mayBeSelected && placeOf(pod)),
    },
    ...(Object.keys(read).length > 0 && { status: read }),
  };
}

/** The node on which it is; of a pod that is made for one and is not there yet, that one. */
function placeOf(pod: Pod): Pick<Pod['spec'], 'nodeName' | 'affinity'> {
  const node = nodeOf(pod);
  return node === undefined || pod.spec.nodeName
    ? present({ nodeName: pod.spec.nodeName })
    : { affinity: onlyOn(node) };
}

function onlyOn(node: string): NonNullable<Pod['spec']['affinity']> {
  return {
    nodeAffinity: {
      requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchFields: [onNode(node)] }] },
    },
  };
}

/** Whether the pod has ended, and stands in the way of a StatefulSet, which adopts and replaces it. */
function mayBeReplaced({ metadata }: Pod): boolean {
  const isOrphan = !metadata.ownerReferences?.some(({ controller }) => controller);
  return isOrphan && metadata.deletionTimestamp === undefined && seriesOf(metadata.name) !== undefined;
}

const mirrorMark = { [mirrorAnnotation]: 'true' };

/**
 * Replaces the owner references of a pod that another controller owns: one shared list, so that no such pod looks like
 * an orphan.
 */
const ofAnother: readonly OwnerReference[] = [{ apiVersion: '', kind: '', name: '', uid: '', controller: true }];

/** The kubelet's own conditions, which every pod has and nothing reads. */
const unreadConditions: ReadonlySet<string> = new Set([
  'PodScheduled',
  'PodReadyToStartContainers',
  'ContainersReady',
  'Ready',
]);

function trimOwnPod(pod: Pod): Pod {
  const { metadata, spec, status } = pod;
  const { generation, ownerReferences } = metadata;
  const { restartPolicy } = spec;
  const { phase, observedGeneration, podIP, conditions, containerStatuses } = status ?? {};
  const marks = isSaidAtLength(metadata) ? [] : markEnv;
  const trimmed = (list: readonly Container[]) => list.slice(0, mostContainers).map((one) => trimContainer(one, marks));
  const containers = trimmed(spec.containers);
  const initContainers = spec.initContainers && trimmed(spec.initContainers);
  const referred = new Set(containers.flatMap(envReferences).map(({ key }) => key));
  const isUnavailable = (key: string) => key.startsWith(podBudgetMark.unavailablePrefix);
  const isRead = (key: string) => readLabels.includes(key) || referred.has(key) || isUnavailable(key);
  const labels = firstOf(metadata.labels, isRead);
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      ...identity(metadata),
      ...commandIn(metadata),
      ...present({
        generation,
        labels: labels === metadata.labels ? labels : { ...labels, [moreLabels]: '' },
        annotations: ownAnnotations(pod, referred),
        finalizers: metadata.finalizers?.slice(0, mostTexts),
        ownerReferences: ownerReferences?.filter(({ controller }) => controller),
      }),
    },
    spec: {
      ...placeOf(pod),
      ...present({ restartPolicy, readinessGates: spec.readinessGates?.slice(0, mostTexts), initContainers }),
      containers,
    },
    ...(status && {
      status: present({
        ...{ phase, observedGeneration, podIP, conditions },
        containerStatuses: containerStatuses?.slice(0, mostContainers),
        ...initsOf(pod),
      }),
    }),
  };
}

/** Labels and annotations that decide about pods of our kinds. The API server limits all annotations together. */
const readLabels: readonly string[] = [
  ...[revisionMark.podRevision, revisionMark.podTemplateHash, podMark.specifiedDelete, lifecycleMark.state],
  ...[cloneSetMark.instanceId, statefulSetMark.podName, statefulSetMark.podIndex],
];
const readAnnotations: readonly string[] = [
  ...budgetAnnotations,
  ...[lifecycleMark.timestamp, cloneSetMark.deletionCost],
];

function longestOf(annotation: string): number {
  return markAnnotations.includes(annotation) ? longestMark : longestText;
}

/** Those that are read, and the first of the others that are not long. */
function ownAnnotations(pod: Pod, referred: ReadonlySet<string>): Texts | undefined {
  const { annotations } = pod.metadata;
  if (annotations === undefined) return undefined;
  const hasUnread = hasLongMark(pod) || isOversized(pod);
  const isRead = (key: string) => readAnnotations.includes(key) || referred.has(key);
  const isKept = (key: string, text: string) =>
    sidecarAnnotations.includes(key) ? !hasUnread : isRead(key) || text.length <= longestOf(key);
  const kept = Object.entries(annotations).filter(([key, text]) => isKept(key, text));
  const marks = !hasUnread && hasMarks(pod) ? readMarks(pod) : undefined;
  const isWhole = kept.length === Object.keys(annotations).length && marks === undefined;
  const all = isWhole ? annotations : { ...Object.fromEntries(kept), ...marks };
  const first = firstOf(all, (key) => isRead(key) || sidecarAnnotations.includes(key));
  if (!hasUnread && !isMirrorPod(pod)) return first;
  return { ...first, ...(hasUnread && { [injectedListAnnotation]: unreadList }), ...(isMirrorPod(pod) && mirrorMark) };
}

/** Plain values of environment variables are dropped except for our marks: they are not read, and may be secrets. */
function trimContainer({ name, image, env, resources, resizePolicy }: Container, marks: readonly string[]): Container {
  const read = env?.filter(
    (variable) => variable.valueFrom?.fieldRef || variable.valueFrom?.configMapKeyRef || marks.includes(variable.name),
  );
  return { name, ...present({ image, resources, resizePolicy }), ...(read && read.length > 0 && { env: read }) };
}

function identity({ name, namespace, uid, resourceVersion, creationTimestamp, deletionTimestamp }: ObjectMeta) {
  return { name, uid, resourceVersion, creationTimestamp, ...present({ namespace, deletionTimestamp }) };
}

/**
 * The kept parts of a ConfigMap with the label of barriers, which anybody may set: the pods that it belongs to, and the
 * priorities that it publishes.
 */
function trimConfigMap({ apiVersion, kind, metadata, data }: LaunchBarrier): LaunchBarrier {
  const named = { metadata: { ...identity(metadata), ...present({ ownerReferences: metadata.ownerReferences }) } };
  const owners = barrierOwners(named);
  const ownerReferences = metadata.ownerReferences
    ?.filter(({ kind, uid }) => kind === 'Pod' && owners.includes(uid))
    .slice(0, owners.length);
  const keys = owners.length === 0 ? [] : publishedKeys(present({ data }));
  return {
    apiVersion,
    kind,
    metadata: { ...identity(metadata), ...present({ ownerReferences }) },
    data: Object.fromEntries(keys.map((key) => [key, 'true'])),
  };
}

/** The kept parts of a namespace: its labels. */
function trimNamespace({ apiVersion, kind, metadata }: KubeObject): KubeObject {
  return { apiVersion, kind, metadata: { ...identity(metadata), ...present({ labels: metadata.labels }) } };
}

/** Taints of a node: a toleration for each of more than these is no toleration that anybody writes. */
const mostTaints = 128;

/** The kept parts of a node: name, UID, labels, taints, and since when it is ready. */
function trimNode({ apiVersion, kind, metadata, spec, status }: Node): Node {
  const taints = spec?.taints?.slice(0, mostTaints).map(trimTaint) ?? [];
  const ready = status?.conditions?.filter(({ type }) => type === 'Ready').map(trimCondition) ?? [];
  return {
    apiVersion,
    kind,
    metadata: { ...identity(metadata), ...present({ labels: metadata.labels }) },
    ...(taints.length > 0 && { spec: { taints } }),
    ...(ready.length > 0 && { status: { conditions: ready } }),
  };
}

/** Without the time at which it was added. */
function trimTaint({ key, value, effect }: Taint): Taint {
  return { key, effect, ...present({ value }) };
}

/** Without heartbeat and message. */
function trimCondition({ type, status, lastTransitionTime }: NodeCondition): NodeCondition {
  return { type, status, ...present({ lastTransitionTime }) };
}

/** The kept parts of a revision: of one that may be ours everything except managed fields, of others only the owner. */
function trimRevision(revision: ControllerRevision): ControllerRevision {
  const { labels, annotations, ownerReferences } = revision.metadata;
  const controller = ownerReferences?.find((reference) => reference.controller);
  const isForeign = controller !== undefined && !isOurs(controller);
  const metadata = { ...identity(revision.metadata), ...present({ ownerReferences }) };
  if (isForeign) return { ...revision, metadata, data: {} };
  return { ...revision, metadata: { ...metadata, ...present({ labels, annotations }) } };
}

/** The kept parts of a PVC: marks and owners; of one that may be a StatefulSet's also what it is compared with. */
function trimClaim(claim: KubeObject & VolumeClaim): KubeObject & VolumeClaim {
  const { apiVersion, kind, metadata } = claim;
  const labels = firstOf(metadata.labels, (key) => readLabels.includes(key));
  const { ownerReferences: owners } = metadata;
  const ownerReferences =
    (owners?.length ?? 0) > mostOwners
      ? owners?.filter((owner) => isReadOf(claim, owner)).slice(0, mostOwners)
      : owners;
  const trimmed = { apiVersion, kind, metadata: { ...identity(metadata), ...present({ labels, ownerReferences }) } };
  const isOfSeries =
    seriesOf(metadata.name) !== undefined && !owners?.some((owner) => owner.controller && isOurs(owner));
  return isOfSeries ? { ...trimmed, ...sizesOf(claim) } : trimmed;
}

/** Whether a reference is the controller's, or the StatefulSet's or its pod's, which the PVC has in its name. */
function isReadOf({ metadata }: VolumeClaim, owner: OwnerReference): boolean {
  if (owner.controller) return true;
  if (owner.kind === 'Pod') return metadata.name.endsWith(`-${owner.name}`);
  return owner.kind === statefulSets.kind && isOurs(owner) && metadata.name.includes(`-${owner.name}-`);
}

/** What the templates of a StatefulSet are compared with. */
function sizesOf({ spec = {}, status }: VolumeClaim): Pick<VolumeClaim, 'spec' | 'status'> {
  const { accessModes, storageClassName, resources } = spec;
  const [requested, capacity] = [resources?.requests?.storage, status?.capacity?.storage];
  const conditions = status?.conditions?.filter(({ type }) => type === 'FileSystemResizePending').slice(0, 1);
  const isPending = conditions !== undefined && conditions.length > 0;
  return {
    spec: {
      ...present({ storageClassName, accessModes: accessModes && [...new Set(accessModes)].slice(0, mostAccessModes) }),
      ...(requested !== undefined && { resources: { requests: { storage: requested } } }),
    },
    ...((capacity !== undefined || isPending) && {
      status: {
        ...(capacity !== undefined && { capacity: { storage: capacity } }),
        ...(isPending && { conditions: conditions.map(({ type, status: is }) => ({ type, status: is })) }),
      },
    }),
  };
}

/**
 * The kept parts of a set of ours: everything except managed fields, which are kept while its annotation contains a
 * command.
 */
function trimSet(set: KubeObject): KubeObject {
  if (set.metadata.annotations?.[windlassAnnotation.command] !== undefined) return set;
  const { managedFields: _, ...metadata } = set.metadata;
  return { ...set, metadata };
}

/** The kept parts of a workload of another controller: whose it is, its replicas, and the selector of its pods. */
function trimWorkload({ apiVersion, kind, metadata, spec }: KubeObject & ScaledWorkload): KubeObject & ScaledWorkload {
  const ownerReferences = metadata.ownerReferences?.filter(({ controller }) => controller).slice(0, 1);
  const { replicas, selector } = spec;
  const isShort = selector !== undefined && JSON.stringify(selector).length <= longestText;
  return {
    apiVersion,
    kind,
    metadata: { ...identity(metadata), ...present({ ownerReferences }) },
    spec: { ...present({ replicas }), ...(isShort && { selector }) },
  };
}

interface ScaledWorkload {
  readonly spec: { readonly replicas?: number; readonly selector?: object };
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
  // The caller that requests a resource knows the type of its objects.
  return [keyOf(resource), (object: KubeObject) => trim(object as T)] as const;
}

function keyOf(resource: Resource): string {
  return `${apiVersionOf(resource)}/${resource.kind}`;
}

/** The trim functions of our own kinds. */
const trimsOfKinds: PerKind<ReturnType<typeof trimmed>> = {
  CloneSet: trimmed(cloneSets, trimSet),
  ContainerRecreateRequest: 'none',
  PodProbeMarker: 'none',
  NodePodProbe: 'none',
  ImageListPullJob: 'none',
  ImagePullJob: 'none',
  NodeImage: 'none',
  SidecarSet: trimmed(sidecarSets, trimSet),
  StatefulSet: trimmed(statefulSets, trimSet),
  DaemonSet: trimmed(daemonSets, trimSet),
};

const trims = new Map<string, (object: KubeObject) => KubeObject>([
  trimmed(kubeResource.pods, trimPod),
  trimmed(kubeResource.nodes, trimNode),
  trimmed(kubeResource.namespaces, trimNamespace),
  trimmed(kubeResource.configMaps, trimConfigMap),
  trimmed(kubeResource.controllerRevisions, trimRevision),
  trimmed(kubeResource.persistentVolumeClaims, trimClaim),
  trimmed(kubeResource.endpointSlices, trimSlice),
  trimmed(kubeResource.services, trimService),
  trimmed(kubeResource.deployments, trimWorkload),
  trimmed(kubeResource.statefulSets, trimWorkload),
  ...partsOf(trimsOfKinds),
]);

/** The fields that are not undefined. */
function present<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}
