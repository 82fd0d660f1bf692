import { sameJson } from '../../../api/base/json.ts';
import { perObject } from '../../../api/base/per-object.ts';
import { labelMatcher } from '../../../api/core/label-selector.ts';
import type { Node } from '../../../api/core/node.ts';
import type { DaemonSet } from '../../../api/daemon-set/types.ts';
import type { Change } from '../../../kube/cache.ts';
import { eligibilityIn } from '../../../plan/daemon-set/eligible.ts';

/**
 * Which of these DaemonSets a change of a node concerns (AD-11): it becomes one that runs a pod, or is none any more, or the selector
 * of the update selects it now or not any more. Status and heartbeats of nodes concern none.
 */
export function concernedBy({ before, after }: Change<Node>, sets: Iterable<DaemonSet>): readonly string[] {
  if (before && after && isSame(before, after)) return [];
  const uids: string[] = [];
  for (const set of sets) {
    const seenBy = sightOf(set);
    if (before === undefined || after === undefined) {
      const node = after ?? before;
      if (node && seenBy(node).eligibility !== 'no') uids.push(set.metadata.uid);
      continue;
    }
    if (!sameJson(seenBy(before), seenBy(after))) uids.push(set.metadata.uid);
  }
  return uids;
}

function isSame(before: Node, after: Node): boolean {
  const { labels } = before.metadata;
  return sameJson(labels ?? {}, after.metadata.labels ?? {}) && sameJson(before.spec ?? {}, after.spec ?? {});
}

/** What a DaemonSet sees of a node. */
const sightOf = perObject(({ spec }: DaemonSet) => {
  const eligibilityOf = eligibilityIn(spec.template);
  const { selector } = spec.updateStrategy?.rollingUpdate ?? {};
  const selects = selector === undefined ? () => true : (labelMatcher(selector) ?? (() => false));
  return (node: Node) => ({ eligibility: eligibilityOf(node), isSelected: selects(node.metadata.labels) });
});
