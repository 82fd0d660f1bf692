/** The input of the planner of CloneSets. */
import type { CloneSet } from '../../api/cloneset/types.ts';
import type { FleetInput } from '../fleet/input.ts';

/** Everything that a pass bases its decisions on. */
export interface CloneSetInput extends FleetInput<CloneSet> {
  /** Labels of nodes by name, for the spreading of pods. May be empty when the template does not spread them. */
  readonly nodes: ReadonlyMap<string, Readonly<Record<string, string>>>;
  /** For all CloneSets, regardless of their spec: pods held before their deletion are replaced at once. */
  readonly excludePreparingDelete: boolean;
}
