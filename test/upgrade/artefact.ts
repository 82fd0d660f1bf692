// A release as an artefact: `test/upgrade/<version>.tar.gz` holds what a cluster needs to run it, without its sources. So
// the present version is tried beside earlier ones also where git does not have their commits, as in a shallow clone.
import { createHash } from 'node:crypto';
import { existsSync, globSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { readJson } from '../../deploy/local/files.ts';
import { repository } from '../../deploy/local/instance.ts';
import { applyManifests } from '../../deploy/local/manifests.ts';
import type { RoleSource } from '../../deploy/local/platform.ts';
import { run } from '../../deploy/local/run.ts';
import type { Version } from '../support/version.ts';

/** What an artefact says of its release. */
export interface Release {
  /** Version of the package and short hash of the commit: `0.1.0-9d19c6e`. */
  readonly version: string;
  readonly commit: string;
  /** Of its workflows, as `workflowBuildId` names them. */
  readonly buildId: string;
  /** With which it was bundled. */
  readonly node: string;
  /** Version of Temporal's SDK in its bundles. They take the native core, which is no part of them, from node_modules. */
  readonly sdk: string;
}

/** Where things are in an artefact. The manifests are where they are in a checkout. */
export const inArtefact = {
  release: 'release.json',
  /** The bundles of the roles. */
  roles: 'roles',
  /** How the roles are started: the release's own `rolePart`. */
  rolePart: 'role-part.mjs',
  lock: 'package-lock.json',
  manifests: ['crds', 'network', 'rbac', 'rbac-gates', 'webhooks'].map((folder) => join('deploy', folder)),
} as const;

const artefacts = join(repository, 'test/upgrade');
const unpacked = join(repository, '.windlass/releases');

/** The file of a release. */
export function artefactFile(version: string): string {
  return join(artefacts, `${version}.tar.gz`);
}

/** Versions of the releases that are there, oldest first as far as their names tell. */
export function releases(): readonly string[] {
  const files = globSync('*.tar.gz', { cwd: artefacts }).map((file) => basename(file, '.tar.gz'));
  return files.toSorted((a, b) => a.localeCompare(b, 'en', { numeric: true }));
}

/** Unpacks a release, unless that is done, and gives its folder. Whoever looks sees the whole folder or none. */
export async function unpackRelease(version: string, folder = join(unpacked, version)): Promise<string> {
  const archive = artefactFile(version);
  if (!existsSync(archive)) {
    throw new Error(
      `No artefact of release "${version}": there is ${releases().join(', ') || 'none'}; ` +
        '"npm run upgrade:artefact -- COMMIT" makes one',
    );
  }
  const digest = createHash('sha256').update(readFileSync(archive)).digest('hex');
  const mark = join(folder, 'archive.sha256');
  if (existsSync(mark) && readFileSync(mark, 'utf8') === digest) return folder;
  const part = `${folder}.${process.pid}.part`;
  rmSync(part, { recursive: true, force: true });
  mkdirSync(part, { recursive: true });
  await run('tar', ['--extract', '--gzip', '--file', archive, '--directory', part]);
  writeFileSync(join(part, basename(mark)), digest);
  rmSync(folder, { recursive: true, force: true });
  renameSync(part, folder);
  return folder;
}

/** A release from its artefact, ready to be run on an instance. */
export async function releaseVersion(version: string): Promise<Version & { readonly release: Release }> {
  const folder = await unpackRelease(version);
  const release = readRelease(folder);
  checkCore(release, installedSdk());
  // Flags belong to the release, and manifests; how they are applied is the business of the platform.
  const { rolePart } = (await import(join(folder, inArtefact.rolePart))) as Pick<RoleSource, 'rolePart'>;
  return {
    name: release.version,
    release,
    bundles: join(folder, inArtefact.roles),
    applyManifests: (options) => applyManifests({ ...options, root: folder }),
    rolePart,
  };
}

/** What an unpacked release says of itself. */
export function readRelease(folder: string): Release {
  const file = join(folder, inArtefact.release);
  const release = readJson<Release>(file);
  if (!release) throw new Error(`Cannot read ${file}: it is absent or no JSON`);
  return release;
}

/** Version of Temporal's SDK that is installed. */
export function installedSdk(root = repository): string {
  const file = join(root, 'node_modules/@temporalio/core-bridge/package.json');
  const installed = readJson<{ readonly version: string }>(file);
  if (!installed) throw new Error(`Cannot read ${file}: it is absent or no JSON; run "npm ci"`);
  return installed.version;
}

/** Throws where the installed native core is older than the SDK that a release was bundled with. */
export function checkCore({ version, sdk }: Pick<Release, 'version' | 'sdk'>, installed: string): void {
  if (installed.localeCompare(sdk, 'en', { numeric: true }) >= 0) return;
  throw new Error(
    `Cannot run release "${version}": its roles were bundled with Temporal's SDK ${sdk}, ` +
      `and the native core in node_modules is ${installed}; install ${sdk} or later`,
  );
}
