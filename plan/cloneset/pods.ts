/**
 * New pods of a CloneSet, with their PVCs (CS-45…47, CS-70…75).
 *
 * A pod and its PVCs are paired by an instance ID, which is also the end of the pod's name. IDs of PVCs that have lost
 * their pod are used up first, so that a new pod finds the volumes of the one that went away.
 */

import { type CloneSet, cloneSetMark, cloneSets } from '../../api/cloneset/types.ts';
import type { Pod } from '../../api/core/pod.ts';
import { controllerReference } from '../../api/core/refs.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import type { ControllerRevision } from '../../api/fleet/revision.ts';
import { ownerChange } from '../fleet/claims.ts';
import { drawnId, drawnLength } from '../fleet/drawn-id.ts';
import type { VolumeClaim } from '../fleet/input.ts';
import { newPod as newFleetPod } from '../fleet/new-pod.ts';
import { type AsSeen, asSeen, type FleetPod } from '../fleet/pods.ts';
import type { Intention } from '../fleet/steps.ts';
import type { CloneSetInput } from './input.ts';
import { cloneSetRevisions } from './revisions.ts';

/** The instance ID of a pod or PVC; undefined when it has none. */
export function instanceIdOf({ metadata }: Pick<VolumeClaim, 'metadata'>): string | undefined {
  return metadata.labels?.[cloneSetMark.instanceId] || undefined;
}

/** What instance IDs are chosen from. */
type InstanceIdWorld = Pick<CloneSetInput, 'owner' | 'pods' | 'claims' | 'isSpent' | 'spentNames'>;

/**
 * At most this many instance IDs that no pod has: those of PVCs without a pod first where PVCs are kept, then new ones
 * (CS-46, CS-73, CS-74). Fewer, when nearly all have been used.
 *
 * Every plan for the same CloneSet and revision chooses the same ones, in the same order. So a late creation, from an
 * earlier term or a stalled API server, finds its name taken or takes it: it never creates a surplus pod.
 */
export function freeInstanceIds(count: number, revision: string, world: InstanceIdWorld): readonly string[] {
  const { owner: set, pods, claims, isSpent, spentNames = 0 } = world;
  const used = usedInstanceIds(pods);
  const ids = new Set(orphanedInstanceIds(world).slice(0, count));
  const ofClaims = new Set(claims.map(instanceIdOf));
  const { uid, name } = set.metadata;
  // A pod that is named for deletion would be deleted again.
  const unwanted = new Set(set.spec.scaleStrategy?.podsToDelete ?? []);
  // Every plan starts with the first draw, so earlier draws do not count.
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

/** Of every existing pod object: a name becomes free only when the object is gone. */
function usedInstanceIds(pods: readonly Pod[]): ReadonlySet<string> {
  return new Set(pods.flatMap((pod) => [pod.metadata.name.slice(-drawnLength), instanceIdOf(pod) ?? '']));
}

/** The IDs of kept PVCs whose pod is gone. */
export function orphanedInstanceIds({
  owner: set,
  pods,
  claims,
}: Pick<CloneSetInput, 'owner' | 'pods' | 'claims'>): readonly string[] {
  const used = usedInstanceIds(pods);
  return keptInstanceIds({ owner: set, claims }).filter((id) => !used.has(id));
}

/** The IDs of PVCs that are kept for later pods. */
function keptInstanceIds({ owner: set, claims }: Pick<CloneSetInput, 'owner' | 'claims'>): readonly string[] {
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

/** A terminating pod, and until when its replacement waits to take over its name and PVCs. */
export interface AwaitedPod {
  readonly name: string;
  readonly untilMs: number;
}

/** The terminating pods, deleted by others, whose PVCs will be taken over (CS-46, CS-73). */
export function awaitedPods({
  owner: set,
  pods,
  claims,
  nowMs,
}: Pick<CloneSetInput, 'owner' | 'pods' | 'claims' | 'nowMs'>): readonly AwaitedPod[] {
  // a new pod mounts what the current templates say
  if ((set.spec.volumeClaimTemplates ?? []).length === 0) return [];
  const kept = new Set(keptInstanceIds({ owner: set, claims }));
  return pods.flatMap((pod): readonly AwaitedPod[] => {
    const { name, deletionTimestamp } = pod.metadata;
    const id = instanceIdOf(pod);
    if (deletionTimestamp === undefined || id === undefined || !kept.has(id)) return [];
    // deletionTimestamp is the end of the grace period
    const untilMs = Date.parse(deletionTimestamp) + lostAfterMs;
    return nowMs < untilMs ? [{ name, untilMs }] : [];
  });
}

export interface NewCloneSetPod {
  readonly owner: CloneSet;
  readonly revision: Pick<ControllerRevision, 'metadata' | 'data'>;
  readonly instanceId: string;
  readonly claims: readonly VolumeClaim[];
  readonly gates: CloneSetInput['gates'];
  /** RFC 3339. */
  readonly now: string;
}

/** A pod of this revision, and those of its PVCs that do not exist yet (CS-45, CS-70, CS-71). */
export function newPod({ instanceId, owner, ...order }: NewCloneSetPod): Extract<Intention, { kind: 'createPod' }> {
  return newFleetPod({
    ...order,
    owner,
    resource: cloneSets,
    scheme: cloneSetRevisions,
    name: `${owner.metadata.name}-${instanceId}`,
    suffix: instanceId,
    labels: { [cloneSetMark.instanceId]: instanceId },
  });
}

/** The PVCs that are deleted with a pod (CS-35). */
export function claimsOfPod(pod: Pod, claims: readonly VolumeClaim[]): readonly AsSeen[] {
  const id = instanceIdOf(pod);
  if (id === undefined) return [];
  return claims
    .filter((claim) => instanceIdOf(claim) === id && claim.metadata.deletionTimestamp === undefined)
    .map(asSeen);
}

/**
 * The PVCs to delete when they are not kept for later pods (CS-74): those of a pod that counts stay, those of a
 * completed or terminating pod are deleted with it, all others are deleted now.
 */
export function unusedClaims(
  { owner: set, pods, claims }: Pick<CloneSetInput, 'owner' | 'pods' | 'claims'>,
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
    const removed = [{ uid: set.metadata.uid }];
    return [ownerChange(claim, { removed, added: controllerReference(kubeResource.pods, pod) })];
  });
}
