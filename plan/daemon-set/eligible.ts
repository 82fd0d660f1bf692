/** On which nodes a DaemonSet runs pods (AD-10). */
import { listOr, objectOr } from '../../api/base/json.ts';
import { isDemanded, type NodeDemand, type Toleration, untolerated } from '../../api/core/node-fit.ts';
import type { PodTemplate } from '../../api/core/pod-template.ts';
import type { DaemonNode } from './input.ts';

/** How a node stands to a template. `continues`: a pod that is there stays; no new one is created. `no`: none stays. */
export type Eligibility = 'runs' | 'continues' | 'no';

/** The tolerations of the template, and those that every pod of a DaemonSet has: its node may be in trouble. */
export function tolerationsIn(template: PodTemplate): readonly Toleration[] {
  const spec = objectOr(template.spec);
  const own = listOr(spec.tolerations).map((toleration) => objectOr(toleration) as Toleration);
  const added = [...always, ...(spec.hostNetwork === true ? [networkUnavailable] : [])];
  const isThere = (toleration: Toleration) => own.some((one) => isSame(one, toleration));
  return [...own, ...added.filter((toleration) => !isThere(toleration))];
}

const condition = (name: string, effect: string) =>
  ({ key: `node.kubernetes.io/${name}`, operator: 'Exists', effect }) as const;

const always: readonly Toleration[] = [
  condition('not-ready', 'NoExecute'),
  condition('unreachable', 'NoExecute'),
  condition('disk-pressure', 'NoSchedule'),
  condition('memory-pressure', 'NoSchedule'),
  condition('pid-pressure', 'NoSchedule'),
  condition('unschedulable', 'NoSchedule'),
];

const networkUnavailable = condition('network-unavailable', 'NoSchedule');

function isSame(left: Toleration, right: Toleration): boolean {
  return left.key === right.key && left.operator === right.operator && left.effect === right.effect && !left.value;
}

/** The function that answers for each node, with what is the same for all of them worked out once. */
export function eligibilityIn(template: PodTemplate): (node: DaemonNode) => Eligibility {
  const { nodeName, nodeSelector, affinity } = objectOr(template.spec);
  const demand: NodeDemand = {
    ...(typeof nodeName === 'string' && { nodeName }),
    nodeSelector: objectOr(nodeSelector) as Readonly<Record<string, string>>,
    nodeAffinity: objectOr(objectOr(affinity).nodeAffinity),
  };
  const tolerations = tolerationsIn(template);
  return (node) => {
    if (!isDemanded(demand, node) || untolerated(node, tolerations, ['NoExecute']).length > 0) return 'no';
    return untolerated(node, tolerations, ['NoSchedule']).length > 0 ? 'continues' : 'runs';
  };
}
