// Names, conditions and keys that are not for PodProbeMarkers to write.

import { cloneSetMark } from '../cloneset/types.ts';
import { podReadinessGate } from '../core/well-known.ts';
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
