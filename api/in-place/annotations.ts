// What in-place updates store on pods: annotations, a condition, and hashes of what the containers were started from.
// The format is exactly OpenKruise's, so that either can finish an update of a pod that the other has begun. This
// folder defines the formats; what they mean for an update is decided in `plan/fleet/in-place/`.

import { entryOf } from '../base/json.ts';
import type { Pod } from '../core/pod.ts';

/** The readiness gate and pod condition that an update keeps False while it replaces containers. */
export const inPlaceReadinessGate = 'InPlaceUpdateReady';

/** The reason of the condition when it is False. It has none when it is True. */
export const inPlaceReason = 'StartInPlaceUpdate';

/** Annotations of pods that are, or have been, updated in place. */
export const inPlaceAnnotation = {
  state: 'apps.kruise.io/inplace-update-state',
  /** Only during the grace period. */
  grace: 'apps.kruise.io/inplace-update-grace',
  /** The running containers, as reported by the daemon of the node. */
  containersMeta: 'apps.kruise.io/runtime-containers-meta',
  /** Read where the new key is absent, and removed by the next update. */
  oldState: 'inplace-update-state',
  oldGrace: 'inplace-update-grace',
} as const;

/** An annotation of a pod: absent, invalid, or its value. */
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

/** The parsed text of an annotation. */
export function read<Value>(text: string | undefined, parse: (text: string) => Value | undefined): Annotation<Value> {
  if (text === undefined) return { kind: 'absent' };
  const value = parse(text);
  return value === undefined ? { kind: 'unreadable' } : { kind: 'value', value };
}
