import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type ProjectFile, readSource, type SourceFile } from './source.ts';

/** What the checks look at. */
export interface Project {
  /** All text files, except what tools made. */
  readonly files: readonly ProjectFile[];
  /** Our own TypeScript and JavaScript among them, tests included. */
  readonly sources: readonly SourceFile[];
}

/** A project of these files. Throws on reading `sources`, naming the file, when one cannot be parsed. */
export function projectOf(files: readonly ProjectFile[]): Project {
  let sources: readonly SourceFile[] | undefined;
  return {
    files,
    get sources() {
      sources ??= files.filter(({ path }) => /\.m?[tj]s$/.test(path)).map(readSource);
      return sources;
    },
  };
}

/** The project in a folder. */
export function readProject(root: string): Project {
  return projectOf(readFolder(root, ''));
}

const notOurs = new Set(['node_modules', '.git', '.windlass', 'dist', 'package-lock.json']);

function readFolder(root: string, folder: string): readonly ProjectFile[] {
  return readdirSync(join(root, folder), { withFileTypes: true })
    .filter((entry) => !notOurs.has(entry.name))
    .toSorted((a, b) => a.name.localeCompare(b.name))
    .flatMap((entry) => {
      const path = folder === '' ? entry.name : `${folder}/${entry.name}`;
      if (entry.isDirectory()) return readFolder(root, path);
      if (!entry.isFile()) return [];
      const text = readFileSync(join(root, path), 'utf8');
      return text.includes('\0') ? [] : [{ path, text }];
    });
}
