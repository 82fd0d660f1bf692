import { join } from 'node:path';
import { build } from 'esbuild';

/** Writes the plugin with all its dependencies into one file, whose first line names the interpreter. */
export async function bundlePlugin(root: string, file: string): Promise<void> {
  await build({
    entryPoints: [join(root, 'cli/main.ts')],
    outfile: file,
    bundle: true,
    platform: 'node',
    target: 'node20.16',
    format: 'cjs',
    minifySyntax: true,
    minifyWhitespace: true,
    lineLimit: 200, // for readable stack traces
    legalComments: 'none',
    banner: { js: `#!/usr/bin/env node\n${nodeCheck}\n${laterNode}` },
    logLevel: 'warning',
  });
}

/** Runs before anything else is loaded: an older Node would fail later with an error that helps nobody. */
const nodeCheck = [
  'const [nodeMajor, nodeMinor] = process.versions.node.split(".").map(Number);',
  'if (nodeMajor < 20 || (nodeMajor === 20 && nodeMinor < 16)) {',
  '  console.error("error: kubectl-kruise needs Node 20.16 or later: this is " + process.versions.node);',
  '  process.exit(1);',
  '}',
].join('\n');

/**
 * What the bundle uses and Node 20 lacks: two functions of the language, and two that undici uses when it is loaded.
 * The plugin neither sends objects to other threads nor requests answers in zstd, so the latter two can be empty.
 */
const laterNode = [
  'Promise.withResolvers ??= function () {',
  '  let resolve, reject;',
  '  const promise = new this((yes, no) => { resolve = yes; reject = no; });',
  '  return { promise, resolve, reject };',
  '};',
  'Map.groupBy ??= function (items, keyOf) {',
  '  const groups = new Map();',
  '  let index = 0;',
  '  for (const item of items) {',
  '    const key = keyOf(item, index++);',
  '    const group = groups.get(key);',
  '    if (group) group.push(item); else groups.set(key, [item]);',
  '  }',
  '  return groups;',
  '};',
  'require("node:worker_threads").markAsUncloneable ??= () => {};',
  'require("node:zlib").createZstdDecompress ??= () => { throw new Error("this Node cannot read zstd"); };',
].join('\n');
