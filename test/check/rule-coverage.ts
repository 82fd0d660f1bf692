import type { Project } from './project.ts';
import type { SourceFile } from './source.ts';

/** Stands in `docs/kinds/<kind>.md` of a kind that counts as finished. */
export const finishedMark = '<!-- rules: finished -->';

const ruleId = /\b[A-Z]{2,5}-\d+[a-z]?\b/g;

/**
 * For each kind that counts as finished: the rules of its page that no test names in its title, and titles that name a
 * rule which no such page has.
 */
export function ruleCoverageProblems({ files, sources }: Project): readonly string[] {
  const titled = titledRules(sources);
  const pages = files
    .filter(({ path, text }) => /^docs\/kinds\/[^/]+\.md$/.test(path) && text.includes(finishedMark))
    .map(({ path, text }) => ({ path, rules: rulesOf(text) }));
  // Two pages may share the rules of one specification.
  const known = new Map(pages.flatMap(({ path, rules }) => [...rules.keys()].map((id) => [id, path] as const)));
  const pageOf = new Map([...known].map(([id, path]) => [prefixOf(id), path]));
  return [
    ...pages.flatMap(({ path, rules }) => {
      if (rules.size === 0) return [`${path}:1: counts as finished but has no table of rules`];
      const missing = [...rules].filter(([id]) => !titled.has(id));
      return missing.map(([id, line]) => `${path}:${line}: no test names ${id} in its title`);
    }),
    ...[...titled]
      .filter(([id]) => pageOf.has(prefixOf(id)) && !known.has(id))
      .map(([id, testPath]) => `${testPath}:1: names ${id}, which ${pageOf.get(prefixOf(id))} does not have`),
  ];
}

/** Rule to line number: the IDs in the first cell of a table's rows. */
function rulesOf(page: string): ReadonlyMap<string, number> {
  const rules = new Map<string, number>();
  for (const [index, line] of page.split('\n').entries()) {
    const cell = /^\s*\|([^|]*)\|/.exec(line)?.[1] ?? '';
    for (const [id] of cell.matchAll(ruleId)) rules.set(id, index + 1);
  }
  return rules;
}

/** Rule to the test file that names it: `CRR-12: completes when …`, or `CRR-12, CRR-13: …`. */
function titledRules(sources: readonly SourceFile[]): ReadonlyMap<string, string> {
  const titled = new Map<string, string>();
  for (const { path, textCalls } of sources.filter((source) => /^test\/.*\.test\.ts$/.test(source.path))) {
    for (const { callee, text } of textCalls) {
      if (!['it', 'test', 'describe'].includes(callee)) continue;
      const [named = ''] = text.split(':');
      for (const [id] of named.matchAll(ruleId)) titled.set(id, path);
    }
  }
  return titled;
}

function prefixOf(id: string): string {
  return id.slice(0, id.indexOf('-'));
}
