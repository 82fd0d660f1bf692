import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, describe, expect, it } from '@jest/globals';
import { root as checkout } from '../check/all.ts';
import { runChecks } from '../check/check.ts';
import { commandProblems } from '../check/command.ts';
import { projectOf, readProject } from '../check/project.ts';
import { bundleProblems } from '../check/workflow-bundle.ts';

const folders: string[] = [];

afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

function folderWith(files: Readonly<Record<string, string>>): string {
  const root = mkdtempSync(join(tmpdir(), 'windlass-check-'));
  folders.push(root);
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  return root;
}

describe('readProject', () => {
  it('reads text files everywhere but where tools write', () => {
    const root = folderWith({
      'README.md': 'hello',
      '.ci/run': '#!/bin/sh',
      'api/pod.ts': 'export const a = 1;',
      'logo.png': '\0',
      'node_modules/a/index.js': '',
      '.windlass/state.json': '',
    });
    const project = readProject(root);
    expect(project.files.map(({ path }) => path)).toEqual(['.ci/run', 'api/pod.ts', 'README.md']);
    expect(project.sources.map(({ path }) => path)).toEqual(['api/pod.ts']);
  });
});

describe('runChecks', () => {
  it('runs all of them, prints each with its problems, and counts one that throws as failed', async () => {
    const lines: string[] = [];
    const checks = [
      { name: 'fails', run: () => ['a.ts:1: is wrong'] },
      { name: 'throws', run: () => Promise.reject(new Error('no tool')) },
      { name: 'passes', run: () => [] },
    ];
    const results = await runChecks(checks, projectOf([]), (line) => lines.push(line.replace(/\d+\.\d/, '0.0')));
    expect(results.map(({ problems }) => problems)).toEqual([['a.ts:1: is wrong'], ['no tool'], []]);
    expect(lines).toEqual([
      '  ✗ fails (0.0 s)',
      '      a.ts:1: is wrong',
      '  ✗ throws (0.0 s)',
      '      no tool',
      '  ✓ passes (0.0 s)',
    ]);
  });

  it('reports a file that cannot be parsed with each check that needs it', async () => {
    const project = projectOf([{ path: 'api/broken.ts', text: 'const = 1' }]);
    const check = { name: 'parses', run: ({ sources }: typeof project) => sources.map(({ path }) => path) };
    const [result] = await runChecks([check], project, () => undefined);
    expect(result?.problems).toEqual([expect.stringContaining('Cannot parse "api/broken.ts"')]);
  });
});

describe('commandProblems', () => {
  it('is silent about a tool that succeeds, and repeats what one says that fails', async () => {
    const node = process.execPath;
    expect(await commandProblems('.', node, ['-e', 'console.log("fine")'])).toEqual([]);
    expect(await commandProblems('.', node, ['-e', 'console.error("drift"); process.exit(3)'])).toEqual([
      'drift',
      expect.stringContaining('ended with 3'),
    ]);
    expect(await commandProblems('.', './no-such-tool', [])).toEqual([expect.stringContaining('cannot be run')]);
  });
});

describe('bundleProblems', () => {
  function workflows(text: string): string {
    const root = folderWith({ 'workflows/index.ts': text });
    symlinkSync(join(checkout, 'node_modules'), join(root, 'node_modules'));
    return root;
  }

  it('accepts workflows that use only what the sandbox has', async () => {
    const root = workflows('export async function rest(): Promise<number> { return 1; }');
    expect(await bundleProblems(root)).toEqual([]);
  });

  it('names a module that workflow code may not use', async () => {
    const text = "import { readFileSync } from 'node:fs';\nexport const read = async () => readFileSync('x');";
    const problems = await bundleProblems(workflows(text));
    expect(problems[0]).toMatch(/^workflows\/index\.ts:1: cannot be bundled: ERROR in [\s\S]*"node:fs"/);
  });

  it('misses workflows that are not there', async () => {
    expect(await bundleProblems(folderWith({}))).toEqual([expect.stringContaining('is missing')]);
  });
});
