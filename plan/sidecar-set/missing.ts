// The pods that a SidecarSet selects but that lack its containers, and why. Containers are added to new pods only, so a
// pod that was missed stays without them until it is recreated (SCS-5; SCS 8, points 9 and 10).

import { compareGoStrings } from '../../api/base/json-go.ts';
import { isActive, isMirrorPod, type Pod } from '../../api/core/pod.ts';
import { installation } from '../../api/core/well-known.ts';
import { canaryBase } from '../../api/sidecar-set/canary.ts';
import { currentContent, selectsPod } from '../../api/sidecar-set/injection/choose.ts';
import { sidecarSetAnnotation } from '../../api/sidecar-set/marks.ts';
import { isNotUpdate, type SidecarSet, type SidecarSetStatus } from '../../api/sidecar-set/types.ts';
import { hasContainers, hasLongMark, listedSets, recordedHash } from './pods.ts';

type Labels = Readonly<Record<string, string>>;

/** Why a pod lacks the containers of a SidecarSet that selects it. */
export type MissedReason =
  | 'NamespaceExempt'
  | 'InjectionPaused'
  | 'ContainersMissing'
  | 'MarksTooLong'
  | 'OlderThanSidecarSet'
  | 'FailureIgnored'
  | 'NotInjected';

/** Each reason for people. */
export const missedText: Readonly<Record<MissedReason, string>> = {
  NamespaceExempt: 'pods of this namespace are not sent to the webhook',
  InjectionPaused: 'the injection of the SidecarSet is paused',
  ContainersMissing: 'it has the SidecarSet in its annotation, but not all of its containers',
  MarksTooLong: 'an annotation in which SidecarSets keep their marks is too long to be read',
  OlderThanSidecarSet: 'it is older than the SidecarSet',
  FailureIgnored: 'the injection failed or the webhook was away, which the SidecarSet ignores',
  NotInjected: 'the webhook did not inject it: it was away, or labels, selectors or the pause have changed since',
};

/** Reasons that hold for the next pod, too: recreation does not help. */
export const lastingReasons: readonly MissedReason[] = ['NamespaceExempt', 'InjectionPaused'];

/** What decides about a pod besides the pod and the SidecarSet. */
export interface MissedFacts {
  /** Undefined: the namespace does not exist. */
  readonly namespaceLabels: Labels | undefined;
  /** The canaries of the SidecarSet. */
  readonly canaries: readonly SidecarSet[];
}

/**
 * Why the pod lacks the containers of the SidecarSet. Undefined: it has them, or it should not have them. Works on pods
 * as the watcher keeps them.
 */
export function missedReason(set: SidecarSet, pod: Pod, facts: MissedFacts): MissedReason | undefined {
  const { namespaceLabels, canaries } = facts;
  // The containers of a static pod are those of its manifest on the node.
  if (!isActive(pod) || isMirrorPod(pod)) return undefined;
  const selected = { labels: pod.metadata.labels ?? {}, namespaceLabels };
  if (!selectsPod(set, selected)) return undefined;
  if (hasLongMark(pod)) return 'MarksTooLong';
  const listed = listedSets(pod);
  const isListed = listed.includes(set.metadata.name);
  if (isListed && hasContainers(set, pod)) return undefined;
  const isDisplaced = canaries.some(
    (canary) =>
      listed.includes(canary.metadata.name) ||
      (canary.spec.injectionStrategy?.paused !== true && selectsPod(canary, selected)),
  );
  if (isDisplaced) return undefined;
  return reasonOf(set, pod, { isListed, namespaceLabels });
}

function reasonOf(
  { metadata, spec }: SidecarSet,
  pod: Pod,
  { isListed, namespaceLabels = {} }: { readonly isListed: boolean; readonly namespaceLabels: Labels | undefined },
): MissedReason {
  if (isExempt(pod.metadata.namespace ?? '', namespaceLabels)) return 'NamespaceExempt';
  if (spec.injectionStrategy?.paused === true) return 'InjectionPaused';
  if (isListed) return 'ContainersMissing';
  // Times have whole seconds.
  const isOlder = Date.parse(pod.metadata.creationTimestamp) <= Date.parse(metadata.creationTimestamp);
  if (isOlder) return 'OlderThanSidecarSet';
  const isIgnored = metadata.annotations?.[sidecarSetAnnotation.injectionFailure] === 'Ignore';
  return isIgnored ? 'FailureIgnored' : 'NotInjected';
}

/** The namespaces whose pods the registration of the pod webhook leaves out (SCS-3). */
function isExempt(namespace: string, labels: Labels): boolean {
  return exemptNamespaces.includes(namespace) || labels[exemptLabel.key] === exemptLabel.value;
}

export const exemptNamespaces: readonly string[] = ['kube-system', installation.namespace];
export const exemptLabel = { key: 'control-plane', value: 'openkruise' } as const;

/** The canaries of a SidecarSet, among these. */
export function canariesOf({ metadata }: SidecarSet, sets: Iterable<SidecarSet>): readonly SidecarSet[] {
  return [...sets].filter((other) => canaryBase(other) === metadata.name);
}

/**
 * Whether a pod that the SidecarSet manages keeps older sidecars until it is recreated: they differ in more than images
 * (SCS-192), or running pods are not updated at all.
 */
export function isOutOfReach(set: SidecarSet, pod: Pod): boolean {
  const { whole, withoutImage } = currentContent(set).hashes;
  const { name } = set.metadata;
  const isBehind = recordedHash(pod, name) !== whole;
  return isBehind && (isNotUpdate(set.spec.updateStrategy) || recordedHash(pod, name, 'withoutImage') !== withoutImage);
}

/** The pods that were missed, as the status shows them: Windlass' own fields, absent while there are none. */
export type MissedStatus = Pick<SidecarSetStatus, 'missedPods' | 'missedPodNames'>;

/** How many pods the status names. */
export const mostMissedNames = 10;

/** The fields for these pods, given as `namespace/name` in any order. */
export function missedStatus(names: Iterable<string>): MissedStatus {
  let count = 0;
  let first: readonly string[] = [];
  for (const name of names) {
    count++;
    const last = first.at(-1);
    if (first.length === mostMissedNames && last !== undefined && compareGoStrings(name, last) >= 0) continue;
    first = [...first, name].toSorted(compareGoStrings).slice(0, mostMissedNames);
  }
  return count === 0 ? {} : { missedPods: count, missedPodNames: first };
}

/** These fields of a status. The counts of a SidecarSet are written without changing them. */
export function keptMissed(status: SidecarSetStatus | undefined): MissedStatus {
  const { missedPods, missedPodNames } = status ?? {};
  return { ...(missedPods !== undefined && { missedPods }), ...(missedPodNames !== undefined && { missedPodNames }) };
}
