import { describe, expect, it } from '@jest/globals';
import { readSource, type SourceFile } from '../check/source.ts';

function read(...lines: readonly string[]): SourceFile {
  return readSource({ path: 'watcher/kinds/pod.ts', text: lines.join('\n') });
}

describe('readSource', () => {
  it('finds imports, re-exports and dynamic imports, and the files they mean', () => {
    const { imports } = read(
      '// ünïcödé moves bytes, not lines',
      "import fs from 'node:fs';",
      "import type { Pod } from '../../api/pod.ts';",
      "import { type Pod as P } from '../../api/pod.ts';",
      "export * from './node.ts';",
      "export type { Node } from './node.ts';",
      "const later = await import('../late.ts');",
      'export { later };',
    );
    expect(imports).toEqual([
      { specifier: 'node:fs', typeOnly: false, line: 2 },
      { specifier: '../../api/pod.ts', path: 'api/pod.ts', typeOnly: true, line: 3 },
      // Node strips the type but loads the module.
      { specifier: '../../api/pod.ts', path: 'api/pod.ts', typeOnly: false, line: 4 },
      { specifier: './node.ts', path: 'watcher/kinds/node.ts', typeOnly: false, line: 5 },
      { specifier: './node.ts', path: 'watcher/kinds/node.ts', typeOnly: true, line: 6 },
      { specifier: '../late.ts', path: 'watcher/late.ts', typeOnly: false, line: 7 },
    ]);
  });

  it('finds uses of globals, and not what only has their name', () => {
    const { globals } = read(
      'const now = Date.now();',
      'const today = new Date();',
      'const then = new Date(now) as Date;',
      "const home = process.env['HOME'];",
      'function run(process: { env: string }): Date { return process.env === home ? today : then; }',
      'const mine = { Date: 1, fetch: run };',
      '// Math.random() in a comment',
      "const text = 'setTimeout';",
      'mine.fetch(text);',
      `export const chance = \`\${Math.random()}\`;`,
    );
    expect(globals).toEqual([
      { text: 'Date.now', line: 1 },
      { text: 'new Date()', line: 2 },
      { text: 'new Date(…)', line: 3 },
      { text: 'process.env', line: 4 },
      { text: 'Math.random', line: 10 },
    ]);
  });

  it('looks into arguments of what it has found', () => {
    expect(read('const d = new Date(Math.random());').globals).toEqual([
      { text: 'new Date(…)', line: 1 },
      { text: 'Math.random', line: 1 },
    ]);
  });

  it('finds the titles of tests, also behind each', () => {
    const { textCalls } = read(
      "describe('a kind', () => {",
      "  it('CRR-1: does', () => undefined);",
      "  it.each([1, 2])('CRR-2: does %s', () => undefined);",
      `  it.each\`a | b\`(\`CRR-3: does \${1}\`, () => undefined);`,
      '});',
    );
    expect(textCalls).toEqual([
      { callee: 'describe', text: 'a kind' },
      { callee: 'it', text: 'CRR-1: does' },
      { callee: 'it', text: 'CRR-2: does %s' },
      { callee: 'it', text: 'CRR-3: does …' },
    ]);
  });

  it('names the file that cannot be parsed', () => {
    expect(() => read('const = 1')).toThrow('Cannot parse "watcher/kinds/pod.ts": ');
  });
});
