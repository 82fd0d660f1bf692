import { spawn } from 'node:child_process';

/** Runs a tool in the project and gives what it said if it failed; nothing when it exits with 0. */
export async function commandProblems(
  root: string,
  command: string,
  args: readonly string[],
): Promise<readonly string[]> {
  const child = spawn(command, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] });
  const said: Buffer[] = [];
  child.stdout.on('data', (chunk: Buffer) => said.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => said.push(chunk));
  const ended = await new Promise<string>((resolve) => {
    child.once('error', (error) => resolve(`cannot be run: ${error.message}`));
    child.once('close', (code, signal) => resolve(code === 0 ? '' : `ended with ${code ?? signal}`));
  });
  if (ended === '') return [];
  const output = Buffer.concat(said).toString().trimEnd();
  return [...(output === '' ? [] : output.split('\n')), `${[command, ...args].join(' ')}: ${ended}`];
}
