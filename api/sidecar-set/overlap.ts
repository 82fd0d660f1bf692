// Whether two SidecarSets may select the same pod (SCS-265). The rule is OpenKruise's, which misses some overlaps: `a
// Exists` and `b=c` count as disjoint. A stricter rule would refuse SidecarSets that work there.

import type { LabelSelector } from '../core/label-selector.ts';
import type { SidecarSetSpec } from './types.ts';

type Selection = Pick<SidecarSetSpec, 'selector' | 'namespaceSelector'>;

/** Whether both may select the same pod. An absent namespace selector selects every namespace. */
export function mayOverlap(left: Selection, right: Selection): boolean {
  return overlaps(left.namespaceSelector, right.namespaceSelector) && overlaps(left.selector, right.selector);
}

function overlaps(left: LabelSelector | undefined, right: LabelSelector | undefined): boolean {
  if (left === undefined || right === undefined) return true;
  return !excludes(left, right) && !excludes(right, left);
}

/** The values that a selector requires by key; `any`: the key with any value. */
type Required = ReadonlyMap<string, readonly string[] | 'any'>;

/** Whether nothing that `left` selects is selected by `right`. */
function excludes(left: LabelSelector, right: LabelSelector): boolean {
  const required = requiredBy(left);
  const outside = (key: string, values: readonly string[]): boolean => {
    const own = required.get(key);
    return own !== undefined && own !== 'any' && !own.some((value) => values.includes(value));
  };
  if (Object.entries(right.matchLabels ?? {}).some(([key, value]) => outside(key, [value]))) return true;
  return (right.matchExpressions ?? []).some(({ key, operator, values = [] }) => {
    const own = required.get(key);
    switch (operator) {
      case 'In':
        return outside(key, values);
      case 'NotIn':
        return own !== undefined && own !== 'any' && own.every((value) => values.includes(value));
      case 'DoesNotExist':
        return own !== undefined;
      default:
        return own === undefined;
    }
  });
}

function requiredBy({ matchLabels = {}, matchExpressions = [] }: LabelSelector): Required {
  const required = new Map<string, readonly string[] | 'any'>();
  const restrict = (key: string, values: readonly string[] | 'any') => {
    const known = required.get(key);
    if (known === undefined || known === 'any') required.set(key, values);
    else if (values !== 'any')
      required.set(
        key,
        known.filter((value) => values.includes(value)),
      );
  };
  for (const [key, value] of Object.entries(matchLabels)) restrict(key, [value]);
  for (const { key, operator, values = [] } of matchExpressions) {
    if (operator === 'In') restrict(key, values);
    if (operator === 'Exists') restrict(key, 'any');
  }
  return required;
}
