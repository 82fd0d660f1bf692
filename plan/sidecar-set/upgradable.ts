// The condition SidecarSetUpgradable of pods (SCS-191): whether each SidecarSet can update the pod in place.

import { entryOf, type Json, type JsonObject, objectOr } from '../../api/base/json.ts';
import { type GoValue, goJson } from '../../api/base/json-go.ts';
import { depthOf } from '../../api/core/limits.ts';
import type { Pod } from '../../api/core/pod.ts';
import type { PodWrite } from '../fleet/in-place/update.ts';

export const upgradableCondition = {
  type: 'SidecarSetUpgradable',
  /** Every SidecarSet of the pod can update it. */
  allUpgradable: 'AllSidecarsetUpgradable',
  /** More than images differs. */
  immutableField: 'UpdateImmutableField',
} as const;

/**
 * The write of the status that notes whether this SidecarSet can update the pod; undefined: the condition says so already.
 * Entries of other SidecarSets stay. `now` is RFC 3339 with whole seconds.
 */
export function upgradableWrite(pod: Pod, setName: string, isUpgradable: boolean, now: string): PodWrite | undefined {
  const before = pod.status?.conditions?.find(({ type }) => type === upgradableCondition.type);
  const noted = entriesIn(before?.message);
  if (before !== undefined && entryOf(noted, setName) === isUpgradable) return undefined;

  const entries = new Map<string, GoValue>(Object.entries({ ...noted, [setName]: isUpgradable }).filter(isPresent));
  const isTrue = [...entries.values()].every((entry) => entry === true);
  const status = isTrue ? 'True' : 'False';
  const since = before?.status === status ? before.lastTransitionTime : undefined;
  const condition = {
    type: upgradableCondition.type,
    status,
    reason: isTrue ? upgradableCondition.allUpgradable : upgradableCondition.immutableField,
    message: goJson(entries),
    lastTransitionTime: since ?? now,
  };
  return { kind: 'status', patch: { status: { conditions: [condition] } } };
}

/** The entries of a message; none when it is no map of SidecarSets. */
function entriesIn(message: string | undefined): JsonObject {
  try {
    const parsed: Json = JSON.parse(message ?? '{}');
    return depthOf(parsed) > 1 ? {} : objectOr(parsed);
  } catch {
    return {};
  }
}

function isPresent(entry: [string, Json | undefined]): entry is [string, Json] {
  return entry[1] !== undefined;
}
