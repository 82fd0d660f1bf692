import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, globSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { bundleWorkflowCode } from '@temporalio/worker';

const root = dirname(dirname(fileURLToPath(import.meta.url)));

/**
 * The file that holds all workflows as one script. Where it is missing it is made by a process of its own, because the
 * bundler takes hundreds of megabytes that a worker would never give back. Its name is made from what goes into it.
 */
export async function workflowBundle(): Promise<string> {
  const name = `workflows-${fingerprint()}.js`;
  const folders = [join(root, 'dist'), join(tmpdir(), 'windlass')];
  const existing = folders.map((folder) => join(folder, name)).find((file) => existsSync(file));
  if (existing !== undefined) return existing;

  let refusal: unknown;
  for (const folder of folders) {
    try {
      const file = join(folder, name);
      mkdirSync(folder, { recursive: true });
      await inOwnProcess(file);
      return file;
    } catch (error) {
      refusal = error; // the first folder is read-only in an image
    }
  }
  throw new Error('Cannot bundle the workflows', { cause: refusal });
}

async function inOwnProcess(file: string): Promise<void> {
  const script = `import { writeWorkflowBundle } from '${import.meta.url}'; await writeWorkflowBundle(${JSON.stringify(file)});`;
  await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', script]);
}

/** Bundles the workflows into this file; whoever looks sees all of it or nothing. */
export async function writeWorkflowBundle(file: string): Promise<void> {
  const workflowsPath = join(root, 'workflows', 'index.ts');
  const { code } = await bundleWorkflowCode({ workflowsPath });
  const part = `${file}.${process.pid}`;
  writeFileSync(part, code);
  renameSync(part, file);
}

/** Changes with the sources of the workflows and with the packages that go into the bundle. */
function fingerprint(): string {
  const hash = createHash('sha256');
  const sources = globSync(['workflows/**/*.ts', 'api/**/*.ts'], { cwd: root }).toSorted((a, b) => a.localeCompare(b));
  for (const file of [...sources, 'package.json']) hash.update(file).update(readFileSync(join(root, file)));
  return hash.digest('hex').slice(0, 16);
}
