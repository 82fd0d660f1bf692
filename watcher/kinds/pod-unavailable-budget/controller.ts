/** The controller of PodUnavailableBudgets: it counts, and stamps pods that admission has missed. */
import { perObject } from '../../../api/base/per-object.ts';
import { cloneSets } from '../../../api/cloneset/types.ts';
import type { KubeObject, Resource } from '../../../api/core/meta.ts';
import { isActive, type Pod } from '../../../api/core/pod.ts';
import { kubeResource } from '../../../api/core/well-known.ts';
import {
  budgetGateRefusal,
  isSameTarget,
  type PodUnavailableBudget,
  podUnavailableBudgets,
  relatedBudget,
} from '../../../api/pod-unavailable-budget/types.ts';
import { statefulSets } from '../../../api/stateful-set/types.ts';
import type { Cache, Change } from '../../../kube/cache.ts';
import { EventBudget } from '../../../kube/events.ts';
import { Owners } from '../../../kube/owners.ts';
import { RecentlySeen } from '../../../kube/recently-seen.ts';
import { isAvailable } from '../../../plan/pod-unavailable-budget/readiness.ts';
import type { Controller, ControllerContext } from '../../controller.ts';
import { inNamespace, namespaceIndex } from '../../fleet/owned.ts';
import { CandidatePods } from './candidate-pods.ts';
import { passOverBudget } from './pass.ts';
import { passedOverMs } from './stamps.ts';

interface ScaledWorkload extends KubeObject {
  readonly spec?: { readonly replicas?: number };
}

/** Maintains the status of PodUnavailableBudgets. Keys of its queue are their UIDs. */
export function podUnavailableBudgetController(context: ControllerContext): Controller {
  const { config, kube, log, now, isLeading, cache, lateCache, queue } = context;
  const gates = config.featureGates;
  if (budgetGateRefusal(gates) !== undefined) return { wantAll: () => undefined };
  const budgets = cache<PodUnavailableBudget>(podUnavailableBudgets, namespaceIndex);
  const pods = cache<Pod>(kubeResource.pods, namespaceIndex);
  const ours = [cloneSets, statefulSets].map((resource) => [resource, cache<ScaledWorkload>(resource)] as const);
  const late = [kubeResource.deployments, kubeResource.statefulSets].map(
    (resource) => [resource, lateCache<ScaledWorkload>(resource)] as const,
  );
  const workloads = new Map<Resource, Pick<Cache<ScaledWorkload>, 'byName' | 'onChange'>>([...ours, ...late]);
  const cached = (resource: Resource, namespace: string, name: string) =>
    workloads.get(resource)?.byName(namespace, name);
  const owners = new Owners({ kube, cached });
  const candidates = new CandidatePods(pods);
  const counted = new Map<string, Set<string>>();
  const world = {
    ...{ budgets, pods, kube, log, now, gates, candidates, counted },
    owners,
    events: new EventBudget(now),
    passedOver: new RecentlySeen(passedOverMs),
  };
  const passes = queue('pod-unavailable-budgets', (uid) => passOverBudget(uid, world));
  const want = ({ metadata }: PodUnavailableBudget) => {
    if (isLeading()) passes.add(metadata.uid);
  };

  budgets.onChange(({ before, after }) => {
    if (after) {
      for (const [, each] of late) each.begin();
      want(after);
    } else if (before) {
      candidates.forget(before.metadata.uid);
      counted.delete(before.metadata.uid);
    }
  });

  /** What budgets read of a pod (PUB-20). Of one that is not active they read nothing, so its removal is no change. */
  const factsOf = perObject((pod: Pod) => {
    const controller = pod.metadata.ownerReferences?.find((reference) => reference.controller)?.uid;
    return isActive(pod) ? JSON.stringify([relatedBudget(pod), controller, isAvailable(pod, gates)]) : '';
  });
  pods.onChange((change) => {
    const { before, after } = change;
    const concerned = inNamespace(budgets, (after ?? before)?.metadata.namespace ?? '');
    if (concerned.length === 0) return;
    const isSame = (before ? factsOf(before) : '') === (after ? factsOf(after) : '');
    for (const budget of concerned) if (candidates.saw(budget, change, isSame)) want(budget);
  });

  function workloadChanged(resource: Resource, { before, after }: Change<ScaledWorkload>): void {
    const workload = after ?? before;
    if (workload === undefined || (before && after && scaleOf(before) === scaleOf(after))) return;
    const { namespace = '', name, uid } = workload.metadata;
    owners.forget(resource, namespace, name);
    for (const budget of inNamespace(budgets, namespace)) {
      const { targetRef } = budget.spec;
      const isTarget = targetRef !== undefined && isSameTarget(targetRef, { ...workload, name });
      if (isTarget || counted.get(budget.metadata.uid)?.has(uid)) want(budget);
    }
  }
  for (const [resource, each] of workloads) each.onChange((change) => workloadChanged(resource, change));

  return {
    wantAll() {
      for (const budget of budgets.all()) want(budget);
    },
  };
}

function scaleOf({ metadata, spec }: ScaledWorkload): string {
  return JSON.stringify([metadata.deletionTimestamp !== undefined, spec?.replicas]);
}
