/**
 * New pods of a CloneSet, with their claims (CS-45…47, CS-70…75).
 *
 * A pod and its claims are paired by an instance ID, which is also the end of the pod's name. IDs of claims that have lost
 * their pod are used up first, so that a new pod finds the volumes of the one that went away.
 */

import { fnv1a } from '../../../api/base/fnv.ts';
import { isJsonList, isJsonObject, type Json, type JsonObject } from '../../../api/base/json.ts';
import { timestamp } from '../../../api/base/time.ts';
import { type CloneSet, cloneSetMark, cloneSets } from '../../../api/cloneset/types.ts';
import { apiVersionOf } from '../../../api/core/meta.ts';
import type { Pod } from '../../../api/core/pod.ts';
import { podReadinessGate } from '../../../api/core/well-known.ts';
import { type ControllerRevision, revisionLabels, templateOf } from '../../../api/fleet/revision.ts';
import { inPlaceReadinessGate } from '../../../api/in-place/annotations.ts';
import { stateMetadata } from '../fleet/lifecycle.ts';
import type { AsSeen, Intention } from '../fleet/steps.ts';
import { asSeen, type FleetPod } from './fleet.ts';
import type { CloneSetWorld, VolumeClaim } from './input.ts';

/** Letters and digits of which no word can come. */
const alphabet = 'bcdfghjklmnpqrstvwxz2456789';
const idLength = 5;

/** The API version by which pods, claims and revisions name their set. Older pods may have another one. */
export const ownerApiVersion = apiVersionOf(cloneSets);

/** The instance ID of a pod or claim; undefined when it has none. */
export function instanceIdOf({ metadata }: Pick<VolumeClaim, 'metadata'>): string | undefined {
  return metadata.labels?.[cloneSetMark.instanceId] || undefined;
}

/** What instance IDs are chosen from. */
type InstanceIdWorld = Pick<CloneSetWorld, 'set' | 'pods' | 'claims' | 'isSpent' | 'spentNames'>;

/**
 * At most so many instance IDs that no pod has: those of claims without a pod first where claims are kept, then new ones
 * (CS-46, CS-73, CS-74). Fewer, when nearly all there are have been used.
 *
 * Whoever plans for the same set and revision comes to the same ones, in the same order. So a creation that was thought lost
 * and arrives late, from an earlier term or out of an API server that stood still, finds its name taken or takes it: it never
 * makes a pod too many.
 */
export function freeInstanceIds(count: number, revision: string, world: InstanceIdWorld): readonly string[] {
  const { set, pods, claims, isSpent, spentNames = 0 } = world;
  const used = usedInstanceIds(pods);
  const ids = new Set(orphanedInstanceIds(world).slice(0, count));
  const ofClaims = new Set(claims.map(instanceIdOf));
  const { uid, name } = set.metadata;
  // One that is to be deleted by name would be, if it came back.
  const unwanted = new Set(set.spec.scaleStrategy?.podsToDelete ?? []);
  // Every look begins with the first draw again, so what has been drawn before does not count.
  const drawn = used.size + ofClaims.size + unwanted.size + spentNames;
  const mostDraws = drawn + 64 + 16 * count;
  for (let draw = 0; ids.size < count && draw < mostDraws; draw++) {
    const id = drawnId(`${uid}/${revision}/${draw}`);
    const podName = `${name}-${id}`;
    if (used.has(id) || ofClaims.has(id) || unwanted.has(podName) || isSpent(podName)) continue;
    ids.add(id);
  }
  return [...ids];
}

/** Of every pod object that is still there: a name comes free only when the object is gone. */
function usedInstanceIds(pods: readonly Pod[]): ReadonlySet<string> {
  return new Set(pods.flatMap((pod) => [pod.metadata.name.slice(-idLength), instanceIdOf(pod) ?? '']));
}

/** The IDs of claims that are kept, and whose pod is gone. */
export function orphanedInstanceIds({
  set,
  pods,
  claims,
}: Pick<CloneSetWorld, 'set' | 'pods' | 'claims'>): readonly string[] {
  const used = usedInstanceIds(pods);
  return keptInstanceIds({ set, claims }).filter((id) => !used.has(id));
}

/** The IDs of claims that are kept for later pods. */
function keptInstanceIds({ set, claims }: Pick<CloneSetWorld, 'set' | 'claims'>): readonly string[] {
  if (!set.spec.scaleStrategy?.enablePVCReuse) return [];
  const kept = claims
    .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    .flatMap((claim) => {
      return instanceIdOf(claim) ?? [];
    });
  return [...new Set(kept)];
}

/** So long after its grace period a pod that has not gone is given up, because its node may be lost. */
const lostAfterMs = 30_000;

/** A pod that is going, and until when its replacement waits to take over its name and claims. */
export interface AwaitedPod {
  readonly name: string;
  readonly untilMs: number;
}

/** The pods that others have deleted and whose claims are to be taken over, once they are gone (CS-46, CS-73). */
export function awaitedPods({
  set,
  pods,
  claims,
  nowMs,
}: Pick<CloneSetWorld, 'set' | 'pods' | 'claims' | 'nowMs'>): readonly AwaitedPod[] {
  // a new pod mounts what the templates of now say
  if ((set.spec.volumeClaimTemplates ?? []).length === 0) return [];
  const kept = new Set(keptInstanceIds({ set, claims }));
  return pods.flatMap((pod): readonly AwaitedPod[] => {
    const { name, deletionTimestamp } = pod.metadata;
    const id = instanceIdOf(pod);
    if (deletionTimestamp === undefined || id === undefined || !kept.has(id)) return [];
    // the time of a deletion is that at which the grace period ends
    const untilMs = Date.parse(deletionTimestamp) + lostAfterMs;
    return nowMs < untilMs ? [{ name, untilMs }] : [];
  });
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

/** CS-35: the claims that were to go with their pod and are still there. */
export function owedClaims(
  { owedClaims: owed }: Pick<CloneSetWorld, 'owedClaims'>,
  claims: readonly VolumeClaim[],
): readonly VolumeClaim[] {
  if (owed === undefined) return [];
  return claims.filter(({ metadata }) => owed.has(metadata.uid) && metadata.deletionTimestamp === undefined);
}

/** The claim as everything else has to take it once it is to be deleted. */
export function asGoing({ metadata }: VolumeClaim, { nowMs }: Pick<CloneSetWorld, 'nowMs'>): VolumeClaim {
  return { metadata: { ...metadata, deletionTimestamp: timestamp(nowMs) } };
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
