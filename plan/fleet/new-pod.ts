/** New pods of a workload, with their PVCs (CS-45, CS-70…72). */
import { isJsonList, isJsonObject, type Json, type JsonObject } from '../../api/base/json.ts';
import type { Resource } from '../../api/core/meta.ts';
import { controllerReference } from '../../api/core/refs.ts';
import { podReadinessGate } from '../../api/core/well-known.ts';
import type { FeatureGates } from '../../api/feature-gates.ts';
import type { LifecycleState } from '../../api/fleet/lifecycle.ts';
import { type ControllerRevision, type RevisionScheme, templateOf } from '../../api/fleet/revision.ts';
import { inPlaceReadinessGate } from '../../api/in-place/annotations.ts';
import type { VolumeClaim } from './input.ts';
import { stateMetadata } from './lifecycle.ts';
import type { Intention } from './steps.ts';
import type { Workload } from './workload.ts';

export interface NewPodOrder {
  readonly resource: Resource;
  readonly owner: Workload;
  readonly scheme: Pick<RevisionScheme<never>, 'podLabels'>;
  readonly revision: Pick<ControllerRevision, 'metadata' | 'data'>;
  readonly name: string;
  /** The end of the name, which links the pod to its PVCs. */
  readonly suffix: string;
  /** Labels that the kind adds to the pod and to its PVCs. */
  readonly labels: Readonly<Record<string, string>>;
  /** Labels that the kind adds to the pod alone. Absent: none. */
  readonly podLabels?: Readonly<Record<string, string>>;
  /** False: its PVCs outlive the workload, which does not become their controller. Absent: it does. */
  readonly controlsClaims?: boolean;
  /** Absent: `PreparingNormal`. */
  readonly state?: LifecycleState | 'none';
  /** False: the pod is not updated in place, and does without that readiness gate. Absent: it has it. */
  readonly hasInPlaceGate?: boolean;
  /** What the kind sets in the spec of the pod. Absent: nothing. */
  readonly spec?: JsonObject;
  /** The existing PVCs. */
  readonly claims: readonly VolumeClaim[];
  readonly gates: FeatureGates;
  /** RFC 3339. */
  readonly now: string;
}

/** A pod of this revision, and those of its PVCs that do not exist yet. */
export function newPod(order: NewPodOrder): Extract<Intention, { kind: 'createPod' }> {
  const { resource, owner, scheme, revision, name, gates, now, state: initial = 'PreparingNormal' } = order;
  const template = templateOf(revision) ?? {};
  const { namespace } = owner.metadata;
  const state = initial === 'none' ? undefined : stateMetadata(initial, now);
  const metadata = object(template.metadata);
  const claims = newClaims(order);
  const there = new Set(order.claims.map((claim) => claim.metadata.name));
  return {
    kind: 'createPod',
    name,
    claims: claims.filter((claim) => !there.has(claim.name)).map(({ body }) => body),
    pod: {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: {
        name,
        generateName: `${owner.metadata.name}-`,
        ...(namespace !== undefined && { namespace }),
        // LC-62: our own labels come last
        labels: {
          ...object(metadata.labels),
          ...scheme.podLabels(revision.metadata.name, gates),
          ...order.labels,
          ...order.podLabels,
          ...state?.labels,
        },
        annotations: { ...object(metadata.annotations), ...state?.annotations },
        ...(isJsonList(metadata.finalizers) && metadata.finalizers.length > 0 && { finalizers: metadata.finalizers }),
        ownerReferences: [{ ...controllerReference(resource, owner) }],
      },
      spec: withVolumes(withGates({ ...object(template.spec), ...order.spec }, order), claims),
    },
  };
}

/** Both gates are set here and not left to admission, so that no pod is created without them. */
function withGates(spec: JsonObject, { hasInPlaceGate = true }: Pick<NewPodOrder, 'hasInPlaceGate'>): JsonObject {
  const gates = isJsonList(spec.readinessGates) ? spec.readinessGates : [];
  const present = gates.filter(isJsonObject).map(({ conditionType }) => conditionType);
  const wanted = [...(hasInPlaceGate ? [inPlaceReadinessGate] : []), podReadinessGate];
  const missing = wanted.filter((gate) => !present.includes(gate));
  return { ...spec, readinessGates: [...gates, ...missing.map((conditionType) => ({ conditionType }))] };
}

/** Volumes of PVCs come first, in place of volumes of the same name. */
function withVolumes(spec: JsonObject, claims: readonly NewClaim[]): JsonObject {
  if (claims.length === 0) return spec;
  const volumes = claims.map(({ volume, name }) => ({ name: volume, persistentVolumeClaim: { claimName: name } }));
  const others = (isJsonList(spec.volumes) ? spec.volumes : [])
    .filter(isJsonObject)
    .filter(({ name }) => !claims.some(({ volume }) => volume === name));
  return { ...spec, volumes: [...volumes, ...others] };
}

export interface NewClaim {
  readonly name: string;
  /** The name by which containers mount it. */
  readonly volume: string;
  readonly body: JsonObject;
}

/** What the PVCs of a pod are made of. */
export type ClaimOrder = Pick<NewPodOrder, 'resource' | 'owner' | 'suffix' | 'labels' | 'controlsClaims'>;

/** CS-70, AS-10: one PVC for each template, always from the newest templates (CS-72). */
export function newClaims(order: ClaimOrder): readonly NewClaim[] {
  const { resource, owner, suffix, labels, controlsClaims = true } = order;
  const { name: ownerName, namespace } = owner.metadata;
  return (owner.spec.volumeClaimTemplates ?? []).map((template) => {
    const { metadata, spec } = { metadata: object(template.metadata), spec: object(template.spec) };
    const volume = typeof metadata.name === 'string' ? metadata.name : '';
    const name = `${volume}-${ownerName}-${suffix}`;
    const body = {
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: {
        name,
        ...(namespace !== undefined && { namespace }),
        labels: { ...object(metadata.labels), ...owner.spec.selector.matchLabels, ...labels },
        ...(isJsonObject(metadata.annotations) && { annotations: metadata.annotations }),
        ...(controlsClaims && { ownerReferences: [{ ...controllerReference(resource, owner) }] }),
      },
      spec,
    };
    return { name, volume, body };
  });
}

function object(value: Json | undefined): JsonObject {
  return isJsonObject(value) ? value : {};
}
