// What admission rejects in CloneSets (CS §6). Checks of the object alone come first; checks that need the cluster are
// questions and answers here, and admission does the reads.

import { countOf, isInt32, isNegative, parseInt32 } from '../base/int-or-percent.ts';
import { isAbsent, isJsonObject, type Json, type JsonObject, listOr, objectOr } from '../base/json.ts';
import { type FieldError, invalid, newErrors, required } from '../core/field-error.ts';
import { selectorProblems } from '../core/label-problems.ts';
import { subdomainProblem } from '../core/label-syntax.ts';
import type { Pod } from '../core/pod.ts';
import { prefetchProblems } from '../fleet/pre-download.ts';
import { claimNames } from '../fleet/template-probe.ts';
import { unprovidedMounts } from '../fleet/unprovided-mounts.ts';
import { podUpdatePolicies } from '../fleet/update-schema.ts';
import { mostClaimTemplates } from '../fleet/workload-limits.ts';
import {
  countProblems,
  imagesOnlyProblems,
  immutableProblems,
  isCount,
  isText,
  listed,
  moreThanAllWarnings,
  nameProblems,
  numberProblems,
  oneOfProblems,
  priorityProblems,
  templateProblems,
} from '../fleet/workload-problems.ts';
import { cloneSetLimitProblems } from './limits.ts';
import { type CloneSetVersion, cloneSetDefault, cloneSets, cloneSetVersion, noProgressDeadline } from './types.ts';

/**
 * All problems of a CloneSet that can be found without the API server (CS §6), each with its field path; empty means
 * valid. Accepts objects of any shape in either version, and never throws.
 */
export function validateCloneSet(object: JsonObject): readonly FieldError[] {
  return [...problemsOfShape(object), ...cloneSetLimitProblems(object)];
}

function problemsOfShape(object: JsonObject): readonly FieldError[] {
  const version = cloneSetVersion(object) ?? 'v1beta1';
  const { spec } = object;
  if (isAbsent(spec)) return [...nameProblems(object), required('spec', 'describes the desired pods')];
  if (!isJsonObject(spec)) return [...nameProblems(object), invalid('spec', spec, 'must be an object')];
  return [
    ...nameProblems(object),
    ...prefetchProblems(object),
    ...numberProblems('spec.replicas', spec.replicas),
    ...selectorProblems('spec.selector', spec.selector, 'selects the pods of this CloneSet'),
    ...templateProblems(spec, cloneSets.kind),
    ...podsToDeleteProblems(spec),
    ...updateStrategyProblems(spec, version),
    ...(version === 'v1alpha1' ? progressDeadlineProblems(spec) : []),
  ];
}

/** The fields that an update may change. */
const mutableFields = [
  'replicas',
  'template',
  'lifecycle',
  'scaleStrategy',
  'updateStrategy',
  'minReadySeconds',
  'progressDeadlineSeconds',
  'volumeClaimTemplates',
  'revisionHistoryLimit',
] as const;

/**
 * The problems of an update, both objects in the same version. A problem that the stored object has already is not
 * reported: replicas can be changed without admission (CS-97), which must not block later updates.
 */
export function validateCloneSetUpdate(before: JsonObject, after: JsonObject): readonly FieldError[] {
  return [
    ...immutableProblems(before, after, mutableFields),
    ...inPlaceOnlyProblems(before, after),
    ...newErrors(problemsOfShape(before), problemsOfShape(after)),
    ...cloneSetLimitProblems(after, before),
  ];
}

function podsToDeleteProblems(spec: JsonObject): readonly FieldError[] {
  const names = podsToDelete(spec);
  const seen = new Set<string>();
  const repeated = new Set(names.filter((name) => seen.size === seen.add(name).size));
  if (repeated.size === 0) return [];
  return [invalid(podsToDeletePath, names, `names more than once: ${listed([...repeated])}`)];
}

/** The path of problems of named pods. */
export const podsToDeletePath = 'spec.scaleStrategy.podsToDelete';

function podsToDelete(spec: Json | undefined): readonly string[] {
  const { podsToDelete: names } = objectOr(objectOr(spec).scaleStrategy);
  return listOr(names).filter((name) => typeof name === 'string');
}

/** The pace of an update with its field path, which depends on the version. */
interface Pace {
  readonly path: string;
  readonly fields: JsonObject;
  readonly policy: Json | undefined;
  readonly replicas: number;
}

function updateStrategyProblems(spec: JsonObject, version: CloneSetVersion): readonly FieldError[] {
  const path = 'spec.updateStrategy';
  const { updateStrategy = {} } = spec;
  if (!isJsonObject(updateStrategy)) {
    return isAbsent(updateStrategy) ? [] : [invalid(path, updateStrategy, 'must be an object')];
  }
  const { type } = updateStrategy;
  const replicas = isInt32(spec.replicas) ? spec.replicas : cloneSetDefault.replicas;
  if (version === 'v1alpha1') {
    const pace = { path, fields: updateStrategy, policy: type, replicas };
    return [...oneOfProblems(`${path}.type`, type, [...podUpdatePolicies, 'OnDelete']), ...paceProblems(pace)];
  }

  const { rollingUpdate } = updateStrategy;
  const typeProblems = oneOfProblems(`${path}.type`, type, ['RollingUpdate', 'OnDelete']);
  if (isAbsent(rollingUpdate)) return typeProblems;
  const inner = `${path}.rollingUpdate`;
  if (!isJsonObject(rollingUpdate)) return [...typeProblems, invalid(inner, rollingUpdate, 'must be an object')];
  const policy = rollingUpdate.podUpdatePolicy;
  const needed = type === 'OnDelete' ? (['partition', 'maxUnavailable'] as const) : [];
  return [
    ...typeProblems,
    ...oneOfProblems(`${inner}.podUpdatePolicy`, policy, podUpdatePolicies),
    ...needed
      .filter((field) => isAbsent(rollingUpdate[field]))
      .map((field) => invalid(`${inner}.${field}`, null, 'must be set when rollingUpdate is given with type OnDelete')),
    ...paceProblems({ path: inner, fields: rollingUpdate, policy, replicas }),
    ...preDownloadProblems(`${inner}.inPlaceUpdateStrategy`, rollingUpdate.inPlaceUpdateStrategy),
  ];
}

function paceProblems({ path, fields, policy, replicas }: Pace): readonly FieldError[] {
  const { priorityStrategy, scatterStrategy } = fields;
  const values = {
    partition: fields.partition ?? cloneSetDefault.partition,
    maxUnavailable: fields.maxUnavailable ?? cloneSetDefault.maxUnavailable,
    maxSurge: fields.maxSurge ?? cloneSetDefault.maxSurge,
  };
  const [maxUnavailable, maxSurge] = [podsOf(values.maxUnavailable, replicas), podsOf(values.maxSurge, replicas)];
  const at = (field: string) => `${path}.${field}`;
  return [
    ...Object.entries(values).flatMap(([field, value]) => countProblems(at(field), value)),
    ...(isCount(values.partition) && isNegative(values.partition)
      ? [invalid(at('partition'), values.partition, 'must not be negative')]
      : []),
    ...((maxSurge ?? 0) > 0 && policy === 'InPlaceOnly'
      ? [invalid(at('maxSurge'), fields.maxSurge, 'must be 0 with InPlaceOnly, which creates no pods for an update')]
      : []),
    ...(replicas > 0 && (maxUnavailable ?? 1) < 1 && (maxSurge ?? 1) < 1
      ? [
          invalid(
            at('maxUnavailable'),
            values.maxUnavailable,
            isCount(values.maxUnavailable) && isNegative(values.maxUnavailable)
              ? 'must not be negative'
              : 'must resolve to at least one pod unless maxSurge does; otherwise no pod can ever be updated',
          ),
        ]
      : []),
    ...priorityProblems(at('priorityStrategy'), priorityStrategy),
    ...scatterProblems(at('scatterStrategy'), scatterStrategy),
  ];
}

/** Percentages are rounded up. Undefined: it is not a number of pods. */
function podsOf(value: Json, replicas: number): number | undefined {
  return isCount(value) ? countOf(value, replicas, 'up') : undefined;
}

function scatterProblems(path: string, strategy: Json | undefined): readonly FieldError[] {
  const terms = listOr(strategy).map(objectOr);
  const firsts = new Map<string, number>();
  return terms.flatMap(({ key, value }, index) => {
    if (!isText(key)) return [required(path, `[${index}].key must not be empty`)];
    const term = JSON.stringify([key, value ?? '']);
    const first = firsts.get(term) ?? index;
    firsts.set(term, first);
    return first === index ? [] : [required(path, `[${index}] is the same as [${first}]`)];
  });
}

function preDownloadProblems(path: string, strategy: Json | undefined): readonly FieldError[] {
  const { imagePreDownloadParallelism: parallelism, ...others } = objectOr(strategy);
  const isCount =
    isAbsent(parallelism) ||
    (typeof parallelism === 'string' ? parseInt32(parallelism) !== undefined : isInt32(parallelism));
  const problems = isCount && Number(parallelism ?? 0) >= 0 ? [] : ['imagePreDownloadParallelism' as const];
  const negative = (['imagePreDownloadTimeoutSeconds', 'imagePreDownloadMinUpdatedReadyPods'] as const).filter(
    (field) => typeof others[field] === 'number' && others[field] < 0,
  );
  return [...problems, ...negative].map((field) =>
    invalid(`${path}.${field}`, objectOr(strategy)[field], 'must be an integer and not negative'),
  );
}

function progressDeadlineProblems({ progressDeadlineSeconds: deadline, minReadySeconds }: JsonObject) {
  const path = 'spec.progressDeadlineSeconds';
  if (typeof deadline !== 'number' || deadline === noProgressDeadline) return [];
  if (deadline < 0) return [invalid(path, deadline, 'must not be negative')];
  const least = typeof minReadySeconds === 'number' ? minReadySeconds : cloneSetDefault.minReadySeconds;
  return deadline <= least ? [invalid(path, deadline, 'must be more than minReadySeconds')] : [];
}

/** v1alpha1 rejects immediately what v1beta1 accepts and the roll-out then cannot do. */
function inPlaceOnlyProblems(before: JsonObject, after: JsonObject): readonly FieldError[] {
  const type = objectOr(objectOr(after.spec).updateStrategy).type;
  const isChecked = cloneSetVersion(after) === 'v1alpha1' && type === 'InPlaceOnly';
  return isChecked ? imagesOnlyProblems(before, after) : [];
}

// Checks that need the cluster. Admission does the reads; questions and answers are here.

/** Names in podsToDelete that this request adds; only v1alpha1 checks that they are pods of the CloneSet. */
export function newlyNamedPods(after: JsonObject, before?: JsonObject): readonly string[] {
  if (cloneSetVersion(after) !== 'v1alpha1') return [];
  const known = new Set(podsToDelete(before?.spec));
  return [...new Set(podsToDelete(after.spec))].filter((name) => !known.has(name));
}

/** The problem of an added pod name; `pod` is undefined when there is no such pod. */
export function namedPodProblem(set: JsonObject, name: string, pod: Pod | undefined): FieldError | undefined {
  const { uid } = objectOr(set.metadata);
  const controller = pod?.metadata.ownerReferences?.find((owner) => owner.controller === true);
  if (pod === undefined) return invalid(podsToDeletePath, name, 'there is no such pod');
  if (pod.metadata.deletionTimestamp !== undefined) {
    return invalid(podsToDeletePath, name, 'the pod is being deleted already');
  }
  if (controller === undefined || controller.uid !== uid) {
    return invalid(podsToDeletePath, name, 'the pod does not belong to this CloneSet');
  }
  return undefined;
}

/** Warnings about an allowed request; empty when there are none. */
export function cloneSetWarnings(after: JsonObject, before?: JsonObject): readonly string[] {
  return [...claimWarnings(after, before), ...paceWarnings(after)];
}

/** Numbers that are accepted, as by OpenKruise, and do not count as they are written. */
function paceWarnings(set: JsonObject): readonly string[] {
  const { updateStrategy, scaleStrategy } = objectOr(set.spec);
  const isFlat = cloneSetVersion(set) === 'v1alpha1';
  const path = `spec.updateStrategy${isFlat ? '' : '.rollingUpdate'}`;
  const { partition, maxUnavailable, maxSurge } = objectOr(
    isFlat ? updateStrategy : objectOr(updateStrategy).rollingUpdate,
  );
  const { maxUnavailable: ofScale } = objectOr(scaleStrategy);
  return [
    ...moreThanAllWarnings(`${path}.partition`, partition),
    ...moreThanAllWarnings(`${path}.maxUnavailable`, maxUnavailable),
    ...negativeWarnings(`${path}.maxUnavailable`, maxUnavailable),
    ...negativeWarnings(`${path}.maxSurge`, maxSurge),
    ...negativeWarnings('spec.scaleStrategy.maxUnavailable', ofScale),
  ];
}

function negativeWarnings(path: string, value: Json | undefined): readonly string[] {
  return !isAbsent(value) && isCount(value) && isNegative(value)
    ? [`${path}: ${value} is negative and counts as 0`]
    : [];
}

function claimWarnings(after: JsonObject, before: JsonObject | undefined): readonly string[] {
  const [had, has] = [objectOr(before?.spec), objectOr(after.spec)];
  const gainsClaims = claimNames(had).length === 0 && claimNames(has).length > 0;
  const keepsClaims = objectOr(has.scaleStrategy).enablePVCReuse === true;
  if (cloneSetVersion(after) !== 'v1beta1' || !gainsClaims || keepsClaims) return [];
  return [
    'spec.scaleStrategy.enablePVCReuse is false, so the PVCs of a pod are deleted when the pod vanishes, for ' +
      'example by eviction; in v1alpha1 they are kept unless disablePVCReuse is set',
  ];
}

/** What a request takes from pods of older revisions. */
export interface LostClaims {
  /** The names of the PVC templates that it removes. */
  readonly names: readonly string[];
  /** The revision of the template that the CloneSet had until now, if it is known. */
  readonly revision?: string;
  /** The revision that pods may also have, whose content is not in the CloneSet. */
  readonly earlier?: string;
}

/**
 * The PVC templates that a request removes while partition keeps pods at older revisions; undefined: there are none, or more
 * than a CloneSet may have.
 */
export function lostClaims(after: JsonObject, before: JsonObject): LostClaims | undefined {
  const spec = objectOr(after.spec);
  if (listOr(objectOr(before.spec).volumeClaimTemplates).length > mostClaimTemplates) return undefined;
  const left = new Set(claimNames(spec));
  const names = claimNames(objectOr(before.spec))
    .filter((name) => !left.has(name))
    .map(String);
  if (names.length === 0 || keptPods(after) === 0) return undefined;
  const { currentRevision, updateRevision } = objectOr(before.status);
  return {
    names,
    ...(isText(updateRevision) && { revision: updateRevision }),
    ...(isText(currentRevision) &&
      currentRevision !== updateRevision &&
      subdomainProblem(currentRevision) === undefined && { earlier: currentRevision }),
  };
}

/** How many pods partition keeps. */
function keptPods(set: JsonObject): number {
  const { replicas, updateStrategy } = objectOr(set.spec);
  const strategy = objectOr(updateStrategy);
  const { partition } = cloneSetVersion(set) === 'v1alpha1' ? strategy : objectOr(strategy.rollingUpdate);
  return podsOf(partition ?? cloneSetDefault.partition, isInt32(replicas) ? replicas : cloneSetDefault.replicas) ?? 0;
}

/** Warnings that pods of a revision with this template mount what is removed (CS-72), each below the limit of a warning. */
export function lostClaimWarnings(
  { names }: LostClaims,
  template: Json | undefined,
  revision: string | undefined,
): readonly string[] {
  const mounts = unprovidedMounts(objectOr(objectOr(template).spec));
  const containers = new Map(mounts.toReversed().map(({ volume, container }) => [volume, container]));
  return names.flatMap((name) => {
    const container = containers.get(name);
    if (container === undefined) return [];
    const of = revision === undefined ? 'the old template' : `revision ${revision}`;
    return [
      `spec.volumeClaimTemplates: without "${name}", which container "${container}" of ${of} mounts, no pod ` +
        'of it can be created again, and partition keeps pods there',
    ];
  });
}
