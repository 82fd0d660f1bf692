// What admission rejects in one container of a SidecarSet (SCS-249 to SCS-251). The core fields of containers are checked
// by a dry run of a pod.

import { parseGoRegexp } from '../base/go-regexp.ts';
import { isAbsent, isJsonObject, type Json, type JsonObject, listOr, objectOr } from '../base/json.ts';
import { type FieldError, forbidden, invalid, notSupported, required } from '../core/field-error.ts';
import { labelKeyProblem } from '../core/label-syntax.ts';
import { metadataReference } from './field-reference.ts';
import { type PlacedContainer, textOf } from './read.ts';
import { type ComputedResource, evaluateExpression } from './resource-expression.ts';
import { isNativeSidecar } from './types.ts';

/** What OpenKruise rejects, too. Some checks are for `containers` only. */
export function containerProblems({ list, path, container }: PlacedContainer): readonly FieldError[] {
  return [
    ...(list === 'containers'
      ? [...policyProblems(path, container), ...transferProblems(path, container.transferEnv)]
      : []),
    ...resourcesPolicyProblems({ list, path, container }),
  ];
}

/** What OpenKruise accepts although no pod can work with it (SCS-69, SCS-266). */
export function unworkableProblems({ path, container }: PlacedContainer): readonly FieldError[] {
  const transfers = listOr(container.transferEnv).flatMap((transfer, index) => {
    const from = objectOr(transfer).sourceContainerNameFrom;
    if (!isJsonObject(from) || isJsonObject(from.fieldRef)) return [];
    return [required(`${path}.transferEnv[${index}].sourceContainerNameFrom.fieldRef`, 'names the source container')];
  });
  const numbers = expressionsOf(path, container).flatMap(({ path, text, resource }) => {
    const evaluated = evaluateExpression(text, resource, 1);
    if (evaluated.kind === 'failed' || evaluated.ignored.length === 0) return [];
    return [invalid(path, text, `${evaluated.ignored.join(', ')} has an unknown suffix and would count as 0`)];
  });
  return [...transfers, ...numbers];
}

const injectPolicies = ['BeforeAppContainer', 'AfterAppContainer'] as const;
const shareTypes = ['enabled', 'disabled'] as const;

function policyProblems(path: string, { podInjectPolicy, shareVolumePolicy }: JsonObject): readonly FieldError[] {
  const { type } = objectOr(shareVolumePolicy);
  const isKnown = (value: Json | undefined, known: readonly string[]) =>
    isAbsent(value) || value === '' || known.includes(textOf(value));
  return [
    ...(isKnown(podInjectPolicy, injectPolicies)
      ? []
      : [notSupported(`${path}.podInjectPolicy`, podInjectPolicy, injectPolicies)]),
    ...(isKnown(type, shareTypes) ? [] : [notSupported(`${path}.shareVolumePolicy.type`, type, shareTypes)]),
  ];
}

function transferProblems(path: string, transfers: Json | undefined): readonly FieldError[] {
  return listOr(transfers).flatMap((transfer, index) => {
    const { fieldRef } = objectOr(objectOr(transfer).sourceContainerNameFrom);
    if (!isJsonObject(fieldRef)) return [];
    const at = `${path}.transferEnv[${index}].sourceContainerNameFrom.fieldRef`;
    const { apiVersion, fieldPath } = fieldRef;
    const reference = metadataReference(textOf(fieldPath));
    const problem = reference && labelKeyProblem(reference.key);
    return [
      ...(isAbsent(apiVersion) || apiVersion === '' || apiVersion === 'v1'
        ? []
        : [invalid(`${at}.apiVersion`, apiVersion, 'must be v1')]),
      ...(reference === undefined
        ? [invalid(`${at}.fieldPath`, fieldPath, "must be metadata.labels['key'] or metadata.annotations['key']")]
        : []),
      ...(problem === undefined ? [] : [invalid(`${at}.fieldPath`, fieldPath, `in the key ${problem}`)]),
    ];
  });
}

function resourcesPolicyProblems({ list, path: place, container }: PlacedContainer): readonly FieldError[] {
  const { resourcesPolicy } = container;
  const path = `${place}.resourcesPolicy`;
  if (!isJsonObject(resourcesPolicy)) return [];
  if (list === 'initContainers' && !isNativeSidecar(container)) {
    return [forbidden(path, 'is for containers, and for init containers with restartPolicy Always')];
  }
  const { targetContainersNameRegex: regex, resourcesExpr } = resourcesPolicy;
  const { limits, requests } = objectOr(resourcesExpr);
  return [
    ...(hasResources(container.resources) ? [forbidden(path, 'cannot be combined with resources')] : []),
    ...(regex === '' ? [required(`${path}.targetContainersNameRegex`, 'selects the target containers')] : []),
    ...regexProblems(`${path}.targetContainersNameRegex`, regex),
    ...(isAbsent(limits) && isAbsent(requests)
      ? [required(`${path}.resourcesExpr`, 'limits or requests must be given')]
      : []),
    ...expressionsOf(place, container).flatMap(({ path, text, resource }) => {
      // SCS-68: the variable is 1 here; the real amounts come with a pod.
      const evaluated = evaluateExpression(text, resource, 1);
      return evaluated.kind === 'failed' ? [invalid(path, text, evaluated.problem)] : [];
    }),
  ];
}

function hasResources(resources: Json | undefined): boolean {
  return Object.values(objectOr(resources)).some((part) => !isAbsent(part) && Object.keys(part).length > 0);
}

function regexProblems(path: string, regex: Json | undefined): readonly FieldError[] {
  const parsed = parseGoRegexp(textOf(regex));
  return 'problem' in parsed ? [invalid(path, regex, parsed.problem)] : [];
}

interface PlacedExpression {
  readonly path: string;
  readonly text: string;
  readonly resource: ComputedResource;
}

function expressionsOf(path: string, container: JsonObject): readonly PlacedExpression[] {
  const { resourcesExpr } = objectOr(container.resourcesPolicy);
  return (['limits', 'requests'] as const).flatMap((kind) =>
    (['cpu', 'memory'] as const).flatMap((resource) => {
      const text = textOf(objectOr(objectOr(resourcesExpr)[kind])[resource]);
      const at = `${path}.resourcesPolicy.resourcesExpr.${kind}.${resource}`;
      return text === '' ? [] : [{ path: at, text, resource }];
    }),
  );
}
