// What admission rejects in PodProbeMarkers.

import { isAbsent, isJsonObject, type Json, type JsonObject, listOr, objectOr, sameJson } from '../base/json.ts';
import { type FieldError, forbidden, invalid, newErrors, notSupported, required } from '../core/field-error.ts';
import { keyProblems, selectorProblems, valueProblems } from '../core/label-problems.ts';
import { labelKeyProblem } from '../core/label-syntax.ts';
import { limitProblems } from './limits.ts';
import { mayWriteCondition, mayWriteMark, reservedNames } from './reserved.ts';
import { probeProblems } from './validate-probe.ts';

/**
 * All problems of a marker, each with its field path; empty means valid. Accepts objects of any shape, and never
 * throws.
 */
export function validatePodProbeMarker({ spec }: JsonObject): readonly FieldError[] {
  if (!isJsonObject(spec)) return [required('spec', 'describes which pods are probed, and how')];
  return [...problemsOfShape(spec), ...limitProblems(spec)];
}

function problemsOfShape(spec: JsonObject): readonly FieldError[] {
  return [...selectorProblems('spec.selector', spec.selector, 'selects the pods to probe'), ...probesProblems(spec)];
}

/** The problems of an update. A problem that the stored marker has already is not reported. */
export function validatePodProbeMarkerUpdate(before: JsonObject, after: JsonObject): readonly FieldError[] {
  if (!isJsonObject(after.spec)) return validatePodProbeMarker(after);
  const old = objectOr(before.spec);
  const problems = newErrors(problemsOfShape(old), problemsOfShape(after.spec));
  const isSame = sameJson(old.selector, after.spec.selector);
  return [
    ...(isSame ? [] : [forbidden('spec.selector', 'cannot be changed: create another PodProbeMarker')]),
    ...problems,
    ...limitProblems(after.spec, old),
  ];
}

function probesProblems(spec: JsonObject): readonly FieldError[] {
  const path = 'spec.probes';
  const probes = listOr(spec.probes).map(objectOr);
  if (probes.length === 0) return [required(path, 'lists the probes')];
  const repeatedName = repeatedIn(probes.map(({ name }) => name));
  const repeatedType = repeatedIn(probes.map(({ podConditionType }) => podConditionType || undefined));
  return probes.flatMap((probe, index) => {
    const at = `${path}[${index}]`;
    return [
      ...nameProblems(`${at}.name`, probe.name),
      ...repeatedName(`${at}.name`, index),
      ...(typeof probe.containerName === 'string' && probe.containerName !== ''
        ? []
        : [required(`${at}.containerName`, 'names the container to probe')]),
      ...probeProblems(`${at}.probe`, probe.probe),
      ...conditionProblems(`${at}.podConditionType`, probe.podConditionType),
      ...repeatedType(`${at}.podConditionType`, index),
      ...policiesProblems(at, probe),
    ];
  });
}

function nameProblems(path: string, name: Json | undefined): readonly FieldError[] {
  if (typeof name !== 'string' || name === '') return [required(path, 'identifies the probe')];
  if (name.includes('#')) return [invalid(path, name, 'must not contain "#"')];
  return reservedNames.includes(name)
    ? [invalid(path, name, 'is reserved: a condition of Kubernetes has this name')]
    : [];
}

/**
 * Which of these values occurred earlier in the list; computed once per list, as a search for each value would take
 * quadratic time.
 */
function repeatedIn(values: readonly (Json | undefined)[]): (path: string, index: number) => readonly FieldError[] {
  const firsts = new Map<Json | undefined, number>();
  for (const [index, value] of values.entries()) if (!firsts.has(value)) firsts.set(value, index);
  return (path, index) => {
    const value = values[index];
    const isFirst = value === undefined || firsts.get(value) === index;
    return isFirst ? [] : [invalid(path, value, 'is already used in this PodProbeMarker')];
  };
}

function conditionProblems(path: string, type: Json | undefined): readonly FieldError[] {
  if (isAbsent(type) || type === '') return [];
  if (typeof type !== 'string') return [invalid(path, type, 'must be a string')];
  const problem = labelKeyProblem(type);
  if (problem !== undefined) return [invalid(path, type, problem)];
  return mayWriteCondition(type)
    ? []
    : [invalid(path, type, 'is reserved: Kubernetes or another controller writes this condition')];
}

function policiesProblems(at: string, { podConditionType, markerPolicy }: JsonObject): readonly FieldError[] {
  const path = `${at}.markerPolicy`;
  const policies = listOr(markerPolicy).map(objectOr);
  if (policies.length === 0) {
    const hasCondition = !isAbsent(podConditionType) && podConditionType !== '';
    return hasCondition
      ? []
      : [required(path, 'must be set unless podConditionType is; otherwise nothing shows the result')];
  }
  const repeatedState = repeatedIn(policies.map(({ state }) => state));
  return policies.flatMap((policy, index) => [
    ...(verdicts.some((known) => known === policy.state)
      ? []
      : [notSupported(`${path}[${index}].state`, policy.state, verdicts)]),
    ...repeatedState(`${path}[${index}].state`, index),
    ...marksProblems(`${path}[${index}]`, policy),
  ]);
}

const verdicts = ['Succeeded', 'Failed'] as const;

function marksProblems(path: string, policy: JsonObject): readonly FieldError[] {
  const labels = Object.entries(objectOr(policy.labels));
  const annotations = Object.entries(objectOr(policy.annotations));
  if (labels.length + annotations.length === 0) return [required(path, 'must have labels or annotations')];
  return [
    ...labels.flatMap(([key, value]) => [
      ...keyProblems(`${path}.labels`, key),
      ...recordProblems(`${path}.labels`, key),
      ...valueProblems(`${path}.labels[${key}]`, value),
    ]),
    ...annotations.flatMap(([key, value]) => [
      ...keyProblems(`${path}.annotations`, key.toLowerCase()),
      ...recordProblems(`${path}.annotations`, key),
      ...(typeof value === 'string' ? [] : [invalid(`${path}.annotations[${key}]`, value, 'must be a string')]),
    ]),
  ];
}

function recordProblems(path: string, key: string): readonly FieldError[] {
  return mayWriteMark(key) ? [] : [invalid(path, key, 'is reserved and cannot be written by a PodProbeMarker')];
}
