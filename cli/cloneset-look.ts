import { isJsonList, objectOr } from '../api/base/json.ts';
import { type CloneSet, cloneSetMark, cloneSets } from '../api/cloneset/types.ts';
import type { CloneSetInput } from '../plan/cloneset/input.ts';
import type { LookedAt } from './workload-look.ts';

/** What is read around a CloneSet. */
export const cloneSetLook: LookedAt<CloneSet, CloneSetInput> = {
  resource: cloneSets,
  claimLabel: cloneSetMark.instanceId,
  needsNodes: spreadsPods,
  input: (input, nodes) => ({
    ...input,
    nodes: new Map(nodes.map(({ metadata }) => [metadata.name, metadata.labels ?? {}])),
    excludePreparingDelete: false,
  }),
};

function spreadsPods({ spec }: CloneSet): boolean {
  const terms = objectOr(spec.template.spec).topologySpreadConstraints;
  return isJsonList(terms) && terms.length > 0;
}
