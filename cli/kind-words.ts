// The words by which people name kinds and objects on the command line.
import type { Resource } from '../api/core/meta.ts';
import { CommandFailed } from './failure.ts';

/** A kind under the names that kubectl knows. */
export interface NamedKind {
  /** All versions that may be served, the one that Windlass stores first. */
  readonly versions: readonly [Resource, ...Resource[]];
  /** In addition to kind and plural. */
  readonly shortNames: readonly string[];
  /** Kubernetes has a kind of the same name: without the group the plural, the kind and these short names mean that one. */
  readonly namesake?: { readonly shortNames: readonly string[] };
}

/** A kind, and the versions that the word allows. */
export interface AskedKind<Kind extends NamedKind> {
  readonly kind: Kind;
  readonly versions: readonly Resource[];
}

/**
 * The kind of a word, resolved like kubectl does: plural, singular or short name; alone, with the group, or with
 * version and group (KK-2a). A word without a version means any version that is served.
 */
export function kindOfWord<Kind extends NamedKind>(word: string, kinds: readonly Kind[]): AskedKind<Kind> | undefined {
  const asked = word.toLowerCase();
  for (const kind of kinds) {
    const { versions, shortNames, namesake } = kind;
    const [{ plural, kind: singular, group }] = versions;
    const names = [plural, singular.toLowerCase(), ...shortNames, ...(namesake?.shortNames ?? [])];
    const alone = namesake ? shortNames : names;
    if (alone.includes(asked) || names.some((name) => asked === `${name}.${group}`)) return { kind, versions };
    const named = versions.filter(({ version }) => names.some((name) => asked === `${name}.${version}.${group}`));
    if (named.length > 0) return { kind, versions: named };
  }
  return undefined;
}

/** How the kinds are named in messages: `clonesets, clone; sidecarsets`. */
export function wordsOf(kinds: readonly NamedKind[]): string {
  return kinds
    .map(({ versions: [{ plural, group }], shortNames, namesake }) =>
      [namesake ? `${plural}.${group}` : plural, ...shortNames].join(', '),
    )
    .join('; ');
}

/** An object as named on the command line: the word for its kind, and its name. */
export interface NamedObject {
  readonly kind: string;
  readonly name: string;
}

/** The objects of `KIND/NAME …` or `KIND NAME …`. */
export function namedObjects(words: readonly string[]): readonly NamedObject[] {
  const [first = '', ...names] = words;
  if (first === '') throw new CommandFailed('required resource not specified');
  if (!first.includes('/')) {
    const mixed = names.find((name) => name.includes('/'));
    if (mixed !== undefined) {
      throw new CommandFailed(`there is no need to specify a resource type as a separate argument before "${mixed}"`);
    }
    return names.map((name) => ({ kind: first, name }));
  }
  return words.map((word) => {
    const [kind = '', name = '', ...rest] = word.split('/');
    if (kind === '' || name === '' || rest.length > 0) {
      throw new CommandFailed(`"${word}" does not name an object as KIND/NAME`);
    }
    return { kind, name };
  });
}
