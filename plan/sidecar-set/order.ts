// The order in which pods are updated: by worth, by priority, then scattered (SCS-170 to SCS-174).

import { entryOf } from '../../api/base/json.ts';
import { compareGoStrings } from '../../api/base/json-go.ts';
import { mostTerms } from '../../api/fleet/update-order.ts';
import { byPriority, byWorth, inOrder } from '../fleet/order.ts';
import { type ScatterTerm, scatter } from '../fleet/scatter.ts';
import type { ClassifiedPod } from './classify.ts';
import type { SidecarTarget } from './target.ts';

/** The waiting pods in the order of their update. Scattering counts all managed pods. Ties: by namespace and name. */
export function updateOrder(
  { strategy }: Pick<SidecarTarget, 'strategy'>,
  managed: readonly ClassifiedPod[],
): readonly ClassifiedPod[] {
  const ranked = managed
    .filter(({ place }) => place.kind === 'waiting')
    .map((classified) => ({ classified, pod: classified.pod, name: placeNameOf(classified) }))
    .toSorted(inOrder(byWorth))
    .toSorted(byPriority(strategy.priorityStrategy))
    .map(({ classified }) => classified);
  return scatter(ranked, scatterTerms(strategy, managed), {
    labelValue: labelOf,
    all: managed,
  });
}

/** By namespace and name. */
export function byPlace(left: ClassifiedPod, right: ClassifiedPod): number {
  return compareGoStrings(placeNameOf(left), placeNameOf(right));
}

function placeNameOf({ pod: { metadata } }: ClassifiedPod): string {
  return `${metadata.namespace ?? ''}/${metadata.name}`;
}

/** SCS-173: a term with the value `*` stands for one term for each value of the label. No term counts twice. */
function scatterTerms(
  { scatterStrategy = [] }: SidecarTarget['strategy'],
  managed: readonly ClassifiedPod[],
): readonly ScatterTerm[] {
  const terms = new Map<string, ScatterTerm>();
  for (const { key, value } of scatterStrategy.slice(0, mostTerms)) {
    for (const each of value === '*' ? valuesOf(key, managed) : [value]) {
      terms.set(`${key}=${each}`, { key, value: each });
    }
  }
  return [...terms.values()];
}

function valuesOf(key: string, managed: readonly ClassifiedPod[]): readonly string[] {
  const values = new Set(managed.map((pod) => labelOf(pod, key)));
  values.delete('');
  return [...values].toSorted(compareGoStrings);
}

function labelOf({ pod }: ClassifiedPod, key: string): string {
  return entryOf(pod.metadata.labels, key) ?? '';
}
