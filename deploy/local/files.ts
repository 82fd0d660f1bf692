// Files that other processes read while we write them.
import { mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Makes a file say `text`, in one step; leaves it untouched when it does already, since some programs watch theirs. */
export function writeFile(file: string, text: string, mode = 0o600): void {
  if (readText(file) === text) return;
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(`${file}.new`, text, { mode });
  renameSync(`${file}.new`, file);
}

/** Like `writeFile`, for values of ours. */
export function writeJson(file: string, value: unknown): void {
  writeFile(file, `${JSON.stringify(value, undefined, 2)}\n`);
}

/** Parses a JSON file of ours; `undefined` when it is absent or cannot be read. */
export function readJson<T>(file: string): T | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as T;
  } catch {
    return undefined;
  }
}

/** Files of a folder with their whole path; none when there is no such folder. */
export function filesIn(folder: string): string[] {
  try {
    return readdirSync(folder).map((name) => join(folder, name));
  } catch {
    return [];
  }
}

function readText(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}
