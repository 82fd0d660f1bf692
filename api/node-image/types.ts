// NodeImage: the images that one node should have before they are needed.
//
// Each field has one writer; every write carries the resourceVersion of the object that it was decided on.
//
//   metadata.labels             the watcher: those of the Node
//   spec.images                 the watcher, for jobs; and people
//   status                      the workflow `pullImages`, through the cluster worker; those of the engine: the watcher
//   progress and fetched of a   the daemon of the node, at intervals: no decision depends on them, and they would fill up
//   tag while it is pulled      the history of the workflow

import { compareGoStrings } from '../base/json-go.ts';
import { referenceOf } from '../core/familiar-image.ts';
import { referenceTooLong } from '../core/image-reference.ts';
import type { KubeObject, Resource } from '../core/meta.ts';
import { group } from '../core/well-known.ts';
import type { Parsed } from '../schema/static.ts';
import type { nodeImageSpecSchema, nodeImageStatusSchema } from './schema.ts';

/** The images of a node in the shape of v1beta1, the only one used internally. */
export interface NodeImage extends KubeObject {
  readonly spec: NodeImageSpec;
  readonly status?: NodeImageStatus;
}

export type NodeImageSpec = Parsed<typeof nodeImageSpecSchema>;
export type NodeImageStatus = Parsed<typeof nodeImageStatusSchema>;
export type ImageEntry = NonNullable<NodeImageSpec['images']>[string];
export type ImageTag = NonNullable<ImageEntry['tags']>[number];
export type ImageTagPullPolicy = NonNullable<ImageTag['pullPolicy']>;
export type ImageOwner = NonNullable<ImageTag['ownerReferences']>[number];
export type PullSecretRef = NonNullable<ImageEntry['pullSecrets']>[number];
export type ImageTagStatus = NonNullable<NonNullable<NodeImageStatus['imageStatuses']>[string]['tags']>[number];
export type PullPhase = ImageTagStatus['phase'];

/** The resource in the version that Windlass uses. */
export const nodeImages = {
  group: group.apps,
  version: 'v1beta1',
  plural: 'nodeimages',
  kind: 'NodeImage',
  namespaced: false,
} as const satisfies Resource;

/** The label of a NodeImage that is kept without a Node of its name. */
export const fakeNodeImageLabel = 'apps.kruise.io/fake-nodeimage';

/** A pull without an answer from the node for this long has failed (NI-8). */
export const unansweredMs = 600_000;

/** One tag of the spec, with the name of its image. */
export interface NamedTag {
  readonly name: string;
  readonly tag: ImageTag;
}

/** Every tag of the spec, by name and then by tag. */
export function tagsOf({ spec }: Pick<NodeImage, 'spec'>): readonly NamedTag[] {
  return Object.entries(spec.images ?? {})
    .sort(([left], [right]) => compareGoStrings(left, right))
    .flatMap(([name, { tags = [] }]) => tags.map((tag) => ({ name, tag })));
}

/** The entry of one tag in the spec. */
export function findTag({ spec }: Pick<NodeImage, 'spec'>, name: string, tag: string): ImageTag | undefined {
  return imageEntry(spec, name)?.tags?.find((entry) => entry.tag === tag);
}

/** The entry of an image; names come from users, so inherited properties do not count. */
export function imageEntry(spec: NodeImageSpec, name: string): ImageEntry | undefined {
  const images = spec.images ?? {};
  return Object.hasOwn(images, name) ? images[name] : undefined;
}

/** The status of one tag, of any version. */
export function findTagStatus(
  { status }: Pick<NodeImage, 'status'>,
  name: string,
  tag: string,
): ImageTagStatus | undefined {
  const statuses = status?.imageStatuses ?? {};
  const found = Object.hasOwn(statuses, name) ? statuses[name] : undefined;
  return found?.tags?.find((entry) => entry.tag === tag);
}

/** The status of the current version of a tag; undefined while there is none. */
export function currentTagStatus(nodeImage: NodeImage, { name, tag }: NamedTag): ImageTagStatus | undefined {
  const found = findTagStatus(nodeImage, name, tag.tag);
  return found !== undefined && (found.version ?? 0) === (tag.version ?? 0) ? found : undefined;
}

/** The result of the pull of a tag; undefined while there is none. */
export function outcomeOf(status: ImageTagStatus | undefined): 'Succeeded' | 'Failed' | undefined {
  if (status?.completionTime === undefined) return undefined;
  return status.phase === 'Succeeded' || status.phase === 'Failed' ? status.phase : undefined;
}

/** The tags that still have to be pulled (NP-2). */
export function openTags(nodeImage: NodeImage): readonly NamedTag[] {
  return tagsOf(nodeImage).filter((named) => currentTagStatus(nodeImage, named)?.completionTime === undefined);
}

/** Why no runtime can pull a tag, whatever its registry answers; undefined where one may. Such a tag is not pulled. */
export function unpullable({ name, tag }: NamedTag): string | undefined {
  return referenceTooLong(referenceOf({ name, tag: tag.tag }), name);
}

/**
 * Whether the status has to be written although nothing is pulled: it contains tags that are no longer in the spec, has
 * wrong counts, or does not report yet that a tag cannot be pulled.
 */
export function isStale(nodeImage: NodeImage): boolean {
  const { status } = nodeImage;
  if (openTags(nodeImage).some((named) => unpullable(named) !== undefined)) return true;
  if (status === undefined) return false;
  if (status.desired !== tagsOf(nodeImage).length) return true;
  return Object.entries(status.imageStatuses ?? {}).some(([name, { tags = [] }]) =>
    tags.some(({ tag }) => findTag(nodeImage, name, tag) === undefined),
  );
}
