// Image references as container runtimes interpret them: `nginx` is short for `docker.io/library/nginx:latest`.

/** The parts of a reference. At least one of tag and digest is present. */
export interface ImageReference {
  /** With the registry's host: `docker.io/library/nginx`. */
  readonly repository: string;
  readonly tag?: string;
  /** `sha256:…` */
  readonly digest?: string;
}

/** The most characters of a repository and of a whole reference: what registries and container runtimes accept. */
export const longestReference = { repository: 255, whole: 400 } as const;

/** Why a reference, or its repository, is longer than any runtime accepts; undefined where it is not. */
export function referenceTooLong(whole: string, repository = ''): string | undefined {
  const most = longestReference;
  if (repository.length > most.repository) {
    return `the image reference is too long: its repository has ${repository.length} characters, at most ${most.repository} are possible`;
  }
  if (whole.length > most.whole) {
    return `the image reference is too long: it has ${whole.length} characters, at most ${most.whole} are possible`;
  }
  return undefined;
}

const defaultHost = 'docker.io';
const pattern = /^(?<name>[^@]+?)(?::(?<tag>\w[\w.-]{0,127}))?(?:@(?<digest>[A-Za-z][\w.+-]*:[0-9a-fA-F]{32,}))?$/;
const component = /^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*$/;

/** Parses a reference; undefined for one that no runtime accepts. */
export function parseImageReference(text: string): ImageReference | undefined {
  const { name, tag, digest } = pattern.exec(text)?.groups ?? {};
  if (name === undefined) return undefined;

  const { host, path } = withHost(name);
  if (!path.split('/').every((part) => component.test(part))) return undefined;
  const repository = `${host}/${host === defaultHost && !path.includes('/') ? `library/${path}` : path}`;
  if (digest !== undefined) return { repository, digest, ...(tag !== undefined && { tag }) };
  return { repository, tag: tag ?? 'latest' };
}

/** Whether two references mean the same image to a runtime. Two invalid references are compared as texts. */
export function sameImage(left: string, right: string): boolean {
  return left === right || normalizedImage(left) === normalizedImage(right);
}

/** The full reference with registry and tag; an invalid one is returned unchanged. */
export function normalizedImage(text: string): string {
  const reference = parseImageReference(text);
  if (reference === undefined) return text;
  const { repository, tag, digest } = reference;
  // With a digest, the tag is ignored.
  return digest === undefined ? `${repository}:${tag}` : `${repository}@${digest}`;
}

function withHost(name: string): { readonly host: string; readonly path: string } {
  const slash = name.indexOf('/');
  const first = slash < 0 ? '' : name.slice(0, slash);
  const isHost = /[.:]/.test(first) || first === 'localhost' || first !== first.toLowerCase();
  if (!isHost) return { host: defaultHost, path: name };
  return { host: first === 'index.docker.io' ? defaultHost : first, path: name.slice(slash + 1) };
}
