/**
 * How the sidecars of one pod are terminated after its main containers have completed (JST-10 to JST-20).
 *
 * The pod, its node and the request of the stops are read each time, and determine everything: which sidecars still
 * run, what has been tried, and the result. So only commands of operators have to be remembered, and an operation that
 * was lost continues from the state of the cluster.
 */
import { type ContainerRecreateRequest, isCompleted } from '../api/container-recreate-request/types.ts';
import { isFinished, type Pod } from '../api/core/pod.ts';
import {
  isEnded,
  isTerminationDue,
  phaseByMains,
  type Sidecar,
  sidecarsOf,
  statusOfContainer,
  type TerminationWaitReason,
  terminationStatusOf,
  terminationWaits,
} from '../api/job-sidecar-termination.ts';
import { type Wait, waitFor } from './decision.ts';
import { podTrouble } from './pod-trouble.ts';
import { shortened } from './text-size.ts';

/** The objects of a decision. */
export interface SidecarWorld {
  /** Absent when the pod of this UID is gone. */
  readonly pod?: Pod;
  /** Absent when the pod's Node cannot be found. */
  readonly node?: 'real' | 'virtual';
  /** The request that stops its sidecars, or has stopped them. */
  readonly request?: ContainerRecreateRequest;
}

/** One thing to do, about these containers. */
export interface SidecarStep {
  readonly kind: 'swapImages' | 'requestStop' | 'finishPod' | 'withdrawRequest';
  readonly containers: readonly string[];
}

export type SidecarDecision =
  | { readonly kind: 'done' }
  | { readonly kind: 'act'; readonly step: SidecarStep }
  /** Until something changes. */
  | { readonly kind: 'wait'; readonly waitingFor: Wait }
  /** Like `wait`; `step` is due after a pause, or when a person says `retry`. */
  | { readonly kind: 'tryAgain'; readonly waitingFor: Wait; readonly step: SidecarStep; readonly byItself: boolean };

/** What is to be done now. */
export function nextTermination({ pod, node, request }: SidecarWorld): SidecarDecision {
  if (pod === undefined || !isTerminationDue(pod)) return { kind: 'done' };
  const { skipped = [] } = terminationStatusOf(pod);
  const live = sidecarsOf(pod).filter(({ name }) => !skipped.includes(name) && !isEnded(pod, name));
  // JST-10
  if (node === undefined) return wait('NodeMissing', [`node/${pod.spec.nodeName ?? ''}`]);
  if (node === 'virtual') return swap(pod, live);

  const stopped = live.filter(({ stops }) => stops);
  const [ignored, others] = [stopped.filter(ignoresExitCode), stopped.filter((sidecar) => !ignoresExitCode(sidecar))];
  if (others.length > 0) return stop(pod, others, request);
  // a container that is marked for virtual nodes only is not stopped on a real one
  if (ignored.length === 0) return wait('NoStopMark', live.map(asBlocker));
  // JST-13, JST-20; never without the mark (JST-22)
  return isFinished(pod) ? stop(pod, ignored, request) : act('finishPod', ignored);
}

/** The phase that step `finishPod` writes. */
export function phaseToWrite(pod: Pod): 'Succeeded' | 'Failed' {
  return phaseByMains(pod);
}

/**
 * JST-11. A sidecar without a quick-exit image cannot be terminated there; the wait names it, and the others are
 * terminated.
 */
function swap(pod: Pod, live: readonly Sidecar[]): SidecarDecision {
  const imageOf = (name: string) => pod.spec.containers.find((container) => container.name === name)?.image;
  const due = live.filter(({ name, quickExitImage }) => quickExitImage && imageOf(name) !== quickExitImage);
  if (due.length > 0) return act('swapImages', due);
  const stuck = live.filter(({ quickExitImage }) => quickExitImage === undefined);
  if (stuck.length > 0) return wait('NoQuickExitImage', stuck.map(asBlocker));
  return wait('QuickExitPending', live.map(asBlocker), podTrouble(pod, live.map(asName)));
}

function stop(pod: Pod, live: readonly Sidecar[], request: ContainerRecreateRequest | undefined): SidecarDecision {
  const started = live.filter(({ name }) => instanceOf(pod, name) !== undefined);
  // JST-32
  if (started.length === 0) {
    return wait('ContainerNotStarted', live.map(asBlocker), podTrouble(pod, live.map(asName)));
  }
  if (request === undefined) return act('requestStop', started);
  const blocker = [`crr/${request.metadata.name}`];
  if (!isCompleted(request)) return wait('Stopping', blocker);

  // instances that the request has stopped and the pod still shows will exit soon
  const left = started.filter(({ name }) => !wasStopped(request, name, instanceOf(pod, name)));
  if (left.length === 0) return wait('Stopping', blocker);
  const known = (name: string) => knownInstance(request, name);
  const isBack = left.some(({ name }) => known(name) !== undefined && known(name) !== instanceOf(pod, name));
  // JST-24, JST-27: with growing pauses, since one that fails whenever it is stopped restarts each time
  if (isBack) return stopAgainLater(left, 'StopFailed', 'it has been started again');
  if (left.every(({ name }) => known(name) !== instanceOf(pod, name))) return act('withdrawRequest', left);

  // JST-30: it was tried, and did not work
  const { reason = '', message = '' } = request.status?.conditions?.find(({ type }) => type === 'Failed') ?? {};
  const failures = request.status?.containerRecreateStates?.flatMap((state) => state.message ?? []) ?? [];
  const why = [reason === 'Aborted' ? '' : reason, message, ...failures].filter(Boolean).join(': ');
  return stopAgainLater(left, reason === 'Aborted' ? 'RequestAborted' : 'StopFailed', why);
}

/**
 * After a pause, so that a stop without effect is not repeated continuously; if a person has aborted the request, only
 * after `retry`.
 */
function stopAgainLater(
  left: readonly Sidecar[],
  trouble: 'StopFailed' | 'RequestAborted',
  why: string,
): SidecarDecision {
  const { waitingFor } = wait(trouble, left.map(asBlocker), why);
  const step = { kind: 'withdrawRequest', containers: left.map(({ name }) => name) } as const;
  return { kind: 'tryAgain', waitingFor, step, byItself: trouble === 'StopFailed' };
}

/** Whether this very instance was stopped for the request. */
function wasStopped(request: ContainerRecreateRequest, name: string, instance: string | undefined): boolean {
  const state = request.status?.containerRecreateStates?.find((entry) => entry.name === name);
  return state?.isKilled === true && instance === knownInstance(request, name);
}

/** The instance that the request is about: its recorded target, otherwise the one from its creation. */
function knownInstance({ spec, status }: ContainerRecreateRequest, name: string): string | undefined {
  const chosen = status?.containerRecreateStates?.find((entry) => entry.name === name)?.targetContainerID;
  return chosen ?? withoutRuntime(spec.containers.find((entry) => entry.name === name)?.statusContext?.containerID);
}

/** The instance in the pod's status, without `<runtime>://`. */
function instanceOf(pod: Pod, name: string): string | undefined {
  return withoutRuntime(statusOfContainer(pod, name)?.containerID);
}

function withoutRuntime(containerID: string | undefined): string | undefined {
  return containerID ? containerID.slice(containerID.indexOf('://') + 3) : undefined;
}

function ignoresExitCode(sidecar: Sidecar): boolean {
  return sidecar.ignoresExitCode;
}

function asName({ name }: Sidecar): string {
  return name;
}

function asBlocker({ name }: Sidecar): string {
  return `container/${name}`;
}

function act(kind: SidecarStep['kind'], sidecars: readonly Sidecar[]): SidecarDecision {
  return { kind: 'act', step: { kind, containers: sidecars.map(({ name }) => name) } };
}

/** Texts come from runtimes and people, and are stored in histories. */
const mostWhyBytes = 500;

function wait(
  reason: TerminationWaitReason,
  blockedBy: readonly string[],
  why = '',
): Extract<SidecarDecision, { kind: 'wait' }> {
  const unblock =
    why === '' ? terminationWaits[reason] : `${terminationWaits[reason]}; ${shortened(why, mostWhyBytes)}`;
  return { kind: 'wait', waitingFor: waitFor(reason, blockedBy, unblock) };
}
