import { join } from 'node:path';
import type { Check } from './check.ts';
import { commandProblems } from './command.ts';
import { environmentProblems } from './environment.ts';
import { fileNameProblems } from './file-names.ts';
import { importCircles } from './import-circles.ts';
import { importProblems } from './import-rules.ts';
import { impurities } from './purity.ts';
import { ruleCoverageProblems } from './rule-coverage.ts';
import { wordProblems } from './words.ts';
import { bundleProblems } from './workflow-bundle.ts';

/** The folder of this checkout. */
export const root = join(import.meta.dirname, '../..');

const tool = (name: string) => join(root, 'node_modules/.bin', name);

/** Everything that holds for the project as a whole. */
export const checks: readonly Check[] = [
  {
    name: 'generated files are up to date',
    run: () => commandProblems(root, process.execPath, ['deploy/generate/main.ts', '--check']),
  },
  { name: 'types fit', run: () => commandProblems(root, tool('tsc'), ['--noEmit', '--pretty', 'false']) },
  {
    name: 'nothing to lint or format',
    run: () => commandProblems(root, tool('biome'), ['check', '--error-on-warnings', '--colors=off', '.']),
  },
  { name: 'imports point one way', run: ({ sources }) => importProblems(sources) },
  { name: 'no files import one another in a circle', run: ({ sources }) => importCircles(sources) },
  { name: 'api and plan are pure', run: ({ sources }) => impurities(sources) },
  { name: 'options are read in one place', run: ({ sources }) => environmentProblems(sources) },
  { name: 'files are named after what they hold', run: ({ sources }) => fileNameProblems(sources) },
  { name: 'no machine-specific paths or hosts', run: ({ files }) => wordProblems(files) },
  { name: 'every rule of a finished kind has its test', run: ruleCoverageProblems },
  { name: 'workflows can be bundled', run: () => bundleProblems(root) },
];
