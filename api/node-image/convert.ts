// The versions of NodeImage, ImagePullJob and ImageListPullJob, which differ only in `apiVersion`.

import type { JsonObject } from '../base/json.ts';
import type { Converted } from '../core/converted.ts';
import { apiVersionOf, type Resource } from '../core/meta.ts';
import { nodeImages } from './types.ts';

/** The version of an object; undefined for one that is not served. */
export function servedVersion(
  object: JsonObject,
  resource: Pick<Resource, 'group'>,
): 'v1alpha1' | 'v1beta1' | undefined {
  if (object.apiVersion === apiVersionOf({ ...nodeImages, ...resource, version: 'v1beta1' })) return 'v1beta1';
  if (object.apiVersion === apiVersionOf({ ...nodeImages, ...resource, version: 'v1alpha1' })) return 'v1alpha1';
  return undefined;
}

/** The same object in the other version. Undefined where one of the two is unknown. */
export function relabelled(object: JsonObject, apiVersion: string): Converted | undefined {
  if (servedVersion(object, nodeImages) === undefined) return undefined;
  if (servedVersion({ apiVersion }, nodeImages) === undefined) return undefined;
  return { object: { ...object, apiVersion }, warnings: [] };
}
