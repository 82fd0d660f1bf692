import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The environment variable by which a run of Jest learns which of its tests are asked for. */
export const groupVariable = 'WINDLASS_TEST_GROUP';

/** The environment variable with the instances of the local platform for Jest's workers, one each. */
export const instancesVariable = 'WINDLASS_INSTANCES';

/** `together`: beside tests of other files. `alone`: with nobody else on the cluster, because they change what all share. */
export type Group = 'together' | 'alone';

/** Test files of one phase by group; a file with tests of both groups is in both. */
export type GroupedFiles = Readonly<Record<Group, readonly string[]>>;

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
  return { together: ofGroup('together'), alone: ofGroup('alone') };
}

/** The groups of a test file, from its text. A file that names none is run together with others. */
export function groupsIn(text: string): readonly Group[] {
  const isAlone = /\bdescribeAlone\b/.test(text);
  const isTogether = !isAlone || /\bdescribeTogether\b/.test(text);
  return [...(isTogether ? (['together'] as const) : []), ...(isAlone ? (['alone'] as const) : [])];
}
