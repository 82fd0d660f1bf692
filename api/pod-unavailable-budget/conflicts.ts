// Which PodUnavailableBudgets of a namespace must not exist beside each other (PUB §6): a pod has one budget.
//
// Two selectors overlap if they have the same keys, and some value of each key meets the requirements of both. Others may
// select the same pod, too, and are admitted, as in OpenKruise: a stricter rule would refuse budgets that work there.

import { type FieldError, invalid } from '../core/field-error.ts';
import { type LabelRequirement, type LabelSelector, labelMatcher } from '../core/label-selector.ts';
import { isSameTarget, type PodUnavailableBudget } from './types.ts';

type Budget = Pick<PodUnavailableBudget, 'metadata' | 'spec'>;

/**
 * The problems of a new, valid budget beside the others of its namespace. An update cannot cause one: what is compared is
 * immutable.
 */
export function conflictProblems({ metadata, spec }: Budget, others: readonly Budget[]): readonly FieldError[] {
  const { targetRef, selector } = spec;
  const rivals = others.filter((other) => other.metadata.name !== metadata.name);
  if (targetRef) {
    const rival = rivals.find((other) => other.spec.targetRef && isSameTarget(targetRef, other.spec.targetRef));
    return rival ? [invalid('spec.targetReference', targetRef, `is the target of "${rival.metadata.name}"`)] : [];
  }
  if (!selector) return [];
  const own = rangesOf(selector);
  const rival = rivals.find((other) => other.spec.selector && overlaps(own, other.spec.selector));
  return rival ? [invalid('spec.selector', selector, `overlaps with that of "${rival.metadata.name}"`)] : [];
}

/** What a selector requires of the value of a label. */
interface Range {
  /** Without those left out. Absent: any other value. */
  readonly values?: ReadonlySet<string>;
  readonly leftOut: ReadonlySet<string>;
  /** Whether the label must be there, and whether it must not. */
  readonly isRequired: boolean;
  readonly isForbidden: boolean;
}

type Ranges = ReadonlyMap<string, Range>;

function rangesOf({ matchLabels = {}, matchExpressions = [] }: LabelSelector): Ranges {
  const equal = Object.entries(matchLabels).map(([key, value]) => ({ key, operator: 'In', values: [value] }));
  const byKey = Map.groupBy<string, LabelRequirement>([...equal, ...matchExpressions], ({ key }) => key);
  return new Map([...byKey].map(([key, requirements]) => [key, rangeOf(requirements)]));
}

function rangeOf(requirements: readonly LabelRequirement[]): Range {
  const has = (...operators: readonly string[]) => requirements.some(({ operator }) => operators.includes(operator));
  const valuesOf = (operator: string) =>
    requirements.filter((requirement) => requirement.operator === operator).map(({ values = [] }) => values);
  const [first, ...further] = valuesOf('In');
  const allowed = further.reduce<ReadonlySet<string>>(
    (known, values) => new Set(values.filter((value) => known.has(value))),
    new Set(first),
  );
  const leftOut = new Set(valuesOf('NotIn').flat());
  return {
    ...(first && { values: new Set([...allowed].filter((value) => !leftOut.has(value))) }),
    leftOut,
    isRequired: has('In', 'Exists'),
    isForbidden: has('DoesNotExist'),
  };
}

function overlaps(own: Ranges, selector: LabelSelector): boolean {
  if (labelMatcher(selector) === undefined) return false; // selects nothing
  const other = rangesOf(selector);
  return own.size === other.size && [...other].every(([key, range]) => isPossible(own.get(key), range));
}

/** Takes no longer than the smaller one is large, as there may be many others. */
function isPossible(own: Range | undefined, other: Range): boolean {
  if (own === undefined) return false;
  if ((own.isRequired || other.isRequired) && (own.isForbidden || other.isForbidden)) return false;
  const [smaller, larger] = [own, other].toSorted((left, right) => sizeOf(left) - sizeOf(right));
  for (const value of smaller?.values ?? []) {
    if (larger?.values?.has(value) ?? !larger?.leftOut.has(value)) return true;
  }
  return smaller?.values === undefined;
}

function sizeOf({ values }: Range): number {
  return values?.size ?? Number.POSITIVE_INFINITY;
}
