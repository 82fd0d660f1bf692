// The present version as if a later one had other workflow code.
import { cpSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { repository } from '../../deploy/local/instance.ts';
import { run } from '../../deploy/local/run.ts';
import type { Version } from '../support/version.ts';

/** The roles of the present version with workflow code on which none of its runs replays. */
export async function incompatibleVersion(present: Version): Promise<Version> {
  const folder = join(repository, '.windlass/versions/incompatible');
  const part = `${folder}.${process.pid}`;
  rmSync(part, { recursive: true, force: true });
  cpSync(present.bundles, part, { recursive: true });
  const writer = join(import.meta.dirname, 'write-incompatible-workflows.ts');
  // modules are named by their path from the working directory
  await run(process.execPath, [writer, join(part, 'workflows.js')], { cwd: repository });
  rmSync(folder, { recursive: true, force: true });
  renameSync(part, folder);
  return { ...present, name: 'incompatible', bundles: folder };
}
