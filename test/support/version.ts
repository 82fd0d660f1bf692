// Versions of Windlass that run one after the other on one cluster: the present one, and that of a commit, with its
// sources in a folder of their own and its roles bundled by its own code.
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { repository } from '../../deploy/local/instance.ts';
import type { RoleSource } from '../../deploy/local/platform.ts';
import type { Progress } from '../../deploy/local/progress.ts';
import { run } from '../../deploy/local/run.ts';

/** A version whose roles can be run. */
export interface Version extends RoleSource {
  /** Short hash of the commit, or version of the release; `this` for the current sources. */
  readonly name: string;
}

/** The current sources. */
export async function presentVersion(progress: Progress): Promise<Version> {
  return await versionIn(repository, 'this', progress);
}

/** The version of a commit, by any name that git knows for it. */
export async function versionAt(commit: string, progress: Progress): Promise<Version> {
  const hash = (await hashOf(commit)).slice(0, 12);
  const folder = join(repository, '.windlass', 'versions', hash);
  if (!existsSync(folder)) await progress.step(`Sources of ${hash}`, () => unpackSources(hash, folder, 'shared'));
  return await versionIn(folder, hash, progress);
}

/** The full hash of a commit, by any name that git knows for it. */
export async function hashOf(commit: string): Promise<string> {
  return (await git('rev-parse', '--verify', '--end-of-options', `${commit}^{commit}`)).trim();
}

/** The output of git. */
export function git(...args: readonly string[]): Promise<string> {
  return run('git', args, { cwd: repository });
}

/**
 * Writes the sources of a commit into a folder atomically, with its npm packages. If they are those of this checkout
 * they are shared: by a link to their folder, or `copied` as hard links, because bundlers name modules by their real
 * path.
 */
export async function unpackSources(commit: string, folder: string, packages: 'shared' | 'copied'): Promise<void> {
  const part = `${folder}.part`;
  rmSync(part, { recursive: true, force: true });
  mkdirSync(part, { recursive: true });
  const archive = `${part}.tar`;
  await git('archive', '--output', archive, commit);
  await run('tar', ['--extract', '--file', archive, '--directory', part]);
  rmSync(archive);
  const lock = (root: string): string => readFileSync(join(root, 'package-lock.json'), 'utf8');
  const [present, own] = [join(repository, 'node_modules'), join(part, 'node_modules')];
  if (lock(part) !== lock(repository)) await run('npm', ['ci', '--no-audit', '--no-fund'], { cwd: part });
  else if (packages === 'shared') symlinkSync(present, own);
  else await run('cp', ['--archive', '--link', present, own]);
  renameSync(part, folder);
}

async function versionIn(root: string, name: string, progress: Progress): Promise<Version> {
  // Each version uses its own code for this, as it knows the flags and manifests of its roles.
  const local = (file: string): string => join(root, 'deploy/local', file);
  const roles: typeof import('../../deploy/local/roles.ts') & EarlierRoles = await import(local('roles.ts'));
  const { applyManifests: earlier } = roles;
  const applyManifests: RoleSource['applyManifests'] = earlier
    ? ({ kubeconfig, webhookUrl, cacheFolder }) => earlier(kubeconfig, webhookUrl, cacheFolder)
    : ((await import(local('manifests.ts'))) as typeof import('../../deploy/local/manifests.ts')).applyManifests;
  return { name, bundles: await roles.roleBundles(progress), applyManifests, rolePart: roles.rolePart };
}

/** The exports of versions before manifests.ts. */
interface EarlierRoles {
  readonly applyManifests?: (kubeconfig: string, webhookUrl: string, cacheFolder: string) => Promise<void>;
}
