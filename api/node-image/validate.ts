// What admission rejects in NodeImages.

import { isAbsent, isJsonObject, type JsonObject, listOr, objectOr, sameJson } from '../base/json.ts';
import { referenceOf } from '../core/familiar-image.ts';
import { type FieldError, invalid, required } from '../core/field-error.ts';
import { longestReference, referenceTooLong } from '../core/image-reference.ts';

/** The maximum number of images of a NodeImage. */
export const mostImages = 256;

/** The maximum number of Secrets of an image. The daemon reads all of them for each pull. */
export const mostImageSecrets = 256;

/**
 * All problems, each with its field path; empty means valid. Of an update only new problems count: what `before` has
 * unchanged may stay, so that an object stored above a limit can still be changed.
 */
export function validateNodeImage(object: JsonObject, before?: JsonObject): readonly FieldError[] {
  const images = objectOr(objectOr(object.spec).images);
  const had = objectOr(objectOr(before?.spec).images);
  const names = Object.keys(images);
  const most = Math.max(mostImages, Object.keys(had).length);
  return [
    ...(names.length > most
      ? [invalid('spec.images', names.length, `must not have more than ${mostImages} images`)]
      : []),
    ...names.flatMap((name) => {
      const known = Object.hasOwn(had, name) ? had[name] : undefined;
      if (known !== undefined && sameJson(images[name], known)) return [];
      return imageProblems(name, objectOr(images[name]), isJsonObject(known) ? known : undefined);
    }),
  ];
}

function imageProblems(name: string, entry: JsonObject, before: JsonObject | undefined): readonly FieldError[] {
  const path = `spec.images[${shortName(name)}]`;
  if (name === '') return [required('spec.images', 'the name of an image can not be empty')];
  const had = listOr(before?.tags).map(objectOr);
  const hadByTag = new Map(had.map((tag) => [tag.tag, tag]));
  const hadTwice = new Set(repeated(had));
  const tags = listOr(entry.tags).map(objectOr);
  const twice = new Set(repeated(tags));
  const seen = new Set<unknown>();
  const secrets = listOr(entry.pullSecrets).length;
  return [
    ...(before === undefined ? lengthProblems(path, name) : []),
    ...(secrets > Math.max(mostImageSecrets, listOr(before?.pullSecrets).length)
      ? [invalid(`${path}.pullSecrets`, secrets, `must not have more than ${mostImageSecrets} items`)]
      : []),
    ...tags.flatMap((tag, index) => {
      const isSecond = twice.has(tag.tag) && seen.has(tag.tag) && !hadTwice.has(tag.tag);
      seen.add(tag.tag);
      const known = hadByTag.get(tag.tag);
      const at = `${path}.tags[${index}]`;
      return [
        ...(isSecond ? [invalid(`${at}.tag`, tag.tag, 'is listed twice')] : []),
        ...(known !== undefined && sameJson(known, tag)
          ? []
          : tagProblems(at, tag, { name, isNew: known === undefined })),
      ];
    }),
  ];
}

function lengthProblems(path: string, name: string, tag?: string): readonly FieldError[] {
  const why = tag === undefined ? referenceTooLong('', name) : referenceTooLong(referenceOf({ name, tag }));
  return why === undefined ? [] : [invalid(path, tag ?? name, why)];
}

/** Tags that are listed more than once. */
function repeated(tags: readonly JsonObject[]): readonly unknown[] {
  const seen = new Set<unknown>();
  return tags.flatMap(({ tag }) => {
    const isRepeated = seen.has(tag);
    seen.add(tag);
    return isRepeated ? [tag] : [];
  });
}

/** Of a name that is longer than any image's only the beginning. */
function shortName(name: string): string {
  const { repository: most } = longestReference;
  return name.length > most ? `${name.slice(0, 64)}…` : name;
}

function tagProblems(
  path: string,
  tag: JsonObject,
  image: { readonly name: string; readonly isNew: boolean },
): readonly FieldError[] {
  const { version, pullPolicy } = tag;
  const text = typeof tag.tag === 'string' ? tag.tag : '';
  const what = `${shortName(image.name)}:${text}`;
  return [
    ...(text === '' ? [required(`${path}.tag`, 'tag can not be empty')] : []),
    ...(image.isNew && image.name.length <= longestReference.repository
      ? lengthProblems(`${path}.tag`, image.name, text)
      : []),
    ...(isAbsent(tag.createdAt) ? [required(`${path}.createdAt`, `createAt field for ${what} can not be empty`)] : []),
    ...(typeof version === 'number' && version < 0
      ? [invalid(`${path}.version`, version, `version for ${what} must not be negative`)]
      : []),
    ...(isAbsent(pullPolicy)
      ? [required(`${path}.pullPolicy`, `pullPolicy field for ${what} must set`)]
      : isAbsent(objectOr(pullPolicy).ttlSecondsAfterFinished)
        ? [required(`${path}.pullPolicy`, `pullPolicy.ttlSecondsAfterFinished for ${what} must set`)]
        : []),
  ];
}
