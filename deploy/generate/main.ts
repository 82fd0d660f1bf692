// npm run generate            writes CustomResourceDefinitions, rights, webhooks and reference pages
// npm run generate -- --check reports files that are out of date, and exits with 1 if there are any
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { driftOf, generatedFiles, generatedFolders } from './files.ts';

const root = join(import.meta.dirname, '../..');
const wanted = generatedFiles();
const drift = driftOf(wanted, presentFiles());

if (process.argv.includes('--check')) {
  for (const { path, what } of drift) console.error(`${path}: ${what}`);
  if (drift.length > 0) console.error('Run `npm run generate`');
  process.exitCode = drift.length > 0 ? 1 : 0;
} else {
  const contents = new Map(wanted.map(({ path, content }) => [path, content]));
  for (const { path } of drift) {
    const content = contents.get(path);
    if (content === undefined) rmSync(join(root, path));
    else write(path, content);
    console.log(`${content === undefined ? 'removed' : 'wrote'} ${path}`);
  }
}

function write(path: string, content: string): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), content);
}

function presentFiles(): ReadonlyMap<string, string> {
  const paths = generatedFolders.flatMap((folder) => {
    mkdirSync(join(root, folder), { recursive: true });
    return readdirSync(join(root, folder)).map((name) => `${folder}/${name}`);
  });
  return new Map(paths.map((path) => [path, readFileSync(join(root, path), 'utf8')]));
}
