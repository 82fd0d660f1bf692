import { sameQuantity } from '../base/quantity.ts';
import type { ResourceRequirements } from './pod.ts';

/**
 * Whether an API server of this version, such as `v1.34.4` or `v1.32.1+gke.1`, resizes pods through a subresource
 * (IPU-14). An unknown version counts as no.
 */
export function hasResizeSubresource(gitVersion: string): boolean {
  const [, major, minor] = /^v?(\d+)\.(\d+)/.exec(gitVersion) ?? [];
  return Number(major) > 1 || (Number(major) === 1 && Number(minor) >= 32);
}

/** Whether two requirements have the same amounts, in any spelling. An absent one equals no other. */
export function sameResources(
  left: ResourceRequirements | undefined,
  right: ResourceRequirements | undefined,
): boolean {
  if (right === undefined) return false;
  return (['limits', 'requests'] as const).every((kind) => sameAmounts(left?.[kind] ?? {}, right[kind] ?? {}));
}

function sameAmounts(left: Readonly<Record<string, string>>, right: Readonly<Record<string, string>>): boolean {
  return [...new Set([...Object.keys(left), ...Object.keys(right)])].every((name) => {
    const [inLeft, inRight] = [left[name], right[name]];
    return inLeft !== undefined && inRight !== undefined && sameQuantity(inLeft, inRight);
  });
}
