import { recreateDefault } from '../../api/container-recreate-request/defaults.ts';
import { failedPreStopEvent, killingEvent } from '../../api/container-recreate-request/texts.ts';
import { type ContainerRecreateRequest, crr, isCompleted } from '../../api/container-recreate-request/types.ts';
import type { EventText } from '../../api/core/event.ts';
import type { Pod } from '../../api/core/pod.ts';
import { type ObjectRef, type PodRef, qualifiedName } from '../../api/core/refs.ts';
import { crrLabel, eventComponent } from '../../api/core/well-known.ts';
import {
  type Attempt,
  type Clock,
  cancelledFailure,
  Heartbeats,
  stoppingFailure,
  unlessCancelled,
  Wake,
} from './attempt.ts';
import { lookForReady, type PodView } from './await.ts';
import type { ContainerInstance, NodeActivities, NodeProgress, StopResult } from './contract.ts';
import type { HookMeans } from './pre-stop.ts';
import { checkStillStale, letKubeletSee, refreshOrder } from './refresh.ts';
import { invalid, superseded, unreachable, whyOf } from './refusals.ts';
import {
  type ContainerRuntime,
  CriError,
  criLabel,
  findRuntime,
  newestByName,
  podGraceSeconds,
  type RuntimeContainer,
  type Runtimes,
  restartCountOf,
} from './runtime.ts';
import type { ActRun, SingleActs } from './single-act.ts';
import { type StopOrder, stopOnce } from './stop.ts';

export interface ContainerActivityMeans {
  readonly nodeName: string;
  readonly runtimes: Runtimes;
  readonly pods: PodView;
  /** Undefined when there is no request of this UID. Throws a failure for Temporal. */
  readonly readRequest: (request: ObjectRef) => Promise<ContainerRecreateRequest | undefined>;
  /** Reads a pod from the API server; undefined when there is none of this UID. Throws a failure for Temporal. */
  readonly readPod: (pod: PodRef) => Promise<Pod | undefined>;
  /** Writes an Event on the pod about one of its containers, as this component. Never blocks and never fails. */
  readonly say: (pod: PodRef, container: string, text: EventText, component: string) => void;
  readonly stops: SingleActs<StopResult, NodeProgress>;
  readonly httpGet: HookMeans['httpGet'];
  readonly clock: Clock;
  /** The attempt that the caller runs in. */
  readonly attempt: () => Attempt;
  /** Aborted when this worker shuts down: waits end, stops continue. */
  readonly stopping: AbortSignal;
  readonly log: { info(fields: object, message: string): void };
}

/** One stop that a workflow has decided on. */
type StopInput = Parameters<NodeActivities['node.v1.refreshContainer']>[0] &
  Pick<Parameters<NodeActivities['node.v1.stopContainer']>[0], 'restartCount'>;

/** How long the results of checks are valid. A process that was paused for longer has to check again. */
const freshMs = 10_000;

/** The activities on the containers of a node. Each act is on one container ID of one pod UID, or does nothing. */
export function containerActivities(means: ContainerActivityMeans): NodeActivities {
  return {
    async 'node.v1.lookAtContainers'({ pod, runtime: name, containers }) {
      const attempted = `Cannot list the containers of pod "${qualifiedName(pod)}"`;
      try {
        const found = await findRuntime(means.runtimes, name, pod.uid);
        if (found.kind === 'absent' && found.final) return { kind: 'noRuntime', message: whyOf(found.message) };
        if (found.kind === 'absent') throw unreachable(attempted, found.message);
        const newest = newestByName(await found.runtime.listContainers({ podUid: pod.uid }));
        const wanted = containers.map((container) => newest.get(container)).filter((known) => known !== undefined);
        return { kind: 'seen', instances: await Promise.all(wanted.map((known) => instanceOf(found.runtime, known))) };
      } catch (error) {
        throw toUnreachable(error, attempted);
      }
    },

    async 'node.v1.stopContainer'(input) {
      return await joinStop(means, input, (run) =>
        checkAndStop(means, input, run, async (attempted) => {
          const request = await readRequest(means, input, attempted);
          return (instance) => orderIn(request, input, instance, attempted);
        }),
      );
    },

    async 'node.v1.refreshContainer'(input) {
      return await joinStop(means, input, async (run) => {
        const seen = await letKubeletSee({ ...means, listContainers: () => instancesOf(means, input) }, input);
        return await checkAndStop(means, input, run, async () => {
          await checkStillStale(means, input, seen);
          return (instance) => refreshOrder(input, instance);
        });
      });
    },

    'node.v1.awaitContainer': (input) => awaitContainer(means, input),
  };
}

/** All instances of a pod in the runtime. Fails as `Unreachable` while the runtime does not answer. */
async function instancesOf(means: ContainerActivityMeans, input: StopInput): Promise<readonly RuntimeContainer[]> {
  const attempted = `Cannot list the containers of pod "${qualifiedName(input.pod)}"`;
  try {
    const found = await findRuntime(means.runtimes, input.runtime, input.pod.uid);
    if (found.kind === 'absent') throw unreachable(attempted, found.message);
    return await found.runtime.listContainers({ podUid: input.pod.uid });
  } catch (error) {
    throw toUnreachable(error, attempted);
  }
}

type AwaitContainer = NodeActivities['node.v1.awaitContainer'];

/** Checks a container at each change and at intervals, until the wait is over. */
async function awaitContainer(
  means: ContainerActivityMeans,
  input: Parameters<AwaitContainer>[0],
): ReturnType<AwaitContainer> {
  const attempt = means.attempt();
  const changed = new Wake();
  const unwatch = means.pods.watch(input.pod.uid, changed.call);
  const ends = [attempt.cancellation, means.stopping];
  for (const end of ends) end.addEventListener('abort', changed.call);

  const { container } = input;
  let progress: NodeProgress = { reason: 'ContainerNotFound', container, message: 'looking at the container' };
  const beats = new Heartbeats(attempt, () => progress);
  try {
    for (;;) {
      if (attempt.cancellation.aborted) throw cancelledFailure(attempt.cancellation);
      if (means.stopping.aborted) {
        throw stoppingFailure(`Cannot wait for container "${container}" of pod "${qualifiedName(input.pod)}"`);
      }
      const look = await lookForReady(means, input);
      if (look.kind !== 'waiting') return look;
      const isYoung = look.progress.reason === 'MinStartedSeconds';
      const isKnown = look.progress.reason !== 'RuntimeUnreachable';
      if (isKnown && input.isYoung !== undefined && input.isYoung !== isYoung) return { kind: 'changed', isYoung };
      const { trouble } = look;
      if (trouble !== undefined && input.trouble !== undefined && input.trouble !== trouble) {
        return { kind: 'changed', isYoung, trouble };
      }

      const { reason, containerId } = progress;
      progress = look.progress;
      if (progress.reason !== reason || progress.containerId !== containerId) beats.beat();
      await changed.orAfter(look.againMs, means.clock);
    }
  } finally {
    beats.stop();
    unwatch();
    for (const end of ends) end.removeEventListener('abort', changed.call);
  }
}

/** Begins a stop, or joins the one in progress: one act per instance, for all callers. */
async function joinStop(
  means: ContainerActivityMeans,
  { runtime, pod, container, containerId }: StopInput,
  begin: (run: ActRun<NodeProgress>) => Promise<StopResult>,
): Promise<StopResult> {
  const attempt = means.attempt();
  // CRR-40; also when the stop in progress here was begun by a caller that is unknown by now
  const who = { operation: attempt.operation, lane: pod.uid };
  const doing = (message: string): NodeProgress => ({ reason: 'Stopping', container, containerId, message });
  const stop = means.stops.join(`${runtime}://${containerId}`, who, (run) => {
    run.report(doing('looking at the container'));
    return begin(run);
  });
  const beats = new Heartbeats(
    attempt,
    () => stop.progress() ?? doing('waiting for the stop of another container of its pod'),
    // A stop that has not begun can still be cancelled.
    { isUrgent: () => stop.progress() === undefined },
  );
  try {
    return await unlessCancelled(attempt, stop.outcome);
  } finally {
    beats.stop();
    stop.leave();
  }
}

async function instanceOf(runtime: ContainerRuntime, container: RuntimeContainer): Promise<ContainerInstance> {
  const { id, labels, state } = container;
  const status = state === 'created' ? undefined : await runtime.containerStatus(id);
  const startedAtMs = Number((status?.startedAtNs ?? 0n) / 1_000_000n);
  return {
    name: labels[criLabel.containerName] ?? '',
    id,
    // The two calls see the container at different times; the later one counts.
    state: status?.state ?? state,
    restartCount: restartCountOf(container),
    ...(startedAtMs > 0 && { startedAt: new Date(startedAtMs).toISOString() }),
  };
}

/** Checks on the node every precondition of the stop, reports what it is about to do, and does it. */
async function checkAndStop(
  means: ContainerActivityMeans,
  input: StopInput,
  run: ActRun<NodeProgress>,
  readOrderOf: OrderOf,
): Promise<StopResult> {
  const { pod, container, containerId } = input;
  const attempted = `Cannot stop container "${container}" of pod "${qualifiedName(pod)}"`;

  const found = await findToStop(means, input, attempted, readOrderOf);
  if ('kind' in found) return found;
  // No caller waits any more: the stop was cancelled before it began, and must not begin now.
  if (!run.wanted()) throw unreachable(attempted, 'nothing waits for it any more');

  const { graceSeconds, preStop, killing, component } = found.order;
  const about = { ...found.order.about, pod: pod.name, container, containerId };
  means.log.info({ ...about, graceSeconds }, 'Stopping container');
  means.say(pod, container, killing, component);
  const result = await stopOnce(
    {
      runtime: found.runtime,
      container,
      containerId,
      sandboxId: found.instance.sandboxId,
      graceSeconds,
      ...(preStop && { preStop }),
    },
    {
      clock: means.clock,
      httpGet: means.httpGet,
      podIp: () => means.pods.pod(pod.uid)?.status?.podIP,
      preStopFailed: (error) => means.say(pod, container, failedPreStopEvent(container, containerId, error), component),
      report: run.report,
    },
  );
  means.log.info({ ...about, result }, result.kind === 'stopped' ? 'Container stopped' : 'Cannot stop container');
  return result;
}

interface ToStop {
  readonly runtime: ContainerRuntime;
  readonly instance: RuntimeContainer;
  readonly order: StopOrder;
}

/** Reads the reason for a stop again, and returns how to stop; fails when there is none any more. */
type OrderOf = (attempted: string) => Promise<(instance: RuntimeContainer) => StopOrder>;

async function findToStop(
  means: ContainerActivityMeans,
  input: StopInput,
  attempted: string,
  readOrderOf: OrderOf,
): Promise<ToStop | StopResult> {
  for (;;) {
    const lookedAtMs = means.clock.monotonicMs();
    const reading = readOrderOf(attempted);
    reading.catch(() => undefined); // a container that has exited needs no request
    const found = await findRunning(means, input, attempted);
    if (found === undefined) return { kind: 'alreadyGone' };
    if ('kind' in found) return found;
    const order = (await reading)(found.instance);
    // The process may have been paused since: then its data is old, and others may have acted meanwhile.
    if (means.clock.monotonicMs() - lookedAtMs < freshMs) return { ...found, order };
  }
}

/** The very instance, if it still is what the workflow decided on. */
async function findRunning(
  means: ContainerActivityMeans,
  { runtime: name, pod, container, containerId, restartCount }: StopInput,
  attempted: string,
): Promise<Pick<ToStop, 'runtime' | 'instance'> | StopResult | undefined> {
  try {
    const found = await findRuntime(means.runtimes, name, pod.uid);
    if (found.kind === 'absent' && found.final) return { kind: 'noRuntime', message: whyOf(found.message) };
    if (found.kind === 'absent') throw unreachable(attempted, found.message);
    const [instance] = await found.runtime.listContainers({ id: containerId, podUid: pod.uid });
    if (instance?.labels[criLabel.containerName] !== container) return undefined;
    if (instance.state === 'exited') return undefined;
    if (restartCount !== undefined && restartCountOf(instance) > restartCount) return undefined;
    // A runtime ignores the stop of a container that is only created, and reports success.
    if (instance.state === 'created') throw unreachable(attempted, 'it is about to start');
    return { runtime: found.runtime, instance };
  } catch (error) {
    throw toUnreachable(error, attempted);
  }
}

type RequestedStop = Parameters<NodeActivities['node.v1.stopContainer']>[0];

/** The request as it is now: a completed one must not stop anything. */
async function readRequest(
  means: ContainerActivityMeans,
  { request: ref, pod }: RequestedStop,
  attempted: string,
): Promise<ContainerRecreateRequest> {
  const request = await means.readRequest(ref);
  const name = `ContainerRecreateRequest "${qualifiedName(ref)}"`;
  if (request === undefined || request.metadata.uid !== ref.uid) throw superseded(attempted, `${name} is gone`);
  if (request.metadata.deletionTimestamp !== undefined) throw superseded(attempted, `${name} is being deleted`);
  if (isCompleted(request)) throw superseded(attempted, `${name} has completed`);

  const labels = request.metadata.labels ?? {};
  if (labels[crrLabel.nodeName] !== means.nodeName) throw invalid(attempted, `${name} is for another node`);
  if (labels[crrLabel.podUid] !== pod.uid) throw invalid(attempted, `${name} is for another pod`);
  return request;
}

/**
 * How the request has this instance stopped. The grace period is read from the request, not from the workflow: the API
 * server controls who may write it more strictly than a task queue does, and without grace there is no preStop.
 */
function orderIn(
  request: ContainerRecreateRequest,
  { request: ref, container }: RequestedStop,
  instance: RuntimeContainer,
  attempted: string,
): StopOrder {
  const name = `ContainerRecreateRequest "${qualifiedName(ref)}"`;
  const order = request.spec.containers.find((listed) => listed.name === container);
  if (order === undefined) throw invalid(attempted, `${name} does not list it`);
  if (instance.labels[criLabel.podNamespace] !== request.metadata.namespace) {
    throw invalid(attempted, `${name} is in another namespace than the container`);
  }
  const { preStop, ports = [] } = order;
  const graceSeconds = request.spec.strategy?.terminationGracePeriodSeconds ?? podGraceSeconds(instance);
  return {
    graceSeconds: graceSeconds ?? recreateDefault.terminationGracePeriodSeconds,
    ...(preStop && { preStop: { handler: preStop, ports } }),
    killing: killingEvent(container, ref.name),
    component: eventComponent.daemonRecreate,
    about: { kind: crr.kind, namespace: ref.namespace, name: ref.name },
  };
}

function toUnreachable(error: unknown, attempted: string): unknown {
  return error instanceof CriError ? unreachable(attempted, `${error.call}: ${error.message}`) : error;
}
