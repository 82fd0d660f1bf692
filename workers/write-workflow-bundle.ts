import { renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { bundleWorkflowCode } from '@temporalio/worker';

const folder = join(dirname(import.meta.dirname), 'workflows');

/** What goes into the bundle. */
export const workflowSources = {
  workflowsPath: join(folder, 'index.ts'),
  workflowInterceptorModules: [join(folder, 'shared', 'interceptors.ts')],
};

/** Bundles the workflows into this file; whoever looks sees all of it or nothing. */
export async function writeWorkflowBundle(file: string): Promise<void> {
  const { code } = await bundleWorkflowCode(workflowSources);
  const part = `${file}.${process.pid}`;
  writeFileSync(part, code);
  renameSync(part, file);
}
