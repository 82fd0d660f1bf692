/** The PVCs of a StatefulSet's pods: which ones there are, and whom they belong to (AS-80 to AS-84). */
import { apiVersionOf, type OwnerReference, type Resource } from '../../api/core/meta.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { ordinalIn } from '../../api/stateful-set/ordinals.ts';
import {
  type StatefulSet,
  type StatefulSetStatus,
  statefulSetDefault,
  statefulSets,
} from '../../api/stateful-set/types.ts';
import { ownerChange } from '../fleet/claims.ts';
import type { VolumeClaim } from '../fleet/input.ts';
import { newClaims } from '../fleet/new-pod.ts';
import type { Intention } from '../fleet/steps.ts';
import { claimAt, claimsByName, hasCapacity, isOfTemplate, requestsLess, templateName } from './claim.ts';
import type { Replica, StatefulSetScene } from './scene.ts';

/** The names of the claim templates. */
export function claimTemplateNames({ spec }: Pick<StatefulSet, 'spec'>): readonly string[] {
  return (spec.volumeClaimTemplates ?? []).map(templateName);
}

/** AS-10, AS-83: a PVC belongs to a StatefulSet by its name, `<template>-<StatefulSet>-<ordinal>`, whoever controls it. */
export function isClaimOf(owner: StatefulSet, { metadata }: VolumeClaim): boolean {
  const { name, namespace } = owner.metadata;
  return (
    metadata.namespace === namespace &&
    claimTemplateNames(owner).some((template) => ordinalIn(metadata.name, `${template}-${name}`) !== undefined)
  );
}

/** The PVCs that there are at an ordinal. */
function claimsAt(scene: StatefulSetScene, ordinal: number): readonly VolumeClaim[] {
  return claimTemplateNames(scene.owner).flatMap((template) => claimAt(scene, template, ordinal) ?? []);
}

/** Why no pod may be created at an ordinal yet (AS-31). */
export interface BlockedClaim {
  readonly name: string;
  /**
   * `stale`: an earlier pod or StatefulSet of this name owns it, so that it is about to be deleted. `inDoubt`: a change of its owners
   * got no answer, and may still make it so.
   */
  readonly why: 'terminating' | 'stale' | 'inDoubt';
}

/** AS-31: the PVC for which the pod of this ordinal, which there is not, has to wait; undefined: none. */
export function blockedClaim(scene: StatefulSetScene, ordinal: number): BlockedClaim | undefined {
  const { uid, name: setName } = scene.owner.metadata;
  const retention = retentionOf(scene);
  for (const claim of claimsAt(scene, ordinal)) {
    const { name, deletionTimestamp, ownerReferences = [] } = claim.metadata;
    if (deletionTimestamp !== undefined) return { name, why: 'terminating' };
    const isOfEarlierSet = ownerReferences.some((owner) => isOfSet(owner, setName) && owner.uid !== uid);
    const isOfEarlierPod = retention?.whenScaled === 'Delete' && podReferences(scene, ordinal, claim).length > 0;
    if (isOfEarlierPod || (retention && isOfEarlierSet)) return { name, why: 'stale' };
    if (scene.input.unanswered?.has(claim.metadata.uid)) return { name, why: 'inDoubt' };
  }
  return undefined;
}

/**
 * Where PVCs are kept: takes the references to an earlier pod off those of an ordinal without a pod. Otherwise they would be
 * deleted although the new pod uses them.
 */
export function freedClaims(scene: StatefulSetScene, ordinal: number): readonly Intention[] {
  if (retentionOf(scene)?.whenScaled !== 'Retain') return [];
  return claimsAt(scene, ordinal).flatMap((claim) => {
    const removed = podReferences(scene, ordinal, claim);
    return removed.length > 0 ? [ownerChange(claim, { removed })] : [];
  });
}

/**
 * AS-82: whether a PVC of the pod would be deleted with it although it is to be kept. Its owners are changed in the same pass,
 * which may fail; or an earlier change may still be made, that was decided on when it was not to be kept.
 */
export function losesClaim(scene: StatefulSetScene, { ordinal }: Replica): boolean {
  if (retentionOf(scene) === undefined || goesWithPod(scene, ordinal)) return false;
  return claimsAt(scene, ordinal).some((claim) => {
    const { uid, deletionTimestamp } = claim.metadata;
    if (deletionTimestamp !== undefined) return false;
    return podReferences(scene, ordinal, claim).length > 0 || scene.input.unanswered?.has(uid) === true;
  });
}

function podReferences({ owner }: StatefulSetScene, ordinal: number, { metadata }: VolumeClaim) {
  const podName = `${owner.metadata.name}-${ordinal}`;
  return (metadata.ownerReferences ?? []).filter((reference) => isOfPod(reference, podName));
}

/** AS-80: whether PVCs of this ordinal are deleted with its pod. */
export function goesWithPod(scene: StatefulSetScene, ordinal: number): boolean {
  return retentionOf(scene)?.whenScaled === 'Delete' && !scene.ordinals.isWanted(ordinal);
}

/** AS-32: the PVCs that a pending pod lacks. */
export function missingClaims(scene: StatefulSetScene, { ordinal, pod }: Replica): readonly Intention[] {
  const { resource, owner } = scene;
  if (!owner.spec.volumeClaimTemplates?.length) return [];
  const there = claimsByName(scene.input.claims);
  const all = newClaims({ resource, owner, suffix: String(ordinal), labels: {}, controlsClaims: false });
  return all
    .filter(({ name }) => !there.has(name))
    .map(({ name, body }) => ({ kind: 'createClaim', name, body, podName: pod.name }) as const);
}

/** AS-84: undefined while the gate is off. */
function retentionOf({ owner, input }: Pick<StatefulSetScene, 'owner' | 'input'>) {
  if (!input.gates.StatefulSetAutoDeletePVC) return undefined;
  const { whenDeleted, whenScaled } = statefulSetDefault;
  return { whenDeleted, whenScaled, ...owner.spec.persistentVolumeClaimRetentionPolicy };
}

/** The changes of the owners of the PVCs of these pods that the policy asks for (AS-80). Those of others stay. */
export function claimOwners(scene: StatefulSetScene, replicas: readonly Replica[]): readonly Intention[] {
  if (retentionOf(scene) === undefined || !scene.owner.spec.volumeClaimTemplates?.length) return [];
  return replicas.flatMap((replica) => {
    const wanted = ownerFor(scene, replica);
    return claimsAt(scene, replica.ordinal).flatMap((claim): readonly Intention[] => {
      const { ownerReferences = [], deletionTimestamp } = claim.metadata;
      const kept = ownerReferences.find(({ uid, kind }) => uid === wanted?.uid && kind === wanted.kind);
      const isOurs = (reference: OwnerReference) =>
        isOfPod(reference, replica.pod.name) || isOfSet(reference, scene.owner.metadata.name);
      const removed = ownerReferences.filter((reference) => isOurs(reference) && reference !== kept);
      if (deletionTimestamp !== undefined || (removed.length === 0 && kept?.uid === wanted?.uid)) return [];
      return [ownerChange(claim, { removed, ...(wanted && !kept && { added: wanted }) })];
    });
  });
}

/** AS-80: the table. */
function ownerFor(scene: StatefulSetScene, { ordinal, pod }: Replica): OwnerReference | undefined {
  if (goesWithPod(scene, ordinal)) return referenceTo(kubeResource.pods, pod.pod);
  return retentionOf(scene)?.whenDeleted === 'Delete' ? referenceTo(statefulSets, scene.owner) : undefined;
}

function referenceTo(resource: Resource, { metadata: { name, uid } }: Pick<VolumeClaim, 'metadata'>): OwnerReference {
  return { apiVersion: apiVersionOf(resource), kind: resource.kind, name, uid };
}

/** The pod of this name, or an earlier one. */
function isOfPod({ apiVersion, kind, name }: OwnerReference, podName: string): boolean {
  return kind === 'Pod' && apiVersion === 'v1' && name === podName;
}

/** The StatefulSet of this name, or an earlier one, in whatever version the reference is. */
function isOfSet({ apiVersion, kind, name }: OwnerReference, setName: string): boolean {
  return kind === statefulSets.kind && apiVersion.startsWith(`${statefulSets.group}/`) && name === setName;
}

/** AS §3: how many pods have a PVC that satisfies each template, and of these how many have its capacity. */
export function claimCounts(scene: StatefulSetScene): NonNullable<StatefulSetStatus['volumeClaims']> {
  const { owner, replicaPods, condemned } = scene;
  const ordinals = [...replicaPods, ...condemned].map(({ ordinal }) => ordinal);
  return (owner.spec.volumeClaimTemplates ?? []).map((template) => {
    const volumeClaimName = templateName(template);
    const claims = ordinals.flatMap((ordinal) => claimAt(scene, volumeClaimName, ordinal) ?? []);
    const fitting = claims.filter(
      (claim) =>
        claim.metadata.deletionTimestamp === undefined &&
        isOfTemplate(claim, template) &&
        !requestsLess(claim, template),
    );
    const ready = fitting.filter(hasCapacity);
    return { volumeClaimName, compatibleReplicas: fitting.length, compatibleReadyReplicas: ready.length };
  });
}
