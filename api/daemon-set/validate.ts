// What admission rejects in DaemonSets (AD §6).

import { countOf, isMoreThanAll, isNegative } from '../base/int-or-percent.ts';
import { isAbsent, isJsonObject, type Json, type JsonObject, objectOr } from '../base/json.ts';
import { type FieldError, forbidden, invalid, newErrors, notSupported, required } from '../core/field-error.ts';
import { selectorProblems } from '../core/label-problems.ts';
import { labelMatcher } from '../core/label-selector.ts';
import { metadataEntry } from '../core/meta.ts';
import { preDownloadAnnotation, preDownloadWarnings, prefetchProblems } from '../fleet/pre-download.ts';
import {
  countProblems,
  immutableProblems,
  isCount,
  nameProblems,
  numberProblems,
  templateProblems,
} from '../fleet/workload-problems.ts';
import { daemonSetLimitProblems } from './limits.ts';
import {
  type DaemonSetVersion,
  daemonSetDefault,
  daemonSetMark,
  daemonSets,
  daemonSetVersion,
  rollingUpdateTypes,
  surging,
  terminationComplete,
} from './types.ts';

/**
 * All problems of a DaemonSet that can be found without the API server (AD §6), each with its field path; empty means
 * valid. Accepts objects of any shape in either version, and never throws.
 */
export function validateDaemonSet(object: JsonObject): readonly FieldError[] {
  return [...problemsOfShape(object), ...daemonSetLimitProblems(object)];
}

/**
 * The problems of an update, both objects in the same version. A problem that the stored object has already is not
 * reported: it must not block later updates.
 */
export function validateDaemonSetUpdate(before: JsonObject, after: JsonObject): readonly FieldError[] {
  return [
    ...immutableProblems(before, after, mutableFields),
    ...newErrors(problemsOfShape(before), problemsOfShape(after)),
    ...daemonSetLimitProblems(after, before),
  ];
}

/** The fields that an update may change: all but the selector. */
const mutableFields = [
  'burstReplicas',
  'template',
  'lifecycle',
  'scaleStrategy',
  'updateStrategy',
  'minReadySeconds',
  'revisionHistoryLimit',
] as const;

function problemsOfShape(object: JsonObject): readonly FieldError[] {
  const { spec } = object;
  if (isAbsent(spec)) return [...nameProblems(object), required('spec', 'describes the desired pods')];
  if (!isJsonObject(spec)) return [...nameProblems(object), invalid('spec', spec, 'must be an object')];
  return [
    ...nameProblems(object),
    ...prefetchProblems(object),
    ...replacementProblems(object),
    ...selectorProblems('spec.selector', spec.selector, 'selects the pods of this DaemonSet'),
    ...templateProblems(spec, daemonSets.kind),
    ...numberProblems('spec.minReadySeconds', spec.minReadySeconds),
    ...numberProblems('spec.revisionHistoryLimit', spec.revisionHistoryLimit),
    ...updateStrategyProblems(spec.updateStrategy, daemonSetVersion(object) ?? 'v1beta1'),
    ...lifecycleProblems(spec.lifecycle),
  ];
}

function replacementProblems(object: JsonObject): readonly FieldError[] {
  const key = daemonSetMark.podReplacementPolicy;
  const value = metadataEntry(object, 'annotations', key);
  if (value === undefined || value === terminationComplete) return [];
  return [notSupported(`metadata.annotations[${key}]`, value, [terminationComplete])];
}

function updateStrategyProblems(strategy: Json | undefined, version: DaemonSetVersion): readonly FieldError[] {
  const path = 'spec.updateStrategy';
  if (isAbsent(strategy)) return [];
  if (!isJsonObject(strategy)) return [invalid(path, strategy, 'must be an object')];
  const { type, rollingUpdate } = strategy;
  const typeProblems = choiceProblems(`${path}.type`, type, ['RollingUpdate', 'OnDelete']);
  if (isAbsent(rollingUpdate) || type === 'OnDelete') return typeProblems;
  const at = `${path}.rollingUpdate`;
  if (!isJsonObject(rollingUpdate)) return [...typeProblems, invalid(at, rollingUpdate, 'must be an object')];
  const { rollingUpdateType, partition } = rollingUpdate;
  const types = version === 'v1alpha1' ? [...rollingUpdateTypes, surging] : rollingUpdateTypes;
  return [
    ...typeProblems,
    ...choiceProblems(`${at}.rollingUpdateType`, rollingUpdateType, types),
    ...shareProblems(`${at}.partition`, partition),
    ...budgetProblems(at, rollingUpdate),
  ];
}

/** An absent or empty value is valid: it means the default. */
function choiceProblems(path: string, value: Json | undefined, choices: readonly string[]): readonly FieldError[] {
  if (isAbsent(value) || value === '' || choices.some((choice) => choice === value)) return [];
  return [notSupported(path, value, choices)];
}

/** A number of nodes, or a percentage of them. */
function shareProblems(path: string, value: Json | undefined): readonly FieldError[] {
  if (isAbsent(value)) return [];
  if (!isCount(value)) return countProblems(path, value);
  if (isNegative(value)) return [invalid(path, value, 'must not be negative')];
  return isMoreThanAll(value) ? [invalid(path, value, 'must not be more than 100%')] : [];
}

/** Exactly one of the two budgets is above 0, and the type says which. */
function budgetProblems(at: string, rollingUpdate: JsonObject): readonly FieldError[] {
  const { maxUnavailable, maxSurge, rollingUpdateType } = rollingUpdate;
  const shape = [
    ...shareProblems(`${at}.maxUnavailable`, maxUnavailable),
    ...shareProblems(`${at}.maxSurge`, maxSurge),
  ];
  if (shape.length > 0) return shape;
  const [unavailable, surge] = [isSome(maxUnavailable), isSome(maxSurge)];
  const hasNone = !unavailable && !surge && !(isAbsent(maxUnavailable) && isAbsent(maxSurge));
  return [
    ...(unavailable && surge
      ? [invalid(`${at}.maxSurge`, maxSurge, 'may not be set when maxUnavailable is non-zero')]
      : []),
    ...(hasNone ? [required(`${at}.maxUnavailable`, 'cannot be 0 when maxSurge is 0')] : []),
    ...(rollingUpdateType === 'InPlaceIfPossible' && surge
      ? [required(`${at}.maxSurge`, 'must be 0 for InPlaceIfPossible')]
      : []),
    ...(rollingUpdateType === surging && unavailable
      ? [required(`${at}.maxUnavailable`, `must be 0 for ${surging}`)]
      : []),
  ];
}

/** Whether the number or percentage is above 0. */
function isSome(value: Json | undefined): boolean {
  return !isAbsent(value) && isCount(value) && (countOf(value, 100, 'up') ?? 0) > 0;
}

/** Updates in place have no states of their own here (AD-34). */
function lifecycleProblems(lifecycle: Json | undefined): readonly FieldError[] {
  if (isAbsent(objectOr(lifecycle).inPlaceUpdate)) return [];
  return [forbidden('spec.lifecycle.inPlaceUpdate', 'pods of a DaemonSet are updated in place without this hook')];
}

function isUnreadable(selector: Json | undefined): boolean {
  return !isAbsent(selector) && labelMatcher(objectOr(selector)) === undefined;
}

/** What is accepted, as by OpenKruise, and has no effect, or another one than it seems. */
export function daemonSetWarnings(object: JsonObject): readonly string[] {
  const { burstReplicas, lifecycle, updateStrategy, scaleStrategy } = objectOr(object.spec);
  const { imagePreDownloadMinUpdatedReadyPods: least } = preDownloadAnnotation;
  const isSet = (key: string) => metadataEntry(object, 'annotations', key) !== undefined;
  const isInert = daemonSetVersion(object) === 'v1beta1' && objectOr(scaleStrategy).partitionedScaling !== true;
  const isNumber = isAbsent(burstReplicas) || (isCount(burstReplicas) && !isNegative(burstReplicas));
  return [
    ...(isNumber
      ? []
      : [`spec.burstReplicas: is no number or percentage, and counts as ${daemonSetDefault.burstReplicas}`]),
    ...(isAbsent(objectOr(lifecycle).preNormal) ? [] : ['spec.lifecycle.preNormal: has no effect in a DaemonSet']),
    ...(objectOr(updateStrategy).type === 'OnDelete' && !isAbsent(objectOr(updateStrategy).rollingUpdate)
      ? ['spec.updateStrategy.rollingUpdate: has no effect with type OnDelete']
      : []),
    ...(isInert && isSet(daemonSetMark.progressiveCreate)
      ? [
          `metadata.annotations[${daemonSetMark.progressiveCreate}]: has no effect in v1beta1: set ` +
            'spec.scaleStrategy.partitionedScaling',
        ]
      : []),
    ...(isSet(daemonSetMark.templateGeneration)
      ? [
          `metadata.annotations[${daemonSetMark.templateGeneration}]: pods whose label ${daemonSetMark.podTemplateGeneration} ` +
            'has the same number count as updated whatever their template is: remove this annotation, which nothing keeps up to date',
        ]
      : []),
    ...(isUnreadable(objectOr(objectOr(updateStrategy).rollingUpdate).selector)
      ? ['spec.updateStrategy.rollingUpdate.selector: cannot be read, and selects no node']
      : []),
    ...preDownloadWarnings(object).filter((text) => !text.includes(least)),
    ...(isSet(least) ? [`metadata.annotations[${least}]: has no effect in a DaemonSet`] : []),
  ];
}
