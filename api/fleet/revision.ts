// ControllerRevisions: the templates that a workload has had, each under a name derived from its content. Names,
// content and labels are OpenKruise's, so that a workload can be migrated without touching a pod.

import { deepHash, fnv1 } from '../base/fnv.ts';
import { isJsonList, isJsonObject, type Json, type JsonObject, objectOr } from '../base/json.ts';
import { compareGoStrings, goJson, goJsonSorted } from '../base/json-go.ts';
import { perObject } from '../base/per-object.ts';
import { safeName } from '../base/safe-name.ts';
import { asGoStruct } from '../core/core-types.ts';
import type { KubeObject, ObjectMeta, OwnerReference } from '../core/meta.ts';
import { canonicalTemplate, type PodTemplate } from '../core/pod-template.ts';
import { windlassAnnotation } from '../core/well-known.ts';
import type { FeatureGates } from '../feature-gates.ts';

/** One state of a workload's template, as stored. */
export interface ControllerRevision extends KubeObject {
  readonly data: JsonObject;
  /** Increases with time; the highest is the newest. */
  readonly revision: number;
}

/** A revision to be created. */
export interface NewRevision extends Omit<ControllerRevision, 'metadata'> {
  readonly metadata: Pick<ObjectMeta, 'name' | 'namespace' | 'labels' | 'annotations' | 'ownerReferences'>;
}

/** What is specific to the revisions of a kind of workload. */
export interface RevisionScheme<Owner> {
  /** The data of a workload from which its revisions are created. */
  readonly ownerOf: (owner: Owner) => RevisionOwner;
  /** The labels that name a revision on a pod. */
  readonly podLabels: (revisionName: string, gates: FeatureGates) => Readonly<Record<string, string>>;
  /** Whether the status of the workload names the revision that its pods come from. */
  readonly keepsCurrent: boolean;
  /** Whether a pod is recreated when the PVC templates of its revision differ from those of the new one (IPU-7). */
  readonly recreatesForClaims: (gates: FeatureGates) => boolean;
}

/** The data from which a workload's revisions are created. */
export interface RevisionOwner {
  /** As in owner references: `apps.kruise.io/v1beta1` and `CloneSet`. */
  readonly apiVersion: string;
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** All of them are copied to each revision (CS-80). */
  readonly annotations?: Readonly<Record<string, string>> | undefined;
  readonly template: PodTemplate;
  /** The label of a revision with its hash. Absent: `revisionMark.hash`. */
  readonly hashLabel?: string;
  /**
   * Annotations of the newest revision, besides those of the workload. An older revision gets them when it becomes the
   * newest.
   */
  readonly ownAnnotations?: Readonly<Record<string, string>>;
}

/** Labels and annotations by which revisions are selected and compared. */
export const revisionMark = {
  /** Label of a pod: the revision that it is updated to. */
  podRevision: 'controller-revision-hash',
  /** Label of a pod: only the hash of that revision. */
  podTemplateHash: 'pod-template-hash',
  /** Label of a ControllerRevision: its hash. */
  hash: 'controller.kubernetes.io/hash',
  /** Annotation of a ControllerRevision: the hash of the PVC templates at that time, "" for none. */
  claimTemplatesHash: 'kruise.io/cloneset-volumeclaimtemplate-hash',
} as const;

/** The content of a revision for a template (CS-80). */
export function revisionData(template: PodTemplate): JsonObject {
  return { spec: { template: { ...canonicalTemplate(template), [patchKey]: 'replace' } } };
}

/** The hash of the content, in letters (CS-81). Another collision count gives another hash. */
export function revisionHash(data: JsonObject, collisionCount: number): string {
  return safeName(String(fnv1(`${goJsonSorted(data)}${collisionCount}`)));
}

/** The revision of a workload's current template, with this number (CS-80, CS-81). */
export function newRevision(owner: RevisionOwner, number: number, collisionCount = 0): NewRevision {
  const data = revisionData(owner.template);
  const hash = revisionHash(data, collisionCount);
  return {
    apiVersion: 'apps/v1',
    kind: 'ControllerRevision',
    metadata: {
      name: `${owner.name.slice(0, longestOwnerName)}-${hash}`,
      namespace: owner.namespace,
      labels: { ...labelsOf(owner.template), [owner.hashLabel ?? revisionMark.hash]: hash },
      annotations: { ...owner.annotations, ...owner.ownAnnotations },
      ownerReferences: [controllerReference(owner)],
    },
    data,
    revision: number,
  };
}

/**
 * The body that creates a revision, to be passed to JSON.stringify. The API server stores the content byte by byte, and
 * OpenKruise compares it byte by byte, if it ever gets the workload back: keys are sorted, and strings escaped like Go
 * does.
 */
export function revisionBody(revision: NewRevision): object {
  return { ...revision, data: asGoText(JSON.parse(goJsonSorted(revision.data))) };
}

/** The template in a revision; undefined when its content is invalid. */
export function templateOf(revision: Partial<Pick<ControllerRevision, 'data'>>): PodTemplate | undefined {
  const { spec } = objectOr(revision.data);
  const template = isJsonObject(spec) ? spec.template : undefined;
  if (!isJsonObject(template)) return undefined;
  const { [patchKey]: _, ...rest } = template;
  return rest;
}

/** The same in the form in which it would be stored today, in which templates are compared. */
export function canonicalTemplateOf({ data }: Pick<ControllerRevision, 'data'>): PodTemplate | undefined {
  // a manually created revision may have none
  return isJsonObject(data) ? canonicalTemplateIn(data) : undefined;
}

/** Whether two revisions contain the same template, whatever program wrote them (CS-82). */
export function sameRevision(left: Pick<ControllerRevision, 'data'>, right: Pick<ControllerRevision, 'data'>): boolean {
  return comparable(left) === comparable(right);
}

/** How to get the update revision of a workload (CS-82). */
export type RevisionDecision =
  | { readonly kind: 'keep'; readonly revision: ControllerRevision }
  /** An older template is used again: `patch`, a merge patch, makes its revision the newest. */
  | { readonly kind: 'renumber'; readonly revision: ControllerRevision; readonly patch: JsonObject }
  | { readonly kind: 'create'; readonly revision: NewRevision };

/**
 * Finds the workload's template among its revisions, or returns how to create its revision. The order of the list does
 * not matter.
 */
export function decideUpdateRevision(
  owner: RevisionOwner,
  revisions: readonly ControllerRevision[],
  collisionCount: number,
): RevisionDecision {
  const history = revisions.toSorted(byAge);
  const newest = history.at(-1);
  const number = (newest?.revision ?? 0) + 1;
  const wanted = comparable({ data: revisionData(owner.template) });
  const equal = history.findLast((revision) => comparable(revision) === wanted);
  // only a new one needs a name, whose hash takes longer than all else here
  if (equal === undefined) return { kind: 'create', revision: newRevision(owner, number, collisionCount) };
  if (equal === newest) return { kind: 'keep', revision: newest };

  const { ownAnnotations = {} } = owner;
  const annotations = { ...equal.metadata.annotations, ...ownAnnotations };
  return {
    kind: 'renumber',
    revision: { ...equal, revision: number, metadata: { ...equal.metadata, annotations } },
    patch: {
      revision: number,
      ...(Object.keys(ownAnnotations).length > 0 && { metadata: { annotations: ownAnnotations } }),
    },
  };
}

/**
 * What to do when the name of a new revision is taken: use the existing one, or increment the collision count (CS-83). One that
 * is not among the revisions of the workload (CS-84) is of no use, whatever its content.
 */
export function afterNameTaken(
  wanted: NewRevision,
  existing: ControllerRevision,
  owner: { readonly uid: string; readonly isSelected: (labels: Readonly<Record<string, string>>) => boolean },
): { readonly kind: 'adopt'; readonly revision: ControllerRevision } | { readonly kind: 'collision' } {
  const isUsable = revisionsOf(owner.uid, [existing], owner.isSelected).length > 0;
  return isUsable && sameRevision(wanted, existing) ? { kind: 'adopt', revision: existing } : { kind: 'collision' };
}

/** The revisions of a workload: matched by its selector, and not owned by another object (CS-84). Oldest first. */
export function revisionsOf(
  ownerUid: string,
  revisions: readonly ControllerRevision[],
  isSelected: (labels: Readonly<Record<string, string>>) => boolean,
): readonly ControllerRevision[] {
  return revisions
    .filter(({ metadata }) => {
      const controller = metadata.ownerReferences?.find((reference) => reference.controller === true);
      return isSelected(metadata.labels ?? {}) && (controller === undefined || controller.uid === ownerUid);
    })
    .toSorted(byAge);
}

/** The revision that the status names as current; the update revision when there is none of that name (CS-85). */
export function currentRevisionOf<Revision extends NamedRevision>(
  currentName: string | undefined,
  revisions: readonly Revision[],
  update: Revision,
): Revision {
  if (currentName === update.metadata.name) return update;
  return revisions.find(({ metadata }) => metadata.name === currentName) ?? update;
}

/**
 * The revisions to delete, oldest first, so that at most `limit` unused ones remain (CS-86). In use are those in
 * `inUse` and those that a pod's label names.
 */
export function revisionsToPrune<Revision extends NamedRevision & Pick<ControllerRevision, 'revision'>>(input: {
  readonly revisions: readonly Revision[];
  readonly inUse: readonly string[];
  readonly podLabels: Iterable<string | undefined>;
  readonly limit: number;
}): readonly Revision[] {
  const hashes = new Set([...input.podLabels].flatMap((label) => (label ? [shortHash(label)] : [])));
  const unused = input.revisions
    .filter(({ metadata }) => !input.inUse.includes(metadata.name) && !hashes.has(shortHash(metadata.name)))
    .toSorted(byAge);
  return unused.slice(0, Math.max(unused.length - Math.max(input.limit, 0), 0));
}

/** The revision that a pod's label names; undefined when it is not among these. */
export function revisionOfPod<Revision extends NamedRevision>(
  label: string | undefined,
  revisions: readonly Revision[],
): Revision | undefined {
  return revisions.findLast(({ metadata }) => isAtRevision(label, metadata.name));
}

/** Whether a pod's label names this revision, as its full name or as its hash alone (IPU-41). */
export function isAtRevision(label: string | undefined, revisionName: string): boolean {
  return label !== undefined && label !== '' && shortHash(label) === shortHash(revisionName);
}

/** The labels that name a revision on pods of a CloneSet (IPU-41). */
export function revisionLabels(
  revisionName: string,
  gates: { readonly CloneSetShortHash: boolean },
): Readonly<Record<typeof revisionMark.podRevision | typeof revisionMark.podTemplateHash, string>> {
  const hash = shortHash(revisionName);
  return {
    [revisionMark.podRevision]: gates.CloneSetShortHash ? hash : revisionName,
    [revisionMark.podTemplateHash]: hash,
  };
}

/** The hash in a revision's name or in a pod's label: what comes after the last dash. */
export function shortHash(nameOrLabel: string): string {
  return nameOrLabel.slice(nameOrLabel.lastIndexOf('-') + 1);
}

/** The annotation of a CloneSet's revision with the hash of its PVC templates (CS-80). */
export function claimTemplatesAnnotation(
  templates: readonly JsonObject[] | undefined,
): Readonly<Record<typeof revisionMark.claimTemplatesHash, string>> {
  return { [revisionMark.claimTemplatesHash]: claimTemplatesHash(templates) };
}

/** The hash of PVC templates in the annotation of a revision; "" for none (IPU 4.4). */
export function claimTemplatesHash(templates: readonly JsonObject[] | undefined): string {
  if (templates === undefined || templates.length === 0) return '';
  const claims = templates
    .map((claim) => ({ name: nameOf(claim), spec: isJsonObject(claim.spec) ? claim.spec : {} }))
    .toSorted((left, right) => compareGoStrings(left.name, right.name))
    .map(({ name, spec }) => ({
      metadata: { name, creationTimestamp: null },
      spec: asGoStruct('PersistentVolumeClaimSpec', spec),
      status: {},
    }));
  return String(deepHash(goJson(claims)));
}

interface NamedRevision {
  readonly metadata: { readonly name: string };
}

/** Every pod of a fleet is compared with the same few revisions. */
const canonicalTemplateIn = perObject((data: JsonObject) => {
  const template = templateOf({ data });
  return template && canonicalTemplate(template);
});

const patchKey = '$patch';
/** Leaves room for a dash and a hash in the name. */
const longestOwnerName = 223;

/** By number; among equal numbers the older, then the one whose name comes first. */
function byAge(left: Aged, right: Aged): number {
  return (
    left.revision - right.revision ||
    compareGoStrings(left.metadata.creationTimestamp ?? '', right.metadata.creationTimestamp ?? '') ||
    compareGoStrings(left.metadata.name, right.metadata.name)
  );
}

interface Aged {
  readonly revision: number;
  readonly metadata: { readonly name: string; readonly creationTimestamp?: string };
}

function comparable({ data }: Pick<ControllerRevision, 'data'>): string {
  return goJsonSorted(canonicalTemplateOf({ data }) ?? data ?? null);
}

function controllerReference({ apiVersion, kind, name, uid }: RevisionOwner): OwnerReference {
  return { apiVersion, kind, name, uid, controller: true, blockOwnerDeletion: true };
}

function labelsOf(template: PodTemplate): Readonly<Record<string, string>> {
  const labels = isJsonObject(template.metadata) ? template.metadata.labels : undefined;
  if (!isJsonObject(labels)) return {};
  return Object.fromEntries(
    Object.entries(labels).flatMap(([key, value]) => (typeof value === 'string' ? [[key, value]] : [])),
  );
}

function nameOf(claim: JsonObject): string {
  const name = isJsonObject(claim.metadata) ? claim.metadata.name : undefined;
  return typeof name === 'string' ? name : '';
}

/** Strings that Go escapes differently from JavaScript become raw JSON text. */
function asGoText(value: Json): unknown {
  if (isJsonList(value)) return value.map(asGoText);
  if (isJsonObject(value)) {
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, asGoText(inner ?? null)]));
  }
  return typeof value === 'string' && goJson(value) !== JSON.stringify(value) ? rawJson(goJson(value)) : value;
}

function rawJson(text: string): object {
  // Part of the language, but not yet of the compiler's library.
  return (JSON as unknown as { readonly rawJSON: (text: string) => object }).rawJSON(text);
}

/** What speaks against a return to a revision that was replaced before it was rolled out. Undefined: nothing is known. */
export function doubtAbout({ metadata }: Pick<ControllerRevision, 'metadata'>): string | undefined {
  const pods = metadata.annotations?.[windlassAnnotation.unfinished];
  if (pods === undefined) return undefined;
  return `it was never completely rolled out: when it was replaced, ${pods.slice(0, 60)} had it and were ready`;
}

/**
 * The merge patch for a revision that was replaced, which says how far it had come; undefined where it says so already.
 * `pods`: as `2 of 10 pods`; undefined: it was rolled out.
 */
export function unfinishedPatch({ metadata }: ControllerRevision, pods: string | undefined): JsonObject | undefined {
  const key = windlassAnnotation.unfinished;
  if (metadata.annotations?.[key] === pods) return undefined;
  return { metadata: { annotations: { [key]: pods ?? null } } };
}
