import { CommandFailed } from '../failure.ts';
import { cloneSetExplainer } from './cloneset.ts';
import { recreateRequestExplainer } from './container-recreate-request.ts';
import type { Explainer } from './explanation.ts';

/** Every kind that can be explained. */
export const explainers: readonly Explainer[] = [cloneSetExplainer, recreateRequestExplainer];

/** The kind that a word means, as kubectl takes such words: plural, singular, short name, with the group or without. */
export function explainerOf(word: string): Explainer {
  const asked = word.toLowerCase();
  const found = explainers.find(({ resource, shortNames }) => {
    const names = [resource.plural, resource.kind.toLowerCase()];
    const full = [
      ...names.map((name) => `${name}.${resource.group}`),
      `${resource.plural}.${resource.version}.${resource.group}`,
    ];
    return [...names, ...full, ...shortNames].includes(asked);
  });
  if (found) return found;
  const known = explainers.map(({ resource, shortNames }) => [resource.plural, ...shortNames].join(', '));
  throw new CommandFailed(`"${word}" cannot be explained; what can: ${known.join('; ')}`);
}

/** The object of `KIND/NAME` or `KIND NAME`. */
export function parseObject(words: readonly string[]): { readonly explainer: Explainer; readonly name: string } {
  const [first = '', second] = words;
  if (first === '') throw new CommandFailed('required resource not specified');
  const slash = first.indexOf('/');
  const [kind, name] = slash < 0 ? [first, second] : [first.slice(0, slash), first.slice(slash + 1)];
  const isOdd = words.length > 2 || (slash >= 0 && second !== undefined) || !name || name.includes('/');
  if (isOdd) throw new CommandFailed('one object must be specified, as KIND/NAME or KIND NAME');
  return { explainer: explainerOf(kind), name };
}
