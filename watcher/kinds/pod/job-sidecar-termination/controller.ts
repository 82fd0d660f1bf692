// The controller of job sidecar termination: an operation for each pod whose sidecars have to be terminated.

import { type ContainerRecreateRequest, crr } from '../../../../api/container-recreate-request/types.ts';
import { isVirtual, type Node } from '../../../../api/core/node.ts';
import type { Pod } from '../../../../api/core/pod.ts';
import { kubeResource } from '../../../../api/core/well-known.ts';
import {
  endsItsSidecars,
  isTerminationDue,
  podUidOfTerminationRequest,
  terminateSidecarsType,
  terminationStatusOf,
} from '../../../../api/job-sidecar-termination.ts';
import type { OperationState } from '../../../../process/metrics.ts';
import type { Controller, ControllerContext } from '../../../controller.ts';
import { operationState } from '../../../operation-state.ts';
import { hasCommand } from '../../../operator-commands.ts';
import { passOverSidecars, type TerminationPassDependencies } from './pass.ts';

/** Terminates the sidecars of pods whose main containers have completed (gate SidecarTerminator). */
export function sidecarTerminations(context: ControllerContext): Controller {
  const { kube, starter, commandEvents, config, now, isLeading, cache, queue } = context;
  if (!config.featureGates.SidecarTerminator) return { wantAll: () => undefined };
  const pods = cache<Pod>(kubeResource.pods);
  const requests = cache<ContainerRecreateRequest>(crr);
  const nodes = cache<Node>(kubeResource.nodes);
  const wanted = new Set<string>();
  const world: TerminationPassDependencies = { kube, pods, requests, nodes, starter, commandEvents, now, wanted };
  const passes = queue('terminations', (podUid) => passOverSidecars(podUid, world));
  const isCommanded = (pod: Pod) => hasCommand(pod) && endsItsSidecars(pod);
  const concerns = (pod: Pod) => wanted.has(pod.metadata.uid) || isTerminationDue(pod) || isCommanded(pod);

  pods.onChange(({ before, after }) => {
    const pod = after ?? before;
    if (isLeading() && pod && concerns(pod)) passes.add(pod.metadata.uid);
  });
  requests.onChange(({ before, after }) => {
    const podUid = podUidOfTerminationRequest((after ?? before)?.metadata.name ?? '');
    if (isLeading() && podUid !== undefined) passes.add(podUid);
  });
  nodes.onChange(({ before, after }) => {
    if (!isLeading() || (before && after && isVirtual(before) === isVirtual(after))) return;
    for (const podUid of wanted) passes.add(podUid); // rare: a node was created, deleted, or has become virtual or real
  });
  return {
    wantAll() {
      for (const pod of pods.all()) if (concerns(pod)) passes.add(pod.metadata.uid);
      for (const podUid of wanted) passes.add(podUid);
    },
    begin: () => wanted.clear(),
    workflowTypes: [terminateSidecarsType],
    operations: () => ({
      kind: 'JobSidecarTermination',
      states: [...wanted].flatMap((podUid) => stateOf(pods.byUid(podUid))),
    }),
  };
}

function stateOf(pod: Pod | undefined): readonly OperationState[] {
  return pod === undefined ? [] : [operationState('Terminating', terminationStatusOf(pod).waitingFor)];
}
