/** One PVC of a StatefulSet: which one it is, and how it compares with its template. */
import type { JsonObject } from '../../api/base/json.ts';
import { parseQuantity } from '../../api/base/quantity.ts';
import type { StatefulSet } from '../../api/stateful-set/types.ts';
import type { VolumeClaim } from '../fleet/input.ts';

/** The name of a template. */
export function templateName({ metadata }: JsonObject): string {
  return String((metadata as JsonObject | undefined)?.name);
}

/** The PVC of a template at an ordinal; undefined: there is none. */
export function claimAt(
  { owner, input }: { readonly owner: StatefulSet; readonly input: { readonly claims: readonly VolumeClaim[] } },
  template: string,
  ordinal: number,
): VolumeClaim | undefined {
  return claimsByName(input.claims).get(`${template}-${owner.metadata.name}-${ordinal}`);
}

const indexes = new WeakMap<readonly VolumeClaim[], ReadonlyMap<string, VolumeClaim>>();

export function claimsByName(claims: readonly VolumeClaim[]): ReadonlyMap<string, VolumeClaim> {
  const known = indexes.get(claims) ?? new Map(claims.map((claim) => [claim.metadata.name, claim]));
  indexes.set(claims, known);
  return known;
}

/** Whether the PVC requests less than its template (AS-91). */
export function requestsLess({ spec }: VolumeClaim, template: JsonObject): boolean {
  return !isAtLeast(spec?.resources?.requests?.storage, specOf(template).resources?.requests?.storage);
}

/** Whether all but its size is as in the template. */
export function isOfTemplate({ spec }: VolumeClaim, template: JsonObject): boolean {
  const { accessModes, storageClassName: asked } = specOf(template);
  const had = spec?.storageClassName;
  return isSameSet(spec?.accessModes, accessModes) && (had === undefined || asked === undefined || had === asked);
}

/** Whether the volume has the size that the PVC requests. */
export function hasCapacity({ spec, status }: VolumeClaim): boolean {
  return isAtLeast(status?.capacity?.storage, spec?.resources?.requests?.storage);
}

function specOf({ spec }: JsonObject): NonNullable<VolumeClaim['spec']> {
  return (spec ?? {}) as NonNullable<VolumeClaim['spec']>;
}

function isSameSet(left: readonly string[] = [], right: readonly string[] = []): boolean {
  return left.every((value) => right.includes(value)) && right.every((value) => left.includes(value));
}

function isAtLeast(amount: string | undefined, least: string | undefined): boolean {
  const [has, wants] = [parseQuantity(amount ?? '0')?.nano ?? 0n, parseQuantity(least ?? '0')?.nano ?? 0n];
  return has >= wants;
}
