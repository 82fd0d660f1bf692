// What admission rejects in CloneSets (CS §6). Checks of the object alone come first; checks that need the cluster are
// questions and answers here, and admission does the reads.

import { countOf, type IntOrPercent, isInt32, isNegative, parseInt32, parsePercent } from '../base/int-or-percent.ts';
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
import {
  describeError,
  type FieldError,
  forbidden,
  invalid,
  newErrors,
  notSupported,
  required,
} from '../core/field-error.ts';
import { selectorProblems } from '../core/label-problems.ts';
import { labelMatcher } from '../core/label-selector.ts';
import { subdomainProblem } from '../core/label-syntax.ts';
import type { Pod } from '../core/pod.ts';
import { prefetchProblems } from '../fleet/pre-download.ts';
import { cloneSetLimitProblems } from './limits.ts';
import {
  type CloneSetVersion,
  cloneSetDefault,
  cloneSetVersion,
  noProgressDeadline,
  podUpdatePolicies,
} from './types.ts';

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
    ...replicasProblems(spec.replicas),
    ...selectorProblems('spec.selector', spec.selector, 'selects the pods of this CloneSet'),
    ...templateProblems(spec),
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
    ...immutableProblems(before, after),
    ...inPlaceOnlyProblems(before, after),
    ...newErrors(problemsOfShape(before), problemsOfShape(after)),
    ...cloneSetLimitProblems(after, before),
  ];
}

function nameProblems({ metadata }: JsonObject): readonly FieldError[] {
  const name = objectOr(metadata).name;
  if (typeof name !== 'string' || name === '') return []; // created with generateName, or rejected by the API server
  const problem = subdomainProblem(name);
  return problem === undefined ? [] : [invalid('metadata.name', name, problem)];
}

function replicasProblems(replicas: Json | undefined): readonly FieldError[] {
  if (isAbsent(replicas)) return [];
  if (!isInt32(replicas)) return [invalid('spec.replicas', replicas, 'must be a 32-bit integer')];
  return replicas < 0 ? [invalid('spec.replicas', replicas, 'must not be negative')] : [];
}

/** Restrictions for templates of CloneSets that pods do not have. Those of all pods are checked by a dry run. */
function templateProblems({ template, selector }: JsonObject): readonly FieldError[] {
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
      : [forbidden(`${path}.spec.activeDeadlineSeconds`, 'pods of a CloneSet must not have a deadline')]),
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

function podsToDeleteProblems(spec: JsonObject): readonly FieldError[] {
  const names = podsToDelete(spec);
  const seen = new Set<string>();
  const repeated = new Set(names.filter((name) => seen.size === seen.add(name).size));
  if (repeated.size === 0) return [];
  return [invalid(podsToDeletePath, names, `names more than once: ${listed([...repeated])}`)];
}

/** The first names, and how many more there are. */
function listed(names: readonly string[]): string {
  const more = names.length - mostListed;
  return `${names.slice(0, mostListed).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

const mostListed = 10;

const podsToDeletePath = 'spec.scaleStrategy.podsToDelete';

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

/** An absent or empty value is valid: it means the default. */
function oneOfProblems(path: string, value: Json | undefined, choices: readonly string[]): readonly FieldError[] {
  if (isAbsent(value) || value === '' || choices.some((choice) => choice === value)) return [];
  return [invalid(path, value, `must be ${choices.slice(0, -1).join(', ')} or ${choices.at(-1)}`)];
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
            'must resolve to at least one pod unless maxSurge does; otherwise no pod can ever be updated',
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

function isCount(value: Json): value is IntOrPercent {
  return isInt32(value) || (typeof value === 'string' && parsePercent(value) !== undefined);
}

function countProblems(path: string, value: Json): readonly FieldError[] {
  return isCount(value) ? [] : [invalid(path, value, 'must be an integer or a percentage such as 20%')];
}

function priorityProblems(path: string, strategy: Json | undefined): readonly FieldError[] {
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

function isText(value: Json | undefined): value is string {
  return typeof value === 'string' && value !== '';
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

function immutableProblems(before: JsonObject, after: JsonObject): readonly FieldError[] {
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

/** v1alpha1 rejects immediately what v1beta1 accepts and the roll-out then cannot do. */
function inPlaceOnlyProblems(before: JsonObject, after: JsonObject): readonly FieldError[] {
  const type = objectOr(objectOr(after.spec).updateStrategy).type;
  if (cloneSetVersion(after) !== 'v1alpha1' || type !== 'InPlaceOnly') return [];
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

/** A pod like those of the CloneSet for a dry run, and the mapping of its field paths to those of the CloneSet. */
export interface TemplateProbe {
  readonly pod: JsonObject;
  readonly pathInSet: (field: string) => string;
}

/**
 * Whether the pods of an update have to be validated again: only when they would change. A template that was accepted
 * once stays valid, whatever a newer API server says.
 */
export function changesPods(before: JsonObject | undefined, after: JsonObject): boolean {
  const [had, has] = [objectOr(before?.spec), objectOr(after.spec)];
  return !sameJson(had.template, has.template) || !sameJson(claimNames(had), claimNames(has));
}

/**
 * The pod for a dry run in that namespace. References that are valid only in the namespace of the CloneSet, or may be
 * created after it, are left out: ServiceAccount, PriorityClass, RuntimeClass. `probeProblems` checks their names.
 */
export function templateProbe(set: JsonObject, namespace: string): TemplateProbe {
  const { template } = objectOr(set.spec);
  const { labels, annotations } = objectOr(objectOr(template).metadata);
  const podSpec = objectOr(objectOr(template).spec);
  const claims = claimNames(objectOr(set.spec));
  const claimed = new Set(claims);
  const volumes = listOr(podSpec.volumes)
    .map((volume, index) => ({ volume, index }))
    .filter(({ volume }) => !claimed.has(objectOr(volume).name ?? null));
  const claimVolumes = claims.map((name) => ({ name, persistentVolumeClaim: { claimName: name } }));
  const kept = Object.entries(podSpec).filter(([field]) => !elsewhere.some((name) => name === field));

  return {
    pod: {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: {
        generateName: 'template-',
        namespace,
        ...(isJsonObject(labels) && { labels }),
        ...(isJsonObject(annotations) && { annotations }),
      },
      spec: {
        ...Object.fromEntries(kept),
        automountServiceAccountToken: false,
        ...(claims.length + volumes.length > 0 && {
          volumes: [...claimVolumes, ...volumes.map(({ volume }) => volume)],
        }),
      },
    },
    pathInSet(field) {
      const [, number = '', rest = ''] = /^spec\.volumes\[(\d+)\](.*)$/s.exec(field) ?? [];
      if (number === '') return `spec.template.${field}`;
      const index = Number(number);
      if (index < claims.length) return `spec.volumeClaimTemplates[${index}].metadata.name`;
      return `spec.template.spec.volumes[${volumes[index - claims.length]?.index ?? number}]${rest}`;
    },
  };
}

const elsewhere = [
  'serviceAccountName',
  'serviceAccount',
  'priorityClassName',
  'priority',
  'preemptionPolicy',
  'runtimeClassName',
  'overhead',
] as const;

function claimNames(spec: JsonObject): readonly Json[] {
  return listOr(spec.volumeClaimTemplates).map((claim) => objectOr(objectOr(claim).metadata).name ?? '');
}

/** The API server's answer to the dry run, with paths of the CloneSet, and problems of what the dry run leaves out. */
export function probeProblems(
  set: JsonObject,
  probe: TemplateProbe,
  causes: readonly { readonly field?: string; readonly message?: string }[],
): readonly FieldError[] {
  const podSpec = objectOr(objectOr(objectOr(set.spec).template).spec);
  const names = ['serviceAccountName', 'priorityClassName', 'runtimeClassName'].flatMap((field) => {
    const name = podSpec[field];
    const problem = isText(name) ? subdomainProblem(name) : undefined;
    return problem === undefined ? [] : [invalid(`spec.template.spec.${field}`, name, problem)];
  });
  const found = causes.map(({ field = 'spec', message = 'is refused by the API server' }): FieldError => {
    return { field: probe.pathInSet(field), detail: message };
  });
  return [...names, ...found];
}

/** Warnings about an allowed request; empty when there are none. */
export function cloneSetWarnings(after: JsonObject, before?: JsonObject): readonly string[] {
  const [had, has] = [objectOr(before?.spec), objectOr(after.spec)];
  const gainsClaims = claimNames(had).length === 0 && claimNames(has).length > 0;
  const keepsClaims = objectOr(has.scaleStrategy).enablePVCReuse === true;
  if (cloneSetVersion(after) !== 'v1beta1' || !gainsClaims || keepsClaims) return [];
  return [
    'spec.scaleStrategy.enablePVCReuse is false, so the PVCs of a pod are deleted when the pod vanishes, for ' +
      'example by eviction; in v1alpha1 they are kept unless disablePVCReuse is set',
  ];
}
