// What a user should know of an edit that running pods cannot take: it is stored and reaches new pods (SCS-192, SCS-193;
// SCS 8, point 1). It is never rejected (SCS-267).

import { isJsonObject, type Json, type JsonObject, listOr, objectOr, sameJson } from '../base/json.ts';
import { hashInput } from './hash.ts';
import { type ContainerList, textOf } from './read.ts';
import { isNotUpdate } from './types.ts';

/** Fields that a warning names. */
const mostFields = 3;

/**
 * Warnings about an update of a SidecarSet in the stored version. None while no pod is counted, and none where running
 * pods are not updated anyway.
 */
export function outOfReachWarnings(before: JsonObject, after: JsonObject): readonly string[] {
  const { matchedPods } = objectOr(before.status);
  const [old, spec] = [objectOr(before.spec), objectOr(after.spec)];
  const type = textOf(objectOr(spec.updateStrategy).type);
  if (typeof matchedPods !== 'number' || matchedPods === 0 || isNotUpdate({ type })) return [];
  const pods = matchedPods === 1 ? '1 running pod' : `${matchedPods} running pods`;
  const keep = matchedPods === 1 ? 'keeps' : 'keep';
  const name = textOf(objectOr(after.metadata).name);
  const blocking = changedContainers(old, spec);
  const silent = silentFields.filter((field) => !sameJson(listOr(old[field]), listOr(spec[field])));
  const ofNewPods = silent.filter((field) => field !== 'initContainers' || !blocking.some(isInitContainer));
  return [
    ...(blocking.length > 0
      ? [
          `${named(blocking)}: ${pods} ${keep} the old sidecars and cannot be updated in place, not even to a new image`,
          `"kubectl kruise sidecar missing ${name} --outdated" lists these pods; with --recreate their owners recreate them`,
        ]
      : []),
    ...(ofNewPods.length > 0
      ? [`${named(ofNewPods.map((field) => `spec.${field}`))}: new pods only; ${pods} ${keep} the old ones`]
      : []),
    ...(sameJson(listOr(old.patchPodMetadata), listOr(spec.patchPodMetadata))
      ? []
      : [`spec.patchPodMetadata: a running pod gets it with its next update of an image (${pods})`]),
  ];
}

/** Fields that are no part of the hashes; init containers unless one of them is a native sidecar. */
const silentFields = ['initContainers', 'volumes', 'imagePullSecrets'] as const;

function isInitContainer(path: string): boolean {
  return path.startsWith('spec.initContainers');
}

function named(fields: readonly string[]): string {
  const more = fields.length - mostFields;
  return `${fields.slice(0, mostFields).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

/** The fields besides images that make running pods not upgradable, as paths into the new spec (SCS-192). */
function changedContainers(before: JsonObject, after: JsonObject): readonly string[] {
  const texts = [before, after].map(({ containers, initContainers }) =>
    hashInput(containers, initContainers, { images: false }),
  );
  if (texts[0] === texts[1]) return [];
  const [old = {}, now = {}] = texts.map((text) => objectOr(JSON.parse(text) as Json));
  return (['containers', 'initContainers'] as const).flatMap((list) => changesIn(list, old[list], now[list]));
}

function changesIn(list: ContainerList, before: Json | undefined, after: Json | undefined): readonly string[] {
  const [old, now] = [listOr(before).filter(isJsonObject), listOr(after).filter(isJsonObject)];
  const known = new Map(old.map((container) => [container.name, container]));
  const names = (containers: readonly JsonObject[]) => containers.map(({ name }) => name ?? '');
  const path = `spec.${list}`;
  return [
    ...(sameJson(names(old), names(now)) ? [] : [path]),
    ...now.flatMap((container, index) => {
      const was = known.get(container.name);
      if (was === undefined) return [];
      const members = [...new Set([...Object.keys(was), ...Object.keys(container)])];
      return members
        .filter((member) => !sameJson(was[member], container[member]))
        .map((member) => `${path}[${index}].${member}`);
    }),
  ];
}
