/**
 * What the watcher does for ContainerRecreateRequests. Everything is looked at pod by pod: one pass sees all requests of
 * one pod, starts the operation of the first, lets the others wait visibly, and gives back what finished ones hold.
 *
 * The same operation refreshes the environment of the pod, for which there is no request. It goes before requests that
 * have not begun: it takes no longer than a stop, and what they wait for may never come with the old environment.
 */

import { fnv1a } from '../../../api/base/fnv.ts';
import { sameJson } from '../../../api/base/json.ts';
import { timestamp } from '../../../api/base/time.ts';
import {
  type RestartChanged,
  type RestartOperation,
  restartContainersId,
  restartContainersType,
} from '../../../api/container-recreate-request/operation.ts';
import {
  type ContainerRecreateRequest,
  crr,
  describeErrors,
  type FailedReason,
  fillRecreateSpec,
  isCompleted,
  isFilled,
  recreateCondition,
  recreateMessage,
  recreateWait,
  recreateWaits,
  virtualLabel,
} from '../../../api/container-recreate-request/types.ts';
import { withCondition } from '../../../api/core/conditions.ts';
import type { Node } from '../../../api/core/node.ts';
import type { Pod } from '../../../api/core/pod.ts';
import { heldKeys, recreateKey, requestOfKey, withoutReadinessKey } from '../../../api/core/pod-readiness.ts';
import { crrLabel, crrUnreadyFinalizer, eventComponent, kubeResource } from '../../../api/core/well-known.ts';
import { isEngineReason } from '../../../api/engine/engine-trouble.ts';
import { commandEvent, commandNames, queues } from '../../../api/engine/operations.ts';
import type { WaitingFor } from '../../../api/engine/waiting-for.ts';
import type { Cache } from '../../../kube/cache.ts';
import type { KubeClient } from '../../../kube/client.ts';
import { tellEvent } from '../../../kube/events.ts';
import type { PassResult } from '../../../kube/keyed-queue.ts';
import { unlessGone, unlessMovedOn } from '../../../kube/moved-on.ts';
import type { OperationState } from '../../../workers/metrics.ts';
import { skippedMessage, skipperOf } from '../../../workflows/plan/recreate/recreate-containers.ts';
import { isPaused, type RequestQueue, requestQueue } from '../../../workflows/plan/recreate/request-queue.ts';
import type { Controller, ControllerContext } from '../../controller.ts';
import { type AnnotatedCommand, type Commanded, passOnCommand } from '../../operator-commands.ts';
import type { Starter, WantedOperation } from '../../starter.ts';
import { environmentRefresh, isEnvironmentStale, type RefreshGates } from '../pod/environment-refresh.ts';
import { changePodConditions } from './pod-readiness.ts';

/** The index of requests by the UID of their pod. */
export const requestsByPod = 'podUid';

/** Index functions of the cache of requests. */
export const requestIndexes = {
  [requestsByPod]: (request: ContainerRecreateRequest): readonly string[] => [podUidOf(request)],
};

export interface RequestPassDependencies {
  readonly kube: Pick<KubeClient, 'get' | 'patch' | 'delete' | 'create'>;
  readonly requests: Cache<ContainerRecreateRequest>;
  readonly pods: Cache<Pod>;
  readonly nodes: Cache<Node>;
  readonly starter: Pick<Starter, 'want' | 'forget' | 'tell' | 'command' | 'isSent' | 'trouble'>;
  readonly gates: RefreshGates;
  readonly now: () => number;
}

/** Sees that each pod's requests are worked on, one after the other, and that finished ones hold nothing. */
export function recreateRequests({
  kube,
  starter,
  config,
  now,
  isLeading,
  cache,
  queue,
}: ControllerContext): Controller {
  const requests = cache<ContainerRecreateRequest>(crr, requestIndexes);
  const pods = cache<Pod>(kubeResource.pods);
  const nodes = cache<Node>(kubeResource.nodes);
  const gates = config.featureGates;
  const world: RequestPassDependencies = { kube, requests, pods, nodes, starter, gates, now };
  const passes = queue('requests', (podUid) => passOverRequests(podUid, world));
  const wantAll = () => {
    for (const request of requests.all()) passes.add(podUidOf(request));
    for (const pod of pods.all()) if (isEnvironmentStale(pod, gates)) passes.add(pod.metadata.uid);
  };

  requests.onChange(({ before, after }) => {
    const request = after ?? before;
    if (!request || !isLeading()) return;
    passes.add(podUidOf(request));
    if (before && isGoing(after) && !isGoing(before)) void tellWithdrawn(before, world);
  });
  pods.onChange(({ before, after }) => {
    const uid = (after ?? before)?.metadata.uid;
    if (uid === undefined || !isLeading()) return;
    const concernsRequests = isGoing(after) && requests.byIndex(requestsByPod, uid).length > 0;
    if (concernsRequests || isEnvironmentStale(before, gates) || isEnvironmentStale(after, gates)) passes.add(uid);
  });
  nodes.onChange(({ before, after }) => {
    // rare: a node came, went, or came back as another
    if (isLeading() && before?.metadata.uid !== after?.metadata.uid) wantAll();
  });
  return {
    wantAll,
    workflowTypes: [restartContainersType],
    operations: () => ({ kind: crr.kind, states: [...requests.all()].map(operationState) }),
  };
}

function isGoing(object: { readonly metadata: { readonly deletionTimestamp?: string } } | undefined): boolean {
  return object === undefined || object.metadata.deletionTimestamp !== undefined;
}

function operationState({ status }: ContainerRecreateRequest): OperationState {
  const waitingFor = status?.waitingFor;
  return {
    phase: status?.phase || 'New',
    ...(waitingFor && { waiting: { reason: waitingFor.reason, sinceMs: Date.parse(waitingFor.since) } }),
  };
}

/** The label that ties a request to its pod; empty for one that admission has not seen. */
export function podUidOf(request: ContainerRecreateRequest): string {
  return request.metadata.labels?.[crrLabel.podUid] ?? '';
}

/** One pass over all requests of one pod. What needs no Temporal comes first, so that its absence holds nothing up. */
export async function passOverRequests(
  podUid: string,
  world: RequestPassDependencies,
): Promise<PassResult | undefined> {
  const requests = world.requests.byIndex(requestsByPod, podUid);
  const open = requestQueue(requests);
  const refresh = hasBegun(open.first) ? undefined : environmentRefresh(world.pods.byUid(podUid), world);
  const queue = refresh ? { behind: open.first ? [open.first, ...open.behind] : [] } : open;

  if (refresh) world.starter.want(refresh);
  else if (queue.first && isFilled(queue.first)) wantOperation(queue.first, podUid, world);
  else if (!queue.first) world.starter.forget(restartContainersId(podUid));

  const inFront = refresh
    ? { blockedBy: [`pod/${refresh.about.name}`], unblock: await tellOfRefresh(refresh, podUid, world) }
    : { blockedBy: [`crr/${queue.first?.metadata.name ?? ''}`] };
  const due = [await writeWaits(queue, inFront, world)];
  await Promise.all(requests.filter(holds).map((request) => release(request, world)));
  due.push(await removeExpired(requests, world));
  for (const request of requests) {
    const workflowId = restartContainersId(podUid);
    const commanded = commandedOf(request, queue, workflowId, world);
    due.push(await passOnCommand(request, crr, commandNames, commanded, world));
  }
  await fill(queue, podUid, world);
  return earliest(due);
}

/** Whom a command about this request is for. One that waits for its turn has nobody in Temporal who works on it. */
function commandedOf(
  request: ContainerRecreateRequest,
  { first, behind }: RequestQueue,
  workflowId: string,
  world: RequestPassDependencies,
): Commanded {
  // the run may still be that of the request before: it keeps the command for the next
  if (request === first) return { kind: 'running', workflowId, request: request.metadata.uid };
  if (!behind.includes(request)) return { kind: 'nobody' };
  return { kind: 'here', obey: async (command) => await obeyInQueue(request, command, world) };
}

/**
 * Writes into requests what admission has left out where it does not know its caller (CRR-5 to CRR-8), before anything is
 * started for them: the containers as they are now, so that what is replaced later counts as replaced. One that names
 * containers that cannot be restarted ends. Only the webhook of the suite lets this write pass, and only once.
 */
async function fill({ first, behind }: RequestQueue, podUid: string, world: RequestPassDependencies): Promise<void> {
  const unfilled = [...(first ? [first] : []), ...behind].filter((request) => !isFilled(request));
  const [next] = unfilled;
  if (next === undefined) return;
  const ref = { namespace: next.metadata.namespace ?? '', name: next.spec.podName };
  const pod = await unlessGone(world.kube.get<Pod>(kubeResource.pods, ref));
  const isGone = pod === undefined || pod.metadata.uid !== podUid || pod.metadata.deletionTimestamp !== undefined;
  // the operation says so, and needs nothing else for that
  if (isGone) return next === first ? wantOperation(next, podUid, world) : undefined;
  for (const request of unfilled) await fillOne(request, pod, world);
}

async function fillOne(request: ContainerRecreateRequest, pod: Pod, world: RequestPassDependencies): Promise<void> {
  const { uid, resourceVersion, labels = {} } = request.metadata;
  const filled = fillRecreateSpec(request.spec, pod, request.metadata.creationTimestamp);
  if (filled.kind === 'refused') {
    const problems = describeErrors(filled.errors).slice(0, longestProblems);
    await writeEnd(request, world, { reason: 'InvalidRequest', message: problems, text: problems });
    return;
  }
  const node = world.nodes.byName('', labels[crrLabel.nodeName] ?? '');
  const changes = [
    { op: 'test', path: '/metadata/uid', value: uid },
    { op: 'test', path: '/metadata/resourceVersion', value: resourceVersion },
    { op: 'add', path: '/metadata/labels', value: { ...labels, ...virtualLabel(node) } },
    { op: 'add', path: '/spec', value: filled.spec },
  ];
  await unlessMovedOn(world.kube.patch(crr, nameOf(request), 'json', changes));
}

/** A status with more would say no more. */
const longestProblems = 8_000;

function earliest(results: readonly (PassResult | undefined)[]): PassResult | undefined {
  const times = results.flatMap((result) => result?.againInMs ?? []);
  return times.length === 0 ? undefined : { againInMs: Math.min(...times) };
}

/** Tells the operation of a request that went away, so that it stops no further container. */
export async function tellWithdrawn(request: ContainerRecreateRequest, world: RequestPassDependencies): Promise<void> {
  const podUid = podUidOf(request);
  if (isCompleted(request) || podUid === '') return;
  const operation = operationOf(request, podUid, world.nodes);
  const change: RestartChanged = { operation, generation: generationOf(request), withdrawn: true };
  await world.starter.tell(restartContainersId(podUid), change);
}

/** Takes keys off pods whose request is finished or no longer exists, whoever failed to do it (PRG-21). */
export async function releaseDeadKeys(
  pod: Pod,
  world: Pick<RequestPassDependencies, 'kube' | 'requests' | 'now'>,
): Promise<void> {
  for (const key of heldKeys(pod.status?.conditions)) {
    const holder = requestOfKey(key);
    if (!holder) continue;
    const request = world.requests.byName(holder.namespace, holder.name);
    const alive = request && !isCompleted(request) && podUidOf(request) === pod.metadata.uid;
    // with the finalizer still there the pass over requests does it, and takes off the finalizer afterwards
    if (!alive && !request?.metadata.finalizers?.includes(crrUnreadyFinalizer)) {
      await releaseKey(pod.metadata, holder, world);
    }
  }
}

function wantOperation(request: ContainerRecreateRequest, podUid: string, world: RequestPassDependencies): void {
  const operation = operationOf(request, podUid, world.nodes);
  const pod = world.pods.byUid(podUid);
  const podGone = pod === undefined || pod.metadata.deletionTimestamp !== undefined;
  const { namespace = '', uid } = request.metadata;
  const change: RestartChanged = { operation, generation: generationOf(request) };
  // who runs has to take back what was written over its own words
  const reason = request.status?.waitingFor?.reason;
  const isWrittenOver = isEngineReason(reason) || (reason === 'Queued' && hasBegun(request));
  world.starter.want({
    workflowId: restartContainersId(podUid),
    workflowType: restartContainersType,
    taskQueue: queues.cluster,
    argument: operation,
    change,
    inputs: JSON.stringify([uid, change.generation, podGone, operation.node.uid, isWrittenOver]),
    summary: `restart containers of pod ${namespace}/${request.spec.podName}`,
    about: { kind: crr.kind, namespace, name: request.metadata.name, node: operation.node.name },
  });
}

function operationOf(request: ContainerRecreateRequest, podUid: string, nodes: Cache<Node>): RestartOperation {
  const { namespace = '', name, uid, labels } = request.metadata;
  const nodeName = labels?.[crrLabel.nodeName] ?? '';
  return {
    request: { namespace, name, uid },
    pod: { namespace, name: request.spec.podName, uid: podUid },
    // a node that is gone keeps its name in the queue's name, where nobody listens: its silence is then noticed
    node: { name: nodeName, uid: nodes.byName('', nodeName)?.metadata.uid ?? `gone-${nodeName}` },
  };
}

function hasBegun(request: ContainerRecreateRequest | undefined): boolean {
  return request?.status?.phase === 'Recreating';
}

function generationOf({ metadata }: ContainerRecreateRequest): number {
  return metadata.generation ?? 0;
}

const behindRefresh = 'Nothing to do: containers of the pod are restarted for an update in place';

/**
 * Answers what a person can do about a refresh that requests wait for. There is no object of it that could say that it does
 * not go on, so an Event of its pod does.
 */
async function tellOfRefresh(
  { workflowId }: WantedOperation,
  podUid: string,
  { pods, kube, starter, now }: RequestPassDependencies,
): Promise<string> {
  const trouble = starter.trouble(workflowId);
  const pod = pods.byUid(podUid);
  if (trouble === undefined || pod === undefined) return behindRefresh;
  const message = trouble.unblock ?? recreateWaits[trouble.reason];
  await tellEvent(kube, {
    about: { apiVersion: 'v1', kind: 'Pod', metadata: pod.metadata },
    component: eventComponent.recreate,
    ...{ type: 'Warning', reason: trouble.reason, message },
    atMs: now(),
    key: fnv1a(`${podUid} ${message}`).toString(16),
  });
  return message;
}

/**
 * A request that cannot continue reports why: it is queued behind another one, or Temporal does not run its operation. The
 * deadline of a request runs in the queue, too (CRR-13); once its turn has come, the operation enforces it.
 */
async function writeWaits(
  { first, behind }: RequestQueue,
  inFront: { readonly blockedBy: readonly string[]; readonly unblock?: string },
  world: RequestPassDependencies,
): Promise<PassResult | undefined> {
  const since = timestamp(world.now());
  const due: PassResult[] = [];
  for (const request of behind) {
    const leftMs = timeLeftMs(request, world.now());
    if (leftMs !== undefined && leftMs <= 0) {
      await endInQueue(request, world);
      continue;
    }
    if (leftMs !== undefined) due.push({ againInMs: leftMs });
    // a pause stays in sight: the status is what keeps it until the request is resumed
    if (isPaused(request)) continue;
    await writeWait(request, recreateWait('Queued', { ...inFront, since }), 'Pending', world);
  }
  // a pause stays in sight: the status is what keeps it should the operation begin anew
  if (first && !isPaused(first)) {
    const trouble = world.starter.trouble(restartContainersId(podUidOf(first)), first.status?.waitingFor?.reason ?? '');
    if (trouble) await writeWait(first, recreateWait(trouble.reason, { ...trouble, since }), undefined, world);
  }
  return earliest(due);
}

/** Until the deadline; undefined when there is none, or when the operation of the request looks after it. */
function timeLeftMs({ spec, status, metadata }: ContainerRecreateRequest, now: number): number | undefined {
  if (spec.activeDeadlineSeconds === undefined || status?.phase === 'Recreating') return undefined;
  return Date.parse(metadata.creationTimestamp) + spec.activeDeadlineSeconds * 1000 - now;
}

/** Ends a request whose turn has not come before its deadline. */
async function endInQueue(request: ContainerRecreateRequest, world: RequestPassDependencies): Promise<void> {
  const { podName } = request.spec;
  await writeEnd(request, world, {
    reason: 'DeadlineExceeded',
    text: recreateMessage.deadlineExceeded,
    message: `activeDeadlineSeconds passed while this request was queued: no container of pod "${podName}" was recreated`,
  });
}

async function writeEnd(
  request: ContainerRecreateRequest,
  world: RequestPassDependencies,
  { reason, text, message }: { readonly reason: FailedReason; readonly text: string; readonly message: string },
): Promise<boolean> {
  const at = timestamp(world.now());
  const condition = { type: recreateCondition.failed, status: 'True', reason, message } as const;
  return await writeStatus(request, world, {
    phase: 'Completed',
    completionTime: at,
    message: text,
    conditions: withCondition(request.status?.conditions, condition, at),
    waitingFor: null,
    observedGeneration: generationOf(request),
  });
}

/**
 * Obeys a command about a request that waits for its turn, by writing it where the operation of the request will find it:
 * a pause in what it waits for, a skip in the state of the container. False when the request has changed meanwhile. May be
 * done twice, so a skip without target is always about the first container.
 */
async function obeyInQueue(
  request: ContainerRecreateRequest,
  { name, target, by, id }: AnnotatedCommand,
  world: RequestPassDependencies,
): Promise<boolean> {
  const { status, spec } = request;
  const since = timestamp(world.now());
  const isWritten = await write();
  if (!isWritten) return false;
  await tellEvent(world.kube, {
    about: request,
    component: eventComponent.recreate,
    type: 'Normal',
    ...commandEvent(name, by, target),
    atMs: world.now(),
    key: fnv1a(id).toString(16),
  });
  return true;

  async function write(): Promise<boolean> {
    switch (name) {
      case 'abort':
        return await writeEnd(request, world, {
          reason: 'Aborted',
          text: recreateMessage.aborted(by),
          message: `Aborted by ${by} while it was queued: no container of pod "${spec.podName}" was recreated`,
        });
      case 'pause': {
        const unblock = `${recreateWaits.Paused}; paused by ${by}`;
        const waitingFor = recreateWait('Paused', { blockedBy: [], since, unblock });
        return await writeStatus(request, world, { phase: 'Pending', waitingFor });
      }
      case 'resume':
        return !isPaused(request) || (await writeStatus(request, world, { phase: 'Pending', waitingFor: null }));
      case 'skip': {
        const container = target ?? spec.containers[0]?.name;
        if (container === undefined || !spec.containers.some((one) => one.name === container)) return true;
        const states = status?.containerRecreateStates ?? [];
        const state = states.find((one) => one.name === container) ?? { name: container, phase: 'Pending' };
        if (state.phase !== 'Pending' || skipperOf(state) !== undefined) return true;
        const others = states.filter((one) => one.name !== container);
        return await writeStatus(request, world, {
          phase: status?.phase ?? '',
          containerRecreateStates: [...others, { ...state, message: skippedMessage(by) }],
        });
      }
      // nothing has been refused that could be tried again
      case 'retry':
      case 'undo':
        return true;
    }
  }
}

/** Writes these fields of the status of a request as it was looked at; false when it has changed since. */
async function writeStatus(
  request: ContainerRecreateRequest,
  world: RequestPassDependencies,
  status: object,
): Promise<boolean> {
  const { uid, resourceVersion } = request.metadata;
  const body = { metadata: { uid, resourceVersion }, status };
  const patch = world.kube.patch(crr, nameOf(request), 'merge', body, { subresource: 'status' });
  return (await unlessMovedOn(patch)) !== undefined;
}

async function writeWait(
  request: ContainerRecreateRequest,
  waitingFor: WaitingFor,
  phase: 'Pending' | undefined,
  world: RequestPassDependencies,
): Promise<void> {
  const { status } = request;
  const known = status?.waitingFor;
  const isKnown = known?.reason === waitingFor.reason && known.blockedBy.join() === waitingFor.blockedBy.join();
  const told = isKnown ? { ...waitingFor, since: known.since } : waitingFor;
  const newPhase = phase && !status?.phase ? phase : (status?.phase ?? '');
  if (sameJson(known, told) && newPhase === status?.phase) return;

  await writeStatus(request, world, { phase: newPhase, waitingFor: told });
}

/** Whether something has to be given back: the request is over and still marked. */
function holds(request: ContainerRecreateRequest): boolean {
  const { deletionTimestamp, finalizers, labels } = request.metadata;
  const over = deletionTimestamp !== undefined || isCompleted(request);
  const marked = finalizers?.includes(crrUnreadyFinalizer) || (isCompleted(request) && labels?.[crrLabel.active]);
  return over && Boolean(marked);
}

/** CRR-10: first the pod's key, then the finalizer that says there is one, and the label that shows it to nodes. */
async function release(request: ContainerRecreateRequest, world: RequestPassDependencies): Promise<void> {
  const { namespace = '', uid, resourceVersion, finalizers = [], labels } = request.metadata;
  if (finalizers.includes(crrUnreadyFinalizer)) {
    await releaseKey({ namespace, name: request.spec.podName, uid: podUidOf(request) }, nameOf(request), world);
  }
  const body = {
    metadata: {
      uid,
      resourceVersion,
      finalizers: finalizers.filter((finalizer) => finalizer !== crrUnreadyFinalizer),
      ...(labels?.[crrLabel.active] && isCompleted(request) ? { labels: { [crrLabel.active]: null } } : {}),
    },
  };
  await unlessMovedOn(world.kube.patch(crr, nameOf(request), 'merge', body));
}

/** Takes the key of a request off its pod, if the pod is still there and carries it. */
async function releaseKey(
  pod: { readonly namespace?: string; readonly name: string; readonly uid: string },
  request: { readonly namespace: string; readonly name: string },
  { kube, now }: Pick<RequestPassDependencies, 'kube' | 'now'>,
): Promise<void> {
  await changePodConditions(kube, pod, (live) => withoutReadinessKey(live, recreateKey(request), timestamp(now())));
}

/** Deletes what has outlived its TTL, and answers when the next one does. */
async function removeExpired(
  requests: readonly ContainerRecreateRequest[],
  { kube, now }: RequestPassDependencies,
): Promise<PassResult | undefined> {
  const due: PassResult[] = [];
  for (const request of requests) {
    const { spec, status, metadata } = request;
    if (!isCompleted(request) || metadata.deletionTimestamp !== undefined) continue;
    if (spec.ttlSecondsAfterFinished === undefined || status?.completionTime === undefined) continue;
    const leftMs = Date.parse(status.completionTime) + spec.ttlSecondsAfterFinished * 1000 - now();
    if (leftMs > 0) due.push({ againInMs: leftMs });
    else await unlessMovedOn(kube.delete(crr, nameOf(request), { preconditions: { uid: metadata.uid } }));
  }
  return earliest(due);
}

function nameOf({ metadata }: ContainerRecreateRequest): { readonly namespace: string; readonly name: string } {
  return { namespace: metadata.namespace ?? '', name: metadata.name };
}
