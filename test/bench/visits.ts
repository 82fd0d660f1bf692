// Two subjects in turn: how pairs are taken.
import { measureStolen } from '../support/stolen.ts';
import { mostStolenPercent } from './figures.ts';
import type { Comparison, Pair } from './pairs.ts';

/** One visit to a subject: milliseconds, or what the figure says, by figure. `phase` is the share of the kubelets' second at which to begin. */
export type Visit = (phase: number) => Promise<Readonly<Record<string, number>>>;

/** Pairs in the order ABBA, so that whatever grows or shrinks meanwhile favours neither subject. */
export async function inPairs(visits: Record<keyof Pair, Visit>, wanted: number): Promise<readonly Comparison[]> {
  const pairs = new Map<string, Pair[]>();
  let taken = 0;
  let dropped = 0;
  while (taken < wanted && dropped < wanted) {
    const order = (taken + dropped) % 2 === 0 ? (['base', 'present'] as const) : (['present', 'base'] as const);
    const phase = (taken + 0.5) / wanted;
    const stolen = measureStolen();
    const results = new Map<keyof Pair, Readonly<Record<string, number>>>();
    for (const side of order) results.set(side, await visits[side](phase));
    if ((stolen() ?? 0) > mostStolenPercent) {
      dropped++;
      continue;
    }
    taken++;
    const present = results.get('present') ?? {};
    for (const [what, base] of Object.entries(results.get('base') ?? {})) {
      pairs.set(what, [...(pairs.get(what) ?? []), { base, present: present[what] ?? Number.NaN }]);
    }
    console.log(`${taken} of ${wanted} pairs${dropped > 0 ? `, ${dropped} dropped` : ''}: ${described(pairs)}`);
  }
  return [...pairs].map(([what, all]) => ({ what, pairs: all }));
}

function described(pairs: ReadonlyMap<string, readonly Pair[]>): string {
  return [...pairs]
    .flatMap(([what, all]) => {
      const last = all.at(-1);
      return last ? [`${what} ${Math.round(last.base)}/${Math.round(last.present)}`] : [];
    })
    .join(', ');
}
