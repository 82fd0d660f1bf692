import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, globSync, mkdirSync, readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';

const root = dirname(import.meta.dirname);

/**
 * The file with the bundle of all workflows. A bundled role has it in its own folder. Otherwise it is in `dist`, under
 * a name derived from its sources; if it is missing, a separate process creates it, because the bundler needs hundreds
 * of megabytes that a worker would never free.
 */
export async function workflowBundle(): Promise<string> {
  const beside = join(import.meta.dirname, 'workflows.js');
  if (existsSync(beside)) return beside;

  const file = join(root, 'dist', `workflows-${fingerprint()}.js`);
  if (existsSync(file)) return file;
  mkdirSync(dirname(file), { recursive: true });
  try {
    await inOwnProcess(file);
  } catch (error) {
    throw new Error('Cannot bundle the workflows', { cause: error });
  }
  return file;
}

/**
 * Identifies the workflow code of this release: 16 hexadecimal digits of the SHA-256 of the bundle without its source
 * map. Releases with equal workflow code have the same ID.
 */
export async function workflowBuildId(): Promise<string> {
  return buildIdOf(await readFile(await workflowBundle(), 'utf8'));
}

/** The build ID of a bundle, from its content. */
export function buildIdOf(bundle: string): string {
  const map = bundle.lastIndexOf('//# sourceMappingURL=');
  const code = map < 0 ? bundle : bundle.slice(0, map);
  return createHash('sha256').update(code).digest('hex').slice(0, 16);
}

async function inOwnProcess(file: string): Promise<void> {
  const writer = JSON.stringify(pathToFileURL(join(import.meta.dirname, 'write-workflow-bundle.ts')).href);
  const script = `import { writeWorkflowBundle } from ${writer}; await writeWorkflowBundle(${JSON.stringify(file)});`;
  // modules are named by their path from the working directory, in the code and therefore in the build ID
  await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', script], { cwd: root });
}

/** Changes with the sources of the workflows and with the packages in the bundle. */
function fingerprint(): string {
  const hash = createHash('sha256');
  const sources = globSync(['workflows/**/*.ts', 'api/**/*.ts'], { cwd: root }).toSorted((a, b) => a.localeCompare(b));
  for (const file of [...sources, 'package.json']) hash.update(file).update(readFileSync(join(root, file)));
  return hash.digest('hex').slice(0, 16);
}
