import { isJsonList, isJsonObject, type JsonObject, listOr, objectOr, sameJson } from '../../../api/base/json.ts';
import { type Cause, invalid } from './refusals.ts';
import type { Stored } from './stored.ts';
import type { Traits } from './traits.ts';

type Problem = Required<Cause>;

const dnsSubdomain = /^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/;
const labelKey = /^([a-z0-9]([-a-z0-9.]*[a-z0-9])?\/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/;
const labelValue = /^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$/;
const mostAnnotationBytes = 256 * 1024;

/** Refuses the metadata of a new object that no API server takes. The spec is not looked at: schemas are not played. */
export function validateNew(object: Stored, traits: Traits): void {
  refuse(object, traits, metadataProblems(object));
}

/** Refuses a change that no API server takes. */
export function validateChange(before: Stored, after: Stored, traits: Traits, subresource?: string): void {
  refuse(after, traits, [
    ...metadataProblems(after),
    ...identityProblems(before, after),
    ...finalizerProblems(before, after),
    ...traits.immutable
      .filter((field) => before[field] !== undefined && !sameJson(before[field], after[field]))
      .map((field) => problem(field, 'Invalid value: field is immutable')),
    ...(traits.name === 'pods' ? podProblems(before, after, subresource) : []),
  ]);
}

function refuse({ kind, metadata: { name } }: Stored, { name: resource }: Traits, problems: readonly Problem[]): void {
  const group = resource.includes('.') ? resource.slice(resource.indexOf('.')) : '';
  if (problems.length > 0) throw invalid(`${kind}${group}`, name, problems);
}

function problem(field: string, message: string): Problem {
  return { reason: message.startsWith('Forbidden') ? 'FieldValueForbidden' : 'FieldValueInvalid', field, message };
}

function metadataProblems({ metadata }: Stored): readonly Problem[] {
  const { name, labels = {}, annotations = {} } = metadata;
  const problems: Problem[] = [];
  if (name.length > 253 || !dnsSubdomain.test(name)) {
    problems.push(
      problem('metadata.name', `Invalid value: "${name}": a lowercase RFC 1123 subdomain must consist of …`),
    );
  }
  for (const [key, value] of Object.entries(labels)) {
    if (labelKey.test(key) && typeof value === 'string' && labelValue.test(value)) continue;
    problems.push(problem('metadata.labels', `Invalid value: "${key}=${value}": a valid label must …`));
  }
  let bytes = 0;
  for (const [key, value] of Object.entries(annotations)) {
    bytes += Buffer.byteLength(key) + Buffer.byteLength(String(value));
    if (labelKey.test(key.toLowerCase()) && typeof value === 'string') continue;
    problems.push(problem('metadata.annotations', `Invalid value: "${key}=${value}"`));
  }
  if (bytes > mostAnnotationBytes) {
    problems.push(problem('metadata.annotations', `Too long: may not be more than ${mostAnnotationBytes} bytes`));
  }
  return problems;
}

function identityProblems({ metadata: before }: Stored, { metadata: after }: Stored): readonly Problem[] {
  return (['name', 'namespace', 'uid'] as const)
    .filter((field) => before[field] !== after[field])
    .map((field) => problem(`metadata.${field}`, `Invalid value: "${after[field]}": field is immutable`));
}

function finalizerProblems(before: Stored, after: Stored): readonly Problem[] {
  if (before.metadata.deletionTimestamp === undefined) return [];
  const added = (after.metadata.finalizers ?? []).filter((name) => !before.metadata.finalizers?.includes(name));
  if (added.length === 0) return [];
  const message = `Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers ${added}`;
  return [problem('metadata.finalizers', message)];
}

/** Pods keep their spec, but for a few fields; amounts change through the subresource `resize`. */
function podProblems(before: Stored, after: Stored, subresource: string | undefined): readonly Problem[] {
  const changeable = subresource === 'resize' ? ['resources', 'resizePolicy'] : ['image'];
  const fixed = ({ spec }: Stored) => {
    const { activeDeadlineSeconds: _, tolerations: __, schedulingGates: ___, ...rest } = objectOr(spec);
    const containers = listOr(rest.containers).map((container) => without(container, changeable));
    return { ...rest, containers, initContainers: initContainers(rest, changeable) };
  };
  if (sameJson(fixed(before), fixed(after))) return [];
  return [problem('spec', 'Forbidden: pod updates may not change fields other than `spec.containers[*].image`,…')];
}

function initContainers({ initContainers: all }: JsonObject, changeable: readonly string[]) {
  return isJsonList(all) ? all.map((container) => without(container, changeable)) : undefined;
}

function without(container: unknown, fields: readonly string[]): JsonObject {
  if (!isJsonObject(container)) return {};
  return Object.fromEntries(Object.entries(container).filter(([field]) => !fields.includes(field)));
}
