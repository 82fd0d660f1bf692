import type { KubeObject } from '../../../api/core/meta.ts';
import type { Pod } from '../../../api/core/pod.ts';
import { canaryBase } from '../../../api/sidecar-set/canary.ts';
import type { SidecarSet } from '../../../api/sidecar-set/types.ts';
import type { Cache, Change } from '../../../kube/cache.ts';
import { missedReason } from '../../../plan/sidecar-set/missing.ts';

/** The caches that the pods are found in. */
export interface MissedPodsWorld {
  readonly sets: Pick<Cache<SidecarSet>, 'all' | 'byName'>;
  readonly pods: Pick<Cache<Pod>, 'all'>;
  readonly namespaces: Pick<Cache<KubeObject>, 'byName'>;
}

/** The pods that each SidecarSet has missed, kept up to date by single changes. */
export interface MissedPods {
  /** `namespace/name` of the pods that the SidecarSet has missed. */
  of(setName: string): Iterable<string>;
  podChanged(change: Change<Pod>): void;
  setChanged(change: Change<SidecarSet>): void;
  namespaceChanged(name: string): void;
  /** Looks at everything again. */
  rebuild(): void;
}

/** Finds missed pods. `onChange` receives the name of each SidecarSet whose missed pods have changed. */
export function findMissedPods(world: MissedPodsWorld, onChange: (setName: string) => void): MissedPods {
  const { sets, pods, namespaces } = world;
  const byLabel: SetsByLabel = new Map();
  const canaries = new Map<string, readonly SidecarSet[]>();
  /** By SidecarSet: `namespace/name` of its missed pods by UID. */
  const missed = new Map<string, Map<string, string>>();
  /** By UID of a missed pod: its SidecarSets. */
  const setsOf = new Map<string, readonly string[]>();

  function isMissed(set: SidecarSet, pod: Pod): boolean {
    // A completed pod is kept without its phase and its labels, which a selector may not ask for.
    if (pod.status?.phase === undefined) return false;
    const namespace = namespaces.byName('', pod.metadata.namespace ?? '');
    const facts = {
      namespaceLabels: namespace && (namespace.metadata.labels ?? {}),
      canaries: canaries.get(set.metadata.name) ?? [],
    };
    return missedReason(set, pod, facts) !== undefined;
  }

  function look(pod: Pod): void {
    const names = candidatesFor(pod, byLabel).filter((name) => {
      const set = sets.byName('', name);
      return set !== undefined && isMissed(set, pod);
    });
    record(pod, names);
  }

  function record({ metadata }: Pod, names: readonly string[]): void {
    const { uid, namespace = '', name: podName } = metadata;
    const before = setsOf.get(uid) ?? [];
    if (before.length === 0 && names.length === 0) return;
    for (const name of before) if (!names.includes(name)) remove(name, uid);
    for (const name of names) if (!before.includes(name)) add(name, uid, `${namespace}/${podName}`);
    if (names.length > 0) setsOf.set(uid, names);
    else setsOf.delete(uid);
  }

  function add(name: string, uid: string, podName: string): void {
    const found = missed.get(name) ?? new Map<string, string>();
    missed.set(name, found.set(uid, podName));
    onChange(name);
  }

  function remove(name: string, uid: string): void {
    const found = missed.get(name);
    found?.delete(uid);
    if (found?.size === 0) missed.delete(name);
    onChange(name);
  }

  function lookForSet(name: string): void {
    const set = sets.byName('', name);
    for (const pod of pods.all()) {
      const before = setsOf.get(pod.metadata.uid) ?? [];
      const others = before.filter((other) => other !== name);
      record(pod, set !== undefined && isMissed(set, pod) ? [...others, name] : others);
    }
  }

  function followSets(): void {
    byLabel.clear();
    canaries.clear();
    for (const set of sets.all()) {
      addToLabels(byLabel, set);
      const base = canaryBase(set);
      if (base !== undefined) canaries.set(base, [...(canaries.get(base) ?? []), set]);
    }
  }

  return {
    of: (setName) => missed.get(setName)?.values() ?? [],
    podChanged({ before, after }) {
      if (after !== undefined) look(after);
      else if (before !== undefined) record(before, []);
    },
    setChanged({ before, after }) {
      if (!isNews(before, after)) return;
      followSets();
      const concerned = [before, after].flatMap((set) => (set ? [set.metadata.name, canaryBase(set)] : []));
      for (const name of new Set(concerned)) if (name !== undefined) lookForSet(name);
    },
    namespaceChanged(name) {
      for (const pod of pods.all()) if (pod.metadata.namespace === name) look(pod);
    },
    rebuild() {
      missed.clear();
      setsOf.clear();
      followSets();
      for (const pod of pods.all()) look(pod);
    },
  };
}

/** Whether a change of a SidecarSet may change whom it has missed: status writes do not. */
function isNews(before: SidecarSet | undefined, after: SidecarSet | undefined): boolean {
  if (before === undefined || after === undefined) return true;
  return before.metadata.generation !== after.metadata.generation || canaryBase(before) !== canaryBase(after);
}

/** The names of SidecarSets by a label that their selector requires, as `key=value`. */
type SetsByLabel = Map<string, string[]>;

/** Stands for SidecarSets whose selector requires no label in particular. */
const anyLabel = '';

function addToLabels(byLabel: SetsByLabel, set: SidecarSet): void {
  for (const label of labelsOf(set)) {
    const names = byLabel.get(label) ?? [];
    names.push(set.metadata.name);
    byLabel.set(label, names);
  }
}

/** The SidecarSets that may select a pod: the work for a pod does not grow with the number of SidecarSets. */
function candidatesFor({ metadata }: Pod, byLabel: SetsByLabel): readonly string[] {
  const labels = Object.entries(metadata.labels ?? {});
  return [anyLabel, ...labels.map(([key, value]) => `${key}=${value}`)].flatMap((label) => byLabel.get(label) ?? []);
}

/** Every pod that the SidecarSet selects has one of these labels. */
function labelsOf({ spec }: SidecarSet): readonly string[] {
  const { matchLabels = {}, matchExpressions = [] } = spec.selector ?? {};
  const [equal] = Object.entries(matchLabels);
  if (equal !== undefined) return [`${equal[0]}=${equal[1]}`];
  const rule = matchExpressions.find(({ operator }) => operator === 'In');
  return rule === undefined ? [anyLabel] : [...new Set(rule.values)].map((value) => `${rule.key}=${value}`);
}
