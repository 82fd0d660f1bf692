// Canary SidecarSets: a pod that a canary selects gets its content instead of that of its base (SCS-105).

import { objectOr } from '../base/json.ts';
import { sidecarSetAnnotation } from './marks.ts';
import { textOf } from './read.ts';

interface Named {
  readonly metadata?: unknown;
}

/** Whether the SidecarSet is a canary: it is marked as such and names a base. */
export function isCanary(object: Named): boolean {
  return canaryBase(object) !== undefined;
}

/** The name of the SidecarSet whose place a canary takes; undefined for a SidecarSet that is no canary. */
export function canaryBase({ metadata }: Named): string | undefined {
  const annotations = objectOr(objectOr(metadata).annotations);
  const base = textOf(annotations[sidecarSetAnnotation.base]);
  return textOf(annotations[sidecarSetAnnotation.canary]) === 'true' && base !== '' ? base : undefined;
}

/** Whether one of the two is a canary of the other. */
export function isPair(left: Named, right: Named): boolean {
  const nameOf = ({ metadata }: Named) => textOf(objectOr(metadata).name);
  return canaryBase(left) === nameOf(right) || canaryBase(right) === nameOf(left);
}
