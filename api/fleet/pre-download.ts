// Pre-downloads of images before updates in place, as far as every workload has them.
import { countOf, type IntOrPercent, isNegative, parseInt32, parsePercent } from '../base/int-or-percent.ts';
import { isAbsent, type JsonObject, objectOr } from '../base/json.ts';
import { type FieldError, invalid } from '../core/field-error.ts';
import type { KubeObject } from '../core/meta.ts';
import { windlassAnnotation } from '../core/well-known.ts';

/** Labels of a ControllerRevision, value `true`: decisions about pre-downloading its images (CS-101). */
export const preDownloadMark = {
  /** The spelling with two `pre` is OpenKruise's, in all versions. */
  created: 'apps.kruise.io/pre-predownload-created',
  ignored: 'apps.kruise.io/image-predownload-ignored',
} as const;

/**
 * Annotations of an object whose changes are rolled out, integers. Of a CloneSet only in v1alpha1: they are fields of
 * `inPlaceUpdateStrategy` in v1beta1.
 */
export const preDownloadAnnotation = {
  imagePreDownloadParallelism: 'apps.kruise.io/image-predownload-parallelism',
  imagePreDownloadTimeoutSeconds: 'apps.kruise.io/image-predownload-timeout-seconds',
  imagePreDownloadMinUpdatedReadyPods: 'apps.kruise.io/image-predownload-min-updated-ready-pods',
} as const;

/** The annotation with the setting, if it is a number that is not negative; undefined: there is none, or it is ignored. */
function settingIn(annotations: JsonObject, field: keyof typeof preDownloadAnnotation): number | undefined {
  const text = annotations[preDownloadAnnotation[field]];
  const number = typeof text === 'string' ? parseInt32(text) : undefined;
  return number !== undefined && number >= 0 ? number : undefined;
}

/** The settings of a kind that has them in annotations (PRE, table): the share of updated pods may be a percentage (PRE-3). */
export function preDownloadSettings(
  { metadata }: Pick<KubeObject, 'metadata'>,
  replicas: number,
): { readonly parallelism: number; readonly timeoutSeconds: number; readonly minUpdatedReadyPods: number } {
  const { annotations = {} } = metadata;
  const { imagePreDownloadParallelism, imagePreDownloadTimeoutSeconds } = preDownloadDefault;
  const least = parsePrefetchShare(annotations[preDownloadAnnotation.imagePreDownloadMinUpdatedReadyPods] ?? '0') ?? 0;
  return {
    parallelism: settingIn(annotations, 'imagePreDownloadParallelism') ?? imagePreDownloadParallelism,
    timeoutSeconds: settingIn(annotations, 'imagePreDownloadTimeoutSeconds') ?? imagePreDownloadTimeoutSeconds,
    minUpdatedReadyPods: countOf(least, replicas, 'up') ?? 0,
  };
}

/** Warnings about those annotations that are ignored. */
export function preDownloadWarnings({ metadata }: JsonObject): readonly string[] {
  const annotations = objectOr(objectOr(metadata).annotations);
  const least = 'imagePreDownloadMinUpdatedReadyPods';
  return Object.entries(preDownloadAnnotation).flatMap(([field, key]) => {
    const text = annotations[key];
    if (typeof text !== 'string') return [];
    const isRead =
      field === least
        ? parsePrefetchShare(text) !== undefined
        : settingIn(annotations, field as keyof typeof preDownloadAnnotation) !== undefined;
    return isRead
      ? []
      : [`metadata.annotations[${key}]: is no number${field === least ? ' or percentage' : ''}, and is ignored`];
  });
}

/** The meaning of absent fields of `inPlaceUpdateStrategy`. */
export const preDownloadDefault = { imagePreDownloadParallelism: 1, imagePreDownloadTimeoutSeconds: 300 } as const;

/**
 * On how many nodes, or on which percentage of them, new images must be before a roll-out begins. Undefined: it does
 * not wait.
 */
export function prefetchShare({ metadata }: Pick<KubeObject, 'metadata'>): IntOrPercent | undefined {
  const text = metadata.annotations?.[windlassAnnotation.prefetch];
  return text === undefined ? undefined : parsePrefetchShare(text);
}

/** Parses `3` or `80%`; undefined for other texts and negative values. */
export function parsePrefetchShare(text: string): IntOrPercent | undefined {
  const share = parseInt32(text) ?? (parsePercent(text) && text);
  return share === undefined || isNegative(share) ? undefined : share;
}

/** What is wrong with the annotation that asks for images ahead. */
export function prefetchProblems({ metadata }: JsonObject): readonly FieldError[] {
  const key = windlassAnnotation.prefetch;
  const share = objectOr(objectOr(metadata).annotations)[key];
  if (isAbsent(share) || (typeof share === 'string' && parsePrefetchShare(share) !== undefined)) return [];
  return [invalid(`metadata.annotations[${key}]`, share, 'must be a number of nodes or a share of them, such as 80%')];
}
