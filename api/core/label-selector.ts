// Label selectors in the specs of workloads.
import { compareGoStrings } from '../base/json-go.ts';

/** A label selector. All parts have to match; one without parts selects everything. */
export interface LabelSelector {
  readonly matchLabels?: Readonly<Record<string, string>>;
  readonly matchExpressions?: readonly LabelRequirement[];
}

export interface LabelRequirement {
  readonly key: string;
  /** `In`, `NotIn`, `Exists` or `DoesNotExist`. */
  readonly operator: string;
  readonly values?: readonly string[];
}

type Labels = Readonly<Record<string, string>>;

/** The selector as a predicate. Undefined: it is malformed. */
export function labelMatcher(selector: LabelSelector): ((labels: Labels | undefined) => boolean) | undefined {
  const requirements = requirementsOf(selector);
  if (!requirements.every(isWellFormed)) return undefined;
  return (labels = {}) => requirements.every((requirement) => isMet(requirement, labels));
}

/** Whether these labels are selected; a malformed selector selects nothing. */
export function isSelected(selector: LabelSelector, labels: Labels | undefined): boolean {
  return labelMatcher(selector)?.(labels) ?? false;
}

/**
 * The selector in the format of query parameters and `status.labelSelector`: `app=web,tier in (a,b)`; "" selects
 * everything.
 */
export function formatSelector(selector: LabelSelector): string {
  return requirementsOf(selector)
    .toSorted((left, right) => compareGoStrings(left.key, right.key))
    .map(formatRequirement)
    .join(',');
}

/** The selector in a text of this format. Undefined: it is malformed, or longer than anybody writes one. */
export function parseSelector(text: string): LabelSelector | undefined {
  if (text.length > longestSelectorText) return undefined;
  const parts = text.match(/[^,(]+(?:\([^)]*\)\s*)?/g) ?? [];
  const matchExpressions = parts.flatMap((part) => parseRequirement(part.trim()) ?? []);
  return matchExpressions.length === parts.length ? { matchExpressions } : undefined;
}

/** Splitting a text that lacks brackets takes the square of its length. */
const longestSelectorText = 4_096;

function parseRequirement(text: string): LabelRequirement | undefined {
  const [, not, key = '', sign, value = '', word, list = ''] =
    /^(!)?\s*([\w./-]+)\s*(?:(==?|!=)\s*([\w.-]*)|\b(in|notin)\s*\(([^()]*)\))?$/.exec(text) ?? [];
  if (key === '') return undefined;
  if (sign === undefined && word === undefined) return { key, operator: not ? 'DoesNotExist' : 'Exists' };
  if (not) return undefined;
  const values = word === undefined ? [value] : list.split(',').map((each) => each.trim());
  return { key, operator: sign === '!=' || word === 'notin' ? 'NotIn' : 'In', values };
}

interface Requirement extends LabelRequirement {
  /** Written as `key=value`. */
  readonly isEquality?: true;
}

function requirementsOf({ matchLabels = {}, matchExpressions = [] }: LabelSelector): readonly Requirement[] {
  const equal = Object.entries(matchLabels).map(
    ([key, value]): Requirement => ({ key, operator: 'In', values: [value], isEquality: true }),
  );
  return [...equal, ...matchExpressions];
}

function isWellFormed({ operator, values = [] }: LabelRequirement): boolean {
  if (operator === 'In' || operator === 'NotIn') return values.length > 0;
  return (operator === 'Exists' || operator === 'DoesNotExist') && values.length === 0;
}

/** Whether labels meet a requirement with one of the four operators. */
export function isMet({ key, operator, values = [] }: LabelRequirement, labels: Labels): boolean {
  const value = Object.hasOwn(labels, key) ? labels[key] : undefined;
  switch (operator) {
    case 'In':
      return value !== undefined && values.includes(value);
    case 'NotIn':
      return value === undefined || !values.includes(value);
    case 'Exists':
      return value !== undefined;
    default:
      return value === undefined;
  }
}

function formatRequirement({ key, operator, values = [], isEquality }: Requirement): string {
  if (isEquality) return `${key}=${values[0]}`;
  const list = `(${values.toSorted(compareGoStrings).join(',')})`;
  switch (operator) {
    case 'In':
      return `${key} in ${list}`;
    case 'NotIn':
      return `${key} notin ${list}`;
    case 'Exists':
      return key;
    default:
      return `!${key}`;
  }
}
