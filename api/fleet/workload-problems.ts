// What admission rejects in all workloads with pods of their own.

import { type IntOrPercent, isInt32, isMoreThanAll, parsePercent } from '../base/int-or-percent.ts';
import {
  isAbsent,
  isJsonList,
  isJsonObject,
  type Json,
  type JsonObject,
  listOr,
  objectOr,
  sameJson,
} from '../base/json.ts';
import { diffJson } from '../base/json-diff.ts';
import { describeError, type FieldError, forbidden, invalid, notSupported, required } from '../core/field-error.ts';
import { selectorProblems } from '../core/label-problems.ts';
import { labelMatcher } from '../core/label-selector.ts';
import { subdomainProblem } from '../core/label-syntax.ts';

/** A number from 0 on. Absent means the default. */
export function numberProblems(
  path: string,
  value: Json | undefined,
  most = Number.POSITIVE_INFINITY,
): readonly FieldError[] {
  if (isAbsent(value)) return [];
  if (!isInt32(value)) return [invalid(path, value, 'must be a 32-bit integer')];
  if (value < 0) return [invalid(path, value, 'must not be negative')];
  return value > most ? [invalid(path, value, `must not be more than ${most}`)] : [];
}

/** The names of its pods begin with that of a workload. */
export function nameProblems({ metadata }: JsonObject): readonly FieldError[] {
  const name = objectOr(metadata).name;
  if (typeof name !== 'string' || name === '') return []; // created with generateName, or rejected by the API server
  const problem = subdomainProblem(name);
  return problem === undefined ? [] : [invalid('metadata.name', name, problem)];
}

/** Restrictions for templates of workloads that pods do not have. Those of all pods are checked by a dry run. */
export function templateProblems({ template, selector }: JsonObject, kind: string): readonly FieldError[] {
  const path = 'spec.template';
  if (isAbsent(template)) return [required(path, 'describes the pods to create')];
  if (!isJsonObject(template)) return [invalid(path, template, 'must be an object')];
  const { restartPolicy, activeDeadlineSeconds } = objectOr(template.spec);
  const labels = objectOr(template.metadata).labels;
  const isAlways = isAbsent(restartPolicy) || restartPolicy === '' || restartPolicy === 'Always';
  return [
    ...(selects(selector, textsOf(labels))
      ? []
      : [invalid(`${path}.metadata.labels`, labels ?? {}, 'spec.selector does not match the labels of the template')]),
    ...(isAlways ? [] : [notSupported(`${path}.spec.restartPolicy`, restartPolicy, ['Always'])]),
    ...(isAbsent(activeDeadlineSeconds)
      ? []
      : [forbidden(`${path}.spec.activeDeadlineSeconds`, `pods of a ${kind} must not have a deadline`)]),
  ];
}

/** Whether a valid selector selects these labels; an invalid one is reported elsewhere. */
function selects(selector: Json | undefined, labels: Readonly<Record<string, string>>): boolean {
  if (selectorProblems('', selector, '').length > 0) return true;
  const { matchLabels, matchExpressions } = objectOr(selector);
  const requirements = listOr(matchExpressions).map(objectOr);
  const matches = labelMatcher({
    matchLabels: textsOf(matchLabels),
    matchExpressions: requirements.map(({ key, operator, values }) => ({
      key: String(key),
      operator: String(operator),
      values: listOr(values).map(String),
    })),
  });
  return matches?.(labels) ?? true;
}

function textsOf(map: Json | undefined): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(objectOr(map)).flatMap(([key, value]) => (typeof value === 'string' ? [[key, value]] : [])),
  );
}

/** An absent or empty value is valid: it means the default. */
export function oneOfProblems(
  path: string,
  value: Json | undefined,
  choices: readonly string[],
): readonly FieldError[] {
  if (isAbsent(value) || value === '' || choices.some((choice) => choice === value)) return [];
  return [invalid(path, value, `must be ${choices.slice(0, -1).join(', ')} or ${choices.at(-1)}`)];
}

/** An integer or a percentage. */
export function isCount(value: Json): value is IntOrPercent {
  return isInt32(value) || (typeof value === 'string' && parsePercent(value) !== undefined);
}

export function countProblems(path: string, value: Json): readonly FieldError[] {
  return isCount(value) ? [] : [invalid(path, value, 'must be an integer or a percentage such as 20%')];
}

/** OpenKruise accepts percentages above 100%. */
export function moreThanAllWarnings(path: string, value: Json | undefined): readonly string[] {
  if (isAbsent(value) || !isCount(value) || !isMoreThanAll(value)) return [];
  return [`${path}: ${value} is more than all pods and counts as 100%`];
}

/** AS-54, CS-52: one of the two orders, each of whose terms can be evaluated. */
export function priorityProblems(path: string, strategy: Json | undefined): readonly FieldError[] {
  const { weightPriority, orderPriority } = objectOr(strategy);
  const [weights, orders] = [listOr(weightPriority), listOr(orderPriority)];
  if (weights.length > 0 && orders.length > 0) {
    return [required(path, 'weightPriority or orderPriority, but not both')];
  }
  const problems = [
    ...weights.flatMap((term, index) => weightProblems(`weightPriority[${index}]`, objectOr(term))),
    ...orders.flatMap((term, index) =>
      isText(objectOr(term).orderedKey) ? [] : [`orderPriority[${index}].orderedKey must not be empty`],
    ),
  ];
  return problems.map((problem) => required(path, problem));
}

function weightProblems(at: string, { weight, matchSelector }: JsonObject): readonly string[] {
  const isWeight = isInt32(weight ?? 0) && Number(weight ?? 0) >= 0 && Number(weight ?? 0) <= 100;
  return [
    ...(isWeight ? [] : [`${at}.weight must be from 0 to 100`]),
    ...selectorProblems(`${at}.matchSelector`, matchSelector, 'selects the pods that get the weight').map(
      describeError,
    ),
  ];
}

export function isText(value: Json | undefined): value is string {
  return typeof value === 'string' && value !== '';
}

/** The fields of the spec that an update may not change: all but `mutableFields`. */
export function immutableProblems(
  before: JsonObject,
  after: JsonObject,
  mutableFields: readonly string[],
): readonly FieldError[] {
  const kept = (object: JsonObject) =>
    withoutEmpty(
      Object.fromEntries(
        Object.entries(objectOr(object.spec)).filter(([field]) => !mutableFields.some((mutable) => mutable === field)),
      ),
    );
  const [had, has] = [objectOr(kept(before)), objectOr(kept(after))];
  if (sameJson(had, has)) return [];
  const changed = [...new Set([...Object.keys(had), ...Object.keys(has)])].filter(
    (field) => !sameJson(had[field], has[field]),
  );
  return [forbidden('spec', `${listed(changed)} cannot be changed; only ${mutableFields.join(', ')} can`)];
}

/** An empty list or object means the same as none. */
function withoutEmpty(value: Json | undefined): Json | undefined {
  if (isAbsent(value)) return undefined;
  if (isJsonList(value)) return value.length === 0 ? undefined : value.map((item) => withoutEmpty(item) ?? null);
  if (!isJsonObject(value)) return value;
  const entries = Object.entries(value).flatMap(([key, inner]) => {
    const kept = withoutEmpty(inner);
    return kept === undefined ? [] : [[key, kept] as const];
  });
  return entries.length === 0 ? undefined : Object.fromEntries(entries);
}

/** With InPlaceOnly nothing but images may change. */
export function imagesOnlyProblems(before: JsonObject, after: JsonObject): readonly FieldError[] {
  const podSpec = (object: JsonObject) => objectOr(objectOr(object.spec).template).spec;
  const others = diffJson(podSpec(before), podSpec(after)).filter(
    ({ op, path: [list, , field, ...deeper] }) =>
      op !== 'replace' || list !== 'containers' || field !== 'image' || deeper.length > 0,
  );
  if (others.length === 0) return [];
  const paths = others.map(({ path }) => ['template', 'spec', ...path].join('.'));
  return [
    forbidden('spec', `with InPlaceOnly only images can change, not ${[...new Set(paths)].slice(0, 10).join(', ')}`),
  ];
}

/** The first names, and how many more there are. */
export function listed(names: readonly string[]): string {
  const more = names.length - mostListed;
  return `${names.slice(0, mostListed).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

const mostListed = 10;
