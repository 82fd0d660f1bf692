// `npm run picture`: a recording of a real restart for the README, and pages of Temporal's UI. Commands and answers are exactly
// as shown.
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { writeFile } from './files.ts';
import { repository } from './instance.ts';
import { down, status, up } from './platform.ts';
import type { Progress } from './progress.ts';
import { run } from './run.ts';
import { samples } from './start.ts';
import { alignedColumns, type TerminalLine, terminalPicture } from './terminal-picture.ts';
import { toolPath } from './tools.ts';
import { recordUiPictures } from './ui-pictures.ts';

const target = 'docs/images/restart.svg';

/** Records the sample request on the sample pod of an instance, which is stopped afterwards unless it was up before. */
export async function recordPicture(name: string, progress: Progress): Promise<void> {
  const wasUp = status(name) !== undefined;
  try {
    const { kubeconfig, folder } = await up({ name, nodes: 2, windlass: true, progress });
    const env = { KUBECONFIG: kubeconfig, KUBECACHEDIR: join(folder, 'control-plane/kubectl') };
    const svg = await progress.step('Recording', () => record(env));
    writeFile(join(repository, target), svg, 0o644);
    progress.say(`Written: ${target}`);
    await recordUiPictures(name, progress);
  } finally {
    if (!wasUp) await down(name, progress);
  }
}

type Environment = Readonly<Record<string, string>>;

async function record(env: Environment): Promise<string> {
  // A new pod: the kubelet backs off from a container's second restart on.
  for (const file of [samples.request, samples.pod]) await kubectl(env, `delete --ignore-not-found -f ${file}`);
  await kubectl(env, `apply -f ${samples.pod}`);
  await kubectl(env, 'wait pod/web --for=condition=Ready --timeout=300s');

  const lines = [
    ...(await typed(env, 'get pod web -o wide')),
    ...(await typed(env, `apply -f ${samples.request}`)),
    ...(await watched(env, ['get crr restart-web --watch', `-o custom-columns-file=${samples.columns}`])),
    ...(await typed(env, 'get pod web -o wide')),
  ];
  const server = JSON.parse(await kubectl(env, 'version -o json')) as { serverVersion: { gitVersion: string } };
  const { version } = JSON.parse(readFileSync(join(repository, 'package.json'), 'utf8')) as { version: string };
  const day = new Date(lines[0]?.atMs ?? 0).toISOString().slice(0, 10);
  return terminalPicture({
    title: 'The containers of a pod are restarted one after the other, and each is ready before the next is stopped',
    lines,
    footer: `Recorded on ${day} by npm run picture: Windlass ${version}, Kubernetes ${server.serverVersion.gitVersion}`,
  });
}

async function typed(env: Environment, command: string): Promise<TerminalLine[]> {
  const typedAtMs = Date.now();
  const answer = await kubectl(env, command);
  const answeredAtMs = Date.now();
  return [
    { kind: 'typed', atMs: typedAtMs, text: `kubectl ${command}` },
    ...answer
      .trimEnd()
      .split('\n')
      .map((text): TerminalLine => ({ kind: 'answered', atMs: answeredAtMs, text })),
  ];
}

/** Watches until the first column is Completed. Repeated rows are left out. */
async function watched(env: Environment, [command, options]: readonly [string, string]): Promise<TerminalLine[]> {
  const startedAtMs = Date.now();
  const child = spawn(toolPath('kubectl'), `${command} ${options}`.split(' '), {
    cwd: repository,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const late = setTimeout(() => child.kill(), 300_000);
  const rows: { readonly atMs: number; readonly words: readonly string[] }[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    const words = line.split(/\s+/);
    if (words.join() === rows.at(-1)?.words.join()) continue;
    rows.push({ atMs: Date.now(), words });
    if (words[0] === 'Completed') break;
  }
  clearTimeout(late);
  child.kill();
  if (rows.at(-1)?.words[0] !== 'Completed') throw new Error(`kubectl ${command}: ended before the request did`);

  // kubectl widens its columns as it prints.
  const texts = alignedColumns(rows.map(({ words }) => words));
  return [
    { kind: 'typed', atMs: startedAtMs, text: `kubectl ${command} ${options}` },
    ...rows.map(({ atMs }, index): TerminalLine => ({ kind: 'answered', atMs, text: texts[index] ?? '' })),
  ];
}

function kubectl(env: Environment, command: string): Promise<string> {
  return run(toolPath('kubectl'), command.split(' '), { cwd: repository, env });
}
