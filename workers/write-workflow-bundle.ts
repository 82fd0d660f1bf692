import { renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type BundleOptions, bundleWorkflowCode } from '@temporalio/worker';

const root = dirname(import.meta.dirname);

/** What goes into the bundle, and how modules are named in it. */
export const workflowSources = {
  workflowsPath: join(root, 'workflows/index.ts'),
  workflowInterceptorModules: [join(root, 'workflows/shared/interceptors.ts')],
  // else by their way from the folder in which the process was started, and the build ID would depend on that
  webpackConfigHook: (config) => ({ ...config, context: root }),
} satisfies BundleOptions;

/** Bundles the workflows into this file; whoever looks sees all of it or nothing. */
export async function writeWorkflowBundle(file: string): Promise<void> {
  const { code } = await bundleWorkflowCode(workflowSources);
  const part = `${file}.${process.pid}`;
  writeFileSync(part, code);
  renameSync(part, file);
}
