// Go programs at pinned versions, built once into the cache. Each folder of `tools/` is a Go module; its key is a hash
// of the files that pin the versions, so a changed version has a folder of its own and old ones stay usable.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { cacheFolder, repository } from './instance.ts';
import { withLock } from './lock.ts';
import type { Progress } from './progress.ts';
import { run } from './run.ts';

interface Tool {
  readonly module: 'kubernetes' | 'temporal' | 'pause' | 'kwok' | 'socket-server';
  readonly name: string;
  readonly path: string;
}

const kubernetesVersion = { git: 'v1.34.4', major: '1', minor: '34' } as const;

const tools: readonly Tool[] = [
  ...['kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kubelet', 'kube-proxy', 'kubectl'].map(
    (name): Tool => ({ module: 'kubernetes', name, path: `k8s.io/kubernetes/cmd/${name}` }),
  ),
  { module: 'temporal', name: 'temporal', path: 'github.com/temporalio/cli/cmd/temporal' },
  { module: 'pause', name: 'pause', path: '.' },
  { module: 'kwok', name: 'kwok', path: 'sigs.k8s.io/kwok/cmd/kwok' },
  { module: 'socket-server', name: 'socket-server', path: '.' },
];

/** Needed only by some tests, so other starts do not build them. */
const onDemand: readonly string[] = ['kwok', 'socket-server'];

/** Programs of our own, whose source is the version. */
const ownPrograms: readonly string[] = ['pause', 'socket-server'];

/** The names of the programs for `toolPath`. */
export type ToolName =
  | 'kube-apiserver'
  | 'kube-controller-manager'
  | 'kube-scheduler'
  | 'kubelet'
  | 'kube-proxy'
  | 'kubectl'
  | 'temporal'
  | 'pause'
  | 'kwok'
  | 'socket-server';

/** The path of a tool after it is built. */
export function toolPath(name: ToolName): string {
  const tool = tools.find((candidate) => candidate.name === name);
  if (!tool) throw new Error(`No tool "${name}"`);
  return join(moduleCache(tool.module), name);
}

/**
 * Builds those of these tools, or of all that every instance needs, that are missing in the cache. Two concurrent
 * starts build them once.
 */
export async function ensureTools(progress: Progress, names?: readonly ToolName[]): Promise<void> {
  if (missingTools(names).length === 0) return;
  await withLock(
    join(cacheFolder, 'tools'),
    async () => {
      for (const tool of missingTools(names)) {
        await progress.step(`Building ${tool.name} (once, cached in ${cacheFolder})`, (note) => build(tool, note));
      }
    },
    () => progress.say('Waiting for another start that builds the tools'),
  );
}

function missingTools(names: readonly string[] | undefined): Tool[] {
  const wanted = tools.filter(({ name }) => (names ? names.includes(name) : !onDemand.includes(name)));
  return wanted.filter(({ module, name }) => !existsSync(join(moduleCache(module), name)));
}

async function build({ module, name, path }: Tool, note: (text: string) => void): Promise<void> {
  const folder = moduleCache(module);
  mkdirSync(folder, { recursive: true });
  const target = join(folder, name);
  const partial = `${target}.${process.pid}.partial`;
  const version = 'k8s.io/component-base/version';
  const flags =
    module === 'kubernetes'
      ? `-s -w -X ${version}.gitVersion=${kubernetesVersion.git} -X ${version}.gitMajor=${kubernetesVersion.major}` +
        ` -X ${version}.gitMinor=${kubernetesVersion.minor}`
      : '-s -w';
  try {
    await run('go', ['build', '-mod=readonly', '-trimpath', '-ldflags', flags, '-o', partial, path], {
      cwd: moduleSource(module),
      env: { CGO_ENABLED: '0' },
      onErrorLine: note,
    });
    renameSync(partial, target);
  } catch (error) {
    rmSync(partial, { force: true });
    const hint = String(error).includes('ENOENT') ? ' (install Go 1.26 or later from your distribution or go.dev)' : '';
    throw new Error(`Cannot build ${name}${hint}: ${error instanceof Error ? error.message : String(error)}`);
  }
}

function moduleSource(module: Tool['module']): string {
  return join(repository, 'deploy/local/tools', module);
}

function moduleCache(module: Tool['module']): string {
  const hash = createHash('sha256');
  const pins = ownPrograms.includes(module) ? ['go.mod', 'main.go'] : ['go.mod', 'go.sum'];
  for (const file of pins) hash.update(readFileSync(join(moduleSource(module), file)));
  return join(cacheFolder, 'tools', `${module}-${hash.digest('hex').slice(0, 12)}`);
}
