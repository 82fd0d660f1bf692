// Names, conditions and keys that PodProbeMarkers must not write.

import { podReadinessGate } from '../core/well-known.ts';
import { podMark } from '../fleet/marks.ts';
import { serverlessAnnotation } from './types.ts';

/** Names that a probe must not have, because they are names of conditions (PPM §2.1). */
export const reservedNames: readonly string[] = [
  'PodScheduled',
  'Initialized',
  'Ready',
  'ContainersReady',
  podReadinessGate,
  'InPlaceUpdateReady',
];

/** Conditions of other writers: a marker that wrote one of them would conflict with the kubelet or with Windlass. */
const reservedConditions: readonly string[] = [
  ...reservedNames,
  'DisruptionTarget',
  'PodReadyToStartContainers',
  'PodResizePending',
  'PodResizeInProgress',
];

/** Domains of conditions that other components rely on. */
const reservedConditionDomains: readonly string[] = ['kubernetes.io', 'k8s.io', 'windlass.io'];

/** Whether a marker may write this condition. */
export function mayWriteCondition(type: string | undefined): type is string {
  if (type === undefined || type === '') return false;
  return !reservedConditions.includes(type) && !isInDomain(type, reservedConditionDomains);
}

/** Domains of labels and annotations in which Windlass keeps its own records. */
const reservedMarkDomains: readonly string[] = ['apps.kruise.io', 'policy.kruise.io', 'windlass.io'];

/** Records in a domain that has keys for users, too. */
const reservedMarks: readonly string[] = Object.values(serverlessAnnotation);

const sidecarRecords = 'kruise.io/sidecarset-';

/** Keys in these domains that users may set on running pods. */
const marksOfUsers: readonly string[] = [podMark.specifiedDelete];

/** Whether a marker may write this label or annotation: all except Windlass's records. */
export function mayWriteMark(key: string): boolean {
  if (marksOfUsers.includes(key)) return true;
  const isRecord = reservedMarks.includes(key) || key.startsWith(sidecarRecords);
  return !isRecord && !isInDomain(key, reservedMarkDomains);
}

/** Whether the part before the slash is one of these domains, or a subdomain. */
function isInDomain(key: string, domains: readonly string[]): boolean {
  const slash = key.indexOf('/');
  const prefix = key.slice(0, Math.max(0, slash)).toLowerCase();
  return slash > 0 && domains.some((domain) => prefix === domain || prefix.endsWith(`.${domain}`));
}
