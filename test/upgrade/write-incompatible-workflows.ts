// Bundles the workflows of `incompatible-workflows.ts` into the file that is named by the argument, in a process of its own,
// because the bundler takes hundreds of megabytes.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { bundleWorkflowCode } from '@temporalio/worker';
import { workflowSources } from '../../workers/write-workflow-bundle.ts';

const [file] = process.argv.slice(2);
if (file === undefined) throw new Error('Name the file to write');
const workflowsPath = join(import.meta.dirname, 'incompatible-workflows.ts');
const { code } = await bundleWorkflowCode({ ...workflowSources, workflowsPath });
writeFileSync(file, code);
