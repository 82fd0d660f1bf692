// What admission writes into ImagePullJobs and ImageListPullJobs.

import { isAbsent, isJsonObject, type JsonObject, listOr, objectOr } from '../base/json.ts';
import { pullDefault } from '../node-image/defaults.ts';
import { pullSecretFinalizer } from './types.ts';

/** Fills what the schema fills, too, so that what follows sees the whole; and the finalizer where it will be needed. */
export function defaultPullJob(object: JsonObject, isNew: boolean): JsonObject {
  const filled = defaultTemplate(object, true);
  const named = listOr(objectOr(filled.spec).pullSecrets).length > 0;
  if (!isNew || !named) return filled;
  const metadata = objectOr(filled.metadata);
  const finalizers = listOr(metadata.finalizers);
  if (finalizers.includes(pullSecretFinalizer)) return filled;
  return { ...filled, metadata: { ...metadata, finalizers: [...finalizers, pullSecretFinalizer] } };
}

/** The same for a list, which hands imagePullPolicy on as it is. */
export function defaultListPullJob(object: JsonObject): JsonObject {
  return defaultTemplate(object, false);
}

function defaultTemplate(object: JsonObject, withImagePullPolicy: boolean): JsonObject {
  const { spec } = object;
  if (!isJsonObject(spec)) return object;
  const pullPolicy = spec.pullPolicy ?? {};
  const completionPolicy = spec.completionPolicy ?? {};
  const type = isJsonObject(completionPolicy) ? completionPolicy.type : undefined;
  return {
    ...object,
    spec: {
      ...spec,
      pullPolicy: isJsonObject(pullPolicy) ? { ...pullDefault, ...withoutNulls(pullPolicy) } : pullPolicy,
      completionPolicy: isJsonObject(completionPolicy)
        ? { ...completionPolicy, type: type === '' || isAbsent(type) ? 'Always' : type }
        : completionPolicy,
      ...(withImagePullPolicy &&
        (spec.imagePullPolicy === '' || isAbsent(spec.imagePullPolicy)) && { imagePullPolicy: 'IfNotPresent' }),
    },
  };
}

function withoutNulls(object: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => !isAbsent(value)));
}
