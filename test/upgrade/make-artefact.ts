import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { gzipSync } from 'node:zlib';
import { build, type Plugin } from 'esbuild';
import { readJson, writeJson } from '../../deploy/local/files.ts';
import { repository } from '../../deploy/local/instance.ts';
import type { Progress } from '../../deploy/local/progress.ts';
import { run } from '../../deploy/local/run.ts';
import { buildIdOf } from '../../workers/workflow-bundle.ts';
import { freezeCorpus } from '../support/release-corpus.ts';
import { git, hashOf, unpackSources } from '../support/version.ts';
import { artefactFile, inArtefact, installedSdk, type Release } from './artefact.ts';

/** Each artefact stays in the history of the repository for ever. */
const mostBytes = 3 * 1024 * 1024;

/** An artefact as it was written. */
export interface MadeArtefact {
  readonly release: Release;
  readonly file: string;
  readonly bytes: number;
}

/**
 * Makes the artefact of a commit, by any name that git knows for it, and freezes its histories. The same commit gives the
 * same bytes, but for positions in the source map of its workflows when it is made in another folder.
 */
export async function makeArtefact(commit: string, progress: Progress): Promise<MadeArtefact> {
  const hash = await hashOf(commit);
  const work = join(repository, '.windlass/releases', `${hash}.making`);
  const [sources, content] = [join(work, 'sources'), join(work, 'content')];
  rmSync(work, { recursive: true, force: true });
  try {
    await progress.step(`Sources of ${hash.slice(0, 12)}`, () => unpackSources(hash, sources, 'copied'));
    const bundles = await progress.step('Bundles of its roles', () => bundlesOf(sources));
    const release = describe(sources, bundles, hash);
    await progress.step('Artefact', async () => {
      // only a Node that is told to reads source maps, and they are a third of all
      copyFiles(bundles, join(content, inArtefact.roles), (file) => !file.endsWith('.map'));
      placeless(join(content, inArtefact.roles, 'workflows.js'), sources);
      for (const folder of inArtefact.manifests) copyFiles(join(sources, folder), join(content, folder), isManifest);
      copyFileSync(join(sources, inArtefact.lock), join(content, inArtefact.lock));
      await bundleRolePart(sources, join(content, inArtefact.rolePart));
      writeJson(join(content, inArtefact.release), release);
    });
    const bytes = await packed(content, await git('show', '--no-patch', '--format=%ct', hash));
    if (bytes.length > mostBytes) throw new Error(tooLarge(release, bytes.length, content));
    freezeCorpus(release.version, join(sources, 'test/replay/histories'));
    const file = artefactFile(release.version);
    writeFileSync(file, bytes);
    return { release, file, bytes: bytes.length };
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** Bundles the roles by the release's own code, in its folder: the names of modules in bundles depend on it. */
async function bundlesOf(sources: string): Promise<string> {
  const script = `
    import { makeRoleBundles } from './deploy/roles/bundle.ts';
    console.log(await makeRoleBundles());`;
  const said = await run(process.execPath, ['--input-type=module', '--eval', script], { cwd: sources });
  return said.trim().split('\n').at(-1) ?? '';
}

/** The source map of the workflows names their files; here by their places in the sources, wherever those lay. */
function placeless(bundle: string, sources: string): void {
  const text = readFileSync(bundle, 'utf8');
  const mark = text.indexOf('base64,', text.lastIndexOf('//# sourceMappingURL=')) + 'base64,'.length;
  const map = JSON.parse(Buffer.from(text.slice(mark), 'base64').toString('utf8')) as SourceMap;
  const short = map.sources.map((name) => name.replaceAll(`${sources}/`, ''));
  const json = JSON.stringify({ ...map, file: basename(bundle), sources: short });
  writeFileSync(bundle, `${text.slice(0, mark)}${Buffer.from(json).toString('base64')}\n`);
}

interface SourceMap {
  readonly sources: readonly string[];
}

function describe(sources: string, bundles: string, commit: string): Release {
  const { version } = readJson<{ readonly version: string }>(join(sources, 'package.json')) ?? { version: '0.0.0' };
  return {
    version: `${version}-${commit.slice(0, 7)}`,
    commit,
    buildId: buildIdOf(readFileSync(join(bundles, 'workflows.js'), 'utf8')),
    node: process.version,
    sdk: installedSdk(sources),
  };
}

/** The release's `rolePart` and what it needs of the release's own files; what it imports of packages it does not use. */
async function bundleRolePart(sources: string, outfile: string): Promise<void> {
  await build({
    stdin: { contents: `export { rolePart } from './deploy/local/roles.ts';`, resolveDir: sources },
    outfile,
    bundle: true,
    platform: 'node',
    target: 'node22',
    format: 'esm',
    plugins: [packagesWithoutEffects],
    logLevel: 'warning',
  });
}

/** An import of a package of which nothing is used is left out. */
const packagesWithoutEffects: Plugin = {
  name: 'packages without effects',
  setup({ onResolve }) {
    onResolve({ filter: /^[^./]/ }, ({ path }) => ({ path, external: true, sideEffects: false }));
  },
};

function isManifest(file: string): boolean {
  return file.endsWith('.yaml');
}

/** Nothing where there is no such folder: earlier releases have fewer. */
function copyFiles(from: string, to: string, wanted: (file: string) => boolean): void {
  if (!existsSync(from)) return;
  for (const file of filesBelow(from).filter(wanted)) {
    mkdirSync(dirname(join(to, file)), { recursive: true });
    copyFileSync(join(from, file), join(to, file));
  }
}

function filesBelow(folder: string): readonly string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true }).flatMap((entry) =>
    entry.isFile() ? [relative(folder, join(entry.parentPath, entry.name))] : [],
  );
}

/** All of a folder, with nothing in it of who packs it, where and when. */
async function packed(folder: string, commitTime: string): Promise<Buffer> {
  const archive = `${folder}.tar`;
  await run('tar', [
    '--create',
    `--file=${archive}`,
    `--directory=${folder}`,
    '--format=ustar',
    '--sort=name',
    `--mtime=@${commitTime.trim()}`,
    ...['--owner=0', '--group=0', '--numeric-owner', '--mode=u=rwX,go=rX'],
    '.',
  ]);
  return gzipSync(readFileSync(archive), { level: 9 });
}

function tooLarge({ version }: Release, bytes: number, content: string): string {
  const largest = filesBelow(content)
    .map((file) => ({ file, bytes: statSync(join(content, file)).size }))
    .toSorted((a, b) => b.bytes - a.bytes)
    .slice(0, 5)
    .map((one) => `${one.file} ${one.bytes}`);
  return (
    `Cannot make the artefact of release "${version}": it has ${bytes} bytes, more than ${mostBytes}; ` +
    `its largest files before compression are ${largest.join(', ')}`
  );
}
