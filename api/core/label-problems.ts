// What admission rejects in selectors and labels, each problem with its field path. Accepts values of any shape.

import { isAbsent, isJsonList, isJsonObject, type Json, listOr, objectOr } from '../base/json.ts';
import { type FieldError, forbidden, invalid, notSupported, required } from './field-error.ts';
import { labelKeyProblem, labelValueProblem } from './label-syntax.ts';

const operators = ['In', 'NotIn', 'Exists', 'DoesNotExist'] as const;

/** The problems of a selector that must not be empty; `purpose` is what it is for. */
export function selectorProblems(path: string, selector: Json | undefined, purpose: string): readonly FieldError[] {
  if (isAbsent(selector)) return [required(path, purpose)];
  if (!isJsonObject(selector)) return [invalid(path, selector, 'must be an object')];
  const { matchLabels, matchExpressions } = selector;
  const hasOddShape =
    (!isAbsent(matchLabels) && !isJsonObject(matchLabels)) ||
    (!isAbsent(matchExpressions) && !isJsonList(matchExpressions));
  if (hasOddShape) return [invalid(path, selector, 'must have an object matchLabels or a list matchExpressions')];

  const labels = Object.entries(objectOr(matchLabels));
  const requirements = listOr(matchExpressions);
  if (labels.length + requirements.length === 0) return [invalid(path, selector, 'must not be empty')];
  return [
    ...labels.flatMap(([key, value]) => [
      ...keyProblems(`${path}.matchLabels`, key),
      ...valueProblems(`${path}.matchLabels[${key}]`, value),
    ]),
    ...requirements.flatMap((requirement, index) =>
      requirementProblems(`${path}.matchExpressions[${index}]`, requirement),
    ),
  ];
}

function requirementProblems(path: string, requirement: Json): readonly FieldError[] {
  if (!isJsonObject(requirement)) return [invalid(path, requirement, 'must be an object')];
  const { key, operator, values } = requirement;
  if (!isAbsent(values) && !isJsonList(values)) return [invalid(`${path}.values`, values, 'must be a list')];
  const count = listOr(values).length;
  const takesValues = operator === 'In' || operator === 'NotIn';
  return [
    ...keyProblems(`${path}.key`, key),
    ...(operators.some((known) => known === operator) ? [] : [notSupported(`${path}.operator`, operator, operators)]),
    ...(takesValues && count === 0 ? [required(`${path}.values`, `must be set for operator ${operator}`)] : []),
    ...(!takesValues && count > 0 ? [forbidden(`${path}.values`, 'must not be set for this operator')] : []),
    ...listOr(values).flatMap((value, index) => valueProblems(`${path}.values[${index}]`, value)),
  ];
}

/** The problems of the key of a label or annotation. */
export function keyProblems(path: string, key: Json | undefined): readonly FieldError[] {
  if (typeof key !== 'string') return [invalid(path, key, 'must be a string')];
  const problem = labelKeyProblem(key);
  return problem === undefined ? [] : [invalid(path, key, problem)];
}

/** The problems of a label value. */
export function valueProblems(path: string, value: Json | undefined): readonly FieldError[] {
  if (typeof value !== 'string') return [invalid(path, value, 'must be a string')];
  const problem = labelValueProblem(value);
  return problem === undefined ? [] : [invalid(path, value, problem)];
}
