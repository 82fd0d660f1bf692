/**
 * `npm run upgrade:artefact -- COMMIT`: keeps what the release of a commit leaves to later ones. Writes
 * test/upgrade/<version>.tar.gz, from which the release can be run without its sources, and freezes its histories in
 * test/replay/releases/<version>. Both are to be committed. docs/histories.md says more.
 */
import { relative } from 'node:path';
import { repository } from '../../deploy/local/instance.ts';
import { createProgress } from '../../deploy/local/progress.ts';
import { makeArtefact } from './make-artefact.ts';

const [commit, ...others] = process.argv.slice(2);
if (commit === undefined || others.length > 0) {
  console.error('Usage: npm run upgrade:artefact -- COMMIT');
  process.exit(2);
}
try {
  const { release, file, bytes } = await makeArtefact(commit, createProgress());
  console.log(`${relative(repository, file)}: ${bytes} bytes`);
  for (const [key, value] of Object.entries(release)) console.log(`  ${key.padEnd(8)} ${value}`);
} catch (error) {
  console.error(error instanceof Error ? error.message : String(error));
  process.exit(1);
}
