import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The environment variable by which a run of Jest learns which of its tests are asked for. */
export const groupVariable = 'WINDLASS_TEST_GROUP';

/**
 * What tests of `npm run test:proof` are about. `load`: many requests, pods or objects at once. `by-hand`: what people do to
 * workflows and activities. `slow`: what is away, stands still or is rotated for long. `docs`: the commands of the documentation.
 */
export const topics = ['load', 'by-hand', 'slow', 'docs'] as const;

export type Topic = (typeof topics)[number];

/**
 * `together`: beside tests of other files. `alone`: with nobody else on the cluster, because they change what all share. A
 * topic: alone, too, and not in `npm test`.
 */
export type Group = 'together' | 'alone' | Topic;

/** Test files of one phase by group; a file with tests of several groups is in each of them. */
export type GroupedFiles = Readonly<Record<Group, readonly string[]>>;

export function isTopic(word: string): word is Topic {
  return topics.some((topic) => topic === word);
}

/**
 * Finds the test files of a folder whose path contains one of the patterns, regular expressions as Jest takes them; without
 * patterns all. What a file says decides its groups: see `test/support/groups.ts`.
 */
export function groupedFiles(root: string, folder: string, patterns: readonly string[]): GroupedFiles {
  const wanted = patterns.map((pattern) => new RegExp(pattern, 'i'));
  const files = globSync(`${folder}/**/*.test.ts`, { cwd: root })
    .filter((file) => wanted.length === 0 || wanted.some((pattern) => pattern.test(file)))
    .toSorted((a, b) => a.localeCompare(b));
  const groups = new Map(files.map((file) => [file, groupsIn(readFileSync(join(root, file), 'utf8'))]));
  const ofGroup = (group: Group) => files.filter((file) => groups.get(file)?.includes(group));
  return {
    together: ofGroup('together'),
    alone: ofGroup('alone'),
    load: ofGroup('load'),
    'by-hand': ofGroup('by-hand'),
    slow: ofGroup('slow'),
    docs: ofGroup('docs'),
  };
}

/** The groups of a test file, from its text. A file that names none is run together with others. */
export function groupsIn(text: string): readonly Group[] {
  const apart: readonly Group[] = [
    ...(/\bdescribeAlone\b/.test(text) ? (['alone'] as const) : []),
    ...topics.filter((topic) => new RegExp(`\\bdescribeProof\\(\\s*'${topic}'`).test(text)),
  ];
  return apart.length === 0 || /\bdescribeTogether\b/.test(text) ? ['together', ...apart] : apart;
}
