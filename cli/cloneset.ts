import { isJsonList, objectOr } from '../api/base/json.ts';
import { convertCloneSet } from '../api/cloneset/convert.ts';
import { defaultCloneSet } from '../api/cloneset/defaults.ts';
import { type CloneSet, cloneSetCondition, cloneSetMark, cloneSets, cloneSetsV1alpha1 } from '../api/cloneset/types.ts';
import { cloneSetWarnings, validateCloneSet, validateCloneSetUpdate } from '../api/cloneset/validate.ts';
import { partitionOf } from '../plan/cloneset/counts.ts';
import type { CloneSetInput } from '../plan/cloneset/input.ts';
import { cloneSetWorkloads } from '../plan/cloneset/planner.ts';
import { replicasOf, rollingUpdateOf } from '../plan/cloneset/scene.ts';
import type { WorkloadKind } from './workload.ts';

/** CloneSets on the command line. */
export const cloneSetWorkload: WorkloadKind<CloneSet, CloneSetInput> = {
  versions: [cloneSets, cloneSetsV1alpha1],
  shortNames: ['clone'],
  planner: cloneSetWorkloads,
  claimLabel: cloneSetMark.instanceId,
  needsNodes: spreadsPods,
  input: (input, nodes) => ({
    ...input,
    nodes: new Map(nodes.map(({ metadata }) => [metadata.name, metadata.labels ?? {}])),
    excludePreparingDelete: false,
  }),
  replicas: replicasOf,
  convert: convertCloneSet,
  fillDefaults: defaultCloneSet,
  validate: validateCloneSet,
  validateUpdate: validateCloneSetUpdate,
  warnings: cloneSetWarnings,
  conditions: cloneSetCondition,
  olderStrategy: ({ podUpdatePolicy, ...pace }) => ({ ...pace, ...(podUpdatePolicy && { type: podUpdatePolicy }) }),
  rollOut: {
    title: cloneSets.kind,
    wanted: (owner) => replicasOf(owner) - partitionOf(rollingUpdateOf(owner)?.partition, replicasOf(owner)),
    lastLine: inPlaceLine,
    noPrevious: 'no last revision to roll back to',
  },
};

function spreadsPods({ spec }: CloneSet): boolean {
  const terms = objectOr(spec.template.spec).topologySpreadConstraints;
  return isJsonList(terms) && terms.length > 0;
}

/** KK-7. */
function inPlaceLine(owner: CloneSet): string | undefined {
  const isInPlace = (rollingUpdateOf(owner)?.podUpdatePolicy ?? 'ReCreate') !== 'ReCreate';
  return isInPlace
    ? `partitioned roll out complete: ${owner.status?.updatedReplicas} new pods have been updated...`
    : undefined;
}
