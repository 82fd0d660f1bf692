// The defaults that admission writes into the templates of workloads.

import { isJsonList, isJsonObject, type JsonObject, sameJson } from '../base/json.ts';
import { canonicalTemplate, withClaimDefaults, withTemplateDefaults } from '../core/pod-template.ts';
import type { FeatureGates } from '../feature-gates.ts';

/** The gates that affect defaults of templates. */
export type TemplateGates = Pick<FeatureGates, 'TemplateNoDefaults' | 'DefaultHostNetworkHostPortsInPodTemplates'>;

/**
 * The spec of a workload with the API server's defaults in its templates. Unchanged templates are not defaulted again, so that
 * new defaults never update pods: `before` is the stored spec.
 */
export function defaultTemplates(spec: JsonObject, gates: TemplateGates, before: JsonObject): JsonObject {
  const { template, volumeClaimTemplates: claims } = spec;
  const hasNewTemplate = isJsonObject(template) && !sameJson(template, before.template);
  const hasNewClaims = isJsonList(claims) && (hasNewTemplate || !sameJson(claims, before.volumeClaimTemplates));
  return {
    ...spec,
    ...(hasNewTemplate && { template: defaultTemplate(template, gates) }),
    ...(hasNewClaims && {
      volumeClaimTemplates: claims.map((claim) =>
        isJsonObject(claim) && !gates.TemplateNoDefaults ? withClaimDefaults(claim) : claim,
      ),
    }),
  };
}

function defaultTemplate(template: JsonObject, gates: TemplateGates): JsonObject {
  if (gates.TemplateNoDefaults) return canonicalTemplate(template);
  return withTemplateDefaults(template, { hostNetworkPorts: gates.DefaultHostNetworkHostPortsInPodTemplates });
}
