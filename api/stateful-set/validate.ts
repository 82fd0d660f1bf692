// What admission rejects in StatefulSets (AS §6).

import { countOf } from '../base/int-or-percent.ts';
import { isAbsent, isJsonObject, type Json, type JsonObject, listOr, objectOr } from '../base/json.ts';
import { type FieldError, invalid, newErrors, notSupported, required } from '../core/field-error.ts';
import { selectorProblems } from '../core/label-problems.ts';
import { dnsLabelProblem } from '../core/label-syntax.ts';
import type { FeatureGates } from '../feature-gates.ts';
import { preDownloadWarnings, prefetchProblems } from '../fleet/pre-download.ts';
import { podUpdatePolicies } from '../fleet/update-schema.ts';
import {
  countProblems,
  imagesOnlyProblems,
  immutableProblems,
  isCount,
  numberProblems,
  oneOfProblems,
  priorityProblems,
  templateProblems,
} from '../fleet/workload-problems.ts';
import { inPlaceReadinessGate } from '../in-place/annotations.ts';
import { statefulSetLimitProblems } from './limits.ts';
import { parseReserved } from './ordinals.ts';
import { statefulSetDefault, statefulSets } from './types.ts';

/**
 * All problems of a StatefulSet that can be found without the API server (AS §6), each with its field path; empty means
 * valid. Accepts objects of any shape in either version, and never throws.
 */
export function validateStatefulSet(object: JsonObject): readonly FieldError[] {
  return [...problemsOfShape(object), ...statefulSetLimitProblems(object)];
}

/**
 * The problems of an update, both objects in the same version. A problem that the stored object has already is not
 * reported: it must not block later updates.
 */
export function validateStatefulSetUpdate(before: JsonObject, after: JsonObject): readonly FieldError[] {
  return [
    ...immutableProblems(before, after, mutableFields),
    ...(policyOf(after) === 'InPlaceOnly' ? imagesOnlyProblems(before, after) : []),
    ...newErrors(problemsOfShape(before), problemsOfShape(after)),
    ...statefulSetLimitProblems(after, before),
  ];
}

/** The fields that an update may change: all but selector, serviceName and podManagementPolicy. */
const mutableFields = [
  'replicas',
  'template',
  'volumeClaimTemplates',
  'updateStrategy',
  'revisionHistoryLimit',
  'reserveOrdinals',
  'lifecycle',
  'scaleStrategy',
  'persistentVolumeClaimRetentionPolicy',
  'ordinals',
  'volumeClaimUpdateStrategy',
] as const;

function problemsOfShape(object: JsonObject): readonly FieldError[] {
  const { spec } = object;
  if (isAbsent(spec)) return [...nameProblems(object), required('spec', 'describes the desired pods')];
  if (!isJsonObject(spec)) return [...nameProblems(object), invalid('spec', spec, 'must be an object')];
  const isOrdered = spec.podManagementPolicy !== 'Parallel';
  return [
    ...nameProblems(object),
    ...prefetchProblems(object),
    ...numberProblems('spec.replicas', spec.replicas),
    ...selectorProblems('spec.selector', spec.selector, 'selects the pods of this StatefulSet'),
    ...templateProblems(spec, statefulSets.kind),
    ...oneOfProblems('spec.podManagementPolicy', spec.podManagementPolicy, ['OrderedReady', 'Parallel']),
    ...updateStrategyProblems(spec, isOrdered),
    ...budgetProblems('spec.scaleStrategy.maxUnavailable', objectOr(spec.scaleStrategy).maxUnavailable, isOrdered),
    ...reservedProblems(spec),
    ...retentionProblems(spec),
  ];
}

/** Host names of pods begin with it. */
function nameProblems({ metadata }: JsonObject): readonly FieldError[] {
  const name = objectOr(metadata).name;
  if (typeof name !== 'string' || name === '') return []; // created with generateName, or rejected by the API server
  const problem = dnsLabelProblem(name);
  return problem === undefined ? [] : [invalid('metadata.name', name, problem)];
}

function policyOf({ spec }: JsonObject): Json | undefined {
  return objectOr(objectOr(objectOr(spec).updateStrategy).rollingUpdate).podUpdatePolicy;
}

function updateStrategyProblems(spec: JsonObject, isOrdered: boolean): readonly FieldError[] {
  const path = 'spec.updateStrategy';
  const { updateStrategy = {} } = spec;
  if (!isJsonObject(updateStrategy)) {
    return isAbsent(updateStrategy) ? [] : [invalid(path, updateStrategy, 'must be an object')];
  }
  const { type, rollingUpdate } = updateStrategy;
  const typeProblems = oneOfProblems(`${path}.type`, type, ['RollingUpdate', 'OnDelete']);
  if (isAbsent(rollingUpdate)) return typeProblems;
  const at = `${path}.rollingUpdate`;
  if (!isJsonObject(rollingUpdate)) return [...typeProblems, invalid(at, rollingUpdate, 'must be an object')];
  if (type === 'OnDelete') return [...typeProblems, invalid(at, '', 'must not be given with type OnDelete')];
  const { partition, maxUnavailable, minReadySeconds, podUpdatePolicy, unorderedUpdate } = rollingUpdate;
  return [
    ...typeProblems,
    ...numberProblems(`${at}.partition`, partition),
    ...budgetProblems(`${at}.maxUnavailable`, maxUnavailable, isOrdered),
    ...numberProblems(`${at}.minReadySeconds`, minReadySeconds, longestMinReadySeconds),
    ...policyProblems(at, podUpdatePolicy, spec),
    ...unorderedProblems(`${at}.unorderedUpdate`, unorderedUpdate, isOrdered),
  ];
}

const longestMinReadySeconds = 300;

/** At least one pod; with OrderedReady exactly one. */
function budgetProblems(path: string, value: Json | undefined, isOrdered: boolean): readonly FieldError[] {
  if (isAbsent(value)) return [];
  const shape = countProblems(path, value);
  if (shape.length > 0 || !isCount(value)) return shape;
  if (isOrdered && value !== statefulSetDefault.maxUnavailable) {
    return [invalid(path, value, 'must be 1 with podManagementPolicy OrderedReady')];
  }
  return (countOf(value, 100, 'up') ?? 0) > 0 ? [] : [invalid(path, value, 'must be more than 0')];
}

function policyProblems(at: string, policy: Json | undefined, spec: JsonObject): readonly FieldError[] {
  const problems = oneOfProblems(`${at}.podUpdatePolicy`, policy, podUpdatePolicies);
  if (policy !== 'InPlaceIfPossible' && policy !== 'InPlaceOnly') return problems;
  const gates = objectOr(objectOr(spec.template).spec).readinessGates;
  const hasGate = listOr(gates).some((gate) => objectOr(gate).conditionType === inPlaceReadinessGate);
  if (hasGate) return problems;
  const path = 'spec.template.spec.readinessGates';
  return [
    ...problems,
    invalid(path, gates ?? [], `must contain ${inPlaceReadinessGate} with podUpdatePolicy ${policy}`),
  ];
}

function unorderedProblems(path: string, value: Json | undefined, isOrdered: boolean): readonly FieldError[] {
  if (isAbsent(value)) return [];
  if (isOrdered)
    return [required(path, 'podManagementPolicy Parallel: pods of OrderedReady are updated in their order')];
  return priorityProblems(`${path}.priorityStrategy`, objectOr(value).priorityStrategy);
}

/** What is accepted, as by OpenKruise, and has no effect (AS-12, AS-84, AS-90). */
export function statefulSetWarnings(
  object: JsonObject,
  gates: Pick<FeatureGates, 'StatefulSetStartOrdinal' | 'StatefulSetAutoDeletePVC' | 'StatefulSetAutoResizePVCGate'>,
): readonly string[] {
  const { ordinals, persistentVolumeClaimRetentionPolicy, volumeClaimUpdateStrategy, ...spec } = objectOr(object.spec);
  const { whenDeleted, whenScaled } = objectOr(persistentVolumeClaimRetentionPolicy);
  const start = objectOr(ordinals).start;
  const isOff = (gate: string) => `has no effect: feature gate ${gate} is off`;
  return [
    ...nameWarnings(objectOr(object.metadata).name),
    ...(!isAbsent(objectOr(spec.scaleStrategy).maxUnavailable) && spec.podManagementPolicy !== 'Parallel'
      ? ['spec.scaleStrategy: has no effect with podManagementPolicy OrderedReady, which creates one pod at a time']
      : []),
    ...(!isAbsent(start) && start !== 0 && !gates.StatefulSetStartOrdinal
      ? [`spec.ordinals.start: ${isOff('StatefulSetStartOrdinal')}`]
      : []),
    ...([whenDeleted, whenScaled].includes('Delete') && !gates.StatefulSetAutoDeletePVC
      ? [`spec.persistentVolumeClaimRetentionPolicy: ${isOff('StatefulSetAutoDeletePVC')}`]
      : []),
    ...claimUpdateWarnings(objectOr(volumeClaimUpdateStrategy).type, gates),
    ...preDownloadWarnings(object),
  ];
}

/** Of a longer name the label with the revision, `<name>-<hash>`, is too long, so that all pods are refused. */
const longestName = 63 - '-0123456789'.length;

function nameWarnings(name: Json | undefined): readonly string[] {
  if (typeof name !== 'string' || name.length <= longestName) return [];
  return [
    `metadata.name: has ${name.length} characters: with more than ${longestName} no pod can be created, as its label ` +
      'controller-revision-hash would be too long',
  ];
}

/** The type is not validated (AS §6). */
function claimUpdateWarnings(
  type: Json | undefined,
  { StatefulSetAutoResizePVCGate: isOn }: Pick<FeatureGates, 'StatefulSetAutoResizePVCGate'>,
): readonly string[] {
  const path = 'spec.volumeClaimUpdateStrategy';
  if (isAbsent(type) || type === '' || type === 'OnDelete') return [];
  if (type !== 'OnPodRollingUpdate')
    return [`${path}.type: ${JSON.stringify(type)} is unknown, so PVCs are not resized`];
  return isOn ? [] : [`${path}: has no effect: feature gate StatefulSetAutoResizePVCGate is off`];
}

/** AS §6: numbers from 0, and ranges such as `"3-7"`. Reported at the spec, like OpenKruise does. */
function reservedProblems({ reserveOrdinals }: JsonObject): readonly FieldError[] {
  const malformed = listOr(reserveOrdinals).filter(
    (entry) => (typeof entry !== 'number' && typeof entry !== 'string') || parseReserved(entry) === undefined,
  );
  if (malformed.length === 0) return [];
  const listed = malformed.slice(0, 10).map((entry) => JSON.stringify(entry));
  return [
    invalid(
      'spec',
      listed.join(', '),
      'reserveOrdinals must hold integers from 0, and ranges such as "3-7", the smaller first',
    ),
  ];
}

function retentionProblems({ persistentVolumeClaimRetentionPolicy: policy }: JsonObject): readonly FieldError[] {
  const path = 'spec.persistentVolumeClaimRetentionPolicy';
  return (['whenDeleted', 'whenScaled'] as const).flatMap((field) => {
    const value = objectOr(policy)[field];
    const isKnown = isAbsent(value) || value === '' || value === 'Retain' || value === 'Delete';
    return isKnown ? [] : [notSupported(`${path}.${field}`, value, ['Retain', 'Delete'])];
  });
}
