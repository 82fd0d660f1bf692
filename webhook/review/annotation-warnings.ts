/** Warnings about annotations that Windlass would read if they were spelt right, or were on another object. */
import { closest } from '../../api/base/closest.ts';
import { type JsonObject, objectOr } from '../../api/base/json.ts';
import { launchMark } from '../../api/container-launch-priority.ts';
import { windlassAnnotation } from '../../api/core/well-known.ts';
import { daemonSetMark } from '../../api/daemon-set/types.ts';
import { newerFieldsAnnotation } from '../../api/fleet/newer-fields.ts';
import { terminationMark } from '../../api/job-sidecar-termination.ts';
import { restartsAnnotation, sidecarSetAnnotation } from '../../api/sidecar-set/marks.ts';
import { imageStartsAnnotation, swapAnnotation } from '../../api/sidecar-set/swap.ts';
import type { AdmissionRequest, Review } from './review.ts';

const prefix = 'windlass.io';

/** Those that users write. */
const written: readonly string[] = [
  windlassAnnotation.command,
  windlassAnnotation.prefetch,
  daemonSetMark.podReplacementPolicy,
  sidecarSetAnnotation.injectionFailure,
  ...Object.values(swapAnnotation),
];

const known: ReadonlySet<string> = new Set([
  ...written,
  ...Object.values(windlassAnnotation),
  ...[imageStartsAnnotation, restartsAnnotation, newerFieldsAnnotation],
  ...[terminationMark.status, terminationMark.finished, launchMark.status],
]);

/** Kinds whose objects are no operation, so that they take no commands. */
const withoutCommands: readonly string[] = ['ImageListPullJob', 'PodProbeMarker'];

const mostWarnings = 3;

/** Keys of one request that are compared letter by letter. */
const mostCompared = 64;

/** Keys that are long are no misspelt ones. */
const longestKey = 64;

/** Characters of a key that may be wrong. */
const mostWrong = 3;

/** The same review, which also warns about misspelt annotations that a request adds. */
export function warningOfAnnotations(review: Review): Review {
  return async (request, signal) => {
    const verdict = await review(request, signal);
    if (verdict.kind === 'refused') return verdict;
    const warnings = annotationWarnings(request);
    return warnings.length === 0 ? verdict : { ...verdict, warnings: [...(verdict.warnings ?? []), ...warnings] };
  };
}

/** At most three, about annotations that the request adds. */
export function annotationWarnings({
  kind,
  object,
  oldObject,
}: Pick<AdmissionRequest, 'kind' | 'object' | 'oldObject'>) {
  const before = annotationsIn(oldObject);
  const warnings: string[] = [];
  let compared = 0;
  for (const key in annotationsIn(object)) {
    if (Object.hasOwn(before, key)) continue;
    if (key === windlassAnnotation.command && withoutCommands.includes(kind.kind)) {
      warnings.push(`metadata.annotations: "${key}" has no effect: objects of kind ${kind.kind} take no commands`);
    }
    if (!isSuspect(key)) continue;
    const problem = problemOf(key);
    if (problem !== undefined) warnings.push(`metadata.annotations: "${key}" is unknown: ${problem}`);
    compared++;
    if (warnings.length === mostWarnings || compared === mostCompared) break;
  }
  return warnings;
}

function annotationsIn(object: JsonObject | undefined): JsonObject {
  return objectOr(objectOr(object?.metadata).annotations);
}

/** Whether it may be a misspelt key of ours. The prefixes of most others differ in their length already. */
function isSuspect(key: string): boolean {
  if (key.length > longestKey || known.has(key)) return false;
  return key.startsWith(`${prefix}/`) || Math.abs(key.indexOf('/') - prefix.length) <= mostWrong;
}

function problemOf(key: string): string | undefined {
  const meant = closest(key, written, mostWrong);
  if (meant !== undefined) return `did you mean "${meant}"?`;
  return key.startsWith(`${prefix}/`) ? `users set ${written.map((one) => `"${one}"`).join(', ')}` : undefined;
}
