import type { ProjectFile } from './source.ts';

/**
 * What is true on one machine only: folders of the machines this is developed on, and where packages are fetched from,
 * which is the business of each machine's own configuration. Pieces, so that this file passes.
 */
const foreignWords = [
  ['', 'work', ''].join('/'),
  ['registry', 'npmjs', 'org'].join('.'),
  ['proxy', 'golang', 'org'].join('.'),
  ['sum', 'golang', 'org'].join('.'),
  ['deb', 'debian', 'org'].join('.'),
];

/** Every line that names a machine's own folders or its package registries. */
export function wordProblems(files: readonly ProjectFile[]): readonly string[] {
  return files.flatMap(({ path, text }) =>
    text
      .split('\n')
      .flatMap((line, index) =>
        foreignWords
          .filter((word) => contains(line, word))
          .map((word) => `${path}:${index + 1}: says "${word}", which is true on one machine only`),
      ),
  );
}

/** Only at the beginning of a path: a folder of that name in the project, or below a variable, is no machine's. */
function contains(line: string, word: string): boolean {
  for (let at = line.indexOf(word); at >= 0; at = line.indexOf(word, at + 1)) {
    if (!/[\w.$}*-]/.test(line[at - 1] ?? '')) return true;
  }
  return false;
}
