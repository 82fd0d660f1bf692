// `npm run cli`: the kubectl plugin as one file that Node 20 or later runs, in `dist/cli`.
import { chmodSync, mkdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { bundlePlugin } from './bundle.ts';

const root = join(import.meta.dirname, '../..');
const folder = join(root, 'dist/cli');
mkdirSync(folder, { recursive: true });
// otherwise Node would treat a file in this repository as an ES module
writeFileSync(join(folder, 'package.json'), '{ "type": "commonjs" }\n');
const file = join(folder, 'kubectl-kruise');
await bundlePlugin(root, file);
chmodSync(file, 0o755);
console.log(`${file} (${(statSync(file).size / 2 ** 20).toFixed(1)} MB)`);
console.log(`Copy it to a folder of your PATH, and "kubectl kruise" is there`);
