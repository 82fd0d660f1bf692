// What may change in spec.volumeClaimTemplates while PVCs are expanded with them (AS-95). Objects are in the shape of v1beta1.

import { type Json, type JsonObject, listOr, objectOr } from '../base/json.ts';
import { sameQuantity } from '../base/quantity.ts';
import { type FieldError, forbidden } from '../core/field-error.ts';
import type { KubeObject } from '../core/meta.ts';

/** The parts of a StorageClass that are read. */
export interface StorageClass extends KubeObject {
  readonly allowVolumeExpansion?: boolean;
}

/** A template whose size an update changes. */
export interface ResizedTemplate {
  readonly path: string;
  /** Absent: the default one. */
  readonly className?: string;
}

/** What an update does to the templates. */
export interface TemplateChange {
  readonly problems: readonly FieldError[];
  /** Templates of which the StorageClass is to be looked at. */
  readonly resized: readonly ResizedTemplate[];
}

/** AS-95: the stored strategy counts, not the new one. Without `OnPodRollingUpdate` every change is allowed. */
export function templateChange(before: JsonObject, after: JsonObject): TemplateChange {
  const [was, is] = [objectOr(before.spec), objectOr(after.spec)];
  if (objectOr(was.volumeClaimUpdateStrategy).type !== 'OnPodRollingUpdate') return { problems: [], resized: [] };
  const [old, wanted] = [templatesIn(was), templatesIn(is)];
  const names = wanted.map(nameOf);
  const isSame = names.length === old.length && old.every((template) => names.includes(nameOf(template)));
  if (!isSame) return { problems: [forbidden('spec.volumeClaimTemplates', fixedTemplates)], resized: [] };
  const pairs = wanted.flatMap((template) => {
    const earlier = old.find((one) => nameOf(one) === nameOf(template));
    return earlier ? [{ earlier: objectOr(earlier.spec), now: objectOr(template.spec), name: nameOf(template) }] : [];
  });
  return {
    problems: pairs.flatMap(({ earlier, now, name }) => fixedProblems(pathOf(name), earlier, now)),
    resized: pairs.filter(({ earlier, now }) => isResized(earlier, now)).map(({ now, name }) => resized(name, now)),
  };
}

const whileExpanded = 'while the stored volumeClaimUpdateStrategy is OnPodRollingUpdate';
const fixedTemplates = `templates may not be added, removed or renamed ${whileExpanded}`;

function fixedProblems(path: string, before: JsonObject, after: JsonObject): readonly FieldError[] {
  const isSameModes = isSameSet(listOr(before.accessModes), listOr(after.accessModes));
  const isSameClass = (before.storageClassName ?? null) === (after.storageClassName ?? null);
  const fixed = (field: string) => forbidden(`${path}.spec.${field}`, `may not be changed ${whileExpanded}`);
  return [...(isSameModes ? [] : [fixed('accessModes')]), ...(isSameClass ? [] : [fixed('storageClassName')])];
}

/** AS-95a: only templates whose size changes are looked at, whether it grows or shrinks. */
function isResized(before: JsonObject, after: JsonObject): boolean {
  return (['requests', 'limits'] as const).some((kind) => {
    const [was, is] = [storageIn(before, kind), storageIn(after, kind)];
    return typeof was === 'string' && typeof is === 'string' ? !sameQuantity(was, is) : was !== is;
  });
}

function storageIn({ resources }: JsonObject, kind: 'requests' | 'limits'): Json | undefined {
  return objectOr(objectOr(resources)[kind]).storage;
}

function resized(name: string, { storageClassName }: JsonObject): ResizedTemplate {
  const className = typeof storageClassName === 'string' ? { className: storageClassName } : {};
  return { path: pathOf(name), ...className };
}

/** AS-95a: the StorageClass of a template that is resized. Undefined: the class allows that, or there is no default class to ask. */
export function storageClassProblem(
  { path, className }: ResizedTemplate,
  found: StorageClass | undefined,
): FieldError | undefined {
  const field = `${path}.spec.resources.requests.storage`;
  if (found === undefined) {
    return className === undefined ? undefined : forbidden(field, `storage class ${className} does not exist`);
  }
  const refuses = found.allowVolumeExpansion === false;
  return refuses
    ? forbidden(field, `storage class ${found.metadata.name} does not support volume expansion`)
    : undefined;
}

/** What a person should know of the StorageClass of a template that is resized. Undefined: nothing. */
export function storageClassWarning({ path }: ResizedTemplate, found: StorageClass | undefined): string | undefined {
  if (found === undefined || found.allowVolumeExpansion !== undefined) return undefined;
  return (
    `${path}.spec.resources.requests.storage: storage class ${found.metadata.name} has no allowVolumeExpansion, ` +
    'so the API server will refuse to expand PVCs'
  );
}

/** The class of PVCs that name none: the newest of those that are marked so. Undefined: there is none. */
export function defaultStorageClass(classes: readonly StorageClass[]): StorageClass | undefined {
  const defaults = classes.filter(({ metadata: { annotations = {} } }) =>
    defaultAnnotations.some((key) => annotations[key] === 'true'),
  );
  const createdAt = ({ metadata }: StorageClass) => metadata.creationTimestamp ?? '';
  return defaults.toSorted((left, right) => createdAt(right).localeCompare(createdAt(left)))[0];
}

const defaultAnnotations = [
  'storageclass.kubernetes.io/is-default-class',
  'storageclass.beta.kubernetes.io/is-default-class',
] as const;

function templatesIn({ volumeClaimTemplates }: JsonObject): readonly JsonObject[] {
  return listOr(volumeClaimTemplates).map(objectOr);
}

function nameOf({ metadata }: JsonObject): string {
  return String(objectOr(metadata).name);
}

function pathOf(name: string): string {
  return `spec.volumeClaimTemplates[${name}]`;
}

function isSameSet(left: readonly Json[], right: readonly Json[]): boolean {
  return left.every((value) => right.includes(value)) && right.every((value) => left.includes(value));
}
