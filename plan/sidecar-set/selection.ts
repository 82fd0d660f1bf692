/** What the SidecarSelection has to say, by which the API server checks new pods while the webhook is away. */
import { type JsonObject, sameJson } from '../../api/base/json.ts';
import { typedSpec } from '../../api/sidecar-set/read.ts';
import {
  type SidecarSelectionSpec,
  selectionVersionAnnotation,
  sidecarSelection,
  sidecarSelectionName,
  sidecarSelections,
} from '../../api/sidecar-set/selection.ts';
import type { SidecarSet } from '../../api/sidecar-set/types.ts';

/**
 * Who keeps it computes it from SidecarSets alone. The webhook and the leading watcher both do: it follows a new SidecarSet
 * although the webhook has died since, and a deleted one while no watcher leads.
 */
export const keptSelection = {
  resource: sidecarSelections,
  name: sidecarSelectionName,
  versionAnnotation: selectionVersionAnnotation,
};

/** For these SidecarSets, all that there are. No spec: they require nothing of pods. */
export function wantedSelection(sets: readonly SidecarSet[]): {
  readonly spec: SidecarSelectionSpec | undefined;
  readonly warning: string | undefined;
} {
  const spec = sidecarSelection(sets.map((set) => ({ ...set, spec: typedSpec({ ...set.spec } as JsonObject) })));
  // Without the object the API server does not even begin to evaluate the policy.
  const isEmpty = spec.sidecarSets.length === 0 && spec.unchecked === undefined;
  return { spec: isEmpty ? undefined : spec, warning: fullness(spec) };
}

/** Whether a change of a SidecarSet may change the selection: status writes do not. */
export function concernsSelection(before: SidecarSet | undefined, after: SidecarSet | undefined): boolean {
  if (before === undefined || after === undefined) return true;
  return (
    before.metadata.generation !== after.metadata.generation ||
    !sameJson(before.metadata.annotations ?? {}, after.metadata.annotations ?? {})
  );
}

function fullness({ unchecked, uncheckedNames = [] }: SidecarSelectionSpec): string | undefined {
  if (unchecked === undefined) return undefined;
  const names = uncheckedNames.join(', ');
  return `The SidecarSelection is full: while the webhook is away, pods start without the sidecars of ${unchecked} SidecarSets, such as ${names}`;
}
