// ControllerRevisions of SidecarSets: every content that new pods may get, in the namespace of the manager (SCS §5.13).
// Names and content are OpenKruise's, so that both find those of the other.

import type { JsonObject } from '../base/json.ts';
import { compareGoStrings, goJsonSorted } from '../base/json-go.ts';
import { apiVersionOf } from '../core/meta.ts';
import { type ControllerRevision, type NewRevision, revisionHash, revisionMark } from '../fleet/revision.ts';
import { newestRevision } from './injection/choose.ts';
import { sidecarSetLabel } from './marks.ts';
import { type SidecarSet, sidecarSetDefault, sidecarSets } from './types.ts';

/** Leaves room for a dash and a hash in the name. */
const longestOwnerName = 223;

/** The content of the revision of a SidecarSet (SCS-206). Members that are absent are null. */
export function sidecarRevisionData({ spec }: SidecarSet): JsonObject {
  const { containers, imagePullSecrets, initContainers, patchPodMetadata, volumes } = spec;
  const content = { containers, imagePullSecrets, initContainers, patchPodMetadata, volumes };
  const members = Object.entries(content).map(([name, list]) => [name, list ?? null]);
  return { spec: { $patch: 'replace', ...Object.fromEntries(members) } };
}

/** The revisions of a SidecarSet among those with its name label: its own, and those of nobody (SCS-207). Oldest first. */
export function sidecarRevisions(
  { metadata }: SidecarSet,
  labelled: readonly ControllerRevision[],
): readonly ControllerRevision[] {
  return labelled
    .filter((revision) => {
      const controller = revision.metadata.ownerReferences?.find((owner) => owner.controller === true);
      return controller === undefined || controller.uid === metadata.uid;
    })
    .toSorted(
      (left, right) => left.revision - right.revision || compareGoStrings(left.metadata.name, right.metadata.name),
    );
}

/** The revision of the present content with this number (SCS-205, SCS-210). After a collision only the name changes. */
export function newSidecarRevision(
  set: SidecarSet,
  namespace: string,
  number: number,
  { collisions, before }: { readonly collisions: number; readonly before: number },
): NewRevision {
  const { name, uid, labels, annotations } = set.metadata;
  const data = sidecarRevisionData(set);
  const { customVersion } = set.spec;
  return {
    apiVersion: 'apps/v1',
    kind: 'ControllerRevision',
    metadata: {
      name: `${name.slice(0, longestOwnerName)}-${revisionHash(data, collisions)}`,
      namespace,
      labels: {
        ...labels,
        ...(customVersion && { [sidecarSetLabel.customVersion]: customVersion }),
        [sidecarSetLabel.name]: name,
        [revisionMark.hash]: revisionHash(data, before),
      },
      annotations: { ...annotations },
      ownerReferences: [
        {
          apiVersion: apiVersionOf(sidecarSets),
          kind: sidecarSets.kind,
          name,
          uid,
          controller: true,
          blockOwnerDeletion: true,
        },
      ],
    },
    data,
    revision: number,
  };
}

/** How to get the revision of the present content (SCS-207, SCS-208). */
export type SidecarRevisionDecision =
  | { readonly kind: 'create'; readonly number: number }
  /** `patch`: a merge patch; absent: it is as it should be. */
  | { readonly kind: 'use'; readonly revision: ControllerRevision; readonly patch?: JsonObject };

/** `history` is oldest first. Content is compared byte by byte. */
export function decideSidecarRevision(
  set: SidecarSet,
  history: readonly ControllerRevision[],
): SidecarRevisionDecision {
  const text = goJsonSorted(sidecarRevisionData(set));
  const newest = history.at(-1);
  const number = (newest?.revision ?? 0) + 1;
  const equal = history.findLast((revision) => hasContent(revision, text));
  if (equal === undefined) return { kind: 'create', number };
  const { customVersion } = set.spec;
  const isRenamed = Boolean(customVersion) && equal.metadata.labels?.[sidecarSetLabel.customVersion] !== customVersion;
  const patch = {
    ...(equal !== newest && { revision: number }),
    ...(isRenamed && { metadata: { labels: { [sidecarSetLabel.customVersion]: customVersion } } }),
  };
  return { kind: 'use', revision: equal, ...(Object.keys(patch).length > 0 && { patch }) };
}

/** Whether a revision has the present content of a SidecarSet. */
export function isRevisionOf(set: SidecarSet, revision: ControllerRevision): boolean {
  return hasContent(revision, goJsonSorted(sidecarRevisionData(set)));
}

function hasContent({ data }: ControllerRevision, text: string): boolean {
  return goJsonSorted(data ?? null) === text;
}

/**
 * The revisions to delete, oldest first (SCS-209): never the latest, those in `onPods`, and the one that new pods get. The
 * latest counts towards the limit.
 */
export function surplusRevisions(
  { metadata, spec }: SidecarSet,
  history: readonly ControllerRevision[],
  { latest, onPods }: { readonly latest: string; readonly onPods: ReadonlySet<string> },
): readonly ControllerRevision[] {
  const limit = Math.max(1, spec.revisionHistoryLimit ?? sidecarSetDefault.revisionHistoryLimit);
  const { revisionName, customVersion } = spec.injectionStrategy?.revision ?? {};
  const ofVersion = history.filter(
    (revision) =>
      revision.metadata.labels?.[sidecarSetLabel.name] === metadata.name &&
      revision.metadata.labels[sidecarSetLabel.customVersion] === customVersion,
  );
  const named = revisionName ?? (customVersion === undefined ? undefined : newestRevision(ofVersion)?.metadata.name);
  const unused = history.filter(({ metadata: { name } }) => name !== latest && name !== named && !onPods.has(name));
  return unused.slice(0, Math.max(0, history.length - limit));
}
