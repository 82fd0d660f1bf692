import { renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { bundleWorkflowCode } from '@temporalio/worker';

const workflowsPath = join(dirname(import.meta.dirname), 'workflows', 'index.ts');

/** Bundles the workflows into this file; whoever looks sees all of it or nothing. */
export async function writeWorkflowBundle(file: string): Promise<void> {
  const { code } = await bundleWorkflowCode({ workflowsPath });
  const part = `${file}.${process.pid}`;
  writeFileSync(part, code);
  renameSync(part, file);
}
