// Pod templates: open JSON, so that unknown newer fields are kept. Admission of workloads fills in the API server's pod
// defaults, so that users see them and later defaults do not change a template.

import { fillAbsent, fillEmpty } from '../base/fill.ts';
import { isJsonList, isJsonObject, type Json, type JsonObject } from '../base/json.ts';
import { canonicalResource } from '../base/quantity.ts';
import { canonicalCore } from './core-types.ts';
import { parseImageReference } from './image-reference.ts';

/** `metadata` and `spec` of pods, with every field that the user wrote. */
export type PodTemplate = JsonObject;

export interface TemplateDefaults {
  /** Gate DefaultHostNetworkHostPortsInPodTemplates: whether host ports are filled in for hostNetwork. */
  readonly hostNetworkPorts: boolean;
}

/**
 * The template with the defaults of a workload, in the stored form. They are the defaults of pods, except for one:
 * containers always pull their images unless specified otherwise, because tags are expected to move (IPU §7).
 */
export function withTemplateDefaults(template: PodTemplate, defaults: TemplateDefaults): PodTemplate {
  return canonicalTemplate(within(template, 'spec', (spec) => podSpec(spec, defaults), {}));
}

/** The template in the stored form without defaults: quantities canonical, empty fields left out. */
export function canonicalTemplate(template: PodTemplate): PodTemplate {
  return canonicalCore('PodTemplateSpec', template);
}

/** A PVC template with the defaults of a workload, in the stored form. */
export function withClaimDefaults(claim: JsonObject): JsonObject {
  const filled = within(claim, 'spec', (spec) => within(spec, 'resources', resources));
  return canonicalCore(
    'PersistentVolumeClaim',
    within(
      filled,
      'status',
      (status) => within(fillEmpty(status, { phase: 'Pending' }), 'capacity', roundedAmounts),
      {},
    ),
  );
}

/**
 * A container outside of a pod template with the API server's defaults, in the stored form. Startup probes get none, as
 * in OpenKruise.
 */
export function withContainerDefaults(original: JsonObject): JsonObject {
  const filled = container(fillEmpty(original, { imagePullPolicy: pullPolicyOf(original.image) }), false, [
    'livenessProbe',
    'readinessProbe',
  ]);
  return canonicalCore('Container', filled);
}

/** A volume outside of a pod template with the API server's defaults, in the stored form. */
export function withVolumeDefaults(original: JsonObject): JsonObject {
  return canonicalCore('Volume', volume(original));
}

function podSpec(spec: JsonObject, { hostNetworkPorts }: TemplateDefaults): JsonObject {
  const named = fillEmpty(spec, {
    dnsPolicy: 'ClusterFirst',
    restartPolicy: 'Always',
    schedulerName: 'default-scheduler',
  });
  const filled = fillAbsent(named, { securityContext: {}, terminationGracePeriodSeconds: 30 });
  const usesHostPorts = hostNetworkPorts && spec.hostNetwork === true;

  let result = within(filled, 'overhead', roundedAmounts);
  result = each(result, 'volumes', volume);
  result = each(result, 'initContainers', (init) =>
    container(fillEmpty(init, { imagePullPolicy: pullPolicyOf(init.image) }), usesHostPorts),
  );
  result = each(result, 'containers', (main) =>
    container(fillEmpty(main, { imagePullPolicy: 'Always' }), usesHostPorts),
  );
  return each(result, 'ephemeralContainers', (ephemeral) => innerContainer(ephemeral));
}

/** The API server's default for a pod. */
function pullPolicyOf(image: Json | undefined): string {
  const tag = typeof image === 'string' ? parseImageReference(image)?.tag : undefined;
  return tag === 'latest' ? 'Always' : 'IfNotPresent';
}

const allProbes = ['livenessProbe', 'readinessProbe', 'startupProbe'] as const;

function container(
  original: JsonObject,
  usesHostPorts: boolean,
  probes: readonly (typeof allProbes)[number][] = allProbes,
): JsonObject {
  const filled = innerContainer(
    fillEmpty(original, { terminationMessagePath: '/dev/termination-log', terminationMessagePolicy: 'File' }),
    probes,
  );
  if (!usesHostPorts) return filled;
  return each(filled, 'ports', (port) => fillEmpty(port, { hostPort: port.containerPort }));
}

/** The fields that all three kinds of containers have in common. */
function innerContainer(original: JsonObject, probes: readonly (typeof allProbes)[number][] = allProbes): JsonObject {
  let filled = each(original, 'ports', (port) => fillEmpty(port, { protocol: 'TCP' }));
  filled = each(filled, 'env', (env) => within(env, 'valueFrom', (from) => within(from, 'fieldRef', fieldRef)));
  filled = within(filled, 'resources', resources);
  for (const name of probes) filled = within(filled, name, probe);
  return within(filled, 'lifecycle', (lifecycle) =>
    within(within(lifecycle, 'postStart', handler), 'preStop', handler),
  );
}

function probe(original: JsonObject): JsonObject {
  return handler(
    fillEmpty(original, { timeoutSeconds: 1, periodSeconds: 10, successThreshold: 1, failureThreshold: 3 }),
  );
}

function handler(original: JsonObject): JsonObject {
  return within(original, 'httpGet', (get) => fillEmpty(get, { path: '/', scheme: 'HTTP' }));
}

function fieldRef(original: JsonObject): JsonObject {
  return fillEmpty(original, { apiVersion: 'v1' });
}

function resources(original: JsonObject): JsonObject {
  return within(within(original, 'limits', roundedAmounts), 'requests', roundedAmounts);
}

function roundedAmounts(amounts: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(amounts).map(([name, amount]) => [
      name,
      typeof amount === 'string' || typeof amount === 'number' ? canonicalResource(amount) : amount,
    ]),
  );
}

const fileMode = 0o644;

// Only these sources: the defaults of the others are set when the pod is created.
function volume(original: JsonObject): JsonObject {
  const hasSource = Object.entries(original).some(([name, source]) => name !== 'name' && isThere(source));
  let filled = hasSource ? original : { ...original, emptyDir: {} };
  filled = within(filled, 'hostPath', (source) => fillAbsent(source, { type: '' }));
  for (const name of ['secret', 'configMap', 'downwardAPI', 'projected']) {
    filled = within(filled, name, (source) => fillAbsent(source, { defaultMode: fileMode }));
  }
  filled = within(filled, 'downwardAPI', downwardItems);
  return within(filled, 'projected', (source) => each(source, 'sources', projection));
}

function projection(original: JsonObject): JsonObject {
  return within(within(original, 'downwardAPI', downwardItems), 'serviceAccountToken', (token) =>
    fillAbsent(token, { expirationSeconds: 3600 }),
  );
}

function downwardItems(original: JsonObject): JsonObject {
  return each(original, 'items', (item) => within(item, 'fieldRef', fieldRef));
}

/** The object with one nested object changed. An absent one stays absent, unless a start value is given. */
function within(
  object: JsonObject,
  name: string,
  change: (inner: JsonObject) => JsonObject,
  start?: JsonObject,
): JsonObject {
  const inner = isThere(object[name]) ? object[name] : start;
  return isJsonObject(inner) ? { ...object, [name]: change(inner) } : object;
}

/** The object with every object in one of its lists changed. */
function each(object: JsonObject, name: string, change: (item: JsonObject) => JsonObject): JsonObject {
  const list = object[name];
  if (!isJsonList(list)) return object;
  return { ...object, [name]: list.map((item) => (isJsonObject(item) ? change(item) : item)) };
}

function isThere(value: Json | undefined): boolean {
  return value !== undefined && value !== null;
}
