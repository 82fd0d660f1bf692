import { parseImageReference } from './image-reference.ts';

/** An image as NodeImages file it: by the repository as people write it, and by its tag or digest. */
export interface FamiliarImage {
  /** `nginx`, `foo/bar`, `registry.example.com:5000/app` */
  readonly name: string;
  /** A tag, `latest` where none was given, or a digest `sha256:…`, which makes a tag beside it a remark (IPJ-11). */
  readonly tag: string;
}

/** Reads a reference; undefined for what no runtime would take for one. */
export function familiarImage(text: string): FamiliarImage | undefined {
  const reference = parseImageReference(text);
  if (reference === undefined) return undefined;
  const { repository, tag = 'latest', digest } = reference;
  const name = repository.replace(/^docker\.io\/(library\/(?=[^/]+$))?/, '');
  return { name, tag: digest ?? tag };
}

/** The reference as people write it: a digest is joined by `@`, all else by `:` (NP-15). */
export function referenceOf({ name, tag }: FamiliarImage): string {
  return isDigest(tag) ? `${name}@${tag}` : `${name}:${tag}`;
}

/** Whether the tag of a NodeImage is a digest. */
function isDigest(tag: string): boolean {
  return tag.includes(':');
}
