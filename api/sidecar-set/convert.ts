// Converts SidecarSets between the versions of the API (SCS 2.3). Everything else, unknown fields included, maps one to
// one.
//
//   v1alpha1                                               v1beta1
//   spec.namespace, which beats a namespaceSelector   ->   spec.namespaceSelector on the name of the namespace
//   label apps.kruise.io/sidecarset-custom-version    <->  spec.customVersion
//
// `spec.namespace` never comes back: it would win over the namespaceSelector that a client edits in an object that it has
// read.

import { isAbsent, isJsonObject, type JsonObject, objectOr } from '../base/json.ts';
import type { Converted } from '../core/converted.ts';
import { group } from '../core/well-known.ts';
import { sidecarSetLabel } from './marks.ts';
import { sidecarSetVersion } from './types.ts';

/** The label of a namespace with its name, which the API server sets. */
export const namespaceNameLabel = 'kubernetes.io/metadata.name';

/** The object in the version `apiVersion`. Undefined: one of the two versions is unknown. */
export function convertSidecarSet(object: JsonObject, apiVersion: string): Converted | undefined {
  const from = sidecarSetVersion(object);
  const to = sidecarSetVersion({ apiVersion });
  if (from === undefined || to === undefined) return undefined;
  if (from === to) return { object, warnings: [] };
  return to === 'v1beta1' ? toV1beta1(object) : { object: toV1alpha1(object), warnings: [] };
}

function toV1beta1(object: JsonObject): Converted {
  const converted = { ...object, apiVersion: `${group.apps}/v1beta1` };
  const { spec } = object;
  if (!isJsonObject(spec)) return { object: converted, warnings: [] };
  const { namespace, ...rest } = spec;
  const isPinned = typeof namespace === 'string' && namespace !== '';
  const pinned = isPinned ? { namespaceSelector: { matchLabels: { [namespaceNameLabel]: namespace } } } : {};
  const { customVersion, metadata } = takeCustomVersion(object);
  const named = customVersion === undefined || customVersion === '' ? {} : { customVersion };
  const isDropped = isPinned && !isAbsent(spec.namespaceSelector);
  return {
    object: { ...converted, ...(metadata && { metadata }), spec: { ...rest, ...pinned, ...named } },
    warnings: isDropped ? ['namespaceSelector in spec has no effect beside namespace and is dropped'] : [],
  };
}

/** The value of the label, and the metadata without it. Both undefined: there is no such label. */
function takeCustomVersion({ metadata }: JsonObject): {
  readonly customVersion?: string;
  readonly metadata?: JsonObject;
} {
  const { labels, ...others } = objectOr(metadata);
  const { [sidecarSetLabel.customVersion]: customVersion, ...rest } = objectOr(labels);
  if (typeof customVersion !== 'string') return {};
  return { customVersion, metadata: Object.keys(rest).length > 0 ? { ...others, labels: rest } : others };
}

function toV1alpha1(object: JsonObject): JsonObject {
  const converted = { ...object, apiVersion: `${group.apps}/v1alpha1` };
  const { spec } = object;
  if (!isJsonObject(spec)) return converted;
  const { customVersion, ...rest } = spec;
  if (typeof customVersion !== 'string' || customVersion === '') return { ...converted, spec: rest };
  const metadata = objectOr(object.metadata);
  const labels = { ...objectOr(metadata.labels), [sidecarSetLabel.customVersion]: customVersion };
  return { ...converted, metadata: { ...metadata, labels }, spec: rest };
}
