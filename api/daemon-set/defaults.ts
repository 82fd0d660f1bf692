// The defaults that admission writes into DaemonSets (AD §2): OpenKruise's, where users and their tools expect to see them.

import { fillAbsent, fillEmptyText } from '../base/fill.ts';
import { isAbsent, isJsonObject, type Json, type JsonObject, sameJson } from '../base/json.ts';
import { canonicalTemplate } from '../core/pod-template.ts';
import { type DaemonSetVersion, daemonSetDefault, daemonSetVersion, surging } from './types.ts';

/**
 * A DaemonSet with its defaults, in the version of the request. Its template gets none, unlike those of other workloads.
 * `before` is the stored object, absent for a new one. Fields of the wrong shape are left unchanged.
 */
export function defaultDaemonSet(object: JsonObject, before?: JsonObject): JsonObject {
  const { spec } = object;
  if (!isJsonObject(spec)) return object;
  const { burstReplicas, revisionHistoryLimit } = daemonSetDefault;
  const filled = fillAbsent(spec, { burstReplicas, revisionHistoryLimit, updateStrategy: {} });
  const version = daemonSetVersion(object) ?? 'v1beta1';
  const { template } = spec;
  const stored = isJsonObject(before?.spec) ? before.spec.template : undefined;
  const isNew = isJsonObject(template) && !sameJson(template, stored);
  return {
    ...object,
    spec: {
      ...filled,
      ...(isNew && { template: canonicalTemplate(template) }),
      updateStrategy: defaultUpdateStrategy(filled.updateStrategy, version),
    },
  };
}

function defaultUpdateStrategy(strategy: Json | undefined, version: DaemonSetVersion): Json | undefined {
  if (!isJsonObject(strategy)) return strategy;
  const typed = fillEmptyText(strategy, { type: daemonSetDefault.updateType });
  const rollingUpdate = typed.rollingUpdate ?? {};
  if (typed.type !== daemonSetDefault.updateType || !isJsonObject(rollingUpdate)) return typed;
  const { rollingUpdateType } = daemonSetDefault;
  return { ...typed, rollingUpdate: defaultPace(fillEmptyText(rollingUpdate, { rollingUpdateType }), version) };
}

/** Of the two budgets an absent one is 0 where the other one is given, and stays absent. */
function defaultPace(rollingUpdate: JsonObject, version: DaemonSetVersion): JsonObject {
  if (version === 'v1alpha1' && rollingUpdate.rollingUpdateType === surging) return withSurge(rollingUpdate);
  const { maxUnavailable, maxSurge } = daemonSetDefault;
  const hasNone = isAbsent(rollingUpdate.maxUnavailable) && isAbsent(rollingUpdate.maxSurge);
  return hasNone ? { ...rollingUpdate, maxUnavailable, maxSurge } : rollingUpdate;
}

/** What `Surging` of v1alpha1 means. */
export function withSurge(rollingUpdate: JsonObject): JsonObject {
  return fillAbsent(rollingUpdate, { maxSurge: 1, maxUnavailable: 0 });
}
