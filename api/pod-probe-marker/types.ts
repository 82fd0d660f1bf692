// PodProbeMarker: probes containers of pods, and shows the results on these pods.
//
// Who writes what. A field has one writer.
//
//   metadata.finalizers node-pod-probe-cleanup   the watcher
//   spec                                         the user
//   status                                       the watcher
//   on the pod: the condition podConditionType   the watcher (on virtual nodes the provider)
//   on the pod: marks of markerPolicy            the watcher
//   on the pod: annotations for providers        admission, at creation

import {
  isAbsent,
  isJsonList,
  isJsonObject,
  type Json,
  type JsonObject,
  listOr,
  objectOr,
  sameJson,
} from '../base/json.ts';
import { cloneSetMark } from '../cloneset/types.ts';
import { type FieldProblem, forbidden, invalid, newProblems, notSupported, required } from '../core/field-problem.ts';
import { keyProblems, selectorProblems, valueProblems } from '../core/label-problems.ts';
import { type LabelSelector, labelMatcher } from '../core/label-selector.ts';
import { labelKeyProblem } from '../core/label-syntax.ts';
import type { KubeObject, ObjectMeta, Resource } from '../core/meta.ts';
import { group, podReadinessGate } from '../core/well-known.ts';
import type { WaitingFor } from '../engine/waiting-for.ts';
import { blockedByLimit } from '../engine/waiting-for.ts';
import type { Parsed } from '../schema/static.ts';
import { limitProblems } from './limits.ts';
import type { specSchema, statusSchema } from './schema.ts';

// ---------------------------------------------------------------------------------------------------------- the shape

/** Which pods of its namespace are probed, how, and what they are marked with. */
export interface PodProbeMarker extends KubeObject {
  readonly metadata: ObjectMeta;
  readonly spec: PodProbeMarkerSpec;
  /** Absent until somebody has looked at the marker. */
  readonly status?: PodProbeMarkerStatus;
}

export type PodProbeMarkerSpec = Parsed<typeof specSchema>;
export type PodProbeMarkerStatus = Parsed<typeof statusSchema>;
export type MarkerProbe = PodProbeMarkerSpec['probes'][number];
export type MarkerPolicy = NonNullable<MarkerProbe['markerPolicy']>[number];

/** How the API server addresses them. */
export const podProbeMarker = {
  group: group.apps,
  version: 'v1alpha1',
  plural: 'podprobemarkers',
  kind: 'PodProbeMarker',
  namespaced: true,
} as const satisfies Resource;

/** Nodes may still have work of this marker; goes when none has. */
export const nodePodProbeFinalizer = 'kruise.io/node-pod-probe-cleanup';

/** Whether the marker cannot go before the nodes have been looked at: only then they are told of it (PPM-9). */
export function isHeld({ metadata }: PodProbeMarker): boolean {
  return metadata.finalizers?.includes(nodePodProbeFinalizer) ?? false;
}

/** Annotations on pods, written at their creation for providers of virtual nodes. */
export const serverlessAnnotation = {
  /** JSON list of probes. */
  probes: 'kruise.io/podprobe',
  /** Names of the markers they are from, sorted, with commas between them. */
  markers: 'kruise.io/podprobemarker-list',
} as const;

/** Names that a probe must not have, because they are names of conditions (PPM §2.1). */
const reservedNames: readonly string[] = [
  'PodScheduled',
  'Initialized',
  'Ready',
  'ContainersReady',
  podReadinessGate,
  'InPlaceUpdateReady',
];

/** Conditions that are somebody else's: a marker that wrote one of them would fight with the kubelet or with us. */
const reservedConditions: readonly string[] = [
  ...reservedNames,
  'DisruptionTarget',
  'PodReadyToStartContainers',
  'PodResizePending',
  'PodResizeInProgress',
];

/** Whose conditions say something about pods that others rely on. */
const reservedConditionDomains: readonly string[] = ['kubernetes.io', 'k8s.io', 'windlass.io'];

/** Whether a marker may write this condition. */
export function mayWriteCondition(type: string | undefined): type is string {
  if (type === undefined || type === '') return false;
  return !reservedConditions.includes(type) && !isInDomain(type, reservedConditionDomains);
}

/** In these labels and annotations of pods the suite keeps its own records. */
const reservedMarkDomains: readonly string[] = ['apps.kruise.io', 'policy.kruise.io', 'windlass.io'];

/** Records in a domain that has keys for users as well. */
const reservedMarks: readonly string[] = Object.values(serverlessAnnotation);
const sidecarRecords = 'kruise.io/sidecarset-';

/** Keys of these domains that are made for users to write on running pods. */
const marksOfUsers: readonly string[] = [cloneSetMark.specifiedDelete];

/** Whether a marker may write this label or annotation: all but the records of the suite. */
export function mayWriteMark(key: string): boolean {
  if (marksOfUsers.includes(key)) return true;
  const isRecord = reservedMarks.includes(key) || key.startsWith(sidecarRecords);
  return !isRecord && !isInDomain(key, reservedMarkDomains);
}

/** Whether the part before the slash is one of these domains, or below one. */
function isInDomain(key: string, domains: readonly string[]): boolean {
  const slash = key.indexOf('/');
  const prefix = key.slice(0, Math.max(0, slash)).toLowerCase();
  return slash > 0 && domains.some((domain) => prefix === domain || prefix.endsWith(`.${domain}`));
}

/** Whom the marker selects, as a question; an empty or malformed selector selects nobody (PPM-1). */
export function selectionOf(marker: PodProbeMarker): (labels: Readonly<Record<string, string>> | undefined) => boolean {
  const selector: LabelSelector = marker.spec.selector;
  const isEmpty =
    Object.keys(selector.matchLabels ?? {}).length === 0 && (selector.matchExpressions ?? []).length === 0;
  const matches = isEmpty ? undefined : labelMatcher(selector);
  return matches ?? (() => false);
}

// ------------------------------------------------------------------------------------------------------------- waiting

/** Reasons of `status.waitingFor`, with what a person can do. */
export const markerWaits = {
  NodeNotReady: 'Bring the node back: it gets its list of probes once it is ready',
  PortNotFound: 'Name a port of the container, or give a number',
  TooManyProbes: 'Have fewer markers select the pod, or take probes out of them: a pod has at most 64',
  NodeListFull:
    'Make commands and headers shorter, or probe fewer pods: the probes of a node are limited in size, and its namespaces share the limit',
} as const;
export type MarkerWaitReason = keyof typeof markerWaits;

/** A wait of a marker; the same wait keeps the time at which it began. */
export function markerWait(
  reason: MarkerWaitReason,
  blockedBy: readonly string[],
  now: string,
  before: WaitingFor | undefined,
): WaitingFor {
  return {
    reason,
    blockedBy: blockedBy.slice(0, blockedByLimit),
    blockedCount: blockedBy.length,
    since: before?.reason === reason ? before.since : now,
    unblock: markerWaits[reason],
  };
}

// ----------------------------------------------------------------------------------------------------------- admission

/**
 * Every problem of a marker at once, each with its field path; an empty list means that there is none. Takes objects of
 * any shape, and never throws.
 */
export function validatePodProbeMarker({ spec }: JsonObject): readonly FieldProblem[] {
  if (!isJsonObject(spec)) return [required('spec', 'describes which pods are probed, and how')];
  return [...problemsOfShape(spec), ...limitProblems(spec)];
}

function problemsOfShape(spec: JsonObject): readonly FieldProblem[] {
  return [...selectorProblems('spec.selector', spec.selector, 'selects the pods to probe'), ...probesProblems(spec)];
}

/** What speaks against an update. A problem that the marker has already is not held against it. */
export function validatePodProbeMarkerUpdate(before: JsonObject, after: JsonObject): readonly FieldProblem[] {
  if (!isJsonObject(after.spec)) return validatePodProbeMarker(after);
  const old = objectOr(before.spec);
  const problems = newProblems(problemsOfShape(old), problemsOfShape(after.spec));
  const isSame = sameJson(old.selector, after.spec.selector);
  return [
    ...(isSame ? [] : [forbidden('spec.selector', 'cannot be changed: create another PodProbeMarker')]),
    ...problems,
    ...limitProblems(after.spec, old),
  ];
}

function probesProblems(spec: JsonObject): readonly FieldProblem[] {
  const path = 'spec.probes';
  const probes = listOr(spec.probes).map(objectOr);
  if (probes.length === 0) return [required(path, 'lists the probes')];
  const repeatedName = repeatedIn(probes.map(({ name }) => name));
  const repeatedType = repeatedIn(probes.map(({ podConditionType }) => podConditionType || undefined));
  return probes.flatMap((probe, index) => {
    const at = `${path}[${index}]`;
    return [
      ...nameProblems(`${at}.name`, probe.name),
      ...repeatedName(`${at}.name`, index),
      ...(typeof probe.containerName === 'string' && probe.containerName !== ''
        ? []
        : [required(`${at}.containerName`, 'names the container to probe')]),
      ...probeProblems(`${at}.probe`, probe.probe),
      ...conditionProblems(`${at}.podConditionType`, probe.podConditionType),
      ...repeatedType(`${at}.podConditionType`, index),
      ...policiesProblems(at, probe),
    ];
  });
}

function nameProblems(path: string, name: Json | undefined): readonly FieldProblem[] {
  if (typeof name !== 'string' || name === '') return [required(path, 'identifies the probe')];
  if (name.includes('#')) return [invalid(path, name, 'must not contain "#"')];
  return reservedNames.includes(name)
    ? [invalid(path, name, 'is reserved: a condition of Kubernetes has this name')]
    : [];
}

/** Which of these values have been there before; asked once for a list, as a search for each would take its square. */
function repeatedIn(values: readonly (Json | undefined)[]): (path: string, index: number) => readonly FieldProblem[] {
  const firsts = new Map<Json | undefined, number>();
  for (const [index, value] of values.entries()) if (!firsts.has(value)) firsts.set(value, index);
  return (path, index) => {
    const value = values[index];
    const isFirst = value === undefined || firsts.get(value) === index;
    return isFirst ? [] : [invalid(path, value, 'is already used in this PodProbeMarker')];
  };
}

function conditionProblems(path: string, type: Json | undefined): readonly FieldProblem[] {
  if (isAbsent(type) || type === '') return [];
  if (typeof type !== 'string') return [invalid(path, type, 'must be a string')];
  const problem = labelKeyProblem(type);
  if (problem !== undefined) return [invalid(path, type, problem)];
  return mayWriteCondition(type)
    ? []
    : [invalid(path, type, 'is reserved: Kubernetes or another controller writes this condition')];
}

function policiesProblems(at: string, { podConditionType, markerPolicy }: JsonObject): readonly FieldProblem[] {
  const path = `${at}.markerPolicy`;
  const policies = listOr(markerPolicy).map(objectOr);
  if (policies.length === 0) {
    const hasCondition = !isAbsent(podConditionType) && podConditionType !== '';
    return hasCondition
      ? []
      : [required(path, 'must be set unless podConditionType is; otherwise nothing shows the result')];
  }
  const repeatedState = repeatedIn(policies.map(({ state }) => state));
  return policies.flatMap((policy, index) => [
    ...(verdicts.some((known) => known === policy.state)
      ? []
      : [notSupported(`${path}[${index}].state`, policy.state, verdicts)]),
    ...repeatedState(`${path}[${index}].state`, index),
    ...marksProblems(`${path}[${index}]`, policy),
  ]);
}

const verdicts = ['Succeeded', 'Failed'] as const;

function marksProblems(path: string, policy: JsonObject): readonly FieldProblem[] {
  const labels = Object.entries(objectOr(policy.labels));
  const annotations = Object.entries(objectOr(policy.annotations));
  if (labels.length + annotations.length === 0) return [required(path, 'must have labels or annotations')];
  return [
    ...labels.flatMap(([key, value]) => [
      ...keyProblems(`${path}.labels`, key),
      ...recordProblems(`${path}.labels`, key),
      ...valueProblems(`${path}.labels[${key}]`, value),
    ]),
    ...annotations.flatMap(([key, value]) => [
      ...keyProblems(`${path}.annotations`, key.toLowerCase()),
      ...recordProblems(`${path}.annotations`, key),
      ...(typeof value === 'string' ? [] : [invalid(`${path}.annotations[${key}]`, value, 'must be a string')]),
    ]),
  ];
}

function recordProblems(path: string, key: string): readonly FieldProblem[] {
  return mayWriteMark(key) ? [] : [invalid(path, key, 'is reserved and cannot be written by a PodProbeMarker')];
}

// ------------------------------------------------------------------------------------------------------------- a probe

const handlers = ['exec', 'httpGet', 'tcpSocket'] as const;

const numbers = [
  'initialDelaySeconds',
  'timeoutSeconds',
  'periodSeconds',
  'successThreshold',
  'failureThreshold',
] as const;

function probeProblems(path: string, probe: Json | undefined): readonly FieldProblem[] {
  if (!isJsonObject(probe)) return [required(path, 'describes how the container is probed')];
  const [first, ...others] = handlers.filter((handler) => !isAbsent(probe[handler]));
  if (first === undefined) return [required(path, 'must have exec, httpGet or tcpSocket')];
  return [
    ...others.map((handler) => forbidden(`${path}.${handler}`, 'only one of exec, httpGet and tcpSocket can be set')),
    ...handlerProblems(`${path}.${first}`, first, objectOr(probe[first])),
    ...numbers.flatMap((field) => numberProblems(`${path}.${field}`, probe[field])),
  ];
}

function numberProblems(path: string, value: Json | undefined): readonly FieldProblem[] {
  if (isAbsent(value)) return [];
  if (typeof value !== 'number' || !Number.isInteger(value)) return [invalid(path, value, 'must be an integer')];
  return value < 0 ? [invalid(path, value, 'must not be negative')] : [];
}

function handlerProblems(path: string, kind: (typeof handlers)[number], handler: JsonObject): readonly FieldProblem[] {
  switch (kind) {
    case 'exec':
      return isJsonList(handler.command) && handler.command.length > 0
        ? []
        : [required(`${path}.command`, 'is the command to run in the container')];
    case 'tcpSocket':
      return [...portProblems(`${path}.port`, handler.port), ...hostProblems(`${path}.host`, handler.host)];
    case 'httpGet':
      return [
        ...pathProblems(`${path}.path`, handler.path),
        ...portProblems(`${path}.port`, handler.port),
        ...hostProblems(`${path}.host`, handler.host),
        ...(handler.scheme === 'HTTP' || handler.scheme === 'HTTPS'
          ? []
          : [notSupported(`${path}.scheme`, handler.scheme ?? '', ['HTTP', 'HTTPS'])]),
        ...listOr(handler.httpHeaders).flatMap((header, index) => {
          const { name } = objectOr(header);
          const isHeader = typeof name === 'string' && /^[-A-Za-z0-9]+$/.test(name);
          return isHeader ? [] : [invalid(`${path}.httpHeaders[${index}].name`, name, 'is not a valid header name')];
        }),
      ];
  }
}

function hostProblems(path: string, host: Json | undefined): readonly FieldProblem[] {
  return isAbsent(host) || host === ''
    ? []
    : [forbidden(path, 'the probe is always sent to the IP address of the pod')];
}

function pathProblems(path: string, value: Json | undefined): readonly FieldProblem[] {
  if (typeof value !== 'string' || value === '') return [required(path, 'is the path to request')];
  const isPath = !hasControlCharacter(value) && !/%(?![0-9A-Fa-f]{2})/.test(value);
  return isPath ? [] : [invalid(path, value, 'is not a valid path of a URL')];
}

function hasControlCharacter(text: string): boolean {
  return [...text].some((character) => character < ' ' || character === '\u007f');
}

function portProblems(path: string, port: Json | undefined): readonly FieldProblem[] {
  if (isAbsent(port)) return [required(path, 'is the port to probe')];
  if (typeof port === 'number') {
    const isPort = Number.isInteger(port) && port >= 1 && port <= 65_535;
    return isPort ? [] : [invalid(path, port, 'must be between 1 and 65535')];
  }
  const isName =
    typeof port === 'string' && port.length <= 15 && /^[a-z0-9]+(-[a-z0-9]+)*$/.test(port) && /[a-z]/.test(port);
  const rule = 'must be a number, or a name of at most 15 lower case letters, digits and "-", with a letter';
  return isName ? [] : [invalid(path, port, rule)];
}
