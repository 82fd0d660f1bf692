// The container image of Windlass, built without a container engine: Node with the shared libraries that Node and
// Temporal's native core load, that core, and the bundled roles. One image for all roles; the first argument selects
// the role.
import { existsSync, readdirSync, readFileSync, realpathSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileEntry, type Image, type LayerEntry } from '../local/images.ts';
import { run } from '../local/run.ts';
import { findRoleBundles, makeRoleBundles } from '../roles/bundle.ts';
import { nodeEnvironment, nodeFlags } from '../roles/entries.ts';

/** Builds the image from a checkout with installed packages; its tag is the version in package.json. */
export async function windlassImage(repository: string): Promise<Image> {
  const { version } = JSON.parse(readFileSync(join(repository, 'package.json'), 'utf8')) as { version: string };
  const bundles = findRoleBundles() ?? (await makeRoleBundles());
  return {
    reference: `windlass/windlass:${version}`,
    // Layers that change rarely come first, so that nodes fetch them once.
    layers: [await runtimeLayer(repository), licencesLayer(repository), rolesLayer(repository, bundles)],
    config: {
      Entrypoint: ['/usr/local/bin/node', ...nodeFlags, '/windlass/role.js'],
      Env: [
        'PATH=/usr/local/bin:/usr/bin:/bin',
        'NODE_ENV=production',
        ...Object.entries(nodeEnvironment).map(([name, value]) => `${name}=${value}`),
      ],
      User: '65532:65532',
      WorkingDir: '/windlass',
      Labels: { 'org.opencontainers.image.title': 'Windlass', 'org.opencontainers.image.version': version },
    },
  };
}

async function runtimeLayer(repository: string): Promise<LayerEntry[]> {
  const node = realpathSync(process.execPath);
  const core = join(coreBridge(repository), nativeCore);
  const libraries = new Set<string>();
  for (const program of [node, core]) {
    for (const [path = ''] of (await run('ldd', [program])).matchAll(/\/\S+(?= \(0x)/g)) libraries.add(path);
  }
  return [
    fileEntry('usr/local/bin/node', node),
    // At the paths where they were found, because the loader looks there.
    ...[...libraries].sort((a, b) => a.localeCompare(b)).map((path) => fileEntry(path.slice(1), realpathSync(path))),
    fileEntry(join(installedBridge, nativeCore), core),
    fileEntry(join(installedBridge, 'package.json'), join(coreBridge(repository), 'package.json'), 0o644),
    ...certificates.filter((path) => existsSync(path)).map((path) => fileEntry(path.slice(1), path, 0o644)),
    textEntry('etc/passwd', 'root:x:0:0:root:/root:/sbin/nologin\nwindlass:x:65532:65532::/tmp:/sbin/nologin\n'),
    textEntry('etc/group', 'root:x:0:\nwindlass:x:65532:\n'),
    textEntry('etc/nsswitch.conf', 'hosts: files dns\n'),
    { kind: 'folder', path: 'tmp', mode: 0o1777 },
  ];
}

const certificates = ['/etc/ssl/certs/ca-certificates.crt'] as const;

/** The production packages are part of the bundles; the licence texts that they require to be distributed are here. */
function licencesLayer(repository: string): LayerEntry[] {
  const lock = JSON.parse(readFileSync(join(repository, 'package-lock.json'), 'utf8')) as {
    readonly packages: Readonly<Record<string, { readonly dev?: boolean }>>;
  };
  return Object.entries(lock.packages)
    .filter(([path, { dev }]) => path !== '' && !dev && existsSync(join(repository, path))) // others: other platforms
    .flatMap(([path]) =>
      readdirSync(join(repository, path))
        .filter((name) => /^(licen[cs]e|notice|copying)/i.test(name))
        .sort((a, b) => a.localeCompare(b))
        .map((name) =>
          fileEntry(join('windlass/licenses', packageName(path), name), join(repository, path, name), 0o644),
        ),
    );
}

/** `a/node_modules/b` is a version of b that only a uses. */
function packageName(path: string): string {
  return path.replace(/^node_modules\//, '').replaceAll('/node_modules/', '/');
}

function rolesLayer(repository: string, bundles: string): LayerEntry[] {
  return [join(repository, 'LICENSE'), ...readdirSync(bundles).map((name) => join(bundles, name))]
    .sort((a, b) => a.localeCompare(b))
    .map((file) => fileEntry(join('windlass', basename(file)), file, 0o644));
}

/** Temporal ships its native core for several platforms; only one is needed. */
const nativeCore = `releases/${{ x64: 'x86_64', arm64: 'aarch64' }[process.arch as 'x64' | 'arm64']}-unknown-linux-gnu/index.node`;

const installedBridge = 'windlass/node_modules/@temporalio/core-bridge';

function coreBridge(repository: string): string {
  return join(repository, 'node_modules/@temporalio/core-bridge');
}

function textEntry(path: string, text: string): LayerEntry {
  return { kind: 'file', path, content: Buffer.from(text), mode: 0o644 };
}
