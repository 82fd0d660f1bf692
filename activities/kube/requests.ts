import { ApplicationFailure } from '@temporalio/common';
import { sameJson } from '../../api/base/json.ts';
import { jsonBytes } from '../../api/base/json-bytes.ts';
import { timestamp } from '../../api/base/time.ts';
import { recreateDefault } from '../../api/container-recreate-request/defaults.ts';
import type { RestartOperation } from '../../api/container-recreate-request/operation.ts';
import { preRecreateGrace, recreateCondition } from '../../api/container-recreate-request/texts.ts';
import {
  type ContainerRecreateRequest,
  type ContainerRecreateRequestStatus,
  crr,
  isCompleted,
} from '../../api/container-recreate-request/types.ts';
import { endIn, findCondition, type ObjectEnd } from '../../api/core/conditions.ts';
import type { Node } from '../../api/core/node.ts';
import { isFinished, type Pod } from '../../api/core/pod.ts';
import { hasReadinessGate, recreateKey, withReadinessKey } from '../../api/core/pod-readiness.ts';
import { type NodeRef, type ObjectRef, type PodRef, qualifiedName } from '../../api/core/refs.ts';
import {
  crrLabel,
  crrUnreadyFinalizer,
  eventComponent,
  kubeResource,
  windlassAnnotation,
} from '../../api/core/well-known.ts';
import type { WaitingFor } from '../../api/engine/waiting-for.ts';
import { isTerminationRequest } from '../../api/job-sidecar-termination.ts';
import type { KubeClient } from '../../kube/client.ts';
import { tellEvent } from '../../kube/events.ts';
import { isGone, toFailure } from '../../kube/failures.ts';
import { unlessGone } from '../../kube/moved-on.ts';
import { despiteConflicts } from '../../kube/retry-on-conflict.ts';
import type { ContainerBefore, RecreateOrder } from '../../plan/recreate/model.ts';
import { mergedStatus, type StatusDelta } from '../../plan/recreate/report.ts';
import { skipperOf } from '../../plan/recreate/status.ts';
import { nextPart, shortened, waitWithin } from '../../plan/text-size.ts';
import { type ReceivedCommand, tellOfCommand } from './operator-events.ts';

/**
 * The maximum size of a look's result as JSON, so that it fits into a history event; the rest comes with the next look.
 */
export const requestLookBytes = 3_800;

/** Texts in a status may have been written by others, and are cut to the length that we would write. */
const longestTextBytes = { message: 700, end: 1_500 } as const;

/** The number of recently seen requests that are remembered. */
const mostLastSeen = 100;

/** The current state of a request, its pod and its node. */
export type RequestLook =
  /** There is no request of this UID, or it is being deleted. */
  | { readonly kind: 'gone' }
  /** `end`: how, if its conditions say so. */
  | { readonly kind: 'finished'; readonly end?: ObjectEnd }
  | {
      readonly kind: 'open';
      readonly phase: '' | 'Pending' | 'Recreating';
      readonly createdAt: string;
      /** Absent: no limit. */
      readonly deadlineSeconds?: number;
      /** Prefix of the container IDs, without `://`. */
      readonly runtime: string;
      /** The pod of the UID in the request is gone or being deleted (CRR-11). */
      readonly podGone: boolean;
      /** Absent when there is no Node object of that name. */
      readonly node?: NodeRef;
      readonly order: RecreateOrder;
      readonly waitingFor?: WaitingFor;
      readonly containers: readonly ContainerBefore[];
      /** Whether the request names more containers than these. */
      readonly more: boolean;
    };

/** The cluster worker's activities for one request. */
export interface RequestActivities {
  /** Reads request, pod and node; of the containers those after the first `skip`. */
  lookAtRequest(input: { readonly operation: RestartOperation; readonly skip: number }): Promise<RequestLook>;
  /** Writes changes into the status. In a completed request only late container states are written. */
  reportRequest(input: { readonly request: ObjectRef; readonly delta: StatusDelta }): Promise<void>;
  /** Writes an Event about the request that names who sent the command. One Event per key. */
  announceCommand(input: ReceivedCommand & { readonly request: ObjectRef }): Promise<void>;
  /**
   * Records which instance a forced stop is about, so that a retry after a crash does not stop its successor. The first
   * record is kept, and is the result.
   */
  recordTarget(input: {
    readonly request: ObjectRef;
    readonly container: string;
    readonly containerId: string;
  }): Promise<{ readonly containerId: string }>;
  /**
   * Makes the pod unready if it has the readiness gate, and records the beginning of the drain in any case (CRR-22,
   * CRR-23). Returns that time, which stays once it is set, and whether the gate is held.
   */
  takeOutOfService(operation: RestartOperation): Promise<{ readonly since: string; readonly isHeld: boolean }>;
}

interface RequestMeans {
  readonly kube: Pick<KubeClient, 'get' | 'patch' | 'create'>;
  readonly now: () => Date;
  readonly lastSeen: LastSeen;
}

/** Every activity may run twice, and acts only on the request of the given UID. */
export function requestActivities(dependencies: Omit<RequestMeans, 'lastSeen'>): RequestActivities {
  const means: RequestMeans = { ...dependencies, lastSeen: new LastSeen() };
  return {
    lookAtRequest: ({ operation, skip }) => lookAtRequest(operation, skip, means),
    reportRequest: ({ request, delta }) => reportRequest(request, delta, means),
    async announceCommand({ request: ref, ...heard }) {
      const shown = { component: eventComponent.recreate, atMs: means.now().getTime() };
      await tellOfCommand(means.kube, { resource: crr, ref }, heard, shown);
    },
    recordTarget: ({ request, ...target }) => recordTarget(request, target, means),
    takeOutOfService: (operation) => takeOutOfService(operation, means),
  };
}

/** A write to a request, and the beginning of its failure message. */
interface Attempted {
  readonly request: ObjectRef;
  readonly attempted: string;
}

async function lookAtRequest(
  { request, pod, node }: RestartOperation,
  skip: number,
  { kube, lastSeen }: RequestMeans,
): Promise<RequestLook> {
  try {
    const [live, livePod, liveNode] = await Promise.all([
      unlessGone<ContainerRecreateRequest>(kube.get(crr, request)),
      unlessGone<Pod>(kube.get(kubeResource.pods, pod)),
      unlessGone<Node>(kube.get(kubeResource.nodes, { name: node.name })),
    ]);
    if (live?.metadata.uid !== request.uid || live.metadata.deletionTimestamp !== undefined) return { kind: 'gone' };
    if (isCompleted(live)) return finished(live);
    lastSeen.keep(live);
    return openRequest(live, livePod?.metadata.uid === pod.uid ? livePod : undefined, liveNode, skip);
  } catch (error) {
    throw toFailure(error, `Cannot read ${crr.kind} "${qualifiedName(request)}"`);
  }
}

async function reportRequest(request: ObjectRef, delta: StatusDelta, means: RequestMeans): Promise<void> {
  const { kube, now } = means;
  const attempted = `Cannot write the status of ${crr.kind} "${qualifiedName(request)}"`;
  const written = await changeStatus({ request, attempted }, means, (live) =>
    mergedStatus(live.status, delta, {
      containers: live.spec.containers.map(({ name }) => name),
      generation: live.metadata.generation ?? 0,
      at: timestamp(now().getTime()),
    }),
  );
  if (delta.phase === 'Recreating' && written) await stampPod(written, means);
  if (delta.condition && written) {
    const { type, reason, message } = delta.condition;
    await tellEvent(kube, {
      about: written,
      component: eventComponent.recreate,
      type: type === 'Complete' ? 'Normal' : 'Warning',
      reason,
      message,
      atMs: now().getTime(),
      key: request.uid,
    });
  }
}

async function recordTarget(
  request: ObjectRef,
  { container, containerId }: { readonly container: string; readonly containerId: string },
  means: RequestMeans,
): Promise<{ readonly containerId: string }> {
  const attempted = `Cannot record the target in ${crr.kind} "${qualifiedName(request)}"`;
  const written = await changeStatus({ request, attempted }, means, (live) => {
    if (!isOpen(live)) throw superseded(attempted, 'it has ended');
    return withTarget(live, container, containerId);
  });
  if (!written) throw superseded(attempted, 'it is gone');
  const state = written.status?.containerRecreateStates?.find(({ name }) => name === container);
  return { containerId: state?.targetContainerID ?? containerId };
}

async function takeOutOfService(
  { request, pod }: RestartOperation,
  means: RequestMeans,
): Promise<{ readonly since: string; readonly isHeld: boolean }> {
  const attempted = `Cannot take pod "${qualifiedName(pod)}" out of service`;
  const isHeld = await hold({ request, attempted }, pod, means);
  const since = timestamp(means.now().getTime());
  const written = await changeStatus({ request, attempted }, means, ({ status }) => {
    const conditions = status?.conditions ?? [];
    // CRR-22: only once, however often this activity runs
    if (findCondition(conditions, recreateCondition.preRecreateGrace)) return status;
    return { ...(status ?? { phase: '' }), conditions: [...conditions, preRecreateGrace(since)] };
  });
  if (!written) throw superseded(attempted, 'the request is gone');
  const marked = findCondition(written.status?.conditions, recreateCondition.preRecreateGrace);
  return { since: marked?.lastTransitionTime ?? since, isHeld };
}

/** Holds the pod's readiness gate unless the drain has begun already. Returns whether the pod has such a gate. */
async function hold(
  { request, attempted }: Attempted,
  pod: PodRef,
  { kube, now, lastSeen }: RequestMeans,
): Promise<boolean> {
  lastSeen.take(request.uid); // it changes when the finalizer is added
  try {
    return await despiteConflicts(async () => {
      const live = await unlessGone<ContainerRecreateRequest>(kube.get(crr, request));
      if (live?.metadata.uid !== request.uid || !isOpen(live)) throw superseded(attempted, 'the request has ended');
      if (findCondition(live.status?.conditions, recreateCondition.preRecreateGrace)) {
        return live.metadata.finalizers?.includes(crrUnreadyFinalizer) ?? false;
      }

      const livePod = await unlessGone<Pod>(kube.get(kubeResource.pods, pod));
      if (!livePod || livePod.metadata.uid !== pod.uid || !hasReadinessGate(livePod)) return false;
      // the finalizer comes first: it guarantees that the key is released whatever happens to the request (CRR-10)
      await addFinalizer(live, kube);
      const conditions = withReadinessKey(livePod, recreateKey(request), timestamp(now().getTime()));
      if (!conditions) return true;
      const { uid, resourceVersion } = livePod.metadata;
      const body = { metadata: { uid, resourceVersion }, status: { conditions } };
      await kube.patch(kubeResource.pods, pod, 'merge', body, { subresource: 'status' });
      return true;
    });
  } catch (error) {
    throw toFailure(error, attempted);
  }
}

/** Marks restarts of this pod as planned from now on, for alerts. Nothing depends on it. */
async function stampPod({ metadata, spec }: ContainerRecreateRequest, { kube, now }: RequestMeans): Promise<void> {
  const stamp = { request: qualifiedName(metadata), at: timestamp(now().getTime()), reason: crr.kind };
  const body = {
    metadata: {
      uid: metadata.labels?.[crrLabel.podUid],
      annotations: { [windlassAnnotation.plannedRestart]: JSON.stringify(stamp) },
    },
  };
  const pod = { namespace: metadata.namespace ?? '', name: spec.podName };
  await kube.patch(kubeResource.pods, pod, 'merge', body, { subresource: 'status' }).catch(() => undefined);
}

async function addFinalizer({ metadata }: ContainerRecreateRequest, kube: RequestMeans['kube']): Promise<void> {
  const { namespace = '', name, uid, resourceVersion, finalizers = [] } = metadata;
  if (finalizers.includes(crrUnreadyFinalizer)) return;
  const body = { metadata: { uid, resourceVersion, finalizers: [...finalizers, crrUnreadyFinalizer] } };
  await kube.patch(crr, { namespace, name }, 'merge', body);
}

/**
 * Reads, changes and writes the status, again after a conflict. Writes nothing when nothing has changed.
 *
 * The request as seen last is mostly current, and need not be read again for a write that is conditional on its
 * version.
 */
async function changeStatus(
  { request, attempted }: Attempted,
  { kube, lastSeen }: RequestMeans,
  change: (live: ContainerRecreateRequest) => ContainerRecreateRequestStatus | undefined,
): Promise<ContainerRecreateRequest | undefined> {
  try {
    return await despiteConflicts(async () => {
      const known = lastSeen.take(request.uid);
      // whether there is anything to write is decided on the current object, so it is read for that
      const isChange = known !== undefined && !sameJson(change(known), known.status);
      const live = isChange ? known : await kube.get<ContainerRecreateRequest>(crr, request);
      if (live.metadata.uid !== request.uid) return undefined;
      const status = change(live);
      if (sameJson(status, live.status)) return live;
      const replaced = [
        { op: 'test', path: '/metadata/uid', value: request.uid },
        { op: 'test', path: '/metadata/resourceVersion', value: live.metadata.resourceVersion },
        { op: 'add', path: '/status', value: status },
      ];
      const options = { subresource: 'status' } as const;
      const written = await kube.patch<ContainerRecreateRequest>(crr, request, 'json', replaced, options);
      if (isOpen(written)) lastSeen.keep(written);
      return written;
    });
  } catch (error) {
    if (isGone(error)) return undefined;
    throw toFailure(error, attempted);
  }
}

/** The requests that this process has seen last, of the few in progress. Each can be taken once. */
class LastSeen {
  /** The oldest come first. */
  readonly #requests = new Map<string, ContainerRecreateRequest>();

  keep(request: ContainerRecreateRequest): void {
    this.#requests.delete(request.metadata.uid);
    this.#requests.set(request.metadata.uid, request);
    const [eldest] = this.#requests.size > mostLastSeen ? this.#requests.keys() : [];
    if (eldest !== undefined) this.#requests.delete(eldest);
  }

  take(uid: string): ContainerRecreateRequest | undefined {
    const request = this.#requests.get(uid);
    this.#requests.delete(uid);
    return request;
  }
}

/** Whether the request is still open. */
function isOpen(request: ContainerRecreateRequest): boolean {
  return request.metadata.deletionTimestamp === undefined && !isCompleted(request);
}

function withTarget(
  { spec, status }: ContainerRecreateRequest,
  container: string,
  containerId: string,
): ContainerRecreateRequestStatus {
  const order = (name: string) => spec.containers.findIndex((listed) => listed.name === name);
  const states = status?.containerRecreateStates ?? [];
  const before = states.find(({ name }) => name === container) ?? { name: container, phase: 'Pending' as const };
  const after = { ...before, targetContainerID: before.targetContainerID ?? containerId };
  return {
    ...(status ?? { phase: '' as const }),
    containerRecreateStates: [...states.filter(({ name }) => name !== container), after].toSorted(
      (a, b) => order(a.name) - order(b.name),
    ),
  };
}

function superseded(attempted: string, why: string): ApplicationFailure {
  return ApplicationFailure.create({ type: 'Superseded', nonRetryable: true, message: `${attempted}: ${why}` });
}

function finished({ status }: ContainerRecreateRequest): RequestLook {
  const end = endIn(status?.conditions);
  if (end === undefined) return { kind: 'finished' };
  return { kind: 'finished', end: { ...end, message: shortened(end.message, longestTextBytes.end) } };
}

function openRequest(
  request: ContainerRecreateRequest,
  pod: Pod | undefined,
  node: Node | undefined,
  skip: number,
): RequestLook {
  const { spec, status, metadata } = request;
  const look = {
    kind: 'open',
    phase: status?.phase === 'Pending' || status?.phase === 'Recreating' ? status.phase : '',
    createdAt: metadata.creationTimestamp,
    ...(spec.activeDeadlineSeconds === undefined ? {} : { deadlineSeconds: spec.activeDeadlineSeconds }),
    runtime: splitId(spec.containers[0]?.statusContext?.containerID).runtime,
    // a completed pod still exists: its containers do not restart, and the request stays open (CRR-46)
    podGone: pod === undefined || pod.metadata.deletionTimestamp !== undefined,
    ...(node ? { node: { name: node.metadata.name, uid: node.metadata.uid } } : {}),
    order: orderOf(request, pod),
    ...(status?.waitingFor ? { waitingFor: waitWithin(status.waitingFor) } : {}),
  } as const;
  const room = requestLookBytes - jsonBytes({ ...look, containers: [], more: true });
  const containers = nextPart(containersBefore(request, skip), room);
  return { ...look, containers, more: skip + containers.length < spec.containers.length };
}

function orderOf(request: ContainerRecreateRequest, pod: Pod | undefined): RecreateOrder {
  const { metadata, spec } = request;
  const strategy = spec.strategy ?? {};
  return {
    request: metadata.name,
    pod: spec.podName,
    ordered: strategy.orderedRecreate ?? false,
    force: strategy.forceRecreate ?? false,
    failurePolicy: strategy.failurePolicy ?? recreateDefault.failurePolicy,
    graceSeconds: strategy.terminationGracePeriodSeconds ?? recreateDefault.terminationGracePeriodSeconds,
    minStartedSeconds: strategy.minStartedSeconds ?? recreateDefault.minStartedSeconds,
    ...(strategy.unreadyGracePeriodSeconds === undefined
      ? {}
      : { unreadyGraceSeconds: strategy.unreadyGracePeriodSeconds }),
    ...(pod && (pod.spec.restartPolicy === 'Never' || isFinished(pod)) ? { neverRestarts: true } : {}),
    ...(isTerminationRequest(request) ? { stopOnly: true } : {}),
  };
}

/** The maximum number, regardless of their size: no result has room for more. */
const mostContainers = 40;

function containersBefore({ spec, status }: ContainerRecreateRequest, skip: number): readonly ContainerBefore[] {
  const states = new Map(status?.containerRecreateStates?.map((state) => [state.name, state]));
  return spec.containers.slice(skip, skip + mostContainers).map(({ name, statusContext }) => {
    const state = states.get(name);
    const skippedBy = state && skipperOf(state);
    return {
      name,
      phase: state?.phase ?? 'Pending',
      isKilled: state?.isKilled ?? false,
      ...(state?.message === undefined ? {} : { message: shortened(state.message, longestTextBytes.message) }),
      originalId: splitId(statusContext?.containerID).id,
      originalRestartCount: statusContext?.restartCount ?? 0,
      ...(state?.targetContainerID === undefined ? {} : { targetId: state.targetContainerID }),
      ...(skippedBy === undefined ? {} : { skippedBy }),
    };
  });
}

/** `<runtime>://<id>` */
function splitId(containerID = ''): { readonly runtime: string; readonly id: string } {
  const [runtime = '', id = ''] = containerID.split('://');
  return { runtime, id };
}
