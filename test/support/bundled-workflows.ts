import { createHash } from 'node:crypto';
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { bundleWorkflowCode, type WorkflowBundlePath } from '@temporalio/worker';
import { workflowBundle } from '../../workers/workflow-bundle.ts';
import { workflowSources } from '../../workers/write-workflow-bundle.ts';

/** All workflows with these interceptors besides their own. A bundle takes seconds, so the first test file that asks makes it for all others. */
export async function workflowsWith(modules: readonly string[]): Promise<WorkflowBundlePath> {
  const plain = await workflowBundle();
  const workflowInterceptorModules = [...workflowSources.workflowInterceptorModules, ...modules];
  const hash = createHash('sha256').update(basename(plain));
  for (const module of workflowInterceptorModules) hash.update(readFileSync(module));
  const codePath = join(dirname(plain), `intercepted-${hash.digest('hex').slice(0, 16)}.js`);
  if (!existsSync(codePath)) {
    const { code } = await bundleWorkflowCode({
      ...workflowSources,
      workflowInterceptorModules,
    });
    const part = `${codePath}.${process.pid}`;
    writeFileSync(part, code);
    renameSync(part, codePath);
  }
  return { codePath };
}
