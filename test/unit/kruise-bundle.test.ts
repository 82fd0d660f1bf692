import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { bundlePlugin } from '../../deploy/cli/bundle.ts';
import { repository } from '../../deploy/local/instance.ts';
import type { Said } from '../support/kruise-command.ts';

let folder = '';
let plugin = '';
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'kruise-'));
  plugin = join(folder, 'kubectl-kruise');
  writeFileSync(join(folder, 'package.json'), '{ "type": "commonjs" }');
  await bundlePlugin(repository, plugin);
});
afterAll(() => rmSync(folder, { recursive: true }));

/** The versions of Node in the PATH of this machine, this one first. */
function nodes(): readonly string[] {
  const found = (process.env.PATH ?? '').split(delimiter).map((place) => join(place, 'node'));
  return [...new Set([process.execPath, ...found.filter(existsSync).map((file) => realpathSync(file))])];
}

function run(node: string, args: readonly string[]): Promise<Said> {
  return new Promise((resolve) => {
    const env = { PATH: process.env.PATH, KUBECONFIG: join(folder, 'none') };
    execFile(node, args, { env }, (error, out, err) =>
      resolve({ code: error === null ? 0 : Number(error.code ?? -1), out, err }),
    );
  });
}

const explainNothing = ['explain', 'crr/x', '--server', 'http://127.0.0.1:1', '--temporal-address', '127.0.0.1:1'];

describe('the plugin as one file', () => {
  it.each(nodes())('runs on %s, which is in the PATH', async (node) => {
    const said = await run(node, [plugin, ...explainNothing]);
    expect(said.err).toContain('ECONNREFUSED 127.0.0.1:1');
    expect((await run(node, [plugin, '--version'])).out).toMatch(/^\d+\.\d+\.\d+\n$/);
  });

  it('runs without what Node 22 has and Node 20 has not', async () => {
    const older = join(folder, 'older.cjs');
    const lacks = ['Promise.withResolvers', 'Map.groupBy', 'Object.groupBy']
      .concat("require('node:worker_threads').markAsUncloneable", "require('node:zlib').createZstdDecompress")
      .map((name) => `delete ${name};`);
    writeFileSync(older, lacks.join('\n'));
    const said = await run(process.execPath, ['--require', older, plugin, ...explainNothing]);
    expect(said.err).toContain('ECONNREFUSED 127.0.0.1:1');
  });

  it('says which Node it needs on one that is older', async () => {
    const older = join(folder, 'oldest.cjs');
    writeFileSync(older, "Object.defineProperty(process.versions, 'node', { value: '20.15.1' });");
    const said = await run(process.execPath, ['--require', older, plugin, '--version']);
    expect(said).toMatchObject({ code: 1, err: 'error: kubectl-kruise needs Node 20.16 or later: this is 20.15.1\n' });
  });
});
