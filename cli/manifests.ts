import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { parseAllDocuments, type Tags } from 'yaml';
import { isJsonList, isJsonObject, type JsonObject } from '../api/base/json.ts';
import { CommandFailed } from './failure.ts';

/** An object of a manifest, and its source. */
export interface ManifestObject {
  readonly source: string;
  readonly object: JsonObject;
}

export interface ManifestOptions {
  /** Files, folders, or `-` for standard input. */
  readonly files: readonly string[];
  readonly recursive: boolean;
  readonly readStdin: () => Promise<string>;
}

/** Every object of these manifests in order; lists are expanded. */
export async function readManifests({ files, recursive, readStdin }: ManifestOptions): Promise<ManifestObject[]> {
  const found: ManifestObject[] = [];
  for (const file of files) {
    for (const path of filesIn(file, recursive)) {
      const text = path === '-' ? await readStdin() : readText(path);
      found.push(...parseManifest(text, path === '-' ? 'STDIN' : path));
    }
  }
  return found;
}

/** The objects of one text in YAML or JSON. */
export function parseManifest(text: string, source: string): ManifestObject[] {
  const documents = parseAllDocuments(text, { version: '1.1', customTags: kubernetesTags });
  return [...documents].flatMap((document) => {
    const [problem] = document.errors;
    if (problem) throw new CommandFailed(`Cannot read "${source}": ${problem.message.split('\n', 1)[0]}`);
    const value: unknown = document.toJS();
    if (value === null || value === undefined) return [];
    return objectsIn(value, source).map((object) => ({ source, object }));
  });
}

function objectsIn(value: unknown, source: string): readonly JsonObject[] {
  if (!isJsonObject(value) || typeof value.kind !== 'string' || typeof value.apiVersion !== 'string') {
    throw new CommandFailed(`Cannot read "${source}": a document is not an object with apiVersion and kind`);
  }
  const isList = value.kind.endsWith('List') && isJsonList(value.items);
  return isList && isJsonList(value.items) ? value.items.flatMap((item) => objectsIn(item, source)) : [value];
}

/** kubectl reads YAML 1.1 without the types that JSON lacks: `0644` is a number, a date is a string. */
function kubernetesTags(tags: Tags): Tags {
  return tags.filter(
    (tag) =>
      typeof tag === 'string' || (tag.format !== 'TIME' && !/:(timestamp|binary|omap|set|pairs)$/.test(tag.tag ?? '')),
  );
}

function filesIn(file: string, recursive: boolean): readonly string[] {
  if (file === '-') return [file];
  if (!existsSync(file)) throw new CommandFailed(`the path "${file}" does not exist`);
  if (!statSync(file).isDirectory()) return [file];
  return readdirSync(file, { withFileTypes: true })
    .toSorted((left, right) => left.name.localeCompare(right.name))
    .flatMap((entry) => {
      const path = join(file, entry.name);
      if (entry.isDirectory()) return recursive ? filesIn(path, recursive) : [];
      return /\.(ya?ml|json)$/.test(entry.name) ? [path] : [];
    });
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new CommandFailed(`Cannot read "${path}": ${error instanceof Error ? error.message : String(error)}`);
  }
}
