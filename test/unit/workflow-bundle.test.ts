import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { root } from '../check/all.ts';

let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'windlass-bundle-'));
});

afterAll(() => rmSync(folder, { recursive: true }));

describe('the bundle of the workflows', () => {
  it('names modules by their place in the checkout, wherever the process was started', async () => {
    const file = join(folder, 'workflows.js');
    const writer = JSON.stringify(join(root, 'workers/write-workflow-bundle.ts'));
    const script = `import { writeWorkflowBundle } from ${writer}; await writeWorkflowBundle(${JSON.stringify(file)});`;
    const options = { cwd: folder, env: { ...process.env, NODE_OPTIONS: '' } };
    await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', script], options);

    const names = [...readFileSync(file, 'utf8').matchAll(/^\/\*{3}\/ "([^"]+)"/gm)].map(([, name = '']) => name);
    expect(names).toContain('./workflows/index.ts');
    expect(names.filter((name) => !/^(\.\/(api|plan|node_modules|workflows)\/|\?)/.test(name))).toEqual([]);
  });
});
