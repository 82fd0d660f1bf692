// Files that other processes may read at any time.
import { mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/**
 * Replaces a file atomically; leaves it untouched when its content is the same, since some programs watch their files.
 */
export function writeFile(file: string, text: string, mode = 0o600): void {
  if (readText(file) === text) return;
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(`${file}.new`, text, { mode });
  renameSync(`${file}.new`, file);
}

/** The same for a value as JSON. */
export function writeJson(file: string, value: unknown): void {
  writeFile(file, `${JSON.stringify(value, undefined, 2)}\n`);
}

/** Parses a JSON file; `undefined` when it is absent or invalid. */
export function readJson<T>(file: string): T | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as T;
  } catch {
    return undefined;
  }
}

/** The paths of the files in a folder; empty when it does not exist. */
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
