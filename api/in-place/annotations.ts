// What in-place updates keep on pods: annotations, a condition, and hashes of what the containers were started with.
// OpenKruise reads and writes the same, letter by letter, so that a pod half-way through an update can be finished by
// either. This folder knows the formats; what they mean for an update is decided in `workflows/plan/fleet/in-place/`.

import { entryOf } from '../base/json.ts';
import type { Pod } from '../core/pod.ts';

/** The readiness gate and pod condition that an update holds down while it swaps containers. */
export const inPlaceReadinessGate = 'InPlaceUpdateReady';

/** Why the condition is False. It has no reason when it is True. */
export const inPlaceReason = 'StartInPlaceUpdate';

/** Annotations of pods that are, or have been, updated in place. */
export const inPlaceAnnotation = {
  state: 'apps.kruise.io/inplace-update-state',
  /** There only during the grace period. */
  grace: 'apps.kruise.io/inplace-update-grace',
  /** What really runs, as the daemon of the node saw it. */
  containersMeta: 'apps.kruise.io/runtime-containers-meta',
  /** Read where the new key is absent, and removed by the next update. */
  oldState: 'inplace-update-state',
  oldGrace: 'inplace-update-grace',
} as const;

/** An annotation of a pod: absent, one that nobody can read, or what it says. */
export type Annotation<Value> =
  | { readonly kind: 'absent' }
  | { readonly kind: 'unreadable' }
  | { readonly kind: 'value'; readonly value: Value };

/** Whether the pod has the gate, so that an update takes it out of service. */
export function hasInPlaceGate(pod: Pod): boolean {
  return pod.spec.readinessGates?.some(({ conditionType }) => conditionType === inPlaceReadinessGate) ?? false;
}

/** The text of an annotation; undefined when the pod does not have it. */
export function annotation(pod: Pod, key: string): string | undefined {
  return entryOf(pod.metadata.annotations, key);
}

/** What `parse` makes of the text of an annotation. */
export function read<Value>(text: string | undefined, parse: (text: string) => Value | undefined): Annotation<Value> {
  if (text === undefined) return { kind: 'absent' };
  const value = parse(text);
  return value === undefined ? { kind: 'unreadable' } : { kind: 'value', value };
}
