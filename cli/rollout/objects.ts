// Which objects a verb is about: named by words or by files.
import type { NameRef } from '../../kube/client.ts';
import { CommandFailed } from '../failure.ts';
import { kindOfWord, namedObjects, wordsOf } from '../kind-words.ts';
import type { ManifestObject } from '../manifests.ts';
import type { RolledOut, RolloutKind } from './kind.ts';
import { rolloutKinds } from './kinds.ts';

/** An object to act on. */
export interface Target {
  readonly kind: RolloutKind;
  readonly ref: NameRef;
}

/** What a user has named, each object once, in order. */
export function targetsOf(
  words: readonly string[],
  manifests: readonly ManifestObject[],
  { namespace, givenNamespace }: { readonly namespace: string; readonly givenNamespace: string | undefined },
): readonly Target[] {
  if (words.length === 0 && manifests.length === 0) throw new CommandFailed('required resource not specified');
  if (words.length > 0 && manifests.length > 0) {
    throw new CommandFailed('objects are named either by words or by --filename, not by both');
  }
  const named = words.length > 0 ? namedObjects(words) : [];
  if (words.length > 0 && named.length === 0) {
    const [word = ''] = words;
    kindNamed(word);
    throw new CommandFailed(`objects must be specified as ${word}/NAME or ${word} NAME`);
  }
  const found = [
    ...named.map(({ kind: word, name }) => targetIn(kindNamed(word), name, namespace)),
    ...manifests.map((manifest) => targetOf(manifest, { namespace, givenNamespace })),
  ];
  const known = new Set<string>();
  return found.filter((target) => {
    const key = [displayName(target), target.ref.namespace].join();
    return !known.has(key) && known.add(key);
  });
}

function targetOf(
  { object, source }: ManifestObject,
  { namespace, givenNamespace }: { readonly namespace: string; readonly givenNamespace: string | undefined },
): Target {
  const { kind: kindName, apiVersion } = object;
  const kind = rolloutKinds.find(({ versions }) =>
    versions.some((version) => version.kind === kindName && apiVersion === `${version.group}/${version.version}`),
  );
  const { name, namespace: own } = (object as { readonly metadata?: Partial<NameRef> }).metadata ?? {};
  if (kind === undefined)
    throw new CommandFailed(`${source}: ${unsupported(`${String(kindName)}.${String(apiVersion)}`)}`);
  if (typeof name !== 'string' || name === '') throw new CommandFailed(`${source}: an object has no metadata.name`);
  if (own !== undefined && givenNamespace !== undefined && own !== givenNamespace) {
    throw new CommandFailed(
      `the namespace from the provided object "${own}" does not match the namespace "${givenNamespace}"`,
    );
  }
  return targetIn(kind, name, own ?? namespace);
}

function targetIn(kind: RolloutKind, name: string, namespace: string): Target {
  return { kind, ref: { name, ...(kind.versions[0].namespaced && { namespace }) } };
}

function kindNamed(word: string): RolloutKind {
  const asked = kindOfWord(word, rolloutKinds);
  if (asked === undefined) throw new CommandFailed(unsupported(word));
  return asked.kind;
}

function unsupported(word: string): string {
  return `"${word}" is not rolled out by Windlass, use kubectl rollout for built-in kinds; supported: ${wordsOf(rolloutKinds)}`;
}

/** `cloneset.apps.kruise.io/shop`, as kubectl names objects in its answers. */
export function displayName({ kind, ref }: Target): string {
  const [{ kind: singular, group }] = kind.versions;
  return `${singular.toLowerCase()}.${group}/${ref.name}`;
}

/** `clonesets.apps.kruise.io "shop"`, as in errors. */
export function quotedName({ kind, ref }: Target): string {
  const [{ plural, group }] = kind.versions;
  return `${plural}.${group} "${ref.name}"`;
}

/** A field of the spec, by its path; undefined where it or a field above it is absent. */
export function specField({ spec }: RolledOut, path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (value, key) => (typeof value === 'object' && value !== null ? Reflect.get(value, key) : undefined),
    spec,
  );
}
