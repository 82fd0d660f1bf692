import { join } from 'node:path';
import { build } from 'esbuild';

/** Writes the plugin with all that it needs into one file, whose first line names the program that runs it. */
export async function bundlePlugin(root: string, file: string): Promise<void> {
  await build({
    entryPoints: [join(root, 'cli/main.ts')],
    outfile: file,
    bundle: true,
    platform: 'node',
    target: 'node22',
    format: 'cjs',
    minifySyntax: true,
    minifyWhitespace: true,
    lineLimit: 200, // Node shows the line on which something failed
    legalComments: 'none',
    banner: { js: `#!/usr/bin/env node\n${nodeCheck}` },
    logLevel: 'warning',
  });
}

/** Before anything else is loaded, since an older Node would fail in the middle of it with words that help nobody. */
const nodeCheck = [
  'if (Number(process.versions.node.split(".")[0]) < 22) {',
  '  console.error("error: kubectl-kruise needs Node 22 or later: this is " + process.versions.node);',
  '  process.exit(1);',
  '}',
].join('\n');
