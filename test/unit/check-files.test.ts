import { describe, expect, it } from '@jest/globals';
import { environmentProblems } from '../check/environment.ts';
import { fileNameProblems } from '../check/file-names.ts';
import { projectOf } from '../check/project.ts';
import { impurities } from '../check/purity.ts';
import { finishedMark, ruleCoverageProblems } from '../check/rule-coverage.ts';
import { wordProblems } from '../check/words.ts';

function tree(files: Readonly<Record<string, string>>) {
  return projectOf(Object.entries(files).map(([path, text]) => ({ path, text })));
}

describe('impurities', () => {
  it.each([
    ["import { readFileSync } from 'node:fs';", 'imports "node:fs"'],
    ["import { readFileSync } from 'fs';", 'imports "fs"'],
    ["import { request } from 'undici';", 'imports "undici"'],
    ["import { sleep } from '@temporalio/workflow';", 'imports "@temporalio/workflow"'],
    ["export const got = fetch('http://x');", 'uses fetch'],
    ['export const now = Date.now();', 'uses Date.now'],
    ['export const now = new Date();', 'uses new Date()'],
    ['export const clock = Date;', 'uses Date'],
    ['export const chance = Math.random();', 'uses Math.random'],
    ['export const home = process.env.HOME;', 'uses process.env'],
    ['setTimeout(() => undefined, 1);', 'uses setTimeout'],
    ["console.log('here');", 'uses console.log'],
  ])('refuses %s', (text, problem) => {
    for (const path of ['api/pod.ts', 'plan/restart.ts']) {
      expect(impurities(tree({ [path]: text }).sources)).toEqual([`${path}:1: must stay pure, but ${problem}`]);
    }
    expect(impurities(tree({ 'watcher/starter.ts': text }).sources)).toEqual([]);
  });

  it('allows what follows from its arguments', () => {
    const text = [
      "import type { Duration } from '@temporalio/common';",
      "import { Type } from 'typebox';",
      'export const at = (text: string): Date => new Date(text);',
      'export const larger = (a: number, b: number) => Math.max(a, b, Date.parse("2026-01-01"));',
      'export type Timer = ReturnType<typeof setTimeout>;',
    ].join('\n');
    expect(impurities(tree({ 'api/time.ts': text }).sources)).toEqual([]);
  });
});

describe('environmentProblems', () => {
  const text = 'export const home = process.env.HOME;';

  it('finds a reader of the environment', () => {
    expect(environmentProblems(tree({ 'watcher/main.ts': text }).sources)).toEqual([
      'watcher/main.ts:1: reads process.env; options are read in process/config.ts only',
    ]);
    const bracket = tree({ 'daemon/main.ts': "export const a = process['argv'];" }).sources;
    expect(environmentProblems(bracket)).toHaveLength(1);
  });

  it('lets the one place read it, and tools', () => {
    const files = { 'process/config.ts': text, 'deploy/local/main.ts': text, 'test/run.ts': text };
    expect(environmentProblems(tree(files).sources)).toEqual([]);
  });
});

describe('fileNameProblems', () => {
  it.each([
    'api/util.ts',
    'workflows/common/a.ts',
    'watcher/helpers.ts',
    'test/utils/x.ts',
    'test/unit/helpers.test.ts',
  ])('refuses %s, which says nothing', (path) => {
    expect(fileNameProblems(tree({ [path]: '' }).sources)).toEqual([expect.stringContaining('the name says nothing')]);
  });

  it('refuses what is not in kebab-case', () => {
    const problems = fileNameProblems(tree({ 'api/podState.ts': '', 'api/well_known.ts': '' }).sources);
    expect(problems).toEqual([
      'api/podState.ts:1: "podState.ts" is not in kebab-case',
      'api/well_known.ts:1: "well_known.ts" is not in kebab-case',
    ]);
  });

  it('accepts the names that we have', () => {
    const files = {
      'api/well-known.ts': '',
      'test/unit/a-b.test.ts': '',
      'jest.config.js': '',
      'deploy/local/b.mjs': '',
    };
    expect(fileNameProblems(tree(files).sources)).toEqual([]);
  });
});

describe('wordProblems', () => {
  const folder = ['', 'work', ''].join('/');

  it('finds folders of a machine and package registries', () => {
    const text = ['fine', `see ${folder}main`, ['https://registry', 'npmjs', 'org/'].join('.')].join('\n');
    expect(wordProblems([{ path: 'README.md', text }])).toEqual([
      expect.stringContaining(`README.md:2: says "${folder}"`),
      expect.stringContaining('README.md:3: says "registry.'),
    ]);
  });

  it('lets folders of the project have any name', () => {
    expect(wordProblems([{ path: 'a.ts', text: `at .${folder}x, \${base}${folder}x and *${folder}x` }])).toEqual([]);
  });
});

describe('ruleCoverageProblems', () => {
  const page = ['| Rule | Says |', '|--|--|', '| CRR-1 | starts |', '| CRR-2, CRR-3 | goes on |', 'Text on CRR-9.'];
  const finished = [...page, finishedMark].join('\n');
  const titles = (...names: readonly string[]) => names.map((name) => `it('${name}', () => undefined);`).join('\n');

  it('names the rules of a finished kind that no title names', () => {
    const files = { 'docs/kinds/crr.md': finished, 'test/unit/crr.test.ts': titles('CRR-1: starts', 'CRR-3: goes on') };
    expect(ruleCoverageProblems(tree(files))).toEqual(['docs/kinds/crr.md:4: no test names CRR-2 in its title']);
  });

  it('takes several rules in one title, and none from what follows the colon', () => {
    const files = { 'docs/kinds/crr.md': finished, 'test/unit/crr.test.ts': titles('CRR-1, CRR-2: differ from CRR-3') };
    expect(ruleCoverageProblems(tree(files))).toEqual(['docs/kinds/crr.md:4: no test names CRR-3 in its title']);
  });

  it('names a title with a rule that its page does not have', () => {
    const text = titles('CRR-1: a', 'CRR-2: b', 'CRR-3: c', 'CRR-4: d', 'FG-4: e');
    expect(ruleCoverageProblems(tree({ 'docs/kinds/crr.md': finished, 'test/unit/crr.test.ts': text }))).toEqual([
      'test/unit/crr.test.ts:1: names CRR-4, which docs/kinds/crr.md does not have',
    ]);
  });

  it('asks nothing of a kind that is not finished', () => {
    expect(ruleCoverageProblems(tree({ 'docs/kinds/crr.md': page.join('\n') }))).toEqual([]);
  });

  it('does not believe a finished kind without rules', () => {
    expect(ruleCoverageProblems(tree({ 'docs/kinds/crr.md': finishedMark }))).toEqual([
      'docs/kinds/crr.md:1: counts as finished but has no table of rules',
    ]);
  });
});
