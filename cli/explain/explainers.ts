import type { Resource } from '../../api/core/meta.ts';
import { type PerKind, partsOf } from '../../api/per-kind.ts';
import { CommandFailed } from '../failure.ts';
import { cloneSetExplainer } from './cloneset.ts';
import { recreateRequestExplainer } from './container-recreate-request.ts';
import type { Explainer } from './explanation.ts';
import { sidecarSetExplainer } from './sidecar-set.ts';

/** The explainer of each kind. */
const explainersOfKinds: PerKind<Explainer> = {
  CloneSet: cloneSetExplainer,
  ContainerRecreateRequest: recreateRequestExplainer,
  PodProbeMarker: 'none',
  NodePodProbe: 'none',
  ImageListPullJob: 'none',
  ImagePullJob: 'none',
  NodeImage: 'none',
  SidecarSet: sidecarSetExplainer,
};

/** Every kind that can be explained. */
export const explainers: readonly Explainer[] = partsOf(explainersOfKinds);

/** A kind, and the versions in which its object is read. */
interface AskedKind {
  readonly explainer: Explainer;
  readonly versions: readonly Resource[];
}

/**
 * The kind of a word, resolved like kubectl does: plural, singular or short name; alone, with the group, or with
 * version and group (KK-2a). A word without a version means any version that is served.
 */
export function kindOf(word: string): AskedKind {
  const asked = word.toLowerCase();
  for (const explainer of explainers) {
    const { versions, shortNames } = explainer;
    const [{ plural, kind, group }] = versions;
    const names = [plural, kind.toLowerCase(), ...shortNames];
    if (names.some((name) => asked === name || asked === `${name}.${group}`)) return { explainer, versions };
    const named = versions.filter(({ version }) => names.some((name) => asked === `${name}.${version}.${group}`));
    if (named.length > 0) return { explainer, versions: named };
  }
  const known = explainers.map(({ versions: [{ plural }], shortNames }) => [plural, ...shortNames].join(', '));
  throw new CommandFailed(`"${word}" cannot be explained; supported: ${known.join('; ')}`);
}

/** The object of `KIND/NAME` or `KIND NAME`. */
export function parseObject(words: readonly string[]): AskedKind & { readonly name: string } {
  const [first = '', second] = words;
  if (first === '') throw new CommandFailed('required resource not specified');
  const slash = first.indexOf('/');
  const [kind, name] = slash < 0 ? [first, second] : [first.slice(0, slash), first.slice(slash + 1)];
  const isOdd = words.length > 2 || (slash >= 0 && second !== undefined) || !name || name.includes('/');
  if (isOdd) throw new CommandFailed('one object must be specified, as KIND/NAME or KIND NAME');
  return { ...kindOf(kind), name };
}
