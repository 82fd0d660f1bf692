/**
 * SidecarSelection: what all SidecarSets require of new pods, in one object. The API server refuses by it the pods that lack
 * their sidecars, while the webhook is away: a policy that is evaluated once for each SidecarSet costs each new pod 0.1 ms for
 * each of them. Webhook and watcher write it, and the policy in `deploy/rbac-gates/PodWebhook.yaml` reads it.
 *
 * It speaks of facts about a pod, which are texts: `app=web` and `app` for a label, `ns:env=dev` and `ns:env` for one of its
 * namespace, `injected:logs` for an injected SidecarSet. A pod lacks the sidecars of an entry if it has one fact of each list
 * in `selects`, and none of `excludes`. `byFact` saves looking at every entry: only those that it has for a fact of the pod.
 */
import { compareGoStrings } from '../base/json-go.ts';
import { type LabelSelector, labelMatcher } from '../core/label-selector.ts';
import type { KubeObject, Resource } from '../core/meta.ts';
import { canaryBase } from './canary.ts';
import { sidecarSetAnnotation } from './marks.ts';
import type { SidecarSet } from './types.ts';

export const sidecarSelections = {
  group: 'windlass.io',
  version: 'v1alpha1',
  plural: 'sidecarselections',
  kind: 'SidecarSelection',
  namespaced: false,
} as const satisfies Resource;

/** The name of the one object that the policy reads. */
export const sidecarSelectionName = 'windlass';

/** Annotation of that object: the resource version of the list of SidecarSets that it was computed from. */
export const selectionVersionAnnotation = 'windlass.io/sidecar-sets-version';

export interface SidecarSelection extends KubeObject {
  readonly spec: SidecarSelectionSpec;
}

export interface SidecarSelectionSpec {
  /** Sorted by name. */
  readonly sidecarSets: readonly SelectionEntry[];
  /**
   * By fact: the places in `sidecarSets` of entries that select no pod without one of these facts. By `""`: of those that select
   * nothing by what a pod has.
   */
  readonly byFact: Readonly<Record<string, readonly number[]>>;
  /** Whether `byFact` has facts of namespaces. Absent: the labels of a pod tell whether it has one of its facts. */
  readonly byNamespace?: true;
  /** How many SidecarSets do not fit in, whose pods are not checked. Absent: none. */
  readonly unchecked?: number;
  /** The first ten of them. */
  readonly uncheckedNames?: readonly string[];
}

/** One SidecarSet. */
export interface SelectionEntry {
  readonly name: string;
  readonly selects: readonly { readonly anyOf: readonly string[] }[];
  readonly excludes: readonly string[];
}

/**
 * How much the object contains: the API server stops to evaluate an expression that takes too many steps, which are facts of
 * the pod times those of the object, and etcd stores 1.5 MiB. `length` is that of all facts together, each of which the object
 * may contain twice.
 */
export const selectionLimit = { sidecarSets: 800, facts: 3_000, factLength: 400, length: 500_000, names: 10 } as const;

/**
 * What SidecarSets require of new pods. Left out are paused ones, those whose failure is ignored, and those that select nothing
 * or contain no containers. Where not all fit in, the smallest are in.
 */
export function sidecarSelection(sets: readonly SidecarSet[]): SidecarSelectionSpec {
  const canaries = canariesOf(sets);
  const entries = sets
    .filter(isRequired)
    .map((set) => entryOf(set, canaries))
    .toSorted((left, right) => factsIn(left).length - factsIn(right).length || byName(left, right));
  const checked: SelectionEntry[] = [];
  const unchecked: SelectionEntry[] = [];
  let facts = 0;
  let length = 0;
  for (const entry of entries) {
    const added = factsIn(entry);
    const addedLength = added.join('').length;
    const fits =
      checked.length < selectionLimit.sidecarSets &&
      facts + added.length <= selectionLimit.facts &&
      length + addedLength <= selectionLimit.length &&
      added.every((fact) => fact.length <= selectionLimit.factLength);
    (fits ? checked : unchecked).push(entry);
    if (!fits) continue;
    facts += added.length;
    length += addedLength;
  }
  const names = unchecked.toSorted(byName).map(({ name }) => name);
  const sorted = checked.toSorted(byName);
  const byFact = indexOf(sorted);
  return {
    sidecarSets: sorted,
    byFact,
    ...(Object.keys(byFact).some((fact) => fact.startsWith(ofNamespace)) && { byNamespace: true }),
    ...(names.length > 0 && { unchecked: names.length, uncheckedNames: names.slice(0, selectionLimit.names) }),
  };
}

/** What the facts of a namespace begin with. The keys of labels have no colon. */
const ofNamespace = 'ns:';

function byName(left: SelectionEntry, right: SelectionEntry): number {
  return compareGoStrings(left.name, right.name);
}

function factsIn({ selects, excludes }: SelectionEntry): readonly string[] {
  return [...selects.flatMap(({ anyOf }) => anyOf), ...excludes];
}

/** Under the facts of one list in `selects`: that whose facts the fewest others have. */
function indexOf(entries: readonly SelectionEntry[]): SidecarSelectionSpec['byFact'] {
  const uses = new Map<string, number>();
  for (const { selects } of entries)
    for (const fact of selects.flatMap(({ anyOf }) => anyOf)) uses.set(fact, (uses.get(fact) ?? 0) + 1);
  const usesOf = (facts: readonly string[]) => facts.reduce((sum, fact) => sum + (uses.get(fact) ?? 0), 0);
  const places = new Map<string, number[]>();
  for (const [place, { selects }] of entries.entries()) {
    const [rarest = ['']] = selects.map(({ anyOf }) => anyOf).toSorted((left, right) => usesOf(left) - usesOf(right));
    for (const fact of rarest) places.set(fact, [...(places.get(fact) ?? []), place]);
  }
  return Object.fromEntries(places);
}

/** Whether pods must not start without it, and can be recognized by its containers. */
function isRequired({ metadata, spec }: SidecarSet): boolean {
  const { selector, namespaceSelector, injectionStrategy, containers = [], initContainers = [] } = spec;
  if (injectionStrategy?.paused === true || containers.length + initContainers.length === 0) return false;
  if (metadata.annotations?.[sidecarSetAnnotation.injectionFailure] === 'Ignore') return false;
  if (selector === undefined || requirementsOf(selector).length === 0) return false;
  return [selector, namespaceSelector ?? {}].every((one) => labelMatcher(one) !== undefined);
}

function entryOf({ metadata: { name }, spec }: SidecarSet, canaries: Canaries): SelectionEntry {
  const requirements = [
    ...requirementsOf(spec.selector ?? {}).map((one) => ({ ...one, prefix: '' })),
    ...requirementsOf(spec.namespaceSelector ?? {}).map((one) => ({ ...one, prefix: ofNamespace })),
  ].map(({ prefix, key, operator, values = [] }) => ({
    isWanted: operator === 'In' || operator === 'Exists',
    facts: values.length === 0 ? [`${prefix}${key}`] : [...new Set(values)].map((value) => `${prefix}${key}=${value}`),
  }));
  const injected = [name, ...placeTakers(name, canaries)].map((one) => `injected:${one}`);
  return {
    name,
    selects: requirements.filter(({ isWanted }) => isWanted).map(({ facts }) => ({ anyOf: facts })),
    excludes: [...requirements.filter(({ isWanted }) => !isWanted).flatMap(({ facts }) => facts), ...injected],
  };
}

function requirementsOf({ matchLabels = {}, matchExpressions = [] }: LabelSelector) {
  const equal = Object.entries(matchLabels)
    .toSorted(([left], [right]) => compareGoStrings(left, right))
    .map(([key, value]) => ({ key, operator: 'In', values: [value] }));
  return [...equal, ...matchExpressions];
}

/** The names of the canaries of each SidecarSet. */
type Canaries = ReadonlyMap<string, readonly string[]>;

function canariesOf(sets: readonly SidecarSet[]): Canaries {
  const canaries = new Map<string, readonly string[]>();
  for (const set of sets) {
    const base = canaryBase(set);
    if (base !== undefined) canaries.set(base, [...(canaries.get(base) ?? []), set.metadata.name]);
  }
  return canaries;
}

/** Whatever a pod may get instead: canaries, and canaries of these. */
function placeTakers(name: string, canaries: Canaries): readonly string[] {
  const found = new Set([name]);
  for (const one of found) for (const canary of canaries.get(one) ?? []) found.add(canary);
  return [...found].slice(1).toSorted(compareGoStrings);
}
