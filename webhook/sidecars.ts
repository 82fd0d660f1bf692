import { type JsonObject, objectOr } from '../api/base/json.ts';
import { timestamp } from '../api/base/time.ts';
import type { FeatureGates } from '../api/feature-gates.ts';
import { currentContent, revisionContent, setsForPod, wantedRevision } from '../api/sidecar-set/injection/choose.ts';
import { injectSets, type SetToInject } from '../api/sidecar-set/injection/inject.ts';
import { textOf } from '../api/sidecar-set/read.ts';
import type { SidecarSet } from '../api/sidecar-set/types.ts';
import { ChainDenied } from './review/chain.ts';
import type { SidecarSource } from './review/followed-sidecar-sets.ts';

export interface SidecarSurroundings {
  readonly gates: Pick<FeatureGates, 'EnableSortSidecarContainerByName'>;
  /** The request's namespace. */
  readonly namespace: string;
  readonly sidecars: SidecarSource;
  readonly now: () => number;
  /** From 0 to 1, different each time: for policy Partial (SCS-93). */
  readonly draw: () => number;
  /** Adds a warning to the answer. */
  readonly warn: (text: string) => void;
}

/** Adds the containers of the SidecarSets that select the pod. Throws ChainDenied where it must not start without. */
export async function withSidecars(pod: JsonObject, surroundings: SidecarSurroundings): Promise<JsonObject> {
  const { gates, sidecars, now, draw, warn } = surroundings;
  const metadata = objectOr(pod.metadata);
  // SCS-2: a new pod may not contain its namespace yet.
  const namespace = textOf(metadata.namespace) || surroundings.namespace || 'default';
  const sets = sidecars.inNamespace(namespace);
  if (sets.length === 0) return pod;
  // Not copied: a pod may have as many as it likes. The API server has checked that they are texts.
  const labels = objectOr(metadata.labels) as Readonly<Record<string, string>>;
  const needsNamespace = sets.some(({ spec }) => spec.namespaceSelector !== undefined);
  const namespaceLabels = needsNamespace ? await sidecars.namespaceLabels(namespace, pod) : undefined;
  const selecting = setsForPod(sets, { labels, namespaceLabels });
  if (selecting.length === 0) return pod;
  if (isInactive(pod)) {
    warn(
      'no SidecarSet is injected: the manifest is that of a pod that has ended; leave out status and deletionTimestamp',
    );
    return pod;
  }

  const toInject = selecting.map((set) => ({ set, chosen: contentOf(set, labels, sidecars, draw) }));
  const result = injectSets(pod, toInject, { sort: gates.EnableSortSidecarContainerByName, now: timestamp(now()) });
  if (result.kind === 'rejected') {
    throw new ChainDenied(`Cannot inject SidecarSet "${result.failure.set}": ${result.failure.why}`);
  }
  for (const { set, why } of result.ignored) warn(`SidecarSet "${set}" is not injected: ${why}`);
  return result.pod;
}

/** SCS-4. */
function isInactive({ metadata, status }: JsonObject): boolean {
  const phase = objectOr(status).phase;
  return phase === 'Succeeded' || phase === 'Failed' || textOf(objectOr(metadata).deletionTimestamp) !== '';
}

function contentOf(
  set: SidecarSet,
  labels: Readonly<Record<string, string>>,
  sidecars: SidecarSource,
  draw: () => number,
): SetToInject['chosen'] {
  const wanted = wantedRevision(set, labels, draw);
  if (wanted === undefined) return currentContent(set);
  const revision = sidecars.revision(wanted);
  const what = 'name' in wanted ? `"${wanted.name}"` : `with custom version "${wanted.customVersion}"`;
  if (revision === undefined) return { problem: `there is no ControllerRevision ${what}` };
  return revisionContent(revision) ?? { problem: `ControllerRevision ${what} has no content of a SidecarSet` };
}
