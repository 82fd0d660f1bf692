/** DaemonSets as a fleet: the nodes that their planner looks at, and how its steps are carried out. */
import type { Node } from '../../../api/core/node.ts';
import type { Pod } from '../../../api/core/pod.ts';
import { eventComponent, kubeResource } from '../../../api/core/well-known.ts';
import { type DaemonSet, daemonSetEvent } from '../../../api/daemon-set/types.ts';
import type { DaemonSetInput } from '../../../plan/daemon-set/input.ts';
import { daemonSetWorkloads } from '../../../plan/daemon-set/planner.ts';
import type { Controller, ControllerContext } from '../../controller.ts';
import { FleetController } from '../../fleet/controller.ts';
import { FailedPods } from './failed-pods.ts';
import { concernedBy } from './node-changes.ts';

/** Maintains the pods of DaemonSets, and rolls out changes. */
export function daemonSetController(context: ControllerContext): Controller {
  const nodes = context.cache<Node>(kubeResource.nodes);
  const pods = context.cache<Pod>(kubeResource.pods);
  const failed = new FailedPods(context.now);
  return new FleetController<DaemonSet, DaemonSetInput>(context, {
    planner: daemonSetWorkloads,
    events: daemonSetEvent,
    component: eventComponent.daemonSet,
    rollOuts: 'daemon-set-roll-outs',
    adopts: true,
    input: (input) => {
      const failedBefore = failed.of(input.owner.metadata.uid);
      return { ...input, nodes: [...nodes.all()], ...(failedBefore && { failedBefore }) };
    },
    listen: (sets, changed) => {
      nodes.onChange((change) => {
        if (!context.isLeading()) return;
        for (const uid of concernedBy(change, sets.all())) changed(uid);
      });
      pods.onChange((change) => failed.saw(change, (uid) => sets.byUid(uid) !== undefined));
      sets.onChange(({ before, after }) => {
        const isSame = before?.metadata.generation === after?.metadata.generation;
        if (before && !isSame) failed.forget(before.metadata.uid);
      });
    },
  }).controller;
}
