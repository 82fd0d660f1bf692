/** What the planner of CloneSets sees. */
import type { CloneSet } from '../../../api/cloneset/types.ts';
import type { FleetInput } from '../fleet/input.ts';

/** Everything that a pass decides on. */
export interface CloneSetInput extends FleetInput<CloneSet> {
  /** Labels of nodes by name, for the spreading of pods. May be empty when the template does not spread them. */
  readonly nodes: ReadonlyMap<string, Readonly<Record<string, string>>>;
  /** For all CloneSets, whatever they say themselves: pods held before their deletion are replaced at once. */
  readonly excludePreparingDelete: boolean;
}
