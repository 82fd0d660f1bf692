// What an absent field of a request means, and what admission writes into a new one before it looks at the pod.

import { fillEmptyText } from '../base/fill.ts';
import { isJsonObject, type JsonObject } from '../base/json.ts';
import { crrLabel } from '../core/well-known.ts';

/** What an absent field means, where the schema or admission does not fill it. */
export const recreateDefault = {
  failurePolicy: 'Fail',
  /** For pods that name none themselves, which the API server does not let happen. */
  terminationGracePeriodSeconds: 30,
  minStartedSeconds: 0,
} as const;

/** A stop always gets this much time, even when preStop has used up the grace period (CRR-43). */
export const leastGraceSeconds = 2;

/** A new request with the defaults in it and marked active (CRR-1). What has not the right shape stays as it is. */
export function defaultRecreateRequest(request: JsonObject): JsonObject {
  return withActiveLabel(withStrategy(request));
}

function withStrategy(request: JsonObject): JsonObject {
  const spec = request.spec;
  if (!isJsonObject(spec)) return request;
  const strategy = spec.strategy ?? {};
  if (!isJsonObject(strategy)) return request;
  const { failurePolicy } = recreateDefault;
  return { ...request, spec: { ...spec, strategy: fillEmptyText(strategy, { failurePolicy }) } };
}

function withActiveLabel(request: JsonObject): JsonObject {
  return withLabels(request, { [crrLabel.active]: 'true' });
}

export function withLabels(request: JsonObject, labels: JsonObject): JsonObject {
  const metadata = isJsonObject(request.metadata) ? request.metadata : {};
  const before = isJsonObject(metadata.labels) ? metadata.labels : {};
  return { ...request, metadata: { ...metadata, labels: { ...before, ...labels } } };
}
