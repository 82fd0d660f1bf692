import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { bundlePlugin } from '../../deploy/cli/bundle.ts';
import { repository } from '../../deploy/local/instance.ts';
import type { Said } from './kruise-command.ts';

/** The plugin as installed: one file, run by Node. */
export interface InstalledPlugin {
  run(args: readonly string[], stdin?: string): Promise<Said>;
  remove(): void;
}

/** Builds the plugin and installs it in a folder of its own. */
export async function installPlugin(kubeconfig: string): Promise<InstalledPlugin> {
  const folder = mkdtempSync(join(tmpdir(), 'kruise-'));
  const plugin = join(folder, 'kubectl-kruise');
  writeFileSync(join(folder, 'package.json'), '{ "type": "commonjs" }');
  await bundlePlugin(repository, plugin);
  return {
    run: (args, stdin = '') =>
      new Promise((resolve) => {
        const env = { PATH: process.env.PATH, KUBECONFIG: kubeconfig };
        const child = execFile(process.execPath, [plugin, ...args], { env }, (error, out, err) =>
          resolve({ code: error === null ? 0 : Number(error.code ?? -1), out, err }),
        );
        // a command that ends before it has read everything has its own exit code
        child.stdin?.on('error', () => undefined);
        child.stdin?.end(stdin);
      }),
    remove: () => rmSync(folder, { recursive: true }),
  };
}
