// The defaults that admission writes into SidecarSets: OpenKruise's, since they are part of the hashes that pods carry.

import { fillAbsent, fillEmptyText } from '../base/fill.ts';
import { isJsonList, isJsonObject, type Json, type JsonObject, objectOr } from '../base/json.ts';
import { withContainerDefaults, withVolumeDefaults } from '../core/pod-template.ts';
import { contentHashes, hashAnnotations } from './hash.ts';
import { sidecarSetDefault } from './types.ts';

/**
 * A SidecarSet with its defaults and the hashes of its content, in the version of the request (SCS-119). Fields of the
 * wrong shape are left unchanged.
 */
export function defaultSidecarSet(object: JsonObject): JsonObject {
  if (!isJsonObject(object.spec)) return object;
  const spec = defaultSpec(object.spec);
  const metadata = objectOr(object.metadata);
  const annotations = { ...objectOr(metadata.annotations), ...hashAnnotations(contentHashes(spec)) };
  return { ...object, metadata: { ...metadata, annotations }, spec };
}

function defaultSpec(spec: JsonObject): JsonObject {
  const { injectPolicy } = sidecarSetDefault;
  let filled = fillAbsent(spec, {
    updateStrategy: {},
    injectionStrategy: {},
    revisionHistoryLimit: sidecarSetDefault.revisionHistoryLimit,
  });
  filled = within(filled, 'updateStrategy', defaultUpdateStrategy);
  filled = within(filled, 'injectionStrategy', (strategy) =>
    within(strategy, 'revision', (revision) => fillEmptyText(revision, { policy: sidecarSetDefault.injectionPolicy })),
  );
  filled = each(filled, 'initContainers', (container) => defaultContainer(container, injectPolicy.initContainers));
  filled = each(filled, 'containers', (container) => defaultContainer(container, injectPolicy.containers));
  filled = each(filled, 'volumes', withVolumeDefaults);
  return each(filled, 'patchPodMetadata', (patch) =>
    fillEmptyText(patch, { patchPolicy: sidecarSetDefault.patchPolicy }),
  );
}

function defaultUpdateStrategy(strategy: JsonObject): JsonObject {
  const { updateType, partition, maxUnavailable } = sidecarSetDefault;
  return fillAbsent(fillEmptyText(strategy, { type: updateType }), { partition, maxUnavailable });
}

function defaultContainer(container: JsonObject, podInjectPolicy: string): JsonObject {
  const { upgradeType, shareType } = sidecarSetDefault;
  let filled = fillEmptyText(container, { podInjectPolicy });
  filled = fillAbsent(filled, { upgradeStrategy: {}, shareVolumePolicy: {} });
  filled = within(filled, 'upgradeStrategy', (strategy) => fillEmptyText(strategy, { upgradeType }));
  filled = within(filled, 'shareVolumePolicy', (policy) => fillEmptyText(policy, { type: shareType }));
  filled = each(filled, 'transferEnv', (transfer) =>
    within(transfer, 'sourceContainerNameFrom', (from) =>
      within(from, 'fieldRef', (reference) => fillEmptyText(reference, { apiVersion: 'v1' })),
    ),
  );
  return withContainerDefaults(filled);
}

/** The object with one nested object changed; an absent one stays absent. */
function within(object: JsonObject, name: string, change: (inner: JsonObject) => JsonObject): JsonObject {
  const inner = object[name];
  return isJsonObject(inner) ? { ...object, [name]: change(inner) } : object;
}

/** The object with every object in one of its lists changed. */
function each(object: JsonObject, name: string, change: (item: JsonObject) => JsonObject): JsonObject {
  const list: Json | undefined = object[name];
  if (!isJsonList(list)) return object;
  return { ...object, [name]: list.map((item) => (isJsonObject(item) ? change(item) : item)) };
}
