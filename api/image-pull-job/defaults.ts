// What admission writes into ImagePullJobs and ImageListPullJobs.

import { fillAbsent, fillEmptyText } from '../base/fill.ts';
import { isJsonObject, type JsonObject, listOr, objectOr } from '../base/json.ts';
import { pullDefault } from '../node-image/defaults.ts';
import { pullSecretFinalizer } from './types.ts';

/**
 * Fills in the schema's defaults, too, so that later steps see the whole object; and adds the finalizer where it will
 * be needed.
 */
export function defaultPullJob(object: JsonObject, isNew: boolean): JsonObject {
  const filled = defaultTemplate(object, true);
  const named = listOr(objectOr(filled.spec).pullSecrets).length > 0;
  if (!isNew || !named) return filled;
  const metadata = objectOr(filled.metadata);
  const finalizers = listOr(metadata.finalizers);
  if (finalizers.includes(pullSecretFinalizer)) return filled;
  return { ...filled, metadata: { ...metadata, finalizers: [...finalizers, pullSecretFinalizer] } };
}

/** The same for a list, which passes imagePullPolicy on unchanged. */
export function defaultListPullJob(object: JsonObject): JsonObject {
  return defaultTemplate(object, false);
}

function defaultTemplate(object: JsonObject, withImagePullPolicy: boolean): JsonObject {
  const { spec } = object;
  if (!isJsonObject(spec)) return object;
  const { pullPolicy, completionPolicy } = fillAbsent(spec, { pullPolicy: {}, completionPolicy: {} });
  const filled = {
    ...spec,
    pullPolicy: isJsonObject(pullPolicy) ? fillAbsent(pullPolicy, pullDefault) : pullPolicy,
    completionPolicy: isJsonObject(completionPolicy)
      ? fillEmptyText(completionPolicy, { type: 'Always' })
      : completionPolicy,
  };
  return {
    ...object,
    spec: withImagePullPolicy ? fillEmptyText(filled, { imagePullPolicy: 'IfNotPresent' }) : filled,
  };
}
