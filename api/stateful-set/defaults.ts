// The defaults that admission writes into StatefulSets (AS §2): OpenKruise's, where users and their tools expect to see them.

import { fillAbsent, fillEmptyText } from '../base/fill.ts';
import { isJsonObject, type Json, type JsonObject, objectOr } from '../base/json.ts';
import type { FeatureGates } from '../feature-gates.ts';
import { defaultTemplates, type TemplateGates } from '../fleet/template-defaults.ts';
import { statefulSetDefault, statefulSetVersion } from './types.ts';

/** The gates that affect defaults. */
export type StatefulSetDefaultingGates = TemplateGates &
  Pick<FeatureGates, 'StatefulSetAutoDeletePVC' | 'StatefulSetAutoResizePVCGate'>;

/**
 * A StatefulSet with its defaults, in the version of the request. `before` is the stored object, absent for a new one. Fields
 * of the wrong shape are left unchanged.
 */
export function defaultStatefulSet(
  object: JsonObject,
  gates: StatefulSetDefaultingGates,
  before?: JsonObject,
): JsonObject {
  const { spec } = object;
  if (!isJsonObject(spec)) return object;
  const { replicas, revisionHistoryLimit, podManagementPolicy } = statefulSetDefault;
  const filled = fillAbsent(fillEmptyText(spec, { podManagementPolicy }), {
    ...{ replicas, revisionHistoryLimit, updateStrategy: {} },
  });
  const withStrategy = { ...filled, updateStrategy: defaultUpdateStrategy(filled.updateStrategy) };
  const isOlder = statefulSetVersion(object) === 'v1alpha1';
  const withPolicies = isOlder ? withStrategy : defaultPolicies(withStrategy, gates);
  return { ...object, spec: defaultTemplates(withPolicies, gates, objectOr(before?.spec)) };
}

/** Field by field, since clients read them without looking whether they are there. */
function defaultUpdateStrategy(strategy: Json | undefined): Json | undefined {
  if (!isJsonObject(strategy)) return strategy;
  const typed = fillEmptyText(strategy, { type: statefulSetDefault.updateType });
  const rollingUpdate = typed.rollingUpdate ?? {};
  if (typed.type !== statefulSetDefault.updateType || !isJsonObject(rollingUpdate)) return typed;
  const { partition, maxUnavailable, minReadySeconds, podUpdatePolicy } = statefulSetDefault;
  const withPolicy = fillEmptyText(rollingUpdate, { podUpdatePolicy });
  return { ...typed, rollingUpdate: fillAbsent(withPolicy, { partition, maxUnavailable, minReadySeconds }) };
}

/** AS-80, AS-84, AS-90: only with their gates. */
function defaultPolicies(spec: JsonObject, gates: StatefulSetDefaultingGates): JsonObject {
  const { whenDeleted, whenScaled, volumeClaimUpdate } = statefulSetDefault;
  const { persistentVolumeClaimRetentionPolicy: retention, volumeClaimUpdateStrategy: update } = spec;
  return {
    ...spec,
    ...(gates.StatefulSetAutoDeletePVC && {
      persistentVolumeClaimRetentionPolicy: filledTexts(retention, { whenDeleted, whenScaled }),
    }),
    ...(gates.StatefulSetAutoResizePVCGate && {
      volumeClaimUpdateStrategy: filledTexts(update, { type: volumeClaimUpdate }),
    }),
  };
}

function filledTexts(value: Json | undefined, texts: Readonly<Record<string, string>>): Json {
  const object = value ?? {};
  return isJsonObject(object) ? fillEmptyText(object, texts) : object;
}
