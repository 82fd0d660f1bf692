// The defaults that admission writes into CloneSets: OpenKruise's, where users and their tools expect to see them.

import { fillAbsent, fillEmptyText } from '../base/fill.ts';
import { isJsonObject, type Json, type JsonObject, objectOr } from '../base/json.ts';
import { defaultTemplates, type TemplateGates } from '../fleet/template-defaults.ts';
import { type CloneSetVersion, cloneSetDefault, cloneSetVersion } from './types.ts';

/**
 * A CloneSet with its defaults, in the version of the request (CS §2). `before` is the stored object, absent for a new
 * one: an unchanged template is not defaulted again, so that new defaults never update pods. Fields of the wrong shape
 * are left unchanged.
 */
export function defaultCloneSet(object: JsonObject, gates: TemplateGates, before?: JsonObject): JsonObject {
  const { spec } = object;
  if (!isJsonObject(spec)) return object;
  const version = cloneSetVersion(object) ?? 'v1beta1';
  const filled = fillAbsent(spec, {
    replicas: cloneSetDefault.replicas,
    revisionHistoryLimit: cloneSetDefault.revisionHistoryLimit,
    scaleStrategy: {},
    updateStrategy: {},
  });
  const withStrategies = {
    ...filled,
    scaleStrategy: defaultScaleStrategy(filled.scaleStrategy, version),
    updateStrategy: defaultUpdateStrategy(filled.updateStrategy, version),
  };
  return { ...object, spec: defaultTemplates(withStrategies, gates, objectOr(before?.spec)) };
}

/** Writes the default of v1beta1 explicitly, because an absent field means the opposite in v1alpha1. */
function defaultScaleStrategy(strategy: Json | undefined, version: CloneSetVersion): Json | undefined {
  if (version === 'v1alpha1' || !isJsonObject(strategy)) return strategy;
  return fillAbsent(strategy, { enablePVCReuse: false });
}

function defaultUpdateStrategy(strategy: Json | undefined, version: CloneSetVersion): Json | undefined {
  if (!isJsonObject(strategy)) return strategy;
  if (version === 'v1alpha1') {
    const typed = fillEmptyText(strategy, { type: cloneSetDefault.podUpdatePolicy });
    return typed.type === 'OnDelete' ? typed : defaultPace(typed, typed.type);
  }
  const typed = fillEmptyText(strategy, { type: cloneSetDefault.updateType });
  const rollingUpdate = typed.rollingUpdate ?? {};
  if (typed.type !== cloneSetDefault.updateType || !isJsonObject(rollingUpdate)) return typed;
  const withPolicy = fillEmptyText(rollingUpdate, { podUpdatePolicy: cloneSetDefault.podUpdatePolicy });
  return { ...typed, rollingUpdate: defaultPace(withPolicy, withPolicy.podUpdatePolicy) };
}

function defaultPace(fields: JsonObject, policy: Json | undefined): JsonObject {
  const isInPlace = policy === 'InPlaceIfPossible' || policy === 'InPlaceOnly';
  const { partition, maxUnavailable, maxSurge } = cloneSetDefault;
  return fillAbsent(fields, { partition, maxUnavailable, maxSurge, ...(isInPlace && { inPlaceUpdateStrategy: {} }) });
}
