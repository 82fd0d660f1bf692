import { randomInt } from 'node:crypto';
import { isJsonList, isJsonObject, type Json, type JsonObject, listOr, objectOr } from '../api/base/json.ts';
import {
  barrierEnv,
  launchBarrierEnv,
  launchMark,
  launchOrder,
  longestPodName,
  mostOrderedContainers,
} from '../api/container-launch-priority.ts';
import type { FieldError } from '../api/core/field-error.ts';
import { mostAnnotationBytes } from '../api/core/limits.ts';
import { mirrorAnnotation } from '../api/core/pod.ts';
import { type NewPod, needsReadinessGate } from '../api/core/pod-readiness.ts';
import { podReadinessGate } from '../api/core/well-known.ts';
import type { FeatureGates } from '../api/feature-gates.ts';
import {
  enhancedLivenessAnnotation,
  mostProbedContainers,
  wantsEnhancedLiveness,
  withoutLivenessProbes,
  withServerlessProbes,
} from '../api/pod-probe-marker/injection.ts';
import type { PodProbeMarker } from '../api/pod-probe-marker/types.ts';
import { ChainDenied, ChainRefused, type ChainStep, runChain } from './review/chain.ts';
import type { SidecarSource } from './review/followed-sidecar-sets.ts';
import { objectOf, type Review } from './review/review.ts';
import { MalformedBody } from './server/server.ts';
import { type SidecarSurroundings, withSidecars } from './sidecars.ts';

/** What the steps of the pod chain need besides the pod. */
export interface PodSurroundings extends SidecarSurroundings {
  readonly gates: FeatureGates;
  /** The request's namespace: a new pod does not contain it yet. */
  readonly namespace: string;
  /** The markers of a namespace. Used only with gate EnablePodProbeMarkerOnServerless. */
  readonly markers: (namespace: string) => readonly PodProbeMarker[] | Promise<readonly PodProbeMarker[]>;
  /** Generates a name for a pod with only a name prefix; a different one each time. */
  readonly newName: (generateName: string) => string;
}

/** The steps for a new pod, in their fixed order (FG-12). */
export const podChain: readonly ChainStep<PodSurroundings>[] = [
  { name: 'readiness gate', change: withReadinessGate },
  { name: 'sidecars', change: withSidecars },
  { name: 'container launch priority', change: withLaunchBarriers },
  { name: 'enhanced liveness', change: withEnhancedLiveness },
  { name: 'serverless probes', change: withProbesForProviders },
];

/** Runs new pods through the chain. With gate PodWebhook off they are not changed (FG-11). */
export function reviewPod(
  gates: FeatureGates,
  steps: readonly ChainStep<PodSurroundings>[] = podChain,
  markers: PodSurroundings['markers'] = () => [],
  sidecars: SidecarSource = noSidecars,
): Review {
  return async (request) => {
    if (!gates.PodWebhook || request.operation !== 'CREATE') return { kind: 'allowed' };
    const pod = objectOf(request);
    if (!isJsonObject(pod.spec)) throw new MalformedBody('request.object is not a pod: it has no spec');
    if (isStatic(pod)) return { kind: 'allowed' };
    const tooLarge = annotationsProblem(pod);
    if (tooLarge !== undefined) return { kind: 'refused', code: 422, errors: [tooLarge] };
    const warnings: string[] = [];
    const surroundings: PodSurroundings = {
      ...{ gates, namespace: request.namespace, markers, newName: generatedName, sidecars },
      ...{ now: Date.now, draw: Math.random, warn: (text) => warnings.push(text) },
    };
    try {
      return { kind: 'allowed', object: await runChain(steps, pod, surroundings), warnings };
    } catch (error) {
      // SCS-33: the failure policy of the SidecarSet decides, and not that of the webhook.
      if (error instanceof ChainDenied) return { kind: 'refused', code: 500, message: error.message, errors: [] };
      // A pod whose request cannot be fulfilled is rejected: accepted, it would be ignored.
      if (error instanceof ChainRefused) return { kind: 'refused', code: 422, errors: error.errors };
      throw error;
    }
  };
}

/** The kubelet runs what is in its file: containers and gates that are added here would never run or open. */
function isStatic({ metadata }: JsonObject): boolean {
  return objectOr(objectOr(metadata).annotations)[mirrorAnnotation] !== undefined;
}

/** The API server has this limit, too, but checks it after admission, which copies annotations many times. */
function annotationsProblem({ metadata }: JsonObject): FieldError | undefined {
  const { annotations } = objectOr(metadata);
  if (!isJsonObject(annotations)) return undefined;
  let bytes = 0;
  for (const key in annotations) {
    bytes += Buffer.byteLength(key) + Buffer.byteLength(String(annotations[key]));
    if (bytes > mostAnnotationBytes) {
      return { field: 'metadata.annotations', detail: `must have at most ${mostAnnotationBytes} bytes together` };
    }
  }
  return undefined;
}

const noSidecars: SidecarSource = {
  inNamespace: () => [],
  namespaceLabels: () => ({}),
  revision: () => undefined,
};

/** Like the API server's names for `generateName`: five random characters that form no words. */
function generatedName(generateName: string): string {
  const suffix = Array.from({ length: 5 }, () => nameLetters[randomInt(nameLetters.length)]);
  return `${generateName.slice(0, 58)}${suffix.join('')}`;
}

const nameLetters = 'bcdfghjklmnpqrstvwxz2456789';

/** Adds the readiness gate by which operations take a pod out of service (PRG-1). */
export function withReadinessGate(pod: JsonObject, { gates }: PodSurroundings): JsonObject {
  const seen = readPod(pod);
  if (!needsReadinessGate(seen, gates)) return pod;
  const spec = isJsonObject(pod.spec) ? pod.spec : {};
  return {
    ...pod,
    spec: { ...spec, readinessGates: [...(seen.spec.readinessGates ?? []), { conditionType: podReadinessGate }] },
  };
}

/**
 * Holds every container until its turn, where the pod requests an order (CLP-1 to CLP-7). A hold refers to a ConfigMap
 * named after the pod, so a pod without a name gets its name here. Existing holds are replaced: one that was copied
 * from another pod would never be lifted.
 */
export function withLaunchBarriers(pod: JsonObject, { newName }: PodSurroundings): JsonObject {
  const metadata = objectOr(pod.metadata);
  const spec = objectOr(pod.spec);
  const containers = objectsAt('spec.containers', spec.containers).map((entry, index) => ({
    entry,
    env: objectsAt(`spec.containers[${index}].env`, entry.env),
  }));
  const order = launchOrder({ annotations: objectOr(metadata.annotations), containers });
  if (order.kind === 'none') return pod;
  if (order.kind === 'unreadable') throw new ChainRefused(order.errors);

  if (containers.length > mostOrderedContainers) {
    const detail = `must have at most ${mostOrderedContainers} entries for ${launchMark.env}`;
    throw new ChainRefused([{ field: 'spec.containers', detail }]);
  }
  const generateName = textAt('metadata.generateName', metadata.generateName);
  const name = textAt('metadata.name', metadata.name) || (generateName && newName(generateName));
  // The API server rejects it with its own message.
  if (name === '') return pod;
  if (name.length > longestPodName) {
    const detail = `must have at most ${longestPodName} characters: ${launchMark.env} needs a ConfigMap named after it`;
    throw new ChainRefused([{ field: 'metadata.name', detail }]);
  }
  const held = containers.map(({ entry, env }, index) => {
    const others = env.filter((variable) => variable.name !== launchBarrierEnv);
    return { ...entry, env: [...others, { ...barrierEnv(name, order.priorities[index] ?? 0) }] };
  });
  return { ...pod, metadata: { ...metadata, name }, spec: { ...spec, containers: held } };
}

/** Moves liveness probes out of pods that request it (NPP §7). They are not run yet. */
function withEnhancedLiveness(pod: JsonObject, { gates }: PodSurroundings): JsonObject {
  if (!gates.EnhancedLivenessProbe || !wantsEnhancedLiveness(pod)) return pod;
  if (listOr(objectOr(pod.spec).containers).length > mostProbedContainers) {
    const detail = `must have at most ${mostProbedContainers} entries for ${enhancedLivenessAnnotation}`;
    throw new ChainRefused([{ field: 'spec.containers', detail }]);
  }
  return withoutLivenessProbes(pod);
}

/** Annotates probes for providers of virtual nodes (PPS-1); the pod's node is not known yet. */
async function withProbesForProviders(
  pod: JsonObject,
  { gates, namespace, markers }: PodSurroundings,
): Promise<JsonObject> {
  return gates.EnablePodProbeMarkerOnServerless ? withServerlessProbes(pod, await markers(namespace)) : pod;
}

/** The fields of a pod that the rules read. Other shapes than those of the API server's types are rejected. */
function readPod(pod: JsonObject): NewPod {
  const spec = isJsonObject(pod.spec) ? pod.spec : {};
  const metadata = isJsonObject(pod.metadata) ? pod.metadata : {};
  const owners = objectsAt('metadata.ownerReferences', metadata.ownerReferences).map((owner, index) => {
    const path = `metadata.ownerReferences[${index}]`;
    const { apiVersion, kind, name, uid, controller } = owner;
    return {
      apiVersion: textAt(`${path}.apiVersion`, apiVersion),
      kind: textAt(`${path}.kind`, kind),
      name: textAt(`${path}.name`, name),
      uid: textAt(`${path}.uid`, uid),
      controller: controller === true,
    };
  });
  const readinessGates = objectsAt('spec.readinessGates', spec.readinessGates).map((gate, index) => ({
    ...gate,
    conditionType: textAt(`spec.readinessGates[${index}].conditionType`, gate.conditionType),
  }));
  return { metadata: { ownerReferences: owners }, spec: { readinessGates } };
}

function listAt(path: string, value: Json | undefined): readonly Json[] {
  if (value === undefined || value === null) return [];
  if (!isJsonList(value)) throw new MalformedBody(`request.object is not a pod: ${path} is not a list`);
  return value;
}

function objectsAt(path: string, value: Json | undefined): readonly JsonObject[] {
  const list = listAt(path, value);
  if (list.every(isJsonObject)) return list;
  const index = list.findIndex((item) => !isJsonObject(item));
  throw new MalformedBody(`request.object is not a pod: ${path}[${index}] is not an object`);
}

function textAt(path: string, value: Json | undefined): string {
  if (value !== undefined && typeof value !== 'string') {
    throw new MalformedBody(`request.object is not a pod: ${path} is not a string`);
  }
  return value ?? '';
}
