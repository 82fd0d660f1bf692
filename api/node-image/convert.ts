// The two versions of the kinds of images, which differ in name only.

import type { JsonObject } from '../base/json.ts';
import type { Converted } from '../core/converted.ts';
import { apiVersionOf, type Resource } from '../core/meta.ts';
import { nodeImages } from './types.ts';

/** The version that an object is in; undefined for one that we do not serve. */
export function servedVersion(
  object: JsonObject,
  resource: Pick<Resource, 'group'>,
): 'v1alpha1' | 'v1beta1' | undefined {
  if (object.apiVersion === apiVersionOf({ ...nodeImages, ...resource, version: 'v1beta1' })) return 'v1beta1';
  if (object.apiVersion === apiVersionOf({ ...nodeImages, ...resource, version: 'v1alpha1' })) return 'v1alpha1';
  return undefined;
}

/** The same object in the other version: they differ in name only. Undefined where one of the two is not ours. */
export function relabelled(object: JsonObject, apiVersion: string): Converted | undefined {
  if (servedVersion(object, nodeImages) === undefined) return undefined;
  if (servedVersion({ apiVersion }, nodeImages) === undefined) return undefined;
  return { object: { ...object, apiVersion }, warnings: [] };
}
