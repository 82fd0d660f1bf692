// Debian packages, unpacked into the cache: nothing is installed, so no service starts and the machine is not changed.
// apt resolves what it would have to install: the packages themselves and the missing libraries.
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { cacheFolder } from './instance.ts';
import { withLock } from './lock.ts';
import type { Progress } from './progress.ts';
import { run } from './run.ts';

const packages = [
  'busybox-static',
  'conntrack',
  'containerd',
  'containernetworking-plugins',
  'docker-registry',
  'etcd-server',
  'iptables',
  'runc',
  'socat',
] as const;

/** The unpacked packages: their programs, and the environment that these need. */
export interface DebianTools {
  /** Precedes PATH: kubelet, kube-proxy, containerd and CNI look up their helpers there. */
  readonly binFolders: readonly string[];
  readonly cniFolder: string;
  readonly etcd: string;
  readonly containerd: string;
  readonly runc: string;
  readonly registry: string;
  readonly busybox: string;
  /** PATH, library and plug-in folders for every program that may run one of them. */
  readonly env: Readonly<Record<string, string>>;
}

/** Fetches and unpacks the packages that are missing in the cache. */
export async function ensureDebianTools(progress: Progress): Promise<DebianTools> {
  const folder = cacheFolderFor(packages);
  if (!existsSync(folder)) {
    await withLock(
      folder,
      async () => {
        if (existsSync(folder)) return;
        await progress.step(`Downloading Debian packages (once, cached in ${cacheFolder})`, () => fetchInto(folder));
      },
      () => progress.say('Waiting for another start that downloads Debian packages'),
    );
  }
  return describe(folder);
}

async function fetchInto(folder: string): Promise<void> {
  const work = `${folder}.${process.pid}.partial`;
  rmSync(work, { recursive: true, force: true });
  const archives = join(work, 'archives');
  mkdirSync(join(archives, 'partial'), { recursive: true });
  const download = [
    ...['install', '--download-only', '--reinstall', '--no-install-recommends', '--yes', '--quiet'],
    ...['-o', `Dir::Cache::archives=${archives}`, '-o', 'Debug::NoLocking=1', '-o', 'APT::Sandbox::User=root'],
    ...packages,
  ];
  const env = { DEBIAN_FRONTEND: 'noninteractive', LC_ALL: 'C' };
  try {
    await run('apt-get', download, { env });
  } catch {
    // Package lists may be missing or outdated.
    await run('apt-get', ['update', '--quiet', '-o', 'APT::Sandbox::User=root'], { env });
    await run('apt-get', download, { env });
  }

  const root = join(work, 'root');
  const files = readdirSync(archives).filter((file) => file.endsWith('.deb'));
  for (const file of files) await run('dpkg', ['-x', join(archives, file), root]);
  // For people who want to see what is used; the key of the folder does not depend on it.
  writeFileSync(join(work, 'packages.txt'), `${files.map((file) => decodeURIComponent(file)).join('\n')}\n`);
  rmSync(archives, { recursive: true });
  await linkIptables(work);
  renameSync(work, folder);
}

/** Makes `iptables` and related commands use the back end of this kernel, like `update-alternatives`. */
async function linkIptables(folder: string): Promise<void> {
  const bin = join(folder, 'bin');
  mkdirSync(bin);
  const programs = join(folder, 'root/usr/sbin');
  const multi = await firstWorking(
    ['xtables-nft-multi', 'xtables-legacy-multi'].map((name) => join(programs, name)),
    libraryEnv(folder),
  );
  for (const name of [
    'iptables',
    'iptables-save',
    'iptables-restore',
    'ip6tables',
    'ip6tables-save',
    'ip6tables-restore',
  ]) {
    symlinkSync(`../root/usr/sbin/${multi}`, join(bin, name));
  }
}

async function firstWorking(candidates: readonly string[], env: Record<string, string>): Promise<string> {
  const failures: string[] = [];
  for (const candidate of candidates) {
    const rule = '-t nat -A POSTROUTING -m comment --comment try -j MASQUERADE --random-fully';
    const script = `mount -t tmpfs tmpfs /run && ${candidate} iptables ${rule}`;
    try {
      await run('unshare', ['--net', '--mount', 'sh', '-c', script], { env });
      return candidate.replace(/^.*\//, '');
    } catch (error) {
      failures.push(error instanceof Error ? error.message : String(error));
    }
  }
  throw new Error(`Cannot use iptables on this kernel, neither nftables nor legacy\n${failures.join('\n')}`);
}

function describe(folder: string): DebianTools {
  const root = join(folder, 'root');
  const binFolders = [join(folder, 'bin'), ...['usr/sbin', 'usr/bin', 'sbin', 'bin'].map((name) => join(root, name))];
  return {
    binFolders,
    cniFolder: join(root, 'usr/lib/cni'),
    etcd: join(root, 'usr/bin/etcd'),
    containerd: join(root, 'usr/bin/containerd'),
    runc: join(root, 'usr/sbin/runc'),
    registry: join(root, 'usr/bin/docker-registry'),
    busybox: join(root, 'bin/busybox'),
    env: {
      ...libraryEnv(folder),
      PATH: [...binFolders, '/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin'].join(':'),
    },
  };
}

function libraryEnv(folder: string): Record<string, string> {
  const triplet = { x64: 'x86_64-linux-gnu', arm64: 'aarch64-linux-gnu' }[process.arch as 'x64' | 'arm64'];
  const library = join(folder, 'root/usr/lib', triplet);
  return {
    LD_LIBRARY_PATH: [library, join(folder, 'root/lib', triplet)].join(':'),
    XTABLES_LIBDIR: join(library, 'xtables'),
  };
}

/** One folder per list of packages and release: libraries of one release do not work with another. */
function cacheFolderFor(names: readonly string[]): string {
  const release = readFileSync('/etc/os-release', 'utf8');
  if (!/^ID(_LIKE)?=.*(debian|ubuntu)/m.test(release)) {
    throw new Error('The local platform needs Debian or Ubuntu: containerd, etcd and others are Debian packages');
  }
  const field = (name: string): string => new RegExp(`^${name}=(.*)$`, 'm').exec(release)?.[1] ?? '';
  const key = [field('ID'), field('VERSION_ID'), field('VERSION_CODENAME'), process.arch, ...names].join(' ');
  return join(cacheFolder, 'debian', createHash('sha256').update(key).digest('hex').slice(0, 12));
}
