// The roles as plain JavaScript, as they are deployed and as the local platform runs them. From source, each role loads
// hundreds of modules whose types Node strips with a compiler that stays in memory; a bundle needs about half the
// memory and half the start time.
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

/**
 * The number of bundles that are kept, the most recently used ones: a running instance may use bundles of other
 * sources.
 */
const kept = 5;

/** The file of a role in a folder of bundles. */
export function roleFile(folder: string, role: RoleName): string {
  return join(folder, `${role}.js`);
}

/** The folder with the bundles of the current sources; undefined when it does not exist yet. */
export function findRoleBundles(dist = ownDist): string | undefined {
  const folder = currentFolder(dist);
  if (!existsSync(folder)) return undefined;
  const now = new Date();
  utimesSync(folder, now, now);
  return folder;
}

/** Bundles all roles into `dist/roles-FINGERPRINT` unless it exists. The folder is created atomically. */
export async function makeRoleBundles(dist = ownDist): Promise<string> {
  const folder = currentFolder(dist);
  const part = `${folder}.${randomUUID()}`;
  try {
    await writeRoleBundles(part);
    if (currentFolder(dist) !== folder) return await makeRoleBundles(dist); // the sources have changed meanwhile
    renameSync(part, folder);
  } catch (error) {
    if (!existsSync(folder)) throw error; // another process was faster
  } finally {
    rmSync(part, { recursive: true, force: true });
  }
  removeUnused(dist);
  return folder;
}

/** Bundles all roles into a folder, with every file that they read at run time except Temporal's native core. */
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
    splitting: true, // shared code is in shared files, and dynamic imports stay dynamic
    platform: 'node',
    target: 'node22',
    format: 'esm',
    // Node keeps the source text in memory, so comments and indentation cost memory. Names are kept, and lines are
    // short enough to locate an error; source maps are read only with Node's option.
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
  // Without it Node would search parent folders.
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }\n');
  for (const file of readBeside) copyFileSync(inSources(file), join(folder, file.slice(file.lastIndexOf('/') + 1)));
  const workflows = readFileSync(await workflowBundle(), 'utf8');
  writeFileSync(join(folder, 'workflows.js'), withoutSourceTexts(workflows));
}

const workflowThread = 'workflow-thread';

/** Files that modules read from their own folder, which in a bundle is that of the bundle. */
const readBeside = [
  'daemon/cri/runtime.proto',
  'daemon/cri/content.proto',
  'node_modules/source-map/lib/mappings.wasm',
] as const;

/** Globals that CommonJS packages expect. */
const commonJsBanner = [
  'import { createRequire as createRequireOf } from "node:module";',
  'const require = createRequireOf(import.meta.url);',
  'const { filename: __filename, dirname: __dirname } = import.meta;',
].join('\n');

/**
 * Temporal's SDK finds two files by their paths in its packages, and loads a bundler that a deployed role never uses.
 */
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

/**
 * A workflow bundle whose source map has no copy of the sources: a worker would hold it twice, and stack traces do not
 * need it.
 */
function withoutSourceTexts(bundle: string): string {
  const mark = '//# sourceMappingURL=data:application/json;charset=utf-8;base64,';
  const at = bundle.lastIndexOf(mark);
  if (at < 0) return bundle;
  const map = JSON.parse(Buffer.from(bundle.slice(at + mark.length), 'base64').toString('utf8')) as object;
  const short = JSON.stringify({ ...map, sourcesContent: undefined });
  return `${bundle.slice(0, at)}${mark}${Buffer.from(short).toString('base64')}\n`;
}

/** Its name is a hash of everything that goes into the bundles, and of how they are built. */
function currentFolder(dist: string): string {
  const folders = [
    ...['api', 'plan', 'kube', 'process', 'workflows', 'activities', 'workers', 'watcher', 'webhook', 'daemon'],
    'deploy/roles',
  ];
  const sources = globSync(
    folders.map((folder) => `${folder}/**/*.{ts,proto}`),
    { cwd: root },
  ).toSorted((a, b) => a.localeCompare(b));
  const hash = createHash('sha256');
  for (const file of [...sources, 'package-lock.json']) hash.update(file).update(readFileSync(join(root, file)));
  return join(dist, `roles-${hash.digest('hex').slice(0, 16)}`);
}

/** Removes the least recently used bundles, including those of workflows alone, and remains of killed processes. */
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
