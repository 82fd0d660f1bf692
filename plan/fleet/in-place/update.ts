/**
 * How a pod is updated in place, after that was decided (decide.ts).
 *
 * The update is a series of writes to one pod: out of service, then the record of the update together with the first
 * batch of containers, then later batches one after the other, and finally into service again (IPU-20…40). All progress
 * is stored in the pod, so any process can continue it, another one of ours or OpenKruise.
 *
 * Nothing here uses a clock or the API server. Writes are values: strategic merge patches, the first one to be sent
 * with the resourceVersion of the pod that was read, each later one with that of the previous answer. After a conflict
 * the caller reads and decides again.
 */

import { entryOf, isJsonList, isJsonObject, type Json, type JsonObject } from '../../../api/base/json.ts';
import { compareGoStrings } from '../../../api/base/json-go.ts';
import { sameQuantity } from '../../../api/base/quantity.ts';
import { timestamp, whenPassed } from '../../../api/base/time.ts';
import { launchPriority } from '../../../api/container-launch-priority.ts';
import type { Pod, PodCondition, ResourceRequirements } from '../../../api/core/pod.ts';
import { withPodUnready } from '../../../api/core/pod-readiness.ts';
import type { FeatureGates } from '../../../api/feature-gates.ts';
import { isAtRevision, revisionMark } from '../../../api/fleet/revision.ts';
import {
  hasInPlaceGate,
  inPlaceAnnotation,
  inPlaceReadinessGate,
  inPlaceReason,
} from '../../../api/in-place/annotations.ts';
import { formatGrace, graceOf, type InPlaceGrace } from '../../../api/in-place/grace.ts';
import { formatState, type InPlaceState, stateOf } from '../../../api/in-place/state.ts';
import {
  type ContainerWork,
  containersOf,
  type InPlaceChange,
  noWork,
  type RefMetadata,
} from '../../../api/in-place/work.ts';
import { isPodReady } from '../pods.ts';
import { type Unfinished, unfinishedContainers } from './completion.ts';

export {
  decideInPlace,
  type InPlaceDecision,
  type InPlaceQuestion,
  type PodUpdatePolicy,
  type RecreateCause,
  type RevisionContents,
} from './decide.ts';

/** A write of one pod: a strategic merge patch of the pod, of its status or of its resize subresource. */
export interface PodWrite {
  readonly kind: 'pod' | 'status' | 'resize';
  readonly patch: JsonObject;
}

export interface InPlaceStart {
  readonly pod: Pod;
  readonly change: InPlaceChange;
  /** The revision for the record: the full name, or the hash where the workload compares by hash (IPU 4.1). */
  readonly revision: string;
  /** What the first write to the pod itself adds: revision labels, the lifecycle state and its time. */
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly graceSeconds: number;
  readonly nowMs: number;
  readonly gates: Pick<FeatureGates, 'InPlaceWorkloadVerticalScaling'>;
  /** Whether the cluster resizes pods through a subresource. */
  readonly canResize: boolean;
}

/** How an update begins. */
export interface InPlaceBegin {
  /**
   * Takes the pod out of service. Nothing else may be written before it is accepted, and should not be written before
   * Services have seen it. Absent: the change does not interrupt the pod, or the pod has no gate.
   */
  readonly drain?: PodWrite;
  /** In this order. */
  readonly writes: readonly PodWrite[];
  /** When the grace period ends. Absent: there is none. */
  readonly againInMs?: number;
}

/**
 * How long a pod may be out of service for an update that is not recorded. The process that has taken it out may still
 * be waiting for Services, and putting it back meanwhile would let that update stop containers that are in service.
 */
export const drainPatienceMs = 30_000;

/**
 * Begins an update (IPU-20…26). Remaining work of an earlier update becomes part of its record, so that the pod does
 * not get into service before that is done, too.
 */
export function startInPlace(start: InPlaceStart): InPlaceBegin {
  const { pod, change, nowMs } = start;
  const graceSeconds = Math.max(0, start.graceSeconds);
  const state = withLeftovers(
    {
      revision: start.revision,
      updateTimestamp: timestamp(nowMs),
      updateEnvFromMetadata: change.updateEnvFromMetadata,
      updateResources: Object.keys(change.resources).length > 0,
      updateImages: Object.keys(change.images).length > 0,
      next: noWork,
      requiredReady: [],
      batches: [],
    },
    pod,
    start.gates,
  );

  const drain = mustDrain(pod, change, graceSeconds) ? { drain: statusPatch(pod, outOfService(pod, nowMs)) } : {};
  const patch = merge({ metadata: marksOf(start) }, withoutOldMarks(pod));
  if (graceSeconds === 0) return { ...drain, writes: firstBatch({ ...start, state, patch }) };

  const grace = formatGrace({ revision: start.revision, change, graceSeconds });
  const held = annotationsPatch({
    [inPlaceAnnotation.state]: formatState(state),
    [inPlaceAnnotation.grace]: grace,
  });
  const againInMs = whenPassed(state.updateTimestamp, graceSeconds) - nowMs;
  return { ...drain, writes: [{ kind: 'pod', patch: merge(patch, held) }], againInMs };
}

/** All that an update is going to write, without its record and for all containers at once: for a dry run. */
export function wholeInPlace(start: Omit<InPlaceStart, 'revision' | 'gates'>): readonly PodWrite[] {
  const { pod, change, canResize, nowMs } = start;
  const patch = merge(change.metadataPatch ?? {}, { metadata: marksOf(start) });
  return [
    ...(mustDrain(pod, change, start.graceSeconds) ? [statusPatch(pod, outOfService(pod, nowMs))] : []),
    ...workWrites({ pod, work: change, canResize, patch }),
  ];
}

function marksOf({ labels, annotations }: Pick<InPlaceStart, 'labels' | 'annotations'>): JsonObject {
  return { labels, ...(annotations && { annotations }) };
}

/** The next step of an update in progress. */
export type InPlaceRefresh =
  /** Nothing: there is no update, or it is complete. */
  | { readonly kind: 'none' }
  | {
      readonly kind: 'write';
      readonly step: 'graceOver' | 'graceDropped' | 'nextBatch' | 'intoService';
      /** In this order. */
      readonly writes: readonly PodWrite[];
    }
  | { readonly kind: 'wait'; readonly waitingFor: InPlaceWait; readonly againInMs?: number }
  /** The pod's annotations contradict each other, or are invalid. */
  | { readonly kind: 'broken'; readonly message: string };

/** What an update waits for. */
export type InPlaceWait =
  | { readonly reason: 'GracePeriod'; readonly containers: readonly string[] }
  /** The pod has been taken out of service, and nothing else has been written yet. */
  | { readonly reason: 'Draining'; readonly containers: readonly string[] }
  | Unfinished
  /** Patched containers have to be ready before the next batch. */
  | { readonly reason: 'BatchNotReady'; readonly containers: readonly string[] };

export interface RefreshInput {
  readonly pod: Pod;
  readonly nowMs: number;
  readonly gates: Pick<FeatureGates, 'InPlaceWorkloadVerticalScaling'>;
  /** Whether the cluster resizes pods through a subresource. */
  readonly canResize: boolean;
  /** The update for which it was drained has been refused: it goes back into service. Absent: none has. */
  readonly isRefused?: boolean;
}

/** Continues the update of a pod, or puts a pod that needs no update into service (IPU-27…40a). */
export function refreshInPlace(input: RefreshInput): InPlaceRefresh {
  const { pod, gates } = input;
  const name = `pod "${pod.metadata.namespace}/${pod.metadata.name}"`;
  const grace = graceOf(pod);
  const recorded = stateOf(pod);
  if (grace.kind === 'unreadable') return broken(name, inPlaceAnnotation.grace);
  if (recorded.kind === 'unreadable') return broken(name, inPlaceAnnotation.state);

  if (recorded.kind === 'absent') {
    // IPU-28
    if (grace.kind === 'value') {
      return { kind: 'broken', message: `Cannot end the grace period of ${name}: it has no record of an update` };
    }
    return intoService(input);
  }
  const state = recorded.value;
  if (grace.kind === 'value') return duringGrace({ ...input, state, grace: grace.value });

  const unfinished = unfinishedContainers(pod, state, gates);
  if (unfinished !== undefined) return { kind: 'wait', waitingFor: unfinished };
  if (containersOf(state.next).length === 0) return intoService(input, state);

  const notReady = state.requiredReady.filter((container) => !isReady(pod, container));
  if (notReady.length > 0) return { kind: 'wait', waitingFor: { reason: 'BatchNotReady', containers: notReady } };
  const writes = batchWrites({ ...input, state, work: state.next, patch: {} });
  return { kind: 'write', step: 'nextBatch', writes };
}

/** Whether a change does nothing but resize containers (IPU-15). */
export function isResizeOnly(change: InPlaceChange): boolean {
  const { images, resources, updateEnvFromMetadata } = change;
  return Object.keys(resources).length > 0 && Object.keys(images).length === 0 && !updateEnvFromMetadata;
}

/** The expected batches of containers: names in order (IPU-30). */
export function batchesOf(pod: Pod, work: ContainerWork): readonly (readonly string[])[] {
  const batches: (readonly string[])[] = [];
  for (let left = work; containersOf(left).length > 0; left = split(left, batches.at(-1) ?? []).rest) {
    batches.push(nextBatch(pod, left));
  }
  return batches;
}

/** The question to PodUnavailableBudgets before a pod is disrupted, in place or not (IPU-60). */
export interface BudgetQuestion {
  readonly operation: 'UPDATE';
  readonly user: 'kruise-manager';
}

/** The retry interval after a budget has refused a pod; the rest of the pass is skipped. */
export const budgetRetryMs = 1000;

/** The question to the budgets before each update; undefined where they are not asked. */
export function budgetQuestion(
  gates: Pick<FeatureGates, 'PodUnavailableBudgetUpdateGate'>,
): BudgetQuestion | undefined {
  return gates.PodUnavailableBudgetUpdateGate ? { operation: 'UPDATE', user: 'kruise-manager' } : undefined;
}

// Beginning and end.

/**
 * IPU-15, IPU-20: whether the change takes the pod out of service.
 *
 * A pod that is not Ready, and of which no container changes, has nothing to be taken out of (IPU-25). To close its gate and open it
 * again would do harm: a kubelet that is behind reports it as Ready because of the gate that was open before, and then
 * as not Ready because of the one that was closed meanwhile, when the next pod is out of service.
 */
function mustDrain(pod: Pod, change: InPlaceChange, graceSeconds: number): boolean {
  if (!hasInPlaceGate(pod)) return false;
  const isMetadataOnly = containersOf(change).length === 0;
  if (isMetadataOnly && graceSeconds === 0 && !isPodReady(pod)) return false;
  if (!isResizeOnly(change)) return true;
  return pod.spec.containers.some(({ name, resizePolicy }) => {
    const { limits, requests } = entryOf(change.resources, name) ?? {};
    const resized = [...Object.keys(limits ?? {}), ...Object.keys(requests ?? {})];
    return resizePolicy?.some(
      ({ resourceName, restartPolicy }) => restartPolicy === 'RestartContainer' && resized.includes(resourceName),
    );
  });
}

/** IPU-20, IPU-21. */
function outOfService(pod: Pod, nowMs: number): readonly PodCondition[] {
  return withPodUnready(pod, withGate(pod, { status: 'False', reason: inPlaceReason }, nowMs));
}

/** IPU-40 (d), IPU-40a. Ready is left to the kubelet. */
function intoService({ pod, nowMs, isRefused }: RefreshInput, state?: InPlaceState): InPlaceRefresh {
  const gate = gateOf(pod);
  const isOpen = gate?.status === 'True' && !gate.reason && !gate.message;
  if (!hasInPlaceGate(pod) || isOpen) return { kind: 'none' };

  const patienceMs = isRefused ? 0 : patienceLeftMs(gate, state, nowMs);
  const againInMs = Math.max(patienceMs, kubeletBehindMs(pod, gate, nowMs));
  if (againInMs > 0) return { kind: 'wait', waitingFor: { reason: 'Draining', containers: [] }, againInMs };
  const conditions = withGate(pod, { status: 'True' }, nowMs);
  return { kind: 'write', step: 'intoService', writes: [statusPatch(pod, conditions)] };
}

/** Whether the pod was taken out of service, for whichever update. */
export function isOutOfService(pod: Pod): boolean {
  return sinceRecordMs(gateOf(pod), undefined) !== undefined;
}

/** Whether that was in the second of the last record at the earliest. */
export function isOutForUpdate(pod: Pod): boolean {
  const recorded = stateOf(pod);
  if (recorded.kind === 'unreadable') return false;
  return (sinceRecordMs(gateOf(pod), recorded.kind === 'value' ? recorded.value : undefined) ?? -1) >= 0;
}

/** How long after everything recorded the pod went out of service, to the second. Undefined: it is in service. */
function sinceRecordMs(gate: PodCondition | undefined, state: InPlaceState | undefined): number | undefined {
  if (gate?.status !== 'False' || gate.reason !== inPlaceReason) return undefined;
  return Date.parse(gate.lastTransitionTime ?? '') - (state === undefined ? 0 : Date.parse(state.updateTimestamp));
}

/** How long a pod that went out of service after everything recorded is still waited for; 0 for any other. */
function patienceLeftMs(gate: PodCondition | undefined, state: InPlaceState | undefined, nowMs: number): number {
  if (!((sinceRecordMs(gate, state) ?? 0) > 0)) return 0;
  const drainedAtMs = Date.parse(gate?.lastTransitionTime ?? '');
  return Math.max(0, Math.min(drainedAtMs - nowMs, 0) + drainPatienceMs);
}

/**
 * How long to wait for a kubelet that has not seen yet that the pod is out of service; 0 for any other. It would report
 * the pod as Ready once more because of the gate that was open before, and then as not Ready because of this one, when the
 * pod is in service again and counts as such. It has not seen it where Ready is True, or as it was written with the gate (IPU-21):
 * a kubelet always gives the time of a change.
 */
function kubeletBehindMs(pod: Pod, gate: PodCondition | undefined, nowMs: number): number {
  const ready = pod.status?.conditions?.find(({ type }) => type === 'Ready');
  if (gate?.status !== 'False' || ready === undefined) return 0;
  if (ready.status !== 'True' && ready.lastTransitionTime) return 0;
  const drainedAtMs = Date.parse(gate.lastTransitionTime ?? '');
  if (Number.isNaN(drainedAtMs)) return 0;
  return Math.max(0, Math.min(drainedAtMs - nowMs, 0) + drainPatienceMs);
}

function gateOf(pod: Pod): PodCondition | undefined {
  return pod.status?.conditions?.find(({ type }) => type === inPlaceReadinessGate);
}

/** The conditions with that of the gate as wanted; its time changes with its status only (IPU-22). */
function withGate(pod: Pod, wanted: Pick<PodCondition, 'status' | 'reason'>, nowMs: number): readonly PodCondition[] {
  const conditions = pod.status?.conditions ?? [];
  const before = gateOf(pod);
  const since = before?.status === wanted.status ? (before.lastTransitionTime ?? null) : timestamp(nowMs);
  const gate: PodCondition = { type: inPlaceReadinessGate, ...wanted, lastTransitionTime: since };
  if (before === undefined) return [...conditions, gate];
  return conditions.map((condition) => (condition === before ? gate : condition));
}

/** A patch of the changed conditions only: the others belong to other writers. */
function statusPatch(pod: Pod, conditions: readonly PodCondition[]): PodWrite {
  const changed = conditions.filter((condition) => !pod.status?.conditions?.includes(condition));
  return {
    kind: 'status',
    patch: {
      status: {
        conditions: changed.map(({ type, status, reason, message, lastTransitionTime }) => ({
          type,
          status,
          reason: reason ?? null,
          message: message ?? null,
          lastTransitionTime: lastTransitionTime ?? null,
        })),
      },
    },
  };
}

/** The record of the new update, with the unfinished containers of the earlier one. */
function withLeftovers(state: InPlaceState, pod: Pod, gates: InPlaceStart['gates']): InPlaceState {
  const earlier = stateOf(pod);
  if (earlier.kind !== 'value' || unfinishedContainers(pod, earlier.value, gates) === undefined) return state;
  const { lastContainerStatuses, updateEnvFromMetadata, updateResources, updateImages } = earlier.value;
  return {
    ...state,
    ...(lastContainerStatuses && { lastContainerStatuses }),
    updateEnvFromMetadata: state.updateEnvFromMetadata || updateEnvFromMetadata,
    updateResources: state.updateResources || updateResources,
    updateImages: state.updateImages || updateImages,
  };
}

/** IPU-27 to IPU-29. */
function duringGrace(input: {
  readonly pod: Pod;
  readonly nowMs: number;
  readonly canResize: boolean;
  readonly state: InPlaceState;
  readonly grace: InPlaceGrace;
}): InPlaceRefresh {
  const { pod, nowMs, state, grace } = input;
  const over = withoutGrace(pod);
  if (!isAtRevision(pod.metadata.labels?.[revisionMark.podRevision], grace.revision)) {
    return { kind: 'write', step: 'graceDropped', writes: [{ kind: 'pod', patch: over }] };
  }

  const leftMs = whenPassed(state.updateTimestamp, grace.graceSeconds) - nowMs;
  if (leftMs > 0) {
    const waitingFor = { reason: 'GracePeriod', containers: containersOf(grace.change) } as const;
    return { kind: 'wait', waitingFor, againInMs: leftMs };
  }
  return { kind: 'write', step: 'graceOver', writes: firstBatch({ ...input, change: grace.change, patch: over }) };
}

// Batches.

interface BatchInput {
  readonly pod: Pod;
  readonly nowMs: number;
  readonly canResize: boolean;
  readonly state: InPlaceState;
  /** Other changes of the pod in the same write. */
  readonly patch: JsonObject;
}

function firstBatch({ change, ...input }: BatchInput & { readonly change: InPlaceChange }): readonly PodWrite[] {
  const patch = merge(change.metadataPatch ?? {}, input.patch);
  const writes = batchWrites({ ...input, work: change, patch });
  if (writes.every(({ kind }) => kind === 'pod')) return writes;

  // A resize cannot be written together with its record, and an unrecorded one could not be reverted: so all the work
  // is recorded as remaining first.
  const { images, refMetadata, resources } = change;
  const planned = formatState({ ...input.state, next: { images, refMetadata, resources } });
  return [
    { kind: 'pod', patch: merge(patch, annotationsPatch({ [inPlaceAnnotation.state]: planned })) },
    ...batchWrites({ ...input, work: change, patch: {} }),
  ];
}

/** IPU-31: patches the batch that is due, and records what is left. */
function batchWrites(input: BatchInput & { readonly work: ContainerWork }): readonly PodWrite[] {
  const { pod, nowMs, canResize, state, work } = input;
  const batch = nextBatch(pod, work);
  const { due, rest } = split(work, batch);
  const names = batch.filter((name) => has(pod, name)).toSorted(compareGoStrings);
  const { lastContainerStatuses, ...record } = state;
  const lastStatuses = { ...lastContainerStatuses, ...imageIds(pod, Object.keys(due.images)) };
  const after: InPlaceState = {
    ...record,
    ...(Object.keys(lastStatuses).length > 0 && { lastContainerStatuses: lastStatuses }),
    next: rest,
    requiredReady: containersOf(rest).length > 0 ? names : [],
    batches: [...state.batches, { timestamp: timestamp(nowMs), containers: names }],
  };

  const patch = merge(input.patch, annotationsPatch({ [inPlaceAnnotation.state]: formatState(after) }));
  return workWrites({ pod, work: due, canResize, patch });
}

/** The writes of this work on containers, with `patch` in the one to the pod itself. */
function workWrites({
  pod,
  work,
  canResize,
  patch,
}: Pick<BatchInput, 'pod' | 'canResize' | 'patch'> & { readonly work: ContainerWork }): readonly PodWrite[] {
  const resize = differingAmounts(pod, work);
  const resizesApart = canResize && Object.keys(resize).length > 0;
  const parts = [
    ...Object.values(work.refMetadata).map((ref) => ({ metadata: { ...ref } })),
    imagesPatch(pod, work),
    canResize ? {} : resize,
    patch,
  ];
  return [
    // IPU-14: before the other changes of the batch; when it was done already, the patch is empty.
    ...(resizesApart ? [{ kind: 'resize' as const, patch: resize }] : []),
    { kind: 'pod', patch: parts.reduce(merge, {}) },
  ];
}

function imagesPatch(pod: Pod, { images }: ContainerWork): JsonObject {
  return containersPatch(
    pod.spec.containers.flatMap(({ name }) => {
      const image = entryOf(images, name);
      return image === undefined ? [] : [{ name, image }];
    }),
  );
}

/** The containers to patch now, in the order of the pod (IPU-30). */
function nextBatch(pod: Pod, work: ContainerWork): readonly string[] {
  const pending = new Set(containersOf(work));
  const containers = pod.spec.containers.filter(({ name }) => pending.has(name));
  // Containers that the pod does not have can neither wait nor be waited for.
  const unknown = [...pending].filter((name) => !has(pod, name));
  const priorities = containers.map((container) => ({ name: container.name, priority: launchPriority(container) }));
  const highest = Math.max(...priorities.map(({ priority }) => priority ?? Number.NEGATIVE_INFINITY));
  const batch = new Set(
    priorities.filter(({ priority }) => priority === undefined || priority === highest).map(({ name }) => name),
  );

  // A key has one value for the whole pod: every container that refers to a key that changes now is changed now.
  for (let before = -1; before < batch.size; ) {
    before = batch.size;
    const keys = new Set([...batch].flatMap((name) => keysOf(work.refMetadata[name])));
    for (const { name } of containers) {
      if (keysOf(work.refMetadata[name]).some((key) => keys.has(key))) batch.add(name);
    }
  }
  return [...containers.map(({ name }) => name).filter((name) => batch.has(name)), ...unknown];
}

function keysOf(ref: RefMetadata | undefined): readonly string[] {
  return (['labels', 'annotations'] as const).flatMap((kind) =>
    Object.keys(ref?.[kind] ?? {}).map((key) => `${kind}/${key}`),
  );
}

function split(
  work: ContainerWork,
  batch: readonly string[],
): { readonly due: ContainerWork; readonly rest: ContainerWork } {
  return {
    due: only(work, (name) => batch.includes(name)),
    rest: only(work, (name) => !batch.includes(name)),
  };
}

function only({ images, refMetadata, resources }: ContainerWork, isWanted: (name: string) => boolean): ContainerWork {
  const part = <Value>(map: Readonly<Record<string, Value>>) =>
    Object.fromEntries(Object.entries(map).filter(([name]) => isWanted(name)));
  return { images: part(images), refMetadata: part(refMetadata), resources: part(resources) };
}

function imageIds(pod: Pod, names: readonly string[]): Readonly<Record<string, { readonly imageID: string }>> {
  const statuses = (pod.status?.containerStatuses ?? []).filter(({ name }) => names.includes(name));
  return Object.fromEntries(statuses.map(({ name, imageID = '' }) => [name, { imageID }]));
}

/** A patch of the resources that differ; empty when there are none. */
function differingAmounts(pod: Pod, { resources }: ContainerWork): JsonObject {
  return containersPatch(
    pod.spec.containers.flatMap(({ name, resources: real }) => {
      const wanted = entryOf(resources, name);
      const patch = wanted && differing(wanted, real);
      return patch && Object.keys(patch).length > 0 ? [{ name, resources: patch }] : [];
    }),
  );
}

function differing(wanted: ResourceRequirements, real: ResourceRequirements | undefined): JsonObject {
  const kinds = (['limits', 'requests'] as const).flatMap((kind) => {
    const changed = Object.entries(wanted[kind] ?? {}).filter(([resource, amount]) => {
      const present = real?.[kind]?.[resource];
      return present === undefined || !sameQuantity(present, amount);
    });
    return changed.length > 0 ? [[kind, Object.fromEntries(changed)] as const] : [];
  });
  return Object.fromEntries(kinds);
}

function has(pod: Pod, container: string): boolean {
  return pod.spec.containers.some(({ name }) => name === container);
}

function isReady(pod: Pod, name: string): boolean {
  return pod.status?.containerStatuses?.some((status) => status.name === name && status.ready) ?? false;
}

// Patches and templates as JSON.

function containersPatch(containers: readonly JsonObject[]): JsonObject {
  return containers.length > 0 ? { spec: { containers } } : {};
}

function annotationsPatch(annotations: Readonly<Record<string, string | null>>): JsonObject {
  return { metadata: { annotations } };
}

/** Removes the old keys, which a new record replaces, and a waiting change that is obsolete. */
function withoutOldMarks(pod: Pod): JsonObject {
  return merge(removal(pod, [inPlaceAnnotation.oldState]), withoutGrace(pod));
}

function withoutGrace(pod: Pod): JsonObject {
  return removal(pod, [inPlaceAnnotation.grace, inPlaceAnnotation.oldGrace]);
}

function removal(pod: Pod, keys: readonly string[]): JsonObject {
  const present = keys.filter((key) => pod.metadata.annotations?.[key] !== undefined);
  return present.length > 0 ? annotationsPatch(Object.fromEntries(present.map((key) => [key, null]))) : {};
}

/** Merges two patches; the later one wins. Containers are merged by name. */
function merge(earlier: JsonObject, later: JsonObject): JsonObject {
  const result: Record<string, Json | undefined> = { ...earlier };
  for (const [key, value] of Object.entries(later)) {
    const before = result[key];
    if (value === undefined) continue;
    if (isJsonObject(before) && isJsonObject(value)) result[key] = merge(before, value);
    else if (key === 'containers' && isJsonList(before) && isJsonList(value)) result[key] = joined(before, value);
    else result[key] = value;
  }
  return result;
}

function joined(earlier: readonly Json[], later: readonly Json[]): readonly Json[] {
  const all = [...earlier, ...later].filter(isJsonObject);
  const names = [...new Set(all.map(({ name }) => name))];
  return names.map((name) => all.filter((container) => container.name === name).reduce(merge, {}));
}

function broken(pod: string, key: string): InPlaceRefresh {
  return { kind: 'broken', message: `Cannot continue the update of ${pod}: annotation "${key}" cannot be read` };
}
