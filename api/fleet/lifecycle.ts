// Lifecycle hooks: a controller of the user holds a pod before it counts as working, before and after an in-place
// update, and before it is deleted.
//
// The contract is metadata alone. Windlass sets the state label; the other side sets or removes marks, which are labels
// and finalizers. A hold before something ends when all marks are gone, a hold after something when all are set (LC-3).
import { entryOf } from '../base/json.ts';
import type { Pod } from '../core/pod.ts';
import type { ReadinessKey } from '../core/pod-readiness.ts';
import type { Parsed } from '../schema/static.ts';
import type { lifecycleSchema } from './lifecycle-schema.ts';

/** The hooks of a workload; an absent one does not hold pods. */
export type Lifecycle = Parsed<typeof lifecycleSchema>;

/** Where a pod may be held, and by which labels and finalizers. */
export type LifecycleHook = NonNullable<Lifecycle['preDelete']>;

/** Where the state is stored on pods. Both keys are always written together. */
export const lifecycleMark = {
  /** Label: one of `lifecycleStates`. */
  state: 'lifecycle.apps.kruise.io/state',
  /** Annotation: when the state last changed, RFC 3339 in whole seconds. */
  timestamp: 'lifecycle.apps.kruise.io/timestamp',
} as const;

/** The values of the state label, in order. */
export const lifecycleStates = [
  'PreparingNormal',
  'Normal',
  'PreparingUpdate',
  'Updating',
  'Updated',
  'PreparingDelete',
] as const;

export type LifecycleState = (typeof lifecycleStates)[number];

/** The keys in the readiness gate that keep a held pod out of service (LC-52). */
export const hookKey = {
  preDelete: { userAgent: 'Lifecycle', key: 'preDeleteHook' },
  preUpdate: { userAgent: 'Lifecycle', key: 'preUpdateHook' },
} as const satisfies Record<string, ReadinessKey>;

/** The state in the pod's label, which may be unknown; "" without a label. */
export function lifecycleStateOf(pod: Pick<Pod, 'metadata'>): LifecycleState | '' {
  // An unknown state makes the pod unavailable, like any state but Normal, and has no next state.
  return (pod.metadata.labels?.[lifecycleMark.state] ?? '') as LifecycleState | '';
}

/** Whether the state lets the pod count as available (LC §3). */
export function isWorkingState(state: LifecycleState | ''): boolean {
  return state === '' || state === 'Normal';
}

/** LC-1: whether the pod has at least one mark of the hook. False for an absent or empty hook. */
export function isHooked(hook: LifecycleHook | undefined, pod: Pick<Pod, 'metadata'>): boolean {
  return marksOn(hook, pod).length > 0;
}

/** LC-2: whether the pod has all marks of the hook. True for an empty hook, false for an absent one. */
export function isAllHooked(hook: LifecycleHook | undefined, pod: Pick<Pod, 'metadata'>): boolean {
  return hook !== undefined && marksMissing(hook, pod).length === 0;
}

/** The marks of the hook that the pod has, for people: `finalizer example.com/drain`, `label drain=true`. */
export function marksOn(hook: LifecycleHook | undefined, pod: Pick<Pod, 'metadata'>): readonly string[] {
  return marksOf(hook, pod).flatMap(({ text, isOn }) => (isOn ? [text] : []));
}

/** The marks of the hook that the pod lacks, in the same format. */
export function marksMissing(hook: LifecycleHook | undefined, pod: Pick<Pod, 'metadata'>): readonly string[] {
  return marksOf(hook, pod).flatMap(({ text, isOn }) => (isOn ? [] : [text]));
}

/** Whether the hook names any mark at all. */
export function hasMarks(hook: LifecycleHook | undefined): boolean {
  return Object.keys(hook?.labelsHandler ?? {}).length + (hook?.finalizersHandler ?? []).length > 0;
}

function marksOf(
  hook: LifecycleHook | undefined,
  { metadata }: Pick<Pod, 'metadata'>,
): readonly { readonly text: string; readonly isOn: boolean }[] {
  return [
    ...(hook?.finalizersHandler ?? []).map((name) => ({
      text: `finalizer ${name}`,
      isOn: metadata.finalizers?.includes(name) ?? false,
    })),
    ...Object.entries(hook?.labelsHandler ?? {}).map(([key, value]) => ({
      text: `label ${key}=${value}`,
      // LC-4: a pod without the label counts as having it with the value ""
      isOn: (entryOf(metadata.labels, key) ?? '') === value,
    })),
  ];
}
