// Which credentials are sent to a registry: the kubelet's rules, for Secrets of the two Docker types, files of the same
// format, and answers of plugins (NP-13).

import { isJsonObject, type JsonObject, objectOr } from '../../api/base/json.ts';
import { parseImageReference } from '../../api/core/image-reference.ts';
import type { RegistryAuth } from './image-runtime.ts';
import { pathMatch } from './path-match.ts';

/** A Secret as read from the API server. */
export interface PullSecret {
  readonly type?: string;
  /** Base64. */
  readonly data?: Readonly<Record<string, string>>;
}

/** A longer key in a list of credentials is ignored: no repository name is as long. */
const longestPattern = 255;

/** DNS labels are not longer, so no registry can match. */
const longestHostPart = 63;

/** Credentials for registries that match a pattern. */
export interface Keyring {
  readonly entries: readonly { readonly pattern: string; readonly auth: RegistryAuth }[];
}

/** A Secret that is not a valid list of credentials. The message never quotes it. */
export class MalformedSecret extends Error {
  override readonly name = 'MalformedSecret';
}

/** Parses the credentials of one Secret; a Secret of another type has none. Throws `MalformedSecret`. */
export function keyringOf(name: string, secret: PullSecret): Keyring {
  switch (secret.type) {
    case 'kubernetes.io/dockerconfigjson':
      return { entries: entriesOf(`Secret "${name}"`, objectOr(read(name, secret, '.dockerconfigjson').auths)) };
    case 'kubernetes.io/dockercfg':
      return { entries: entriesOf(`Secret "${name}"`, read(name, secret, '.dockercfg')) };
    default:
      return { entries: [] };
  }
}

/** Parses the credentials of a file like Docker's `config.json`. Throws `MalformedSecret`. */
export function dockerConfigKeyring(name: string, text: string): Keyring {
  const config = parsed(text);
  if (config === undefined) throw new MalformedSecret(`${name} is not a JSON object`);
  return { entries: entriesOf(name, objectOr(config.auths)) };
}

function read(name: string, { data }: PullSecret, key: string): JsonObject {
  const text = data?.[key];
  if (text === undefined) return {};
  const value = parsed(Buffer.from(text, 'base64').toString('utf8'));
  if (value === undefined) throw new MalformedSecret(`Secret "${name}" has no JSON object under ${key}`);
  return value;
}

function parsed(text: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isJsonObject(value) ? value : undefined;
  } catch {
    return undefined; // the error would quote the text, which holds passwords
  }
}

function entriesOf(name: string, auths: JsonObject): Keyring['entries'] {
  return Object.entries(auths).flatMap(([pattern, entry]) => {
    if (pattern.length > longestPattern) return [];
    const auth = authOf(name, objectOr(entry));
    return auth === undefined ? [] : [{ pattern, auth }];
  });
}

function authOf(name: string, { username, password, auth, identitytoken }: JsonObject): RegistryAuth | undefined {
  if (typeof identitytoken === 'string' && identitytoken !== '') return { identityToken: identitytoken };
  if (typeof username === 'string' && username !== '') {
    return { username, password: typeof password === 'string' ? password : '' };
  }
  if (typeof auth !== 'string' || auth === '') return undefined;
  const text = Buffer.from(auth, 'base64').toString('utf8');
  const colon = text.indexOf(':');
  if (colon < 0) throw new MalformedSecret(`${name} has an auth that is not "user:password" in base64`);
  return { username: text.slice(0, colon), password: text.slice(colon + 1) };
}

/** The credentials to try for an image, the most specific pattern first; empty: pull anonymously. */
export function credentialsFor(reference: string, keyrings: readonly Keyring[]): readonly RegistryAuth[] {
  const repository = repositoryOf(reference);
  if (repository === undefined) return [];
  const matching = keyrings
    .flatMap(({ entries }) => entries)
    .map((entry) => ({ ...entry, place: placeOf(entry.pattern) }))
    .filter(({ place }) => matches(place, placeOf(repository)))
    .sort((left, right) => right.place.path.length - left.place.path.length);
  const seen = new Set<string>();
  return matching.flatMap(({ auth }) => {
    const key = JSON.stringify(auth);
    if (seen.has(key)) return [];
    seen.add(key);
    return [auth];
  });
}

/** The image name with the registry's host, as credentials and plugins use it; undefined if it is not an image. */
export function repositoryOf(reference: string): string | undefined {
  return parseImageReference(reference)?.repository;
}

/** Whether a pattern of credentials matches this repository. */
export function isForImage(pattern: string, repository: string): boolean {
  return matches(placeOf(pattern), placeOf(repository));
}

interface Place {
  readonly host: string;
  readonly port: string;
  readonly path: string;
}

/** Scheme, a trailing `/v1/` or `/v2/` and the old name of Docker's registry are ignored. */
function placeOf(text: string): Place {
  const plain = text.replace(/^https?:\/\//, '').replace(/\/(v[12]\/?)?$/, '');
  const slash = plain.indexOf('/');
  const authority = slash < 0 ? plain : plain.slice(0, slash);
  const colon = authority.lastIndexOf(':');
  const host = colon < 0 ? authority : authority.slice(0, colon);
  return {
    host: host === 'index.docker.io' || host === 'registry-1.docker.io' ? 'docker.io' : host,
    port: colon < 0 ? '' : authority.slice(colon + 1),
    path: slash < 0 ? '' : plain.slice(slash + 1),
  };
}

/** Each part of the host, with wildcards within a part; the same port; the path as a prefix. */
function matches(pattern: Place, image: Place): boolean {
  const [patternParts, parts] = [pattern.host.split('.'), image.host.split('.')];
  if (pattern.port !== image.port || patternParts.length !== parts.length) return false;
  if (!image.path.startsWith(pattern.path) || parts.some((part) => part.length > longestHostPart)) return false;
  return patternParts.every((part, index) => pathMatch(part, parts[index] ?? ''));
}
