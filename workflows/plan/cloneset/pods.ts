/**
 * New pods of a CloneSet, with their claims (CS-45…47, CS-70…75).
 *
 * A pod and its claims are paired by an instance ID, which is also the end of the pod's name. IDs of claims that have lost
 * their pod are used up first, so that a new pod finds the volumes of the one that went away.
 */
import { type CloneSet, cloneSetMark, cloneSets } from '../../../api/cloneset.ts';
import { fnv1a } from '../../../api/fnv.ts';
import { inPlaceReadinessGate } from '../../../api/in-place-update.ts';
import { isJsonList, isJsonObject, type Json, type JsonObject } from '../../../api/json.ts';
import { apiVersionOf } from '../../../api/meta.ts';
import type { Pod } from '../../../api/pod.ts';
import { type ControllerRevision, revisionLabels, templateOf } from '../../../api/revision.ts';
import { podReadinessGate } from '../../../api/well-known.ts';
import { stateMetadata } from '../lifecycle.ts';
import { asSeen, type FleetPod } from './fleet.ts';
import type { AsSeen, CloneSetWorld, Intention, VolumeClaim } from './world.ts';

/** Letters and digits of which no word can come. */
const alphabet = 'bcdfghjklmnpqrstvwxz2456789';
const idLength = 5;

/** The API version by which pods, claims and revisions name their set. Older pods may have another one. */
export const ownerApiVersion = apiVersionOf(cloneSets);

/** The instance ID of a pod or claim; undefined when it has none. */
export function instanceIdOf({ metadata }: Pick<VolumeClaim, 'metadata'>): string | undefined {
  return metadata.labels?.[cloneSetMark.instanceId] || undefined;
}

/**
 * So many instance IDs that no pod has: those of claims without a pod first, then new ones (CS-46, CS-73).
 *
 * Whoever plans for the same set and revision comes to the same ones, in the same order. So a creation that was thought lost
 * and arrives late, from an earlier term or out of an API server that stood still, finds its name taken or takes it: it never
 * makes a pod too many.
 */
export function freeInstanceIds(
  count: number,
  revision: string,
  { set, pods, claims, isSpent }: Pick<CloneSetWorld, 'set' | 'pods' | 'claims' | 'isSpent'>,
): readonly string[] {
  // Of every pod object that is still there: a name comes free only when the object is gone.
  const used = new Set(pods.flatMap((pod) => [pod.metadata.name.slice(-idLength), instanceIdOf(pod) ?? '']));
  const orphaned = claims.filter(({ metadata }) => metadata.deletionTimestamp === undefined).map(instanceIdOf);
  const ids = new Set<string>();
  for (const id of orphaned) {
    if (ids.size < count && id !== undefined && !used.has(id)) ids.add(id);
  }
  const ofClaims = new Set(claims.map(instanceIdOf));
  const { uid, name } = set.metadata;
  // One that is to be deleted by name would be, if it came back.
  const unwanted = set.spec.scaleStrategy?.podsToDelete ?? [];
  for (let draw = 0; ids.size < count; draw++) {
    const id = drawnId(`${uid}/${revision}/${draw}`);
    const podName = `${name}-${id}`;
    if (used.has(id) || ofClaims.has(id) || unwanted.includes(podName) || isSpent(podName)) continue;
    ids.add(id);
  }
  return [...ids];
}

function drawnId(text: string): string {
  let rest = fnv1a(text);
  return Array.from({ length: idLength }, () => {
    const letter = alphabet[rest % alphabet.length] ?? '';
    rest = Math.floor(rest / alphabet.length);
    return letter;
  }).join('');
}

export interface NewPodOrder {
  readonly set: CloneSet;
  readonly revision: Pick<ControllerRevision, 'metadata' | 'data'>;
  readonly instanceId: string;
  readonly claims: readonly VolumeClaim[];
  readonly gates: CloneSetWorld['gates'];
  /** RFC 3339. */
  readonly now: string;
}

/** A pod of this revision, and those of its claims that are not there yet (CS-45, CS-70, CS-71). */
export function newPod(order: NewPodOrder): Extract<Intention, { kind: 'createPod' }> {
  const { set, revision, instanceId, gates, now } = order;
  const template = templateOf(revision) ?? {};
  const { name: setName, namespace } = set.metadata;
  const name = `${setName}-${instanceId}`;
  const state = stateMetadata('PreparingNormal', now);
  const metadata = object(template.metadata);
  const claims = claimsOf(set, instanceId);
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
        generateName: `${setName}-`,
        ...(namespace !== undefined && { namespace }),
        // LC-62: our own labels come last
        labels: {
          ...object(metadata.labels),
          ...revisionLabels(revision.metadata.name, gates),
          [cloneSetMark.instanceId]: instanceId,
          ...state.labels,
        },
        annotations: { ...object(metadata.annotations), ...state.annotations },
        ...(isJsonList(metadata.finalizers) && metadata.finalizers.length > 0 && { finalizers: metadata.finalizers }),
        ownerReferences: [controllerReference(set)],
      },
      spec: withVolumes(withGates(object(template.spec)), claims),
    },
  };
}

/** Both gates are set here and not left to admission, so that no pod comes up without them. */
function withGates(spec: JsonObject): JsonObject {
  const gates = isJsonList(spec.readinessGates) ? spec.readinessGates : [];
  const present = gates.filter(isJsonObject).map(({ conditionType }) => conditionType);
  const missing = [inPlaceReadinessGate, podReadinessGate].filter((gate) => !present.includes(gate));
  return { ...spec, readinessGates: [...gates, ...missing.map((conditionType) => ({ conditionType }))] };
}

/** Volumes of claims come first, in place of volumes of the same name. */
function withVolumes(spec: JsonObject, claims: readonly NewClaim[]): JsonObject {
  if (claims.length === 0) return spec;
  const volumes = claims.map(({ volume, name }) => ({ name: volume, persistentVolumeClaim: { claimName: name } }));
  const others = (isJsonList(spec.volumes) ? spec.volumes : [])
    .filter(isJsonObject)
    .filter(({ name }) => !claims.some(({ volume }) => volume === name));
  return { ...spec, volumes: [...volumes, ...others] };
}

interface NewClaim {
  readonly name: string;
  /** The name by which containers mount it. */
  readonly volume: string;
  readonly body: JsonObject;
}

/** CS-70: one claim for each template, always from the newest templates (CS-72). */
function claimsOf(set: CloneSet, instanceId: string): readonly NewClaim[] {
  const { name: setName, namespace } = set.metadata;
  return (set.spec.volumeClaimTemplates ?? []).map((template) => {
    const { metadata, spec } = { metadata: object(template.metadata), spec: object(template.spec) };
    const volume = typeof metadata.name === 'string' ? metadata.name : '';
    const name = `${volume}-${setName}-${instanceId}`;
    const body = {
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: {
        name,
        ...(namespace !== undefined && { namespace }),
        labels: {
          ...object(metadata.labels),
          ...set.spec.selector.matchLabels,
          [cloneSetMark.instanceId]: instanceId,
        },
        ...(isJsonObject(metadata.annotations) && { annotations: metadata.annotations }),
        ownerReferences: [controllerReference(set)],
      },
      spec,
    };
    return { name, volume, body };
  });
}

/** The claims that go with a pod (CS-35). */
export function claimsOfPod(pod: Pod, claims: readonly VolumeClaim[]): readonly AsSeen[] {
  const id = instanceIdOf(pod);
  if (id === undefined) return [];
  return claims
    .filter((claim) => instanceIdOf(claim) === id && claim.metadata.deletionTimestamp === undefined)
    .map(asSeen);
}

/**
 * What becomes of claims when they are not kept for later pods (CS-74): those of a pod that counts stay, those of a pod
 * that is finished or going go with it, all others go now.
 */
export function unusedClaims(
  { set, pods, claims }: Pick<CloneSetWorld, 'set' | 'pods' | 'claims'>,
  counted: readonly FleetPod[],
): readonly Intention[] {
  if (set.spec.scaleStrategy?.enablePVCReuse) return [];
  const inUse = new Set(counted.map(({ pod }) => instanceIdOf(pod)));
  const owners = new Map(pods.map((pod) => [instanceIdOf(pod), pod]));
  return claims.flatMap((claim): readonly Intention[] => {
    const id = instanceIdOf(claim);
    if (id === undefined || inUse.has(id) || claim.metadata.deletionTimestamp !== undefined) return [];
    const pod = owners.get(id);
    if (pod === undefined) return [{ kind: 'deleteClaim', claim: asSeen(claim) }];
    const others = (claim.metadata.ownerReferences ?? [])
      .filter(({ uid }) => uid !== set.metadata.uid)
      .map((reference) => ({ ...reference }));
    const owner = { apiVersion: 'v1', kind: 'Pod', name: pod.metadata.name, uid: pod.metadata.uid };
    const ownerReferences = [...others, { ...owner, controller: true, blockOwnerDeletion: true }];
    return [{ kind: 'writeClaim', claim: asSeen(claim), patch: { metadata: { ownerReferences } } }];
  });
}

/** How the set is named by what it owns. */
export function controllerReference({ metadata }: CloneSet) {
  const { name, uid } = metadata;
  return { apiVersion: ownerApiVersion, kind: 'CloneSet', name, uid, controller: true, blockOwnerDeletion: true };
}

function object(value: Json | undefined): JsonObject {
  return isJsonObject(value) ? value : {};
}
