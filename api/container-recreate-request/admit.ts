// Links a new request to its pod: what admission, or later the watcher, checks against the pod and copies from it.

import { isJsonList, isJsonObject, type JsonObject } from '../base/json.ts';
import type { FieldError } from '../core/field-error.ts';
import { isVirtual, type Node } from '../core/node.ts';
import { type Container, type ContainerStatus, isMirrorPod, type Pod } from '../core/pod.ts';
import { crrLabel, sidecarTerminatedCondition, virtualNodeLabel } from '../core/well-known.ts';
import { withLabels } from './defaults.ts';
import {
  type ContainerRecreateRequestSpec,
  type RecreateContainer,
  type RecreatePreStop,
  type RecreateStrategy,
  recreateVersion,
} from './types.ts';
import { type Refusal, refuseSpec, type SpecProblem, validateRecreateSpec } from './validate.ts';

/** A label value holds no more, so pods on nodes with longer names cannot be restarted. */
export const labelValueLimit = 63;

/** What admission has read. Undefined means that the object does not exist. */
export interface RecreateSurroundings {
  readonly pod: Pod | undefined;
  /** The pod's node; not read for a pod without one. */
  readonly node: Node | undefined;
}

/** A valid spec with everything that the stop needs, so that the pod need not be read again (CRR-8). */
export type FillResult = { readonly kind: 'filled'; readonly request: JsonObject } | Refusal;

/**
 * Writes what pod and node define into a new request (CRR-2 to CRR-7), or returns all problems. Accepts the request in
 * either version; unknown fields are kept. An invalid spec is rejected as such.
 */
export function fillRecreateRequest(input: { readonly request: JsonObject } & RecreateSurroundings): FillResult {
  const { pod, node } = input;
  const checked = checkedSpec(input.request);
  if (checked.kind === 'refused') return checked;
  const { spec } = checked;

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
 * Links a new request to its pod and node only (CRR-2 to CRR-4), for clients that admission cannot authenticate:
 * neither the request nor a rejection reveals more about the pod than UID, node, and whether it is active. The watcher
 * fills in the rest.
 */
export function placeRecreateRequest(input: { readonly request: JsonObject } & RecreateSurroundings): FillResult {
  const { pod, node } = input;
  const checked = checkedSpec(input.request);
  if (checked.kind === 'refused') return checked;
  const { spec } = checked;

  const errors = [...podProblems(spec.podName, pod, node), ...ownerProblems(input.request, pod)];
  if (errors.length > 0 || pod === undefined || node === undefined) return { kind: 'refused', code: 400, errors };
  return { kind: 'filled', request: withLabels(input.request, placeLabels(pod, node)) };
}

/**
 * The spec with containers and grace period copied from its pod (CRR-5 to CRR-7), or the problems. `askedAt` is when
 * the request was created; absent: now.
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

/** The spec of a request with its type, or why it is invalid. */
function checkedSpec(
  request: JsonObject,
): { readonly kind: 'valid'; readonly spec: ContainerRecreateRequestSpec & JsonObject } | Refusal {
  const version = recreateVersion(request) ?? 'v1beta1';
  const problems = validateRecreateSpec(request.spec, version);
  return isChecked(request.spec, problems) ? { kind: 'valid', spec: request.spec } : refuseSpec(problems, version);
}

/** The only place where an external spec gets its type: all checks have passed. */
function isChecked(
  _spec: unknown,
  problems: readonly SpecProblem[],
): _spec is ContainerRecreateRequestSpec & JsonObject {
  return problems.length === 0;
}

function podProblems(podName: string, pod: Pod | undefined, node: Node | undefined): readonly FieldError[] {
  const field = 'spec.podName';
  if (pod === undefined) return [{ field, detail: `pod "${podName}" is not found` }];
  const name = `pod "${pod.metadata.namespace ?? ''}/${pod.metadata.name}"`;

  if (pod.metadata.deletionTimestamp !== undefined)
    return [{ field, detail: `${name} is not active: it is being deleted` }];
  const phase = pod.status?.phase ?? '';
  const finished = phase === 'Succeeded' || phase === 'Failed';
  if (finished && !sidecarsTerminated(pod)) return [{ field, detail: `${name} is not active: its phase is ${phase}` }];

  // the kubelet uses the hash of the file as the pod UID of its containers, so no daemon would find them by the UID of
  // the object
  if (isMirrorPod(pod)) {
    const detail = `${name} is a mirror pod of a static pod: change its manifest on the node to restart its containers`;
    return [{ field, detail }];
  }

  const nodeName = pod.spec.nodeName ?? '';
  if (nodeName === '') return [{ field, detail: `${name} is not scheduled to a node` }];
  if (node === undefined) return [{ field, detail: `node "${nodeName}" of ${name} is not found` }];
  if (nodeName.length > labelValueLimit) {
    return [{ field, detail: `the name of node "${nodeName}" has more than ${labelValueLimit} characters` }];
  }
  return [];
}

/** A request that is owned by a pod is about that pod, and not about a later one of the same name. */
function ownerProblems({ metadata }: JsonObject, pod: Pod | undefined): readonly FieldError[] {
  const owners = isJsonObject(metadata) && isJsonList(metadata.ownerReferences) ? metadata.ownerReferences : [];
  return owners.flatMap((owner, index) => {
    if (pod === undefined || !isJsonObject(owner) || owner.kind !== 'Pod' || owner.uid === pod.metadata.uid) return [];
    const detail = `is not pod "${pod.metadata.namespace ?? ''}/${pod.metadata.name}", which the request names`;
    return [{ field: `metadata.ownerReferences[${index}]`, detail }];
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
    error: { field: `spec.containers[${index}].name`, detail: `container "${name}" ${why}` },
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
 * The instance that ran when the request was created (CRR-7). If the current one was started later, to the second, it
 * is the previous one, which the kubelet may still report.
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

/** The current hook (CRR-7). `sleep` is copied, too, so that the stop can honour it. */
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
