// The hooks in the life of a pod: a controller of the user holds the pod before it counts as working, before and after an
// update in place, and before it is deleted.
//
// The contract is metadata alone. Windlass sets the state label; the other side answers with marks, which are labels and
// finalizers. A hold before something ends when all marks are gone, a hold after something when all are there (LC-3).
import { entryOf } from '../base/json.ts';
import type { Pod } from '../core/pod.ts';
import type { ReadinessKey } from '../core/pod-readiness.ts';
import type { Parsed } from '../schema/static.ts';
import type { lifecycleSchema } from './lifecycle-schema.ts';

/** The hooks of a workload; an absent one holds nothing. */
export type Lifecycle = Parsed<typeof lifecycleSchema>;

/** Where a pod may be held, and by which marks. */
export type LifecycleHook = NonNullable<Lifecycle['preDelete']>;

/** Where the state stands on pods. The two are written together, never one alone. */
export const lifecycleMark = {
  /** Label: one of `lifecycleStates`. */
  state: 'lifecycle.apps.kruise.io/state',
  /** Annotation: when the state changed last, RFC 3339 in whole seconds. */
  timestamp: 'lifecycle.apps.kruise.io/timestamp',
} as const;

/** The values of the state label, in the order in which a pod may go through them. */
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

/** The state of the pod as its label has it, also one that nobody knows; "" when nobody manages it. */
export function lifecycleStateOf(pod: Pick<Pod, 'metadata'>): LifecycleState | '' {
  // A word that nobody knows makes the pod unavailable, like any state but Normal, and leads nowhere.
  return (pod.metadata.labels?.[lifecycleMark.state] ?? '') as LifecycleState | '';
}

/** Whether the state lets the pod count as available (LC §3). */
export function isWorkingState(state: LifecycleState | ''): boolean {
  return state === '' || state === 'Normal';
}

/** LC-1: whether at least one mark of the hook is on the pod. An absent or empty hook has none. */
export function isHooked(hook: LifecycleHook | undefined, pod: Pick<Pod, 'metadata'>): boolean {
  return marksOn(hook, pod).length > 0;
}

/** LC-2: whether all marks of the hook are on the pod. An empty hook is all there, an absent one is not. */
export function isAllHooked(hook: LifecycleHook | undefined, pod: Pick<Pod, 'metadata'>): boolean {
  return hook !== undefined && marksMissing(hook, pod).length === 0;
}

/** The marks of the hook that are on the pod, as people read them: `finalizer example.com/drain`, `label drain=true`. */
export function marksOn(hook: LifecycleHook | undefined, pod: Pick<Pod, 'metadata'>): readonly string[] {
  return marksOf(hook, pod).flatMap(({ text, isOn }) => (isOn ? [text] : []));
}

/** The marks of the hook that the pod lacks, in the same words. */
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
      // LC-4: a pod without the label has it with the value ""
      isOn: (entryOf(metadata.labels, key) ?? '') === value,
    })),
  ];
}
