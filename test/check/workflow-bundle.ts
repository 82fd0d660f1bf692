import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { bundleWorkflowCode, DefaultLogger } from '@temporalio/worker';

/** What keeps the workflows from being bundled, or what the bundler warns of: modules that workflow code may not use. */
export async function bundleProblems(root: string): Promise<readonly string[]> {
  const workflowsPath = join(root, 'workflows/index.ts');
  if (!existsSync(workflowsPath)) return ['workflows/index.ts:1: is missing; it exports every workflow'];

  const workflowInterceptorModules = [join(root, 'workflows/shared/interceptors.ts')].filter((file) =>
    existsSync(file),
  );
  const problems: string[] = [];
  const logger = new DefaultLogger('WARN', ({ message }) => void problems.push(firstLines(message)));
  try {
    await bundleWorkflowCode({ workflowsPath, workflowInterceptorModules, logger });
  } catch (error) {
    problems.push(firstLines(error instanceof Error ? error.message : String(error)));
  }
  return problems.map((problem) => `workflows/index.ts:1: cannot be bundled: ${problem}`);
}

/** Of webpack's report the errors, which come last; else the beginning. */
function firstLines(message: string): string {
  const error = message.indexOf('ERROR in');
  return message.slice(Math.max(error, 0)).split('\n').slice(0, 12).join('\n  ');
}
