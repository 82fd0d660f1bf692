// The roles as plain JavaScript, which is how they are deployed and how the local platform runs them. From source each of
// them loads hundreds of modules, whose types Node takes away with a compiler that it keeps; bundled, a role has about half
// the memory to itself and is loaded in half the time.
import { createHash, randomUUID } from 'node:crypto';
import {
  copyFileSync,
  existsSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { build, type Plugin } from 'esbuild';
import { workflowBundle } from '../../workers/workflow-bundle.ts';
import { type RoleName, roleEntries } from './entries.ts';

const root = join(import.meta.dirname, '../..');
const ownDist = join(root, 'dist');

/** The number of bundles that are kept, the last used ones: an instance that is up may run bundles of other sources. */
const kept = 5;

/** The file of a role in a folder of bundles. */
export function roleFile(folder: string, role: RoleName): string {
  return join(folder, `${role}.js`);
}

/** The folder with the bundles of the sources as they are now; undefined when it has yet to be made. */
export function findRoleBundles(dist = ownDist): string | undefined {
  const folder = currentFolder(dist);
  if (!existsSync(folder)) return undefined;
  const now = new Date();
  utimesSync(folder, now, now);
  return folder;
}

/** Bundles all roles into `dist/roles-FINGERPRINT` unless it exists. The folder appears with all of its files or not at all. */
export async function makeRoleBundles(dist = ownDist): Promise<string> {
  const folder = currentFolder(dist);
  const part = `${folder}.${randomUUID()}`;
  try {
    await writeRoleBundles(part);
    if (currentFolder(dist) !== folder) return await makeRoleBundles(dist); // the sources have changed meanwhile
    renameSync(part, folder);
  } catch (error) {
    if (!existsSync(folder)) throw error; // else another process was faster
  } finally {
    rmSync(part, { recursive: true, force: true });
  }
  removeUnused(dist);
  return folder;
}

/** Bundles all roles into a folder, with every file that they read at run time but for Temporal's native core. */
async function writeRoleBundles(folder: string): Promise<void> {
  mkdirSync(folder, { recursive: true });
  const inSources = (file: string) => join(root, file);
  await build({
    entryPoints: {
      ...Object.fromEntries(Object.entries(roleEntries).map(([role, entry]) => [role, inSources(entry)])),
      role: inSources('deploy/roles/role.ts'),
      [workflowThread]: inSources('deploy/roles/workflow-thread.ts'),
    },
    outdir: folder,
    bundle: true,
    splitting: true, // what several roles need is one file, and what is imported late is loaded late
    platform: 'node',
    target: 'node22',
    format: 'esm',
    // Node keeps the text of what it runs, so comments and indentation cost memory. Names stay as they are, and lines short
    // enough to find a place by; the maps are read only by a Node that is told to use them.
    minifyWhitespace: true,
    minifySyntax: true,
    keepNames: true,
    lineLimit: 200,
    sourcemap: 'linked',
    sourcesContent: false,
    legalComments: 'none',
    banner: { js: commonJsBanner },
    external: ['@temporalio/core-bridge/package.json'],
    plugins: [temporalParts],
    logLevel: 'warning',
  });
  // Otherwise Node would have to find out by itself, and would look further up.
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }\n');
  for (const file of readBeside) copyFileSync(inSources(file), join(folder, file.slice(file.lastIndexOf('/') + 1)));
  const workflows = readFileSync(await workflowBundle(), 'utf8');
  writeFileSync(join(folder, 'workflows.js'), withoutSourceTexts(workflows));
}

const workflowThread = 'workflow-thread';

/** What modules look for in their own folder, which in a bundle is that of the bundle. */
const readBeside = [
  'daemon/cri/runtime.proto',
  'daemon/cri/content.proto',
  'node_modules/source-map/lib/mappings.wasm',
] as const;

/** What packages that are CommonJS expect to be there. */
const commonJsBanner = [
  'import { createRequire as createRequireOf } from "node:module";',
  'const require = createRequireOf(import.meta.url);',
  'const { filename: __filename, dirname: __dirname } = import.meta;',
].join('\n');

/** Temporal's SDK finds two things by their place in its packages, and loads a bundler that a deployed role never uses. */
const temporalParts: Plugin = {
  name: 'parts of Temporal',
  setup({ onLoad }) {
    const replaced = (file: RegExp, text: string, replacement: string) =>
      onLoad({ filter: file }, ({ path }) => {
        const contents = readFileSync(path, 'utf8');
        if (!contents.includes(text)) throw new Error(`Cannot bundle the roles: ${path} does not say ${text}`);
        return { contents: contents.replace(text, replacement), loader: 'js' };
      });
    const empty = (file: RegExp, contents: string) => onLoad({ filter: file }, () => ({ contents, loader: 'js' }));

    replaced(
      /@temporalio\/worker\/lib\/workflow\/threaded-vm\.js$/,
      "require.resolve('./workflow-worker-thread')",
      `require('node:path').join(__dirname, '${workflowThread}.js')`,
    );
    // the native core stays where it is installed
    replaced(
      /@temporalio\/core-bridge\/common\.js$/,
      '__dirname',
      "path.dirname(require.resolve('@temporalio/core-bridge/package.json'))",
    );
    empty(/@temporalio\/worker\/lib\/workflow\/bundler\.js$/, 'exports.defaultWorkflowInterceptorModules = [];');
    empty(/@temporalio\/worker\/lib\/debug-replayer\/index\.js$/, '');
  },
};

/** A workflow bundle whose source map has no copy of the sources: a worker would hold it twice. Stack traces need none. */
function withoutSourceTexts(bundle: string): string {
  const mark = '//# sourceMappingURL=data:application/json;charset=utf-8;base64,';
  const at = bundle.lastIndexOf(mark);
  if (at < 0) return bundle;
  const map = JSON.parse(Buffer.from(bundle.slice(at + mark.length), 'base64').toString('utf8')) as object;
  const short = JSON.stringify({ ...map, sourcesContent: undefined });
  return `${bundle.slice(0, at)}${mark}${Buffer.from(short).toString('base64')}\n`;
}

/** Its name changes with everything that goes into the bundles, and with how they are made. */
function currentFolder(dist: string): string {
  const folders = ['api', 'kube', 'workflows', 'activities', 'workers', 'watcher', 'daemon', 'deploy/roles'];
  const sources = globSync(
    folders.map((folder) => `${folder}/**/*.{ts,proto}`),
    { cwd: root },
  ).toSorted((a, b) => a.localeCompare(b));
  const hash = createHash('sha256');
  for (const file of [...sources, 'package-lock.json']) hash.update(file).update(readFileSync(join(root, file)));
  return join(dist, `roles-${hash.digest('hex').slice(0, 16)}`);
}

/** Removes the least recently used bundles, also those of workflows alone, and what a killed process has left. */
function removeUnused(dist: string): void {
  const anHourAgoMs = Date.now() - 3_600_000;
  const made = readdirSync(dist)
    .filter((name) => /^(roles|workflows)-/.test(name))
    .map((name) => ({ name, usedAtMs: statSync(join(dist, name), { throwIfNoEntry: false })?.mtimeMs ?? 0 }))
    .sort((a, b) => b.usedAtMs - a.usedAtMs);
  const whole = [/^roles-\w+$/, /^workflows-\w+\.js$/].map((form) => made.filter(({ name }) => form.test(name)));
  const unused = whole.flatMap((these) => these.slice(kept));
  const abandoned = made.filter((one) => !whole.flat().includes(one) && one.usedAtMs < anHourAgoMs);
  for (const { name } of [...unused, ...abandoned]) rmSync(join(dist, name), { recursive: true, force: true });
}
