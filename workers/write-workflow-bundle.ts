import { renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type BundleOptions, bundleWorkflowCode } from '@temporalio/worker';

const root = dirname(import.meta.dirname);

/** The sources of the bundle, and how modules are named in it. */
export const workflowSources = {
  workflowsPath: join(root, 'workflows/index.ts'),
  workflowInterceptorModules: [join(root, 'workflows/shared/interceptors.ts')],
  // by default paths are relative to the working directory, and the build ID would depend on it
  webpackConfigHook: (config) => ({ ...config, context: root }),
} satisfies BundleOptions;

/** Bundles the workflows into this file atomically: readers see the whole file or none. */
export async function writeWorkflowBundle(file: string): Promise<void> {
  const { code } = await bundleWorkflowCode(workflowSources);
  const part = `${file}.${process.pid}`;
  writeFileSync(part, code);
  renameSync(part, file);
}
