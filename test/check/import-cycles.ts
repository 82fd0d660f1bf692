import type { SourceFile } from './source.ts';

/**
 * Every cycle of imports once, as `a.ts → b.ts → a.ts`. Imports of types do not count, since they vanish; a value that is
 * imported round in a circle may be undefined when it is first used.
 */
export function importCycles(sources: readonly SourceFile[]): readonly string[] {
  const importsOf = new Map(
    sources.map(({ path, imports }) => [path, imports.flatMap((i) => (i.typeOnly || !i.path ? [] : [i.path]))]),
  );
  const finished = new Set<string>();
  const cycles: string[] = [];

  function follow(path: string, trail: readonly string[]): void {
    const begun = trail.indexOf(path);
    if (begun >= 0) {
      cycles.push(`${path}:1: imports itself: ${[...trail.slice(begun), path].join(' → ')}`);
      return;
    }
    if (finished.has(path)) return;
    for (const next of importsOf.get(path) ?? []) follow(next, [...trail, path]);
    finished.add(path);
  }

  for (const { path } of sources) follow(path, []);
  return cycles;
}
