import { parseImageReference } from './image-reference.ts';

/** An image as NodeImages list it: by repository in its short form, and by tag or digest. */
export interface FamiliarImage {
  /** `nginx`, `foo/bar`, `registry.example.com:5000/app` */
  readonly name: string;
  /** A tag, `latest` by default, or a digest `sha256:…`, in which case a tag beside it is ignored (IPJ-11). */
  readonly tag: string;
}

/** Parses a reference; undefined for one that no runtime accepts. */
export function familiarImage(text: string): FamiliarImage | undefined {
  const reference = parseImageReference(text);
  if (reference === undefined) return undefined;
  const { repository, tag = 'latest', digest } = reference;
  const name = repository.replace(/^docker\.io\/(library\/(?=[^/]+$))?/, '');
  return { name, tag: digest ?? tag };
}

/** The reference for people: a digest is joined by `@`, a tag by `:` (NP-15). */
export function referenceOf({ name, tag }: FamiliarImage): string {
  return isDigest(tag) ? `${name}@${tag}` : `${name}:${tag}`;
}

/** Whether the tag of a NodeImage is a digest. */
function isDigest(tag: string): boolean {
  return tag.includes(':');
}
