/** StatefulSets as a fleet: how their PVCs are found, and how the steps of their planner are carried out. */
import { eventComponent } from '../../../api/core/well-known.ts';
import { type StatefulSet, statefulSetEvent } from '../../../api/stateful-set/types.ts';
import type { FleetInput } from '../../../plan/fleet/input.ts';
import { claimTemplateNames } from '../../../plan/stateful-set/claims.ts';
import { statefulSetWorkloads } from '../../../plan/stateful-set/planner.ts';
import type { Controller, ControllerContext } from '../../controller.ts';
import { FleetController } from '../../fleet/controller.ts';

/** Maintains the pods of StatefulSets, and rolls out changes. */
export function statefulSetController(context: ControllerContext): Controller {
  return new FleetController<StatefulSet, FleetInput<StatefulSet>>(context, {
    planner: statefulSetWorkloads,
    events: statefulSetEvent,
    component: eventComponent.statefulSet,
    rollOuts: 'stateful-set-roll-outs',
    adopts: true,
    claimSeries: (owner) => claimTemplateNames(owner).map((template) => `${template}-${owner.metadata.name}`),
    input: (input) => input,
  }).controller;
}
