// The meaning of absent fields of a request, and what admission writes into a new one before it reads the pod.

import { fillEmptyText } from '../base/fill.ts';
import { isJsonObject, type JsonObject } from '../base/json.ts';
import { crrLabel } from '../core/well-known.ts';

/** The meaning of absent fields that neither the schema nor admission fills. */
export const recreateDefault = {
  failurePolicy: 'Fail',
  /** For pods without one, which the API server does not allow. */
  terminationGracePeriodSeconds: 30,
  minStartedSeconds: 0,
} as const;

/** The minimum grace period of a stop, even when preStop has used it up (CRR-43). */
export const leastGraceSeconds = 2;

/** A new request with its defaults and marked active (CRR-1). Fields of the wrong shape are left unchanged. */
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
