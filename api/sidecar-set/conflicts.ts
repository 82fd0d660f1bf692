// Conflicts between SidecarSets that may select the same pod (SCS-256 to SCS-258), and between a canary and its base
// (SCS-106).

import { type Json, type JsonObject, listOr, objectOr, sameJson } from '../base/json.ts';
import { compareGoStrings } from '../base/json-go.ts';
import { perObject } from '../base/per-object.ts';
import { type FieldError, forbidden, invalid } from '../core/field-error.ts';
import { canaryBase, isCanary, isPair } from './canary.ts';
import { sidecarSetAnnotation } from './marks.ts';
import { mayOverlap } from './overlap.ts';
import { containersOf, readSelector, textOf } from './read.ts';
import { hotPair } from './types.ts';

/**
 * Conflicts of a SidecarSet with the others, both in the stored version. The SidecarSet itself may be among them. A
 * canary and its base never conflict, in either direction (SCS-107).
 */
export function conflictsOf(object: JsonObject, all: readonly JsonObject[]): readonly FieldError[] {
  const name = nameOf(object);
  const selection = selectionOf(object);
  const others = all.filter(
    (other) => nameOf(other) !== name && !isPair(object, other) && mayOverlap(selection, selectionOf(other)),
  );
  return others
    .toSorted((left, right) => (nameOf(left) < nameOf(right) ? -1 : 1))
    .flatMap((other) => [
      ...containerConflicts(object, other),
      ...volumeConflicts(object, other),
      ...annotationConflicts(object, other),
    ]);
}

/**
 * The names of SidecarSets that a pod may get together with this one, and that have a container of the same name: there the
 * one that is injected later replaces the other's (SCS-23). Admission refuses the second of them, unless both are written at
 * the same time.
 */
export function conflictingSets(object: JsonObject, all: readonly JsonObject[]): readonly string[] {
  const name = nameOf(object);
  const own = keysOf(object);
  const sharing = all.filter(
    (other) => nameOf(other) !== name && keysOf(other).some((key) => own.includes(key)) && !isPair(object, other),
  );
  if (sharing.length === 0) return [];
  const selection = selectionOf(object);
  return sharing
    .filter((other) => mayOverlap(selection, selectionOf(other)))
    .map(nameOf)
    .toSorted(compareGoStrings);
}

const keysOf = perObject((object: JsonObject): readonly string[] =>
  containersOf(object).flatMap(({ list, container }) => keysInPod(list, container)),
);

/** What is wrong with the base of a canary; `base` is undefined when there is none of that name. */
export function baseProblems(object: JsonObject, base: JsonObject | undefined): readonly FieldError[] {
  const name = canaryBase(object);
  if (name === undefined || name === nameOf(object)) return [];
  const path = `metadata.annotations[${sidecarSetAnnotation.base}]`;
  if (base === undefined) return [invalid(path, name, `base sidecarSet ${name} is not found`)];
  return isCanary(base) ? [forbidden(path, 'base sidecarSet cannot be canary')] : [];
}

/** The problems that only Windlass sees: containers of two hot-upgrade sidecars with the same names (SHU §6). */
export function hotConflictsOf(object: JsonObject, all: readonly JsonObject[]): readonly FieldError[] {
  const selection = selectionOf(object);
  const others = all.filter(
    (other) => nameOf(other) !== nameOf(object) && !isPair(object, other) && mayOverlap(selection, selectionOf(other)),
  );
  return others.flatMap((other) => {
    const theirs = new Set(containersOf(other).flatMap(({ list, container }) => keysInPod(list, container)));
    const bases = new Set(containersOf(other).map(({ list, container }) => `${list}/${textOf(container.name)}`));
    return containersOf(object).flatMap(({ list, path, container }) => {
      if (bases.has(`${list}/${textOf(container.name)}`)) return []; // SCS-256 reports it
      const taken = keysInPod(list, container).find((key) => theirs.has(key));
      if (taken === undefined) return [];
      const inPod = taken.slice(list.length + 1);
      return [invalid(`${path}.name`, container.name, `container ${inPod} already exist in ${nameOf(other)}`)];
    });
  });
}

function keysInPod(list: string, container: JsonObject): readonly string[] {
  const name = textOf(container.name);
  const isHot = objectOr(container.upgradeStrategy).upgradeType === 'HotUpgrade';
  return (isHot ? hotPair(name) : [name]).map((inPod) => `${list}/${inPod}`);
}

function containerConflicts(object: JsonObject, other: JsonObject): readonly FieldError[] {
  const theirs = new Set(containersOf(other).map(({ list, container }) => `${list}/${textOf(container.name)}`));
  return containersOf(object)
    .filter(({ list, container }) => theirs.has(`${list}/${textOf(container.name)}`))
    .map(({ path, container }) =>
      invalid(`${path}.name`, container.name, `container ${textOf(container.name)} already exist in ${nameOf(other)}`),
    );
}

function volumeConflicts(object: JsonObject, other: JsonObject): readonly FieldError[] {
  const theirs = new Map(volumesOf(other).map((volume) => [volume.name, volume]));
  return volumesOf(object).flatMap((volume, index) => {
    const known = theirs.get(volume.name);
    if (known === undefined || sameJson(known, volume)) return [];
    const name = textOf(volume.name);
    return [invalid(`spec.volumes[${index}]`, name, `volume ${name} is in conflict with sidecarset ${nameOf(other)}`)];
  });
}

function volumesOf(object: JsonObject): readonly JsonObject[] {
  return listOr(objectOr(object.spec).volumes).map(objectOr);
}

function annotationConflicts(object: JsonObject, other: JsonObject): readonly FieldError[] {
  const theirs = new Map(patchesOf(other).map(({ key, policy }) => [key, policy]));
  return patchesOf(object).flatMap(({ key, policy, path }) => {
    const policies = [policy, theirs.get(key)];
    const isConflict = policies[1] !== undefined && !policies.includes('Retain') && policies.includes('Overwrite');
    return isConflict ? [invalid(path, key, `annotation ${key} is in conflict with sidecarset ${nameOf(other)}`)] : [];
  });
}

function patchesOf(object: JsonObject) {
  return listOr(objectOr(object.spec).patchPodMetadata).flatMap((patch, index) => {
    const { annotations, patchPolicy } = objectOr(patch);
    const path = `spec.patchPodMetadata[${index}].annotations`;
    const policy = textOf(patchPolicy) || 'Retain';
    return Object.keys(objectOr(annotations)).map((key) => ({ key, policy, path: `${path}[${key}]` }));
  });
}

function selectionOf({ spec }: JsonObject) {
  const { selector, namespaceSelector } = objectOr(spec);
  const read = (value: Json | undefined) => (value === undefined || value === null ? {} : { of: readSelector(value) });
  const [pods, namespaces] = [read(selector).of, read(namespaceSelector).of];
  return {
    ...(pods !== undefined && { selector: pods }),
    ...(namespaces !== undefined && { namespaceSelector: namespaces }),
  };
}

function nameOf({ metadata }: JsonObject): string {
  return textOf(objectOr(metadata).name);
}
