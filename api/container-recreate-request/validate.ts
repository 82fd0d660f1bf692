// What admission rejects in requests: all checks that do not need the pod.

import { isJsonList, isJsonObject, type Json, type JsonObject, listOr, objectOr } from '../base/json.ts';
import type { FieldError } from '../core/field-error.ts';
import { metadataEntry } from '../core/meta.ts';
import { crrAnnotation, crrLabel } from '../core/well-known.ts';
import { type RecreateVersion, recreateVersion } from './types.ts';

/** A shorter deadline could pass before anything happens. */
export const leastActiveDeadlineSeconds = 3;

/** A rejection by admission: the HTTP status and all problems. */
export interface Refusal {
  readonly kind: 'refused';
  readonly code: 400 | 403 | 422;
  readonly errors: readonly FieldError[];
}

/** A problem of a spec, and whether the schema of v1beta1 detects it, too. */
export interface SpecProblem extends FieldError {
  readonly bySchema: boolean;
}

/**
 * The rejection for these problems of a spec: Invalid where the schema of that version detects one, otherwise
 * BadRequest.
 */
export function refuseSpec(problems: readonly SpecProblem[], version: RecreateVersion): Refusal {
  const bySchema = version === 'v1beta1' && problems.every((problem) => problem.bySchema);
  const errors = problems.map(({ field, detail }) => ({ field, detail }));
  return { kind: 'refused', code: bySchema ? 422 : 400, errors };
}

/**
 * All problems of the spec of a new request, each with its field path; empty means that the spec can be read as
 * `ContainerRecreateRequestSpec`. Accepts any value, and never throws.
 */
export function validateRecreateSpec(spec: unknown, version: RecreateVersion = 'v1beta1'): readonly SpecProblem[] {
  if (!isJsonObject(spec)) return [bad('spec', spec === undefined ? required : mustBe('an object'))];
  return [
    ...podNameProblems(spec.podName),
    ...containersProblems(spec.containers),
    ...strategyProblems(spec.strategy, version),
    ...activeDeadlineProblems(spec.activeDeadlineSeconds, version),
    // v1alpha1 has always accepted negative ones: such a request is deleted as soon as it is completed.
    ...secondsProblems('spec.ttlSecondsAfterFinished', spec.ttlSecondsAfterFinished, {
      bits: 32,
      mayBeNegative: version === 'v1alpha1',
    }),
  ];
}

const required = 'is required';

function mustBe(what: string): string {
  return `must be ${what}`;
}

/** A problem that the schema of v1beta1 detects, too. */
function bad(field: string, detail: string): SpecProblem {
  return { field, detail, bySchema: true };
}

/** A problem that only admission detects. */
function refused(field: string, detail: string): SpecProblem {
  return { field, detail, bySchema: false };
}

function podNameProblems(podName: Json | undefined): readonly SpecProblem[] {
  const path = 'spec.podName';
  if (podName === undefined) return [bad(path, required)];
  if (typeof podName !== 'string') return [bad(path, mustBe('a string'))];
  if (podName === '') return [bad(path, 'must not be empty: it names the pod whose containers are restarted')];
  if (characters(podName) > 253) return [bad(path, mustBe('no longer than 253 characters'))];
  return [];
}

function containersProblems(containers: Json | undefined): readonly SpecProblem[] {
  const path = 'spec.containers';
  if (containers === undefined) return [bad(path, required)];
  if (!isJsonList(containers)) return [bad(path, mustBe('a list'))];
  if (containers.length === 0) return [bad(path, 'must name at least one container')];
  if (containers.length > 256) return [bad(path, 'must not name more than 256 containers')];

  const seen = new Set<string>();
  return containers.flatMap((container, index) => [
    ...containerProblems(`${path}[${index}]`, container),
    ...repetitionProblems(`${path}[${index}].name`, isJsonObject(container) ? container.name : undefined, seen),
  ]);
}

const filledByAdmission = ['preStop', 'ports', 'statusContext'] as const;

function containerProblems(path: string, container: Json): readonly SpecProblem[] {
  if (!isJsonObject(container)) return [bad(path, mustBe('an object'))];
  const name = container.name;
  const who = typeof name === 'string' ? ` of container "${name}"` : '';
  return [
    ...containerNameProblems(`${path}.name`, name),
    ...filledByAdmission
      .filter((field) => container[field] !== undefined)
      .map((field) => refused(`${path}.${field}`, `read-only fields${who} must be left out: admission fills them`)),
  ];
}

function containerNameProblems(path: string, name: Json | undefined): readonly SpecProblem[] {
  if (name === undefined) return [bad(path, required)];
  if (typeof name !== 'string') return [bad(path, mustBe('a string'))];
  if (name === '') return [bad(path, 'must not be empty')];
  if (characters(name) > 63) return [bad(path, mustBe('no longer than 63 characters'))];
  return [];
}

function repetitionProblems(path: string, name: Json | undefined, seen: Set<string>): readonly SpecProblem[] {
  if (typeof name !== 'string' || seen.size < seen.add(name).size) return [];
  return [refused(path, `container "${name}" is listed twice`)];
}

function strategyProblems(strategy: Json | undefined, version: RecreateVersion): readonly SpecProblem[] {
  if (strategy === undefined) return [];
  const path = 'spec.strategy';
  if (!isJsonObject(strategy)) return [bad(path, mustBe('an object'))];
  return [
    ...failurePolicyProblems(`${path}.failurePolicy`, strategy.failurePolicy),
    ...booleanProblems(`${path}.orderedRecreate`, strategy.orderedRecreate),
    ...booleanProblems(`${path}.forceRecreate`, strategy.forceRecreate),
    ...secondsProblems(`${path}.terminationGracePeriodSeconds`, strategy.terminationGracePeriodSeconds, {
      bits: 64,
    }),
    ...secondsProblems(`${path}.unreadyGracePeriodSeconds`, strategy.unreadyGracePeriodSeconds, { bits: 64 }),
    ...secondsProblems(`${path}.minStartedSeconds`, strategy.minStartedSeconds, {
      bits: 32,
      mayBeNegative: version === 'v1alpha1',
    }),
  ];
}

function failurePolicyProblems(path: string, policy: Json | undefined): readonly SpecProblem[] {
  if (policy === undefined || policy === 'Fail' || policy === 'Ignore') return [];
  const got = typeof policy === 'string' ? `, not "${policy}"` : '';
  return [bad(path, `must be Fail or Ignore${got}`)];
}

function booleanProblems(path: string, value: Json | undefined): readonly SpecProblem[] {
  return value === undefined || typeof value === 'boolean' ? [] : [bad(path, mustBe('true or false'))];
}

function activeDeadlineProblems(seconds: Json | undefined, version: RecreateVersion): readonly SpecProblem[] {
  const path = 'spec.activeDeadlineSeconds';
  const tooShort = `must be at least ${leastActiveDeadlineSeconds}`;
  if (typeof seconds !== 'number' || seconds >= leastActiveDeadlineSeconds || !Number.isInteger(seconds)) {
    return secondsProblems(path, seconds, { bits: 64 });
  }
  return [seconds < 0 && version === 'v1beta1' ? bad(path, tooShort) : refused(path, tooShort)];
}

function secondsProblems(
  path: string,
  seconds: Json | undefined,
  limits: { readonly bits: 32 | 64; readonly mayBeNegative?: boolean },
): readonly SpecProblem[] {
  if (seconds === undefined) return [];
  // Integers between 2^53 and 2^63 lose precision in JavaScript, which does not matter for durations.
  const limit = 2 ** (limits.bits - 1);
  if (typeof seconds !== 'number' || !Number.isInteger(seconds))
    return [bad(path, mustBe('an integer number of seconds'))];
  if (seconds >= limit || seconds < -limit) return [bad(path, mustBe(`a ${limits.bits}-bit integer`))];
  return seconds < 0 && limits.mayBeNegative !== true ? [bad(path, 'must not be negative')] : [];
}

/** The length of a string as the API server counts it. */
export function characters(text: string): number {
  return [...text].length;
}

/**
 * The problems of an update, both objects in the same version: the spec, the labels that admission wrote, and in
 * v1alpha1 the time of the drain are immutable. Undefined: there are none. `mayFill`: the update comes from Windlass
 * itself, which may add once what admission has left out.
 */
export function validateRecreateUpdate(before: JsonObject, after: JsonObject, mayFill = false): Refusal | undefined {
  const fills = mayFill && isUnfilled(before);
  const [had, has] = fills ? [withoutFill(before, before), withoutFill(after, before)] : [before, after];
  const errors = [...specChanges(had, has), ...labelChanges(before, after), ...drainTimeChanges(before, after)];
  return errors.length === 0 ? undefined : { kind: 'refused', code: 403, errors };
}

function isUnfilled({ spec }: JsonObject): boolean {
  return listOr(objectOr(spec).containers).every((container) => objectOr(container).statusContext === undefined);
}

/** The object without what the watcher fills into `unfilled`. */
function withoutFill(object: JsonObject, unfilled: JsonObject): JsonObject {
  const spec = objectOr(object.spec);
  const containers = listOr(spec.containers).map((container) => {
    const fields = Object.entries(objectOr(container));
    return Object.fromEntries(fields.filter(([field]) => !filledByAdmission.some((filled) => filled === field)));
  });
  const { terminationGracePeriodSeconds: seconds, ...others } = objectOr(spec.strategy);
  const isUsers = objectOr(objectOr(unfilled.spec).strategy).terminationGracePeriodSeconds !== undefined;
  const strategy = { ...others, ...(isUsers && seconds !== undefined && { terminationGracePeriodSeconds: seconds }) };
  return { ...object, spec: { ...spec, containers, strategy } };
}

function specChanges(before: JsonObject, after: JsonObject): readonly FieldError[] {
  return differences('spec', before.spec, after.spec).map((field) => ({
    field,
    detail: 'is immutable, as all of spec',
  }));
}

/** The paths of the fields that differ, each as deep as both sides have the same structure. */
function differences(path: string, before: Json | undefined, after: Json | undefined): readonly string[] {
  if (before === after) return [];
  if (isJsonObject(before) && isJsonObject(after)) {
    const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...keys].flatMap((key) => differences(`${path}.${key}`, before[key], after[key]));
  }
  if (isJsonList(before) && isJsonList(after) && before.length === after.length) {
    return before.flatMap((item, index) => differences(`${path}[${index}]`, item, after[index]));
  }
  return [path];
}

function labelChanges(before: JsonObject, after: JsonObject): readonly FieldError[] {
  return [crrLabel.podUid, crrLabel.nodeName]
    .filter((label) => metadataEntry(before, 'labels', label) !== metadataEntry(after, 'labels', label))
    .map((label) => ({ field: `metadata.labels[${label}]`, detail: 'is immutable' }));
}

function drainTimeChanges(before: JsonObject, after: JsonObject): readonly FieldError[] {
  if (recreateVersion(after) !== 'v1alpha1') return [];
  const key = crrAnnotation.unreadyAcquired;
  const acquired = metadataEntry(before, 'annotations', key);
  if (acquired === undefined || acquired === metadataEntry(after, 'annotations', key)) return [];
  return [{ field: `metadata.annotations[${key}]`, detail: 'is immutable once it is set' }];
}
