// ContainerRecreateRequest: restarts containers of one pod and leaves the pod where it is.
//
// Who writes what. A field has one writer; every write carries the resourceVersion that it was decided on.
//
//   metadata.labels pod-uid, node-name, type     admission, at creation, never changed
//   metadata.labels active                       admission sets it, the watcher's pass over holds removes it at the end
//   metadata.finalizers unready-acquired         the workflow adds it, the watcher's pass over holds removes it
//   spec                                         the user; admission fills the rest at creation, or the watcher in its first
//                                                write where admission does not know its caller; then immutable
//   status.phase                                 the workflow; the watcher for a request that waits behind another one:
//                                                `Pending`, and `Completed` when its deadline passes there; and for one
//                                                that names containers that cannot be restarted
//   status.completionTime, message               the workflow, together with the phase `Completed`
//   status.containerRecreateStates               the workflow
//   status.containerStatusSnapshot               the workflow
//   status.conditions                            the workflow
//   status.waitingFor                            the workflow while it runs; Queued, EngineSilent, EngineStuck: the watcher
//   status.observedGeneration                    the workflow, last
//
// The workflow writes through the cluster worker. The daemon writes no field of a request: it reports verdicts to the
// workflow and Events to the pod.

import { isJsonList, isJsonObject, type Json, type JsonObject, listOr, objectOr, sameJson } from '../base/json.ts';
import type { Condition } from '../core/conditions.ts';
import { endCondition } from '../core/conditions.ts';
import type { EventText } from '../core/event.ts';
import type { FieldError } from '../core/failure.ts';
import type { KubeObject, ObjectMeta, Resource } from '../core/meta.ts';
import type { Node } from '../core/node.ts';
import { isVirtual } from '../core/node.ts';
import type { Container, ContainerStatus, Pod } from '../core/pod.ts';
import { crrAnnotation, crrLabel, group, sidecarTerminatedCondition, virtualNodeLabel } from '../core/well-known.ts';
import type { WaitingFor } from '../engine/waiting-for.ts';
import type { Parsed } from '../schema/static.ts';
import type { specSchema, statusSchema } from './schema.ts';

// ---------------------------------------------------------------------------------------------------------- the shape

/** A request in the shape of v1beta1, the only one inside Windlass. */
export interface ContainerRecreateRequest extends KubeObject {
  readonly metadata: ObjectMeta;
  readonly spec: ContainerRecreateRequestSpec;
  /** Absent until somebody has looked at the request. */
  readonly status?: ContainerRecreateRequestStatus;
}

export type ContainerRecreateRequestSpec = Parsed<typeof specSchema>;
export type ContainerRecreateRequestStatus = Parsed<typeof statusSchema>;
export type RecreateStrategy = NonNullable<ContainerRecreateRequestSpec['strategy']>;
export type RecreateContainer = ContainerRecreateRequestSpec['containers'][number];
export type RecreatePreStop = NonNullable<RecreateContainer['preStop']>;
export type RecreatePhase = ContainerRecreateRequestStatus['phase'];
export type ContainerRecreateState = NonNullable<ContainerRecreateRequestStatus['containerRecreateStates']>[number];
export type ContainerRecreatePhase = ContainerRecreateState['phase'];
export type ContainerStatusSnapshot = NonNullable<ContainerRecreateRequestStatus['containerStatusSnapshot']>[number];
export type FailurePolicy = NonNullable<RecreateStrategy['failurePolicy']>;

/** How the API server addresses requests in the shape that Windlass works with. */
export const crr = {
  group: group.apps,
  version: 'v1beta1',
  plural: 'containerrecreaterequests',
  kind: 'ContainerRecreateRequest',
  namespaced: true,
} as const satisfies Resource;

/** The older version, served beside it. */
export const crrV1alpha1 = { ...crr, version: 'v1alpha1' } as const satisfies Resource;

export type RecreateVersion = typeof crr.version | typeof crrV1alpha1.version;

/** The version that an object of this kind is in, or undefined for a version that we do not serve. */
export function recreateVersion(object: JsonObject): RecreateVersion | undefined {
  if (object.apiVersion === `${crr.group}/v1beta1`) return 'v1beta1';
  if (object.apiVersion === `${crr.group}/v1alpha1`) return 'v1alpha1';
  return undefined;
}

/** Whether the request has ended, well or not. It never goes on after that. */
export function isCompleted(request: ContainerRecreateRequest): boolean {
  return request.status?.phase === 'Completed';
}

// ------------------------------------------------------------------------------------------------- defaults and limits

/** What an absent field means, where the schema or admission does not fill it. */
export const recreateDefault = {
  failurePolicy: 'Fail',
  /** For pods that name none themselves, which the API server does not let happen. */
  terminationGracePeriodSeconds: 30,
  minStartedSeconds: 0,
} as const;

/** A stop always gets this much time, even when preStop has used up the grace period (CRR-43). */
export const leastGraceSeconds = 2;

/** A shorter deadline could pass before anything happens. */
export const leastActiveDeadlineSeconds = 3;

/** A label value holds no more, so pods on nodes with longer names cannot be restarted. */
export const labelValueLimit = 63;

// --------------------------------------------------------------------------------------------------- reasons and texts

/** The conditions of a request; `Complete` and `Failed` exclude each other. */
export const recreateCondition = { ...endCondition, preRecreateGrace: 'PreRecreateGrace' } as const;

/**
 * Reasons of `Complete`: every container was restarted, or failed to under `failurePolicy: Ignore`; where sidecars are
 * ended, stopped.
 */
export const completeReasons = ['ContainersRecreated', 'ContainersStopped'] as const;
export type CompleteReason = (typeof completeReasons)[number];

/** Reasons of `Failed`. */
export const failedReasons = [
  'PodGone',
  'NodeSilent',
  'DeadlineExceeded',
  'StopFailed',
  'RuntimeNotFound',
  'InvalidRequest',
  'Aborted',
] as const;
export type FailedReason = (typeof failedReasons)[number];

/** Reasons of `status.waitingFor`, with what a person can do. */
export const recreateWaits = {
  Queued: 'Wait for the request ahead in the queue, or delete it',
  EngineSilent: 'Bring Temporal back; the request then continues automatically',
  EngineStuck: 'Terminate its workflow; the request then continues automatically from its status',
  NodeSilent: 'Bring the node and its daemon back, or delete the request',
  Draining: 'Nothing to do: the pod is unready for unreadyGracePeriodSeconds before the first stop',
  Stopping: 'Nothing to do: preStop and the grace period run',
  ContainerNotFound: 'Nothing to do if the kubelet is about to start it; otherwise look at the events of the pod',
  ContainerNotReady: 'Look at the logs and the readiness probe of the new container',
  MinStartedSeconds: 'Nothing to do: the new container must run for longer than minStartedSeconds',
  Paused: 'Signal resume, or abort',
  PodFinished: 'Delete the request: the restart policy of the pod does not let this container start again',
  RuntimeUnreachable: 'Bring the container runtime of the node back; the request then continues automatically',
  Denied:
    'Grant the missing permission or quota: it is retried automatically, or at once after the signal retry; or signal skip or abort',
  Parked:
    'Fix the rejected object or what rejects it: it is retried automatically, or at once after the signal retry; or signal skip or abort',
} as const;
export type RecreateWaitReason = keyof typeof recreateWaits;

/** A wait of a request, with the remedy that belongs to its reason. */
export function recreateWait(
  reason: RecreateWaitReason,
  facts: { readonly blockedBy: readonly string[]; readonly since: string; readonly unblock?: string },
): WaitingFor & { readonly reason: RecreateWaitReason } {
  return {
    reason,
    blockedBy: facts.blockedBy.slice(0, 10),
    blockedCount: facts.blockedBy.length,
    since: facts.since,
    unblock: facts.unblock ?? recreateWaits[reason],
  };
}

/** Texts of `status.message` and of container states, word for word as scripts know them. */
export const recreateMessage = {
  podGone: 'pod has gone',
  nodeSilent: 'daemon has not responded for a long time',
  deadlineExceeded: 'recreating has exceeded the activeDeadlineSeconds',
  runtimeNotFound: (error: string) => `failed to find runtime service: ${error}`,
  /** `by` as the operator gave it, or the identity of the signal. */
  aborted: (by: string) => `aborted by ${by}`,
  notFoundOnNode: 'not found container on Node',
  killFailed: (error: string) => `kill container error: ${error}`,
  preRecreateGrace: 'Pod has been forced to not-ready for unreadyGracePeriodSeconds drain',
} as const;

/** The condition that marks the start of the drain; it is set once and stays (CRR-22). */
export function preRecreateGrace(startedAt: string): Condition {
  return {
    type: recreateCondition.preRecreateGrace,
    status: 'True',
    reason: 'PreRecreateGrace',
    message: recreateMessage.preRecreateGrace,
    lastTransitionTime: startedAt,
  };
}

/** What the daemon says on the pod before preStop and stop, from component `kruise-daemon-crr`. */
export function killingEvent(container: string, request: string): EventText {
  return {
    type: 'Normal',
    reason: 'Killing',
    message: `Stopping container ${container} by ContainerRecreateRequest ${request}`,
  };
}

/** What the daemon says on the pod when preStop failed; the ID of the container is of no use to people, so its name stands there. */
export function failedPreStopEvent(container: string, containerId: string, error: string): EventText {
  return {
    type: 'Warning',
    reason: 'FailedPreStopHook',
    message: containerId === '' ? error : error.replaceAll(containerId, container),
  };
}

// ------------------------------------------------------------------------------------------------------------ admission

/** A refusal by admission: the HTTP status and every problem at once. */
export interface Refusal {
  readonly kind: 'refused';
  readonly code: 400 | 403 | 422;
  readonly errors: readonly FieldError[];
}

/** A problem of a spec, and whether the schema of v1beta1 sees it, too. */
export interface SpecProblem extends FieldError {
  readonly bySchema: boolean;
}

/** The refusal that these problems of a spec mean: as invalid where the schema of that version says so, else as bad. */
export function refuseSpec(problems: readonly SpecProblem[], version: RecreateVersion): Refusal {
  const bySchema = version === 'v1beta1' && problems.every((problem) => problem.bySchema);
  const errors = problems.map(({ path, message }) => ({ path, message }));
  return { kind: 'refused', code: bySchema ? 422 : 400, errors };
}

/** All problems in one line, each with its path. */
export function describeErrors(errors: readonly FieldError[]): string {
  return errors.map(({ path, message }) => `${path}: ${message}`).join('; ');
}

/** A new request with the defaults in it and marked active (CRR-1). What has not the right shape stays as it is. */
export function defaultRecreateRequest(request: JsonObject): JsonObject {
  return withActiveLabel(withStrategy(request));
}

function withStrategy(request: JsonObject): JsonObject {
  const spec = request.spec;
  if (!isJsonObject(spec)) return request;
  const strategy = spec.strategy ?? {};
  if (!isJsonObject(strategy)) return request;

  const failurePolicy = strategy.failurePolicy ?? '';
  const filled = failurePolicy === '' ? { ...strategy, failurePolicy: recreateDefault.failurePolicy } : strategy;
  return { ...request, spec: { ...spec, strategy: filled } };
}

function withActiveLabel(request: JsonObject): JsonObject {
  return withLabels(request, { [crrLabel.active]: 'true' });
}

function withLabels(request: JsonObject, labels: JsonObject): JsonObject {
  const metadata = isJsonObject(request.metadata) ? request.metadata : {};
  const before = isJsonObject(metadata.labels) ? metadata.labels : {};
  return { ...request, metadata: { ...metadata, labels: { ...before, ...labels } } };
}

/**
 * Every problem of the spec of a new request at once, each with its field path; an empty list means that the spec can be
 * read as `ContainerRecreateRequestSpec`. Takes anything, and never throws.
 */
export function validateRecreateSpec(spec: unknown, version: RecreateVersion = 'v1beta1'): readonly SpecProblem[] {
  if (!isJsonObject(spec)) return [bad('spec', spec === undefined ? required : mustBe('an object'))];
  return [
    ...podNameProblems(spec.podName),
    ...containersProblems(spec.containers),
    ...strategyProblems(spec.strategy, version),
    ...activeDeadlineProblems(spec.activeDeadlineSeconds, version),
    // v1alpha1 has always let negative ones pass: such a request is deleted as soon as it is done.
    ...secondsProblems('spec.ttlSecondsAfterFinished', spec.ttlSecondsAfterFinished, {
      bits: 32,
      mayBeNegative: version === 'v1alpha1',
    }),
  ];
}

const required = 'is required';

function mustBe(what: string): string {
  return `must be ${what}`;
}

/** A problem that the schema of v1beta1 sees as well. */
function bad(path: string, message: string): SpecProblem {
  return { path, message, bySchema: true };
}

/** A problem that only admission sees. */
function refused(path: string, message: string): SpecProblem {
  return { path, message, bySchema: false };
}

function podNameProblems(podName: Json | undefined): readonly SpecProblem[] {
  const path = 'spec.podName';
  if (podName === undefined) return [bad(path, required)];
  if (typeof podName !== 'string') return [bad(path, mustBe('a string'))];
  if (podName === '') return [bad(path, 'must not be empty: it names the pod whose containers are restarted')];
  if (characters(podName) > 253) return [bad(path, mustBe('no longer than 253 characters'))];
  return [];
}

function containersProblems(containers: Json | undefined): readonly SpecProblem[] {
  const path = 'spec.containers';
  if (containers === undefined) return [bad(path, required)];
  if (!isJsonList(containers)) return [bad(path, mustBe('a list'))];
  if (containers.length === 0) return [bad(path, 'must name at least one container')];
  if (containers.length > 256) return [bad(path, 'must not name more than 256 containers')];

  const seen = new Set<string>();
  return containers.flatMap((container, index) => [
    ...containerProblems(`${path}[${index}]`, container),
    ...repetitionProblems(`${path}[${index}].name`, isJsonObject(container) ? container.name : undefined, seen),
  ]);
}

const filledByAdmission = ['preStop', 'ports', 'statusContext'] as const;

function containerProblems(path: string, container: Json): readonly SpecProblem[] {
  if (!isJsonObject(container)) return [bad(path, mustBe('an object'))];
  const name = container.name;
  const who = typeof name === 'string' ? ` of container "${name}"` : '';
  return [
    ...containerNameProblems(`${path}.name`, name),
    ...filledByAdmission
      .filter((field) => container[field] !== undefined)
      .map((field) => refused(`${path}.${field}`, `read-only fields${who} must be left out: admission fills them`)),
  ];
}

function containerNameProblems(path: string, name: Json | undefined): readonly SpecProblem[] {
  if (name === undefined) return [bad(path, required)];
  if (typeof name !== 'string') return [bad(path, mustBe('a string'))];
  if (name === '') return [bad(path, 'must not be empty')];
  if (characters(name) > 63) return [bad(path, mustBe('no longer than 63 characters'))];
  return [];
}

function repetitionProblems(path: string, name: Json | undefined, seen: Set<string>): readonly SpecProblem[] {
  if (typeof name !== 'string' || seen.size < seen.add(name).size) return [];
  return [refused(path, `container "${name}" is listed twice`)];
}

function strategyProblems(strategy: Json | undefined, version: RecreateVersion): readonly SpecProblem[] {
  if (strategy === undefined) return [];
  const path = 'spec.strategy';
  if (!isJsonObject(strategy)) return [bad(path, mustBe('an object'))];
  return [
    ...failurePolicyProblems(`${path}.failurePolicy`, strategy.failurePolicy),
    ...booleanProblems(`${path}.orderedRecreate`, strategy.orderedRecreate),
    ...booleanProblems(`${path}.forceRecreate`, strategy.forceRecreate),
    ...secondsProblems(`${path}.terminationGracePeriodSeconds`, strategy.terminationGracePeriodSeconds, {
      bits: 64,
    }),
    ...secondsProblems(`${path}.unreadyGracePeriodSeconds`, strategy.unreadyGracePeriodSeconds, { bits: 64 }),
    ...secondsProblems(`${path}.minStartedSeconds`, strategy.minStartedSeconds, {
      bits: 32,
      mayBeNegative: version === 'v1alpha1',
    }),
  ];
}

function failurePolicyProblems(path: string, policy: Json | undefined): readonly SpecProblem[] {
  if (policy === undefined || policy === 'Fail' || policy === 'Ignore') return [];
  const got = typeof policy === 'string' ? `, not "${policy}"` : '';
  return [bad(path, `must be Fail or Ignore${got}`)];
}

function booleanProblems(path: string, value: Json | undefined): readonly SpecProblem[] {
  return value === undefined || typeof value === 'boolean' ? [] : [bad(path, mustBe('true or false'))];
}

function activeDeadlineProblems(seconds: Json | undefined, version: RecreateVersion): readonly SpecProblem[] {
  const path = 'spec.activeDeadlineSeconds';
  const tooShort = `must be at least ${leastActiveDeadlineSeconds}`;
  if (typeof seconds !== 'number' || seconds >= leastActiveDeadlineSeconds || !Number.isInteger(seconds)) {
    return secondsProblems(path, seconds, { bits: 64 });
  }
  return [seconds < 0 && version === 'v1beta1' ? bad(path, tooShort) : refused(path, tooShort)];
}

function secondsProblems(
  path: string,
  seconds: Json | undefined,
  limits: { readonly bits: 32 | 64; readonly mayBeNegative?: boolean },
): readonly SpecProblem[] {
  if (seconds === undefined) return [];
  // Numbers between 2^53 and 2^63 are whole in JavaScript, too, and what they lack in precision nobody waits for.
  const limit = 2 ** (limits.bits - 1);
  if (typeof seconds !== 'number' || !Number.isInteger(seconds))
    return [bad(path, mustBe('an integer number of seconds'))];
  if (seconds >= limit || seconds < -limit) return [bad(path, mustBe(`a ${limits.bits}-bit integer`))];
  return seconds < 0 && limits.mayBeNegative !== true ? [bad(path, 'must not be negative')] : [];
}

/** As the API server counts the length of a string. */
function characters(text: string): number {
  return [...text].length;
}

/** What admission has looked up. Undefined means that the API server says there is none. */
export interface RecreateSurroundings {
  readonly pod: Pod | undefined;
  /** The node that the pod names; not looked up for a pod without one. */
  readonly node: Node | undefined;
}

/** A valid spec with everything in it that the stop needs, so that nobody has to read the pod again (CRR-8). */
export type FillResult = { readonly kind: 'filled'; readonly request: JsonObject } | Refusal;

/**
 * Writes into a new request what pod and node know (CRR-2 to CRR-7), or names everything that speaks against it. Takes the
 * request in either version; what it does not know stays as it is. A spec that is not valid is refused as such.
 */
export function fillRecreateRequest(input: { readonly request: JsonObject } & RecreateSurroundings): FillResult {
  const version = recreateVersion(input.request) ?? 'v1beta1';
  const spec = input.request.spec;
  const problems = validateRecreateSpec(spec, version);
  if (!isChecked(spec, problems)) return refuseSpec(problems, version);

  const { pod, node } = input;
  const podErrors = [...podProblems(spec.podName, pod, node), ...ownerProblems(input.request, pod)];
  if (pod === undefined) return { kind: 'refused', code: 400, errors: podErrors };

  const filled = fillRecreateSpec(spec, pod);
  const errors = [...podErrors, ...(filled.kind === 'refused' ? filled.errors : [])];
  if (errors.length > 0 || node === undefined || filled.kind === 'refused') {
    return { kind: 'refused', code: 400, errors };
  }
  const request = withLabels(input.request, { ...placeLabels(pod, node), ...virtualLabel(node) });
  return { kind: 'filled', request: { ...request, spec: filled.spec } };
}

/**
 * Ties a new request to its pod and node and to nothing else (CRR-2 to CRR-4), for callers that admission does not know:
 * neither the request nor a refusal says more of the pod than UID, node, and whether it is active. The watcher fills in the
 * rest.
 */
export function placeRecreateRequest(input: { readonly request: JsonObject } & RecreateSurroundings): FillResult {
  const version = recreateVersion(input.request) ?? 'v1beta1';
  const spec = input.request.spec;
  const problems = validateRecreateSpec(spec, version);
  if (!isChecked(spec, problems)) return refuseSpec(problems, version);

  const { pod, node } = input;
  const errors = [...podProblems(spec.podName, pod, node), ...ownerProblems(input.request, pod)];
  if (errors.length > 0 || pod === undefined || node === undefined) return { kind: 'refused', code: 400, errors };
  return { kind: 'filled', request: withLabels(input.request, placeLabels(pod, node)) };
}

/** Whether the request carries everything that a stop needs (CRR-8). */
export function isFilled({ spec }: Pick<ContainerRecreateRequest, 'spec'>): boolean {
  return spec.containers.every(({ statusContext }) => statusContext !== undefined);
}

/**
 * A spec with what its pod knows of the containers and of the grace period (CRR-5 to CRR-7), or why it cannot be. `askedAt`
 * is when the request was created; absent: now.
 */
export function fillRecreateSpec(
  spec: ContainerRecreateRequestSpec,
  pod: Pod,
  askedAt?: string,
):
  | { readonly kind: 'filled'; readonly spec: ContainerRecreateRequestSpec & JsonObject }
  | { readonly kind: 'refused'; readonly errors: readonly FieldError[] } {
  const containers = spec.containers.map((container, index) => fillContainer(container, index, pod, askedAt));
  const errors = containers.flatMap((filled) => (filled.kind === 'refused' ? [filled.error] : []));
  if (errors.length > 0) return { kind: 'refused', errors };
  const filled = {
    ...spec,
    containers: containers.flatMap((container) => (container.kind === 'filled' ? [container.container] : [])),
    strategy: withGracePeriod(spec.strategy ?? {}, pod),
  };
  return { kind: 'filled', spec: filled };
}

/** The label by which a provider of virtual nodes finds its requests; none for other nodes (CRR-4). */
export function virtualLabel(node: Node | undefined): JsonObject {
  return node !== undefined && isVirtual(node) ? { [virtualNodeLabel.key]: virtualNodeLabel.value } : {};
}

/** The one place where a spec from outside becomes a typed one: no check has found anything. */
function isChecked(
  _spec: unknown,
  problems: readonly SpecProblem[],
): _spec is ContainerRecreateRequestSpec & JsonObject {
  return problems.length === 0;
}

/** What the kubelet writes on the object that stands for a pod from a file of its node. */
const mirrorAnnotation = 'kubernetes.io/config.mirror';

function podProblems(podName: string, pod: Pod | undefined, node: Node | undefined): readonly FieldError[] {
  const path = 'spec.podName';
  if (pod === undefined) return [{ path, message: `pod "${podName}" is not found` }];
  const name = `pod "${pod.metadata.namespace ?? ''}/${pod.metadata.name}"`;

  if (pod.metadata.deletionTimestamp !== undefined)
    return [{ path, message: `${name} is not active: it is being deleted` }];
  const phase = pod.status?.phase ?? '';
  const finished = phase === 'Succeeded' || phase === 'Failed';
  if (finished && !sidecarsTerminated(pod)) return [{ path, message: `${name} is not active: its phase is ${phase}` }];

  // its containers carry the hash of the file as the UID of their pod, so no daemon would find them by the UID of the object
  if (pod.metadata.annotations?.[mirrorAnnotation] !== undefined) {
    const message = `${name} is a mirror pod of a static pod: change its manifest on the node to restart its containers`;
    return [{ path, message }];
  }

  const nodeName = pod.spec.nodeName ?? '';
  if (nodeName === '') return [{ path, message: `${name} is not scheduled to a node` }];
  if (node === undefined) return [{ path, message: `node "${nodeName}" of ${name} is not found` }];
  if (nodeName.length > labelValueLimit) {
    return [{ path, message: `the name of node "${nodeName}" has more than ${labelValueLimit} characters` }];
  }
  return [];
}

/** A request that belongs to a pod is about that pod, and not about one that has taken its name since. */
function ownerProblems({ metadata }: JsonObject, pod: Pod | undefined): readonly FieldError[] {
  const owners = isJsonObject(metadata) && isJsonList(metadata.ownerReferences) ? metadata.ownerReferences : [];
  return owners.flatMap((owner, index) => {
    if (pod === undefined || !isJsonObject(owner) || owner.kind !== 'Pod' || owner.uid === pod.metadata.uid) return [];
    const message = `is not pod "${pod.metadata.namespace ?? ''}/${pod.metadata.name}", which the request names`;
    return [{ path: `metadata.ownerReferences[${index}]`, message }];
  });
}

function sidecarsTerminated(pod: Pod): boolean {
  return pod.status?.conditions?.some(({ type }) => type === sidecarTerminatedCondition) ?? false;
}

type FilledContainer =
  | { readonly kind: 'filled'; readonly container: RecreateContainer }
  | { readonly kind: 'refused'; readonly error: FieldError };

function fillContainer(
  container: RecreateContainer,
  index: number,
  pod: Pod,
  askedAt: string | undefined,
): FilledContainer {
  const { name } = container;
  const refuse = (why: string): FilledContainer => ({
    kind: 'refused',
    error: { path: `spec.containers[${index}].name`, message: `container "${name}" ${why}` },
  });

  const template = pod.spec.containers.find((candidate) => candidate.name === name);
  if (template === undefined) return refuse(whyUnknown(name, pod));
  const status = pod.status?.containerStatuses?.find((candidate) => candidate.name === name);
  if (status === undefined) return refuse(`of pod "${pod.metadata.name}" has no status yet`);
  const containerID = status.containerID ?? '';
  if (containerID === '')
    return refuse(`of pod "${pod.metadata.name}" has no containerID: it has not been started yet`);

  const preStop = copyPreStop(template);
  const ports = preStop?.httpGet === undefined ? undefined : template.ports;
  return {
    kind: 'filled',
    container: {
      ...container,
      ...(preStop && { preStop }),
      ...(ports && { ports: ports.map(copyPort) }),
      statusContext: instanceAt(status, containerID, askedAt),
    },
  };
}

/**
 * The instance that ran when the request was created (CRR-7). One that has been started since, to the second, is not it: the
 * one before was, which the kubelet may still know.
 */
function instanceAt(status: ContainerStatus, containerID: string, askedAt: string | undefined) {
  const { restartCount, state, lastState } = status;
  const startedAt = state?.running?.startedAt;
  const isNewer = askedAt !== undefined && startedAt !== undefined && Date.parse(startedAt) >= Date.parse(askedAt);
  if (!isNewer || restartCount === 0) return { containerID, restartCount };
  const [runtime = ''] = containerID.split('://');
  return { containerID: lastState?.terminated?.containerID ?? `${runtime}://`, restartCount: restartCount - 1 };
}

function whyUnknown(name: string, pod: Pod): string {
  const inits = pod.spec.initContainers ?? [];
  if (inits.some((init) => init.name === name)) {
    return `is an init container of pod "${pod.metadata.name}", which cannot be restarted`;
  }
  const known = pod.spec.containers.map((candidate) => candidate.name).join(', ');
  return `is not a container of pod "${pod.metadata.name}", which has ${known}`;
}

/** The hook as it is now (CRR-7). `sleep` is carried, too, so that the stop can honour it. */
function copyPreStop(container: Container): RecreatePreStop | undefined {
  const hook = container.lifecycle?.preStop;
  if (hook === undefined) return undefined;
  const { exec, httpGet, tcpSocket, sleep } = hook;
  return {
    ...(exec && { exec }),
    ...(httpGet && { httpGet }),
    ...(tcpSocket && { tcpSocket }),
    ...(sleep && { sleep }),
  };
}

function copyPort(port: NonNullable<Container['ports']>[number]): NonNullable<RecreateContainer['ports']>[number] {
  const { name, containerPort, hostPort, hostIP, protocol } = port;
  return {
    ...(name !== undefined && { name }),
    containerPort,
    ...(hostPort !== undefined && { hostPort }),
    ...(hostIP !== undefined && { hostIP }),
    ...(protocol !== undefined && { protocol }),
  };
}

function placeLabels(pod: Pod, node: Node): JsonObject {
  return {
    [crrLabel.podUid]: pod.metadata.uid,
    [crrLabel.nodeName]: node.metadata.name,
  };
}

function withGracePeriod(strategy: RecreateStrategy, pod: Pod): RecreateStrategy {
  const seconds = strategy.terminationGracePeriodSeconds ?? pod.spec.terminationGracePeriodSeconds;
  return seconds === undefined ? strategy : { ...strategy, terminationGracePeriodSeconds: seconds };
}

/**
 * What speaks against an update, both objects in the same version: the spec, the labels that admission wrote, and in
 * v1alpha1 the time of the drain are immutable. Undefined: nothing does. `mayFill`: the update comes from the suite itself,
 * which may add once what admission has left out.
 */
export function validateRecreateUpdate(before: JsonObject, after: JsonObject, mayFill = false): Refusal | undefined {
  const fills = mayFill && isUnfilled(before);
  const [had, has] = fills ? [withoutFill(before, before), withoutFill(after, before)] : [before, after];
  const errors = [...specChanges(had, has), ...labelChanges(before, after), ...drainTimeChanges(before, after)];
  return errors.length === 0 ? undefined : { kind: 'refused', code: 403, errors };
}

function isUnfilled({ spec }: JsonObject): boolean {
  return listOr(objectOr(spec).containers).every((container) => objectOr(container).statusContext === undefined);
}

/** The object without what the watcher fills into `unfilled`. */
function withoutFill(object: JsonObject, unfilled: JsonObject): JsonObject {
  const spec = objectOr(object.spec);
  const containers = listOr(spec.containers).map((container) => {
    const fields = Object.entries(objectOr(container));
    return Object.fromEntries(fields.filter(([field]) => !filledByAdmission.some((filled) => filled === field)));
  });
  const { terminationGracePeriodSeconds: seconds, ...others } = objectOr(spec.strategy);
  const isUsers = objectOr(objectOr(unfilled.spec).strategy).terminationGracePeriodSeconds !== undefined;
  const strategy = { ...others, ...(isUsers && seconds !== undefined && { terminationGracePeriodSeconds: seconds }) };
  return { ...object, spec: { ...spec, containers, strategy } };
}

function specChanges(before: JsonObject, after: JsonObject): readonly FieldError[] {
  return differences('spec', before.spec, after.spec).map((path) => ({
    path,
    message: 'is immutable, as all of spec',
  }));
}

/** The paths of the fields that differ, each as deep as both sides have the same shape. */
function differences(path: string, before: Json | undefined, after: Json | undefined): readonly string[] {
  if (before === after) return [];
  if (isJsonObject(before) && isJsonObject(after)) {
    const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...keys].flatMap((key) => differences(`${path}.${key}`, before[key], after[key]));
  }
  if (isJsonList(before) && isJsonList(after) && before.length === after.length) {
    return before.flatMap((item, index) => differences(`${path}[${index}]`, item, after[index]));
  }
  return [path];
}

function labelChanges(before: JsonObject, after: JsonObject): readonly FieldError[] {
  return [crrLabel.podUid, crrLabel.nodeName]
    .filter((label) => metadataEntry(before, 'labels', label) !== metadataEntry(after, 'labels', label))
    .map((label) => ({ path: `metadata.labels[${label}]`, message: 'is immutable' }));
}

function drainTimeChanges(before: JsonObject, after: JsonObject): readonly FieldError[] {
  if (recreateVersion(after) !== 'v1alpha1') return [];
  const key = crrAnnotation.unreadyAcquired;
  const acquired = metadataEntry(before, 'annotations', key);
  if (acquired === undefined || acquired === metadataEntry(after, 'annotations', key)) return [];
  return [{ path: `metadata.annotations[${key}]`, message: 'is immutable once it is set' }];
}

function metadataEntry(object: JsonObject, map: 'labels' | 'annotations', key: string): Json | undefined {
  const metadata = object.metadata;
  const entries = isJsonObject(metadata) ? metadata[map] : undefined;
  return isJsonObject(entries) ? entries[key] : undefined;
}

// ----------------------------------------------------------------------------------------------------------- conversion
//
// Everything maps one to one, and what we do not know passes through, but for two facts of the status:
//
//   v1beta1                                                  v1alpha1
//   status.containerStatusSnapshot                    <->    annotation sync-container-statuses, a JSON list
//   status.conditions[PreRecreateGrace], its time     <->    annotation unready-acquired
//
// The condition is left out of v1alpha1 where it can be written again from its time alone, that is when it is the first
// and says what it always says. Any other stays in the list as well, so that nothing is lost.

/** An object in the other version, and what could not be taken along. */
export interface Converted {
  readonly object: JsonObject;
  readonly warnings: readonly string[];
}

/** Whichever version the object is in, this one. Undefined: the version is not ours. */
export function convertRecreateRequest(object: JsonObject, apiVersion: string): Converted | undefined {
  if (recreateVersion(object) === undefined) return undefined;
  if (apiVersion === `${crr.group}/v1beta1`) return toV1beta1(object);
  if (apiVersion === `${crr.group}/v1alpha1`) return toV1alpha1(object);
  return undefined;
}

/** The object as v1beta1: the annotations become fields of the status. One that cannot be read is dropped with a warning. */
export function toV1beta1(object: JsonObject): Converted {
  if (recreateVersion(object) === 'v1beta1') return { object, warnings: [] };
  const snapshotText = metadataEntry(object, 'annotations', crrAnnotation.syncContainerStatuses);
  const acquiredText = metadataEntry(object, 'annotations', crrAnnotation.unreadyAcquired);
  const snapshot = snapshotText === undefined ? undefined : parseSnapshot(snapshotText);
  const acquired = acquiredText === undefined ? undefined : parseTime(acquiredText);

  const status = object.status;
  const known = isJsonObject(status) ? status : {};
  const additions = {
    ...(snapshot && { containerStatusSnapshot: snapshot }),
    ...(acquired !== undefined && { conditions: conditionsWithDrain(known.conditions, acquired) }),
  };
  const moved = withoutAnnotations(object);
  const hasAdditions = Object.keys(additions).length > 0 && (status === undefined || isJsonObject(status));
  return {
    object: {
      ...moved,
      apiVersion: `${crr.group}/v1beta1`,
      ...(hasAdditions && { status: { ...known, ...additions } }),
    },
    warnings: [
      ...(snapshotText !== undefined && snapshot === undefined ? [dropped(crrAnnotation.syncContainerStatuses)] : []),
      ...(acquiredText !== undefined && acquired === undefined ? [dropped(crrAnnotation.unreadyAcquired)] : []),
    ],
  };
}

/** The object as v1alpha1: both annotations say what the status says, and nothing else. */
export function toV1alpha1(object: JsonObject): Converted {
  if (recreateVersion(object) === 'v1alpha1') return { object, warnings: [] };
  const moved: JsonObject = { ...withoutAnnotations(object), apiVersion: `${crr.group}/v1alpha1` };
  const status = moved.status;
  if (!isJsonObject(status)) return { object: moved, warnings: [] };

  const { containerStatusSnapshot, ...rest } = status;
  const snapshot = formatSnapshot(containerStatusSnapshot);
  const acquired = drainTime(rest.conditions);
  const annotations = {
    ...(snapshot !== undefined && { [crrAnnotation.syncContainerStatuses]: snapshot }),
    ...(acquired !== undefined && { [crrAnnotation.unreadyAcquired]: acquired }),
  };
  const left = {
    ...withoutPlainDrain(rest),
    ...(snapshot === undefined && containerStatusSnapshot !== undefined && { containerStatusSnapshot }),
  };
  const { status: _, ...withoutStatus } = moved;
  // A status that held nothing but what went into annotations comes back with them.
  const gone = Object.keys(left).length === 0 && Object.keys(annotations).length > 0;
  return { object: withAnnotations(gone ? withoutStatus : { ...moved, status: left }, annotations), warnings: [] };
}

function dropped(annotation: string): string {
  return `annotation ${annotation} is invalid and is dropped`;
}

function withoutAnnotations(object: JsonObject): JsonObject {
  const metadata = object.metadata;
  const annotations = isJsonObject(metadata) ? metadata.annotations : undefined;
  if (!isJsonObject(metadata) || !isJsonObject(annotations)) return object;
  const {
    [crrAnnotation.syncContainerStatuses]: snapshot,
    [crrAnnotation.unreadyAcquired]: acquired,
    ...rest
  } = annotations;
  if (snapshot === undefined && acquired === undefined) return object;

  const { annotations: _, ...others } = metadata;
  const kept = Object.keys(rest).length === 0 ? others : { ...metadata, annotations: rest };
  return { ...object, metadata: kept };
}

function withAnnotations(object: JsonObject, annotations: JsonObject): JsonObject {
  if (Object.keys(annotations).length === 0) return object;
  const metadata = isJsonObject(object.metadata) ? object.metadata : {};
  const before = isJsonObject(metadata.annotations) ? metadata.annotations : {};
  return { ...object, metadata: { ...metadata, annotations: { ...before, ...annotations } } };
}

/** Undefined when the text is not a list of container statuses. Absent numbers and flags are zero, as in Go. */
function parseSnapshot(text: Json): readonly JsonObject[] | undefined {
  const list = parseJson(text);
  if (!isJsonList(list)) return undefined;
  const entries = list.filter(isSnapshotEntry);
  return entries.length === list.length
    ? entries.map((entry) => ({ ...entry, ready: entry.ready ?? false, restartCount: entry.restartCount ?? 0 }))
    : undefined;
}

function isSnapshotEntry(entry: Json): entry is JsonObject {
  if (!isJsonObject(entry)) return false;
  const { name, ready = false, restartCount = 0, containerID = '' } = entry;
  return (
    typeof name === 'string' &&
    typeof ready === 'boolean' &&
    Number.isInteger(restartCount) &&
    typeof containerID === 'string'
  );
}

function parseJson(text: Json): Json | undefined {
  if (typeof text !== 'string') return undefined;
  try {
    const value: Json = JSON.parse(text);
    return value;
  } catch {
    return undefined;
  }
}

/** The keys in the order in which scripts have always seen them. */
function formatSnapshot(snapshot: Json | undefined): string | undefined {
  if (!isJsonList(snapshot) || !snapshot.every(isSnapshotEntry)) return undefined;
  const entries = snapshot.map(({ name, ready, restartCount, containerID, ...rest }) => ({
    name,
    ready,
    restartCount,
    containerID,
    ...rest,
  }));
  return JSON.stringify(entries);
}

const rfc3339 = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$/;

function parseTime(text: Json): string | undefined {
  return typeof text === 'string' && rfc3339.test(text) && !Number.isNaN(Date.parse(text)) ? text : undefined;
}

function isDrain(condition: Json): condition is JsonObject {
  return isJsonObject(condition) && condition.type === recreateCondition.preRecreateGrace;
}

/** The time in the condition, where v1alpha1 has a place for it. */
function drainTime(conditions: Json | undefined): string | undefined {
  const drain = isJsonList(conditions) ? conditions.find(isDrain) : undefined;
  return parseTime(drain?.lastTransitionTime ?? null);
}

/** The condition with that time, in its place if it has one, else in front. */
function conditionsWithDrain(conditions: Json | undefined, acquired: string): readonly Json[] {
  const list = isJsonList(conditions) ? conditions : [];
  const place = list.findIndex(isDrain);
  if (place < 0) return [{ ...preRecreateGrace(acquired) }, ...list];
  return list.map((condition, index) =>
    index === place && isDrain(condition) ? { ...condition, lastTransitionTime: acquired } : condition,
  );
}

function withoutPlainDrain(status: JsonObject): JsonObject {
  const conditions = status.conditions;
  const acquired = drainTime(conditions);
  if (!isJsonList(conditions) || acquired === undefined) return status;
  const [first, ...others] = conditions;
  if (!sameJson(first, preRecreateGrace(acquired)) || others.some(isDrain)) return status;

  const { conditions: _, ...rest } = status;
  return others.length === 0 ? rest : { ...rest, conditions: others };
}
