/** CloneSets as a fleet: the inputs of their planner, and how its steps are carried out. */

import { isJsonObject } from '../../../api/base/json.ts';
import { type CloneSet, cloneSetEvent } from '../../../api/cloneset/types.ts';
import type { KubeObject } from '../../../api/core/meta.ts';
import { eventComponent, kubeResource } from '../../../api/core/well-known.ts';
import type { Cache } from '../../../kube/cache.ts';
import type { CloneSetInput } from '../../../plan/cloneset/input.ts';
import { cloneSetWorkloads } from '../../../plan/cloneset/planner.ts';
import type { Controller, ControllerContext } from '../../controller.ts';
import { FleetController, type FleetDefinition } from '../../fleet/controller.ts';

/** Maintains the pods of CloneSets, and rolls out changes. */
export function cloneSetController(context: ControllerContext): Controller {
  const nodes = context.cache<KubeObject>(kubeResource.nodes);
  return new FleetController(context, {
    ...cloneSetSteps,
    rollOuts: 'roll-outs',
    input: (input) => ({ ...input, nodes: nodesFor(input.owner, nodes), excludePreparingDelete: false }),
  }).controller;
}

/** How steps of CloneSets are carried out. */
export const cloneSetSteps: Pick<FleetDefinition<CloneSet, CloneSetInput>, 'planner' | 'events' | 'component'> = {
  planner: cloneSetWorkloads,
  events: cloneSetEvent,
  component: eventComponent.cloneSet,
};

/** Labels of nodes, where pods are spread over topologies. */
function nodesFor({ spec }: CloneSet, nodes: Cache<KubeObject>): CloneSetInput['nodes'] {
  const podSpec = isJsonObject(spec.template.spec) ? spec.template.spec : {};
  if (podSpec.topologySpreadConstraints === undefined) return new Map();
  return new Map([...nodes.all()].map(({ metadata }) => [metadata.name, metadata.labels ?? {}]));
}
