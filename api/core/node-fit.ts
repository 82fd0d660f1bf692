// Whether a pod fits a node by what both say, as the scheduler decides it: names, labels, taints. Room on the node is not looked at.

import { entryOf } from '../base/json.ts';
import { isMet } from './label-selector.ts';
import type { Node, Taint } from './node.ts';
import type { NodeAffinity, NodeRequirement, NodeSelectorTerm } from './pod.ts';

/** A taint, or several, that a pod accepts. */
export interface Toleration {
  /** Absent or empty, with `Exists`: any key. */
  readonly key?: string;
  /** `Exists` or `Equal`. Absent: `Equal`. */
  readonly operator?: string;
  readonly value?: string;
  /** Absent or empty: any effect. */
  readonly effect?: string;
  readonly tolerationSeconds?: number;
}

/** What a pod says about its node. */
export interface NodeDemand {
  readonly nodeName?: string;
  readonly nodeSelector?: Readonly<Record<string, string>>;
  readonly nodeAffinity?: NodeAffinity;
}

/** Whether the pod may be on the node, taints aside. */
export function isDemanded({ nodeName, nodeSelector = {}, nodeAffinity }: NodeDemand, { metadata }: Node): boolean {
  if (nodeName && nodeName !== metadata.name) return false;
  const { labels = {} } = metadata;
  if (Object.entries(nodeSelector).some(([key, value]) => entryOf(labels, key) !== value)) return false;
  const required = nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  return required === undefined || (required.nodeSelectorTerms ?? []).some((term) => matches(term, metadata));
}

/** The taints of a node with these effects that none of the tolerations accepts. */
export function untolerated(
  { spec }: Node,
  tolerations: readonly Toleration[],
  effects: readonly Taint['effect'][],
): readonly Taint[] {
  const taints = (spec?.taints ?? []).filter(({ effect }) => effects.includes(effect));
  return taints.filter((taint) => !tolerations.some((toleration) => tolerates(toleration, taint)));
}

function tolerates({ key, operator = '', value = '', effect }: Toleration, taint: Taint): boolean {
  if (effect && effect !== taint.effect) return false;
  if (key && key !== taint.key) return false;
  if (operator === 'Exists') return true;
  return Boolean(key) && (operator === '' || operator === 'Equal') && value === (taint.value ?? '');
}

function matches(
  { matchExpressions = [], matchFields = [] }: NodeSelectorTerm,
  { name, labels = {} }: Node['metadata'],
): boolean {
  if (matchExpressions.length + matchFields.length === 0) return false;
  const fields = { 'metadata.name': name };
  return (
    matchExpressions.every((requirement) => holds(requirement, labels)) &&
    matchFields.every((requirement) => holds(requirement, fields))
  );
}

function holds({ key, operator, values = [] }: NodeRequirement, of: Readonly<Record<string, string>>): boolean {
  switch (operator) {
    case 'In':
    case 'NotIn':
    case 'Exists':
    case 'DoesNotExist':
      return isMet({ key, operator, values }, of);
    case 'Gt':
      return compares(entryOf(of, key), values, (left, right) => left > right);
    case 'Lt':
      return compares(entryOf(of, key), values, (left, right) => left < right);
    default:
      return false;
  }
}

/** Both are integers, as the API server requires of the one and nobody of the other. */
function compares(
  value: string | undefined,
  [limit = '', ...more]: readonly string[],
  is: (left: bigint, right: bigint) => boolean,
): boolean {
  const isInteger = (text: string) => /^[+-]?\d{1,19}$/.test(text);
  if (value === undefined || more.length > 0 || !isInteger(value) || !isInteger(limit)) return false;
  return is(BigInt(value.replace('+', '')), BigInt(limit.replace('+', '')));
}
