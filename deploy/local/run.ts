// Runs a command to its end.
import { spawn } from 'node:child_process';

/** Options of `run`. */
export interface RunOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  readonly input?: string;
  /** Called with each line of standard error. */
  readonly onErrorLine?: (line: string) => void;
}

/** Runs a command and returns its standard output; a failure names the command and quotes the end of its output. */
export function run(command: string, args: readonly string[], options: RunOptions = {}): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      cwd: options.cwd,
      env: { ...process.env, ...options.env },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    let stdout = '';
    let stderr = '';
    child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
      stdout += chunk;
    });
    child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
      stderr = (stderr + chunk).slice(-20_000);
      const line = chunk.trim().split('\n').at(-1);
      if (line) options.onErrorLine?.(line);
    });
    child.stdin.on('error', () => undefined); // a command that does not read its input has not failed
    child.stdin.end(options.input ?? '');
    child.once('error', (error) => reject(new Error(`Cannot run ${command}: ${error.message}`)));
    child.once('close', (code, signal) => {
      if (code === 0) {
        resolve(stdout);
        return;
      }
      const words = (stderr.trim() || stdout.trim()).split('\n').slice(-15).join('\n');
      reject(
        new Error(`Cannot run ${[command, ...args].join(' ').slice(0, 300)}: ended with ${code ?? signal}\n${words}`),
      );
    });
  });
}
