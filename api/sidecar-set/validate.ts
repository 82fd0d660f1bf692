// What admission rejects in SidecarSets (SCS §6). Checks of the object alone; `conflicts.ts` compares it with others,
// `whitelist.ts` with the configuration, and `trial.ts` lets the API server check its containers.
//
// What OpenKruise rejects is rejected on every write. What only Windlass rejects, because no pod can work with it, is
// rejected where a write introduces it; otherwise there is a warning (SCS-267).

import { isAbsent, isJsonObject, type Json, type JsonObject, listOr, objectOr } from '../base/json.ts';
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
import { prefetchProblems } from '../fleet/pre-download.ts';
import { moreThanAllWarnings } from '../fleet/workload-problems.ts';
import { isCanary, isPair } from './canary.ts';
import { convertSidecarSet, namespaceNameLabel } from './convert.ts';
import { hotUpgradeProblems } from './hot-upgrade.ts';
import { hasTooManySidecars, sidecarSetLimitProblems } from './limits.ts';
import { sidecarSetAnnotation } from './marks.ts';
import { outOfReachWarnings } from './out-of-reach.ts';
import { containersOf, textOf } from './read.ts';
import { sidecarSetDefault } from './types.ts';
import { containerProblems, unworkableProblems } from './validate-container.ts';
import { updateStrategyProblems } from './validate-strategy.ts';

/** The problems of a write, and what its user should know although it is accepted. */
export interface SidecarSetVerdict {
  readonly problems: readonly FieldError[];
  readonly warnings: readonly string[];
}

/**
 * The verdict about a new SidecarSet, or with `before` about an update, as far as it needs no other object. Accepts
 * objects of any shape in either version, and never throws. Field paths are those of v1beta1.
 */
export function validateSidecarSet(given: JsonObject, givenBefore?: JsonObject): SidecarSetVerdict {
  const object = stored(given);
  const before = givenBefore && stored(givenBefore);
  const [had, has] = [before === undefined ? [] : unworkable(before), unworkable(object)];
  const introduced = newErrors(had, has);
  const isNew = new Set(introduced);
  return {
    problems: [
      ...alwaysRejected(object),
      ...(before === undefined ? [] : changeProblems(before, object)),
      ...introduced,
      ...sidecarSetLimitProblems(object, before),
    ],
    warnings: [
      ...has.filter((problem) => !isNew.has(problem)).map(describeError),
      ...warningsOf(object),
      ...(before === undefined || [before, object].some(hasTooManySidecars) ? [] : outOfReachWarnings(before, object)),
      ...namespaceWarnings(given),
    ],
  };
}

/** The object in the stored version. */
export function stored(object: JsonObject): JsonObject {
  return convertSidecarSet(object, 'apps.kruise.io/v1beta1')?.object ?? object;
}

function alwaysRejected(object: JsonObject): readonly FieldError[] {
  const { spec } = object;
  if (!isJsonObject(spec)) return [...nameProblems(object), invalid('spec', spec ?? null, 'must be an object')];
  const containers = containersOf(object);
  return [
    ...nameProblems(object),
    ...failureProblems(object),
    ...prefetchProblems(object),
    ...requiredSelectorProblems(spec.selector),
    ...(isAbsent(spec.namespaceSelector)
      ? []
      : selectorProblems('spec.namespaceSelector', spec.namespaceSelector, 'selects the namespaces')),
    ...updateStrategyProblems(spec),
    ...injectionProblems(spec.injectionStrategy),
    ...(containers.length === 0 ? [required('spec', 'no initContainer or container defined for SidecarSet')] : []),
    ...containers.flatMap(containerProblems),
    ...patchProblems(spec.patchPodMetadata),
    ...canaryProblems(object),
  ];
}

function nameProblems({ metadata }: JsonObject): readonly FieldError[] {
  const name = textOf(objectOr(metadata).name);
  if (name === '') return []; // created with generateName, or rejected by the API server
  const detail = 'must have at most 63 characters, which are letters, digits and "-"';
  return /^[a-zA-Z0-9-]{1,63}$/.test(name) ? [] : [invalid('metadata.name', name, detail)];
}

function failureProblems({ metadata }: JsonObject): readonly FieldError[] {
  const key = sidecarSetAnnotation.injectionFailure;
  const value = objectOr(objectOr(metadata).annotations)[key];
  if (isAbsent(value) || value === 'Fail' || value === 'Ignore') return [];
  return [notSupported(`metadata.annotations[${key}]`, value, ['Fail', 'Ignore'])];
}

function requiredSelectorProblems(selector: Json | undefined): readonly FieldError[] {
  const path = 'spec.selector';
  if (isAbsent(selector)) return [required(path, 'no selector defined for SidecarSet')];
  const { matchLabels, matchExpressions } = objectOr(selector);
  const isEmpty = Object.keys(objectOr(matchLabels)).length + listOr(matchExpressions).length === 0;
  return isJsonObject(selector) && isEmpty
    ? [invalid(path, selector, 'empty selector is not valid for sidecarset.')]
    : selectorProblems(path, selector, 'no selector defined for SidecarSet');
}

function injectionProblems(strategy: Json | undefined): readonly FieldError[] {
  const { revision } = objectOr(strategy);
  if (!isJsonObject(revision)) return [];
  const path = 'spec.injectionStrategy.revision';
  const { revisionName, customVersion, policy } = revision;
  const isKnown = isAbsent(policy) || ['', 'Always', 'Partial'].includes(textOf(policy));
  return [
    ...(isAbsent(revisionName) && isAbsent(customVersion)
      ? [required(path, 'revisionName or customVersion must be given')]
      : []),
    ...(isKnown ? [] : [notSupported(`${path}.policy`, policy, ['Always', 'Partial'])]),
  ];
}

function patchProblems(patches: Json | undefined): readonly FieldError[] {
  const seen = new Set<string>();
  return listOr(patches).flatMap((patch, index) => {
    const path = `spec.patchPodMetadata[${index}].annotations`;
    const keys = Object.keys(objectOr(objectOr(patch).annotations));
    if (keys.length === 0) return [required(path, 'annotations must be given')];
    return keys.flatMap((key) =>
      seen.size === seen.add(key).size ? [invalid(path, key, 'the annotation is in the list more than once')] : [],
    );
  });
}

/** SCS-106, as far as it needs no other SidecarSet. */
function canaryProblems(object: JsonObject): readonly FieldError[] {
  if (!isCanary(object)) return [];
  const { updateStrategy } = objectOr(object.spec);
  const path = `metadata.annotations[${sidecarSetAnnotation.base}]`;
  return [
    ...(objectOr(updateStrategy).type === 'NotUpdate'
      ? []
      : [forbidden('spec.updateStrategy.type', 'RollingUpdate is not supported for canary sidecarSet')]),
    ...(isPair(object, object) ? [forbidden(path, 'base sidecarSet cannot be itself')] : []),
  ];
}

/** SCS-254, SCS-255 and SCS-106. */
function changeProblems(before: JsonObject, after: JsonObject): readonly FieldError[] {
  const ofContainers = (object: JsonObject) => containersOf(object).filter(({ list }) => list === 'containers');
  const known = new Map(ofContainers(before).map(({ container }) => [container.name, container]));
  const key = sidecarSetAnnotation.base;
  const baseOf = ({ metadata }: JsonObject) => textOf(objectOr(objectOr(metadata).annotations)[key]);
  return [
    ...ofContainers(after).flatMap(({ path, container }) => {
      const old = known.get(container.name);
      const name = textOf(container.name);
      if (old === undefined) return [invalid(`${path}.name`, name, `container ${name} is not found`)];
      if (upgradeTypeOf(old) === upgradeTypeOf(container)) return [];
      const at = `${path}.upgradeStrategy.upgradeType`;
      return [invalid(at, upgradeTypeOf(container), `container ${name} upgradeType is immutable`)];
    }),
    ...(isCanary(before) && baseOf(before) !== baseOf(after)
      ? [forbidden(`metadata.annotations[${key}]`, 'the base of a canary cannot be changed')]
      : []),
  ];
}

function upgradeTypeOf({ upgradeStrategy }: JsonObject): string {
  return textOf(objectOr(upgradeStrategy).upgradeType) || sidecarSetDefault.upgradeType;
}

/** What only Windlass rejects. */
function unworkable(object: JsonObject): readonly FieldError[] {
  const containers = containersOf(object);
  return [...containers.flatMap(unworkableProblems), ...hotUpgradeProblems(containers)];
}

/** SCS-266: what has a meaning that its user may not expect. */
function warningsOf(object: JsonObject): readonly string[] {
  const { updateStrategy, patchPodMetadata } = objectOr(object.spec);
  const { type, partition, maxUnavailable } = objectOr(updateStrategy);
  const unknown = (path: string, value: Json | undefined, known: readonly string[], effect: string) =>
    isAbsent(value) || value === '' || known.includes(textOf(value))
      ? []
      : [`${path}: ${JSON.stringify(value)} is unknown and ${effect}`];
  return [
    ...unknown('spec.updateStrategy.type', type, ['RollingUpdate', 'NotUpdate'], 'works as RollingUpdate'),
    ...(maxUnavailable === 0 || (typeof maxUnavailable === 'string' && /^0+%$/.test(maxUnavailable))
      ? ['spec.updateStrategy.maxUnavailable: with 0 only pods that are not ready are updated']
      : []),
    ...moreThanAllWarnings('spec.updateStrategy.partition', partition),
    ...moreThanAllWarnings('spec.updateStrategy.maxUnavailable', maxUnavailable),
    ...listOr(patchPodMetadata).flatMap((patch, index) =>
      unknown(
        `spec.patchPodMetadata[${index}].patchPolicy`,
        objectOr(patch).patchPolicy,
        ['Retain', 'Overwrite', 'MergePatchJson'],
        'has no effect',
      ),
    ),
    ...containersOf(object).flatMap(({ list, path, container }) => {
      const { upgradeType } = objectOr(container.upgradeStrategy);
      const at = `${path}.upgradeStrategy.upgradeType`;
      const isHotInit = list === 'initContainers' && upgradeType === 'HotUpgrade';
      return [
        ...unknown(at, upgradeType, ['ColdUpgrade', 'HotUpgrade'], 'works as ColdUpgrade'),
        ...(isHotInit ? [`${at}: init containers are never updated in running pods`] : []),
      ];
    }),
  ];
}

/** The stored form of `spec.namespace`, which is never given back (SCS 2.3). */
function namespaceWarnings({ apiVersion, spec }: JsonObject): readonly string[] {
  const { namespace, namespaceSelector } = objectOr(spec);
  const name = textOf(namespace);
  if (apiVersion !== 'apps.kruise.io/v1alpha1' || name === '') return [];
  const stored = `spec.namespaceSelector.matchLabels: {"${namespaceNameLabel}": ${JSON.stringify(name)}}`;
  return [
    `spec.namespace is stored as ${stored}, and is shown as such: write it like that to compare equal`,
    ...(isAbsent(namespaceSelector) ? [] : ['spec.namespaceSelector has no effect beside spec.namespace']),
  ];
}
