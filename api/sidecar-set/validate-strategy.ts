// What admission rejects in `updateStrategy`. Only type RollingUpdate is checked (SCS-244, SCS-245).

import { isInt32 } from '../base/int-or-percent.ts';
import { isAbsent, isJsonObject, type Json, type JsonObject, listOr, objectOr } from '../base/json.ts';
import { type FieldError, forbidden, invalid, required } from '../core/field-error.ts';
import { selectorProblems } from '../core/label-problems.ts';
import { textOf } from './read.ts';
import { isNativeSidecar } from './types.ts';

const path = 'spec.updateStrategy';

/** The problems of the update strategy in this spec. */
export function updateStrategyProblems(spec: JsonObject): readonly FieldError[] {
  const { updateStrategy } = spec;
  if (isAbsent(updateStrategy)) return [];
  if (!isJsonObject(updateStrategy)) return [invalid(path, updateStrategy, 'must be an object')];
  if (updateStrategy.type !== 'RollingUpdate') return [];
  const { selector, partition, maxUnavailable, priorityStrategy, scatterStrategy } = updateStrategy;
  const native = listOr(spec.initContainers).some((container) => isNativeSidecar(objectOr(container)));
  const isPartitioned = typeof partition === 'string' || (typeof partition === 'number' && partition !== 0);
  return [
    ...(native ? [forbidden(path, 'The initContainer in-place upgrade is not currently supported.')] : []),
    ...(isPartitioned && !isAbsent(selector)
      ? [invalid(path, updateStrategy, 'Partition and Selector cannot be used together')]
      : []),
    ...(isAbsent(selector) ? [] : selectorProblems(`${path}.selector`, selector, 'selects the pods to update')),
    ...countProblems(`${path}.partition`, partition),
    ...countProblems(`${path}.maxUnavailable`, maxUnavailable),
    ...priorityProblems(`${path}.priorityStrategy`, priorityStrategy),
    ...scatterProblems(`${path}.scatterStrategy`, scatterStrategy),
  ];
}

function countProblems(at: string, value: Json | undefined): readonly FieldError[] {
  if (isAbsent(value) || (typeof value === 'string' && /^[0-9]+%$/.test(value))) return [];
  if (!isInt32(value)) return [invalid(at, value, 'must be an integer or a percentage such as 20%')];
  return value < 0 ? [invalid(at, value, 'must not be negative')] : [];
}

function priorityProblems(at: string, strategy: Json | undefined): readonly FieldError[] {
  const { weightPriority, orderPriority } = objectOr(strategy);
  const [weights, orders] = [listOr(weightPriority), listOr(orderPriority)];
  if (weights.length > 0 && orders.length > 0) return [required(at, 'weightPriority or orderPriority, but not both')];
  return [
    ...weights.flatMap((term, index) => weightProblems(`${at}.weightPriority[${index}]`, objectOr(term))),
    ...orders.flatMap((term, index) =>
      textOf(objectOr(term).orderedKey) === ''
        ? [required(`${at}.orderPriority[${index}].orderedKey`, 'must not be empty')]
        : [],
    ),
  ];
}

function weightProblems(at: string, { weight, matchSelector }: JsonObject): readonly FieldError[] {
  const value = weight ?? 0;
  const isWeight = isInt32(value) && value >= 0 && value <= 100;
  return [
    ...(isWeight ? [] : [invalid(`${at}.weight`, weight, 'must be from 0 to 100')]),
    ...selectorProblems(`${at}.matchSelector`, matchSelector, 'selects the pods that get the weight'),
  ];
}

function scatterProblems(at: string, strategy: Json | undefined): readonly FieldError[] {
  const firsts = new Map<string, number>();
  return listOr(strategy).flatMap((term, index) => {
    const { key, value } = objectOr(term);
    if (textOf(key) === '') return [required(`${at}[${index}].key`, 'must not be empty')];
    const pair = JSON.stringify([key, value ?? '']);
    const first = firsts.get(pair) ?? index;
    firsts.set(pair, first);
    return first === index ? [] : [invalid(`${at}[${index}]`, term, `is the same as [${first}]`)];
  });
}
