// The readiness gate KruisePodReady: one gate of a pod, shared by all operations. Each holds a key of its own, and the
// pod can be ready only while there are no keys. The keys are in the message of the pod condition of the same name, as
// JSON sorted by holder and key.
//
// The functions here only compute conditions of one pod. Callers write the result with the resourceVersion of the
// conditions that they read, and compute again after a conflict; so no holder can lose the key of another.

import { isJsonList, isJsonObject, type Json } from '../base/json.ts';
import type { FeatureGates } from '../feature-gates.ts';
import type { OwnerReference } from './meta.ts';
import type { Pod, PodCondition } from './pod.ts';
import { group, podReadinessGate } from './well-known.ts';

/** Which operation keeps a pod out of service, and for what. */
export interface ReadinessKey {
  readonly userAgent: string;
  readonly key: string;
}

const recreateAgent = 'ContainerRecreateRequest';

/** The key of a ContainerRecreateRequest that drains its pod. */
export function recreateKey(request: { readonly namespace: string; readonly name: string }): ReadinessKey {
  return { userAgent: recreateAgent, key: `${request.namespace}/${request.name}` };
}

/** The request that holds this key, or undefined for a key of another kind of holder. */
export function requestOfKey(key: ReadinessKey): { readonly namespace: string; readonly name: string } | undefined {
  const slash = key.key.indexOf('/');
  if (key.userAgent !== recreateAgent || slash < 0) return undefined;
  return { namespace: key.key.slice(0, slash), name: key.key.slice(slash + 1) };
}

/** Whether the pod has the gate. Without it keys have no meaning, and nothing here changes the pod. */
export function hasReadinessGate(pod: PodWithGates): boolean {
  return pod.spec.readinessGates?.some(({ conditionType }) => conditionType === podReadinessGate) ?? false;
}

/** The part of a pod that lists its gates. */
export interface PodWithGates {
  readonly spec: { readonly readinessGates?: readonly { readonly conditionType: string }[] };
}

/** A pod as admission sees it before it has a name or a UID. */
export interface NewPod extends PodWithGates {
  readonly metadata?: { readonly ownerReferences?: readonly OwnerReference[] };
}

/**
 * Whether a pod gets the gate when it is created (PRG-1): if one of our workloads controls it, or if every pod gets it,
 * and if it does not have it yet.
 */
export function needsReadinessGate(pod: NewPod, gates: Pick<FeatureGates, 'KruisePodReadinessGate'>): boolean {
  if (hasReadinessGate(pod)) return false;
  const controller = pod.metadata?.ownerReferences?.find((owner) => owner.controller === true);
  const isOurs = controller?.apiVersion.split('/')[0] === group.apps;
  return isOurs || gates.KruisePodReadinessGate;
}

/** The keys that the pod's condition lists; a message that is not such a list counts as none (PRG-14). */
export function heldKeys(conditions: readonly PodCondition[] | undefined): readonly ReadinessKey[] {
  return parseKeys(conditions?.find(isOwn)?.message);
}

/**
 * The conditions of a pod that has the gate and no condition for it yet: True (PRG-6). Undefined: nothing to write. An
 * existing condition is not changed, whatever its status (PRG-8).
 */
export function initialReadiness(pod: Pod, now: string): readonly PodCondition[] | undefined {
  if (!lacksReadiness(pod)) return undefined;
  return [...(pod.status?.conditions ?? []), { type: podReadinessGate, status: 'True', lastTransitionTime: now }];
}

/** Whether the pod has the gate without a condition (PRG-6). One that is being deleted needs none. */
export function lacksReadiness(pod: Pod): boolean {
  if (!hasReadinessGate(pod) || pod.metadata.deletionTimestamp !== undefined) return false;
  return !pod.status?.conditions?.some(isOwn);
}

/**
 * The conditions with this key held and the pod not ready (PRG-10 to PRG-14). Undefined: nothing to write, because the
 * pod has no gate or the key is held already.
 */
export function withReadinessKey(pod: Pod, added: ReadinessKey, now: string): readonly PodCondition[] | undefined {
  const conditions = pod.status?.conditions ?? [];
  const held = heldKeys(conditions);
  if (!hasReadinessGate(pod) || held.some((key) => isSame(key, added))) return undefined;

  const message = formatKeys([...held, added]);
  const own = conditions.find(isOwn);
  // PRG-12: a missing condition is written as False; OpenKruise writes an empty status, which means the same.
  const changed = { ...(own ?? { type: podReadinessGate }), status: 'False', message, lastTransitionTime: now };
  const next = own === undefined ? [...conditions, changed] : replaced(conditions, own, changed);
  return withPodUnready(pod, next);
}

/**
 * The conditions without this key; removing the last key makes the gate True (PRG-15). Undefined: nothing to write. The
 * condition Ready is left to the kubelet, which knows the probes (PRG-16).
 */
export function withoutReadinessKey(pod: Pod, removed: ReadinessKey, now: string): readonly PodCondition[] | undefined {
  const conditions = pod.status?.conditions ?? [];
  const own = conditions.find(isOwn);
  const held = heldKeys(conditions);
  const left = held.filter((key) => !isSame(key, removed));
  if (!hasReadinessGate(pod) || own === undefined || left.length === held.length) return undefined;

  const status = left.length === 0 ? 'True' : own.status;
  return replaced(conditions, own, { ...own, status, message: formatKeys(left), lastTransitionTime: now });
}

/** The keys in the format of the condition's message: compact, sorted by holder, then key. */
export function formatKeys(keys: readonly ReadinessKey[]): string {
  const sorted = keys.toSorted(
    (left, right) => compare(left.userAgent, right.userAgent) || compare(left.key, right.key),
  );
  return JSON.stringify(sorted.map(({ userAgent, key }) => ({ userAgent, key })));
}

/**
 * The conditions with Ready False, if a gate of the pod is closed in them: removes the pod from its Services at once,
 * without waiting for the kubelet (PRG-13, IPU-21). Only if the containers themselves are ready: otherwise Ready is
 * False for another reason.
 */
export function withPodUnready(pod: Pod, conditions: readonly PodCondition[]): readonly PodCondition[] {
  const ready = conditions.find(({ type }) => type === 'Ready');
  const containersReady = conditions.some(({ type, status }) => type === 'ContainersReady' && status === 'True');
  if (ready === undefined || ready.status === 'False' || !containersReady) return conditions;

  const message = (pod.spec.readinessGates ?? []).flatMap(({ conditionType }) => whyClosed(conditionType, conditions));
  if (message.length === 0) return conditions;
  return replaced(conditions, ready, {
    ...ready,
    status: 'False',
    reason: 'ReadinessGatesNotReady',
    message: message.join(', '),
    lastTransitionTime: null,
  });
}

/** Why a gate keeps the pod from being ready, with the kubelet's text; empty when it does not. */
function whyClosed(gate: string, conditions: readonly PodCondition[]): readonly string[] {
  const condition = conditions.find(({ type }) => type === gate);
  if (condition === undefined) return [`corresponding condition of pod readiness gate "${gate}" does not exist.`];
  if (condition.status === 'True') return [];
  return [`the status of pod readiness gate "${gate}" is not "True", but ${condition.status}`];
}

function isOwn(condition: PodCondition): boolean {
  return condition.type === podReadinessGate;
}

function isSame(left: ReadinessKey, right: ReadinessKey): boolean {
  return left.userAgent === right.userAgent && left.key === right.key;
}

function replaced(
  conditions: readonly PodCondition[],
  before: PodCondition,
  after: PodCondition,
): readonly PodCondition[] {
  return conditions.map((condition) => (condition === before ? after : condition));
}

function parseKeys(message: string | undefined): readonly ReadinessKey[] {
  if (!message) return [];
  const list = parseList(message);
  const keys = list.flatMap(toKey);
  // All or nothing, like a typed parser.
  return keys.length === list.length ? keys : [];
}

function parseList(message: string): readonly Json[] {
  try {
    const value: unknown = JSON.parse(message);
    return isJsonList(value) ? value : [];
  } catch {
    return [];
  }
}

function toKey(entry: Json): readonly ReadinessKey[] {
  if (!isJsonObject(entry)) return [];
  const { userAgent = '', key = '' } = entry;
  return typeof userAgent === 'string' && typeof key === 'string' ? [{ userAgent, key }] : [];
}

/** By code unit, as Go sorts strings, and not by locale. */
function compare(left: string, right: string): number {
  if (left === right) return 0;
  return left < right ? -1 : 1;
}
