// What follows from markers and results: the work list of a node, and the marks of a pod.
//
//   work list of a node = for each pod of the node that is to be probed: every probe of every marker that selects it
//   marks of a pod      = for each result, in the order of the work list: what its marker says about it now
//
// Both are computed from scratch each time, so nothing of a marker is left behind when it changes or is deleted.

import { type ContainerPort, isActive, type Pod, type PodCondition } from '../../api/core/pod.ts';
import { namedPort, withNumericPort } from '../../api/core/probe.ts';
import {
  type ContainerProbe,
  type ContainerProbeState,
  type PodProbe,
  parseProbeKey,
  probeKey,
} from '../../api/node-pod-probe/types.ts';
import { mayWriteCondition, mayWriteMark } from '../../api/pod-probe-marker/reserved.ts';
import {
  type MarkerPolicy,
  type MarkerProbe,
  type PodProbeMarker,
  selectionOf,
} from '../../api/pod-probe-marker/types.ts';

/** Whether the pod is initialized, so that its containers may run. */
export function isInitialized({ status }: Pod): boolean {
  return status?.conditions?.some(({ type, status: is }) => type === 'Initialized' && is === 'True') ?? false;
}

/** Whether a pod that is selected counts as matched, as far as the pod itself tells (PPM-2). */
export function mayBeProbed(pod: Pod): boolean {
  return isActive(pod) && isInitialized(pod) && (pod.spec.nodeName ?? '') !== '';
}

/** The markers that select this pod, in the order of their names. Those that are being deleted select nothing. */
export function markersOf(pod: Pod, markersOfNamespace: readonly PodProbeMarker[]): readonly PodProbeMarker[] {
  return markersOfNamespace
    .filter((marker) => marker.metadata.deletionTimestamp === undefined && selectionOf(marker)(pod.metadata.labels))
    .toSorted((left, right) => compare(left.metadata.name, right.metadata.name));
}

/** One pod, for the work list of its node. */
export interface ProbedPod {
  readonly pod: Pod;
  readonly markers: readonly PodProbeMarker[];
  /** Ports by container. Absent: not read yet, so probes of named ports are left out. */
  readonly ports?: ContainerPorts;
}

export type ContainerPorts = ReadonlyMap<string, readonly ContainerPort[]>;

/** A probe that cannot be carried out, because its container has no port of that name (PPM-5). */
export interface LostPort {
  readonly namespace: string;
  readonly pod: string;
  readonly marker: string;
  readonly port: string;
}

/** Whether any of these markers uses a named port, so that the ports of the pod have to be read. */
export function needsPorts(markers: readonly PodProbeMarker[]): boolean {
  return markers.some(({ spec }) => spec.probes.some(({ probe }) => namedPort(probe) !== undefined));
}

/**
 * The work list of a node. A pod is probed from when it is initialized until it ends: the kubelet sets `Initialized` to
 * False for a moment when a sandbox is recreated. The order is that of the names.
 */
export function workListOf(
  probed: readonly ProbedPod[],
  present: readonly PodProbe[],
): { readonly podProbes: readonly PodProbe[]; readonly lostPorts: readonly LostPort[] } {
  const known = new Set(present.map(({ uid }) => uid));
  const lostPorts: LostPort[] = [];
  const podProbes = probed
    .filter(({ pod }) => mayBeProbed(pod) || (isActive(pod) && known.has(pod.metadata.uid)))
    .map((entry) => podProbeOf(entry, lostPorts))
    .filter(({ probes = [] }) => probes.length > 0)
    .toSorted((left, right) => compare(left.namespace, right.namespace) || compare(left.name, right.name));
  return { podProbes, lostPorts };
}

function podProbeOf({ pod, markers, ports }: ProbedPod, lostPorts: LostPort[]): PodProbe {
  const { name, namespace = '', uid } = pod.metadata;
  const probes = markers.flatMap((marker) =>
    marker.spec.probes.flatMap(({ name: probeName, containerName, probe }): readonly ContainerProbe[] => {
      const resolved = withNumericPort(probe, ports?.get(containerName) ?? []);
      if (resolved === undefined) {
        if (ports) lostPorts.push({ namespace, pod: name, marker: marker.metadata.name, port: namedPort(probe) ?? '' });
        return [];
      }
      return [{ name: probeKey(marker.metadata.name, probeName), containerName, probe: resolved }];
    }),
  );
  return { name, namespace, uid, IP: pod.status?.podIP ?? '', probes };
}

function compare(left: string, right: string): number {
  return left < right ? -1 : Number(left > right);
}

// ------------------------------------------------------------------------------------------------------ marks of a pod

/** What has to be written on a pod. A null value removes the mark. */
export interface PodMarks {
  readonly conditions: readonly PodCondition[];
  readonly labels: Readonly<Record<string, string | null>>;
  readonly annotations: Readonly<Record<string, string | null>>;
  /** Conditions that several results would set; the first one does (NPP-13). */
  readonly contested: readonly string[];
}

/** The marks for the results of a pod, by the current markers (NPP-12 to NPP-14). */
export function marksOf(states: readonly ContainerProbeState[], markers: readonly PodProbeMarker[]): PodMarks {
  const conditions = new Map<string, PodCondition>();
  const contested: string[] = [];
  let labels: Record<string, string | null> = {};
  let annotations: Record<string, string | null> = {};
  for (const state of states) {
    const found = state.state === '' ? undefined : probeOf(state.name, markers);
    if (found === undefined) continue;
    const { podConditionType, markerPolicy = [] } = found;
    if (mayWriteCondition(podConditionType)) {
      if (conditions.has(podConditionType)) contested.push(podConditionType);
      else conditions.set(podConditionType, conditionOf(podConditionType, state));
    }
    const { matched, opposite } = policiesFor(markerPolicy, state.state);
    labels = { ...labels, ...without(opposite?.labels), ...writable(matched?.labels) };
    annotations = { ...annotations, ...without(opposite?.annotations), ...writable(matched?.annotations) };
  }
  return { conditions: [...conditions.values()], labels, annotations, contested };
}

/**
 * The marks for the conditions of a pod on a virtual node, which its provider has written (PPS-4, PPS-5). Nothing is
 * removed, and no condition is written.
 */
export function serverlessMarksOf(pod: Pod, markers: readonly PodProbeMarker[]): PodMarks {
  const policies = markers.flatMap(({ spec }) =>
    spec.probes.flatMap(({ podConditionType, markerPolicy = [] }) => {
      const condition = pod.status?.conditions?.find(({ type }) => podConditionType && type === podConditionType);
      const verdicts: Readonly<Record<string, string>> = { True: 'Succeeded', False: 'Failed' };
      const verdict = condition && verdicts[condition.status];
      return markerPolicy.filter(({ state }) => state === verdict);
    }),
  );
  return {
    conditions: [],
    labels: Object.assign({}, ...policies.map((policy) => writable(policy.labels))),
    annotations: Object.assign({}, ...policies.map((policy) => writable(policy.annotations))),
    contested: [],
  };
}

function probeOf(key: string, markers: readonly PodProbeMarker[]): MarkerProbe | undefined {
  const parsed = parseProbeKey(key);
  const marker = markers.find(
    ({ metadata }) => metadata.name === parsed?.marker && metadata.deletionTimestamp === undefined,
  );
  return marker?.spec.probes.find(({ name }) => name === parsed?.probe);
}

function conditionOf(
  type: string,
  { state, message, lastProbeTime, lastTransitionTime }: ContainerProbeState,
): PodCondition {
  return {
    type,
    status: state === 'Succeeded' ? 'True' : 'False',
    ...(message ? { message } : {}),
    ...(lastProbeTime === undefined ? {} : { lastProbeTime }),
    ...(lastTransitionTime === undefined ? {} : { lastTransitionTime }),
  };
}

/** NPP-14: the policy of this state, and the last one of the other states. */
function policiesFor(
  policies: readonly MarkerPolicy[],
  state: string,
): { readonly matched: MarkerPolicy | undefined; readonly opposite: MarkerPolicy | undefined } {
  return {
    matched: policies.find((policy) => policy.state === state),
    opposite: policies.findLast((policy) => policy.state !== state),
  };
}

function without(marks: Readonly<Record<string, string>> | undefined): Readonly<Record<string, null>> {
  return Object.fromEntries(Object.keys(writable(marks)).map((key) => [key, null]));
}

/** Without Windlass's own keys, which a marker that was stored earlier may contain. */
function writable(marks: Readonly<Record<string, string>> = {}): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(marks).filter(([key]) => mayWriteMark(key)));
}

/** The marks that this pod lacks; undefined when it has all of them (NPP-15, NPP-16). */
export function marksLeft(pod: Pod, wanted: PodMarks): Omit<PodMarks, 'contested'> | undefined {
  const present = pod.status?.conditions ?? [];
  const conditions = wanted.conditions.filter((condition) => {
    const before = present.find(({ type }) => type === condition.type);
    return before?.status !== condition.status || (before.message ?? '') !== (condition.message ?? '');
  });
  const labels = differing(wanted.labels, pod.metadata.labels);
  const annotations = differing(wanted.annotations, pod.metadata.annotations);
  const isDone = conditions.length + Object.keys(labels).length + Object.keys(annotations).length === 0;
  return isDone ? undefined : { conditions, labels, annotations };
}

function differing(
  wanted: Readonly<Record<string, string | null>>,
  present: Readonly<Record<string, string>> = {},
): Readonly<Record<string, string | null>> {
  return Object.fromEntries(Object.entries(wanted).filter(([key, value]) => (present[key] ?? null) !== value));
}

/** The pod's conditions, with these replacing those of the same type. */
export function withConditions(pod: Pod, changed: readonly PodCondition[]): readonly PodCondition[] {
  const present = pod.status?.conditions ?? [];
  const added = changed.filter(({ type }) => !present.some((condition) => condition.type === type));
  return [...present.map((condition) => changed.find(({ type }) => type === condition.type) ?? condition), ...added];
}
