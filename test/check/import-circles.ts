import type { SourceFile } from './source.ts';

/** Every circle of imports, as all files that reach one another. Types count: who reads one file has to read them all. */
export function importCircles(sources: readonly SourceFile[]): readonly string[] {
  const imported = new Map(
    sources.map(({ path, imports }) => [path, imports.flatMap((one) => (one.path === undefined ? [] : [one.path]))]),
  );
  return circlesIn(imported).map((files) => {
    const sorted = files.toSorted((left, right) => left.localeCompare(right));
    return `${sorted[0]}: these files import one another in a circle: ${sorted.join(', ')}`;
  });
}

/** The groups of more than one node of which each reaches each other one (Tarjan's algorithm). */
function circlesIn(edges: ReadonlyMap<string, readonly string[]>): readonly (readonly string[])[] {
  const found: string[][] = [];
  const order = new Map<string, number>();
  const lowest = new Map<string, number>();
  const open: string[] = [];
  const visit = (node: string): number => {
    const at = order.size;
    order.set(node, at);
    let low = at;
    open.push(node);
    for (const next of edges.get(node) ?? []) {
      if (!order.has(next)) low = Math.min(low, visit(next));
      else if (open.includes(next)) low = Math.min(low, lowest.get(next) ?? order.get(next) ?? low);
    }
    lowest.set(node, low);
    if (low === at) {
      const group = open.splice(open.indexOf(node));
      if (group.length > 1) found.push(group);
    }
    return low;
  };
  for (const node of edges.keys()) if (!order.has(node)) visit(node);
  return found;
}
