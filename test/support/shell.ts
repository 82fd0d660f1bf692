import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';

/** What a command of a shell has printed, and how it has ended. */
export interface ShellAnswer {
  readonly code: number;
  /** Standard output and standard error as they came. */
  readonly output: string;
}

/** One bash that runs commands one after the other, like that of a reader: variables and exports stay. */
export class Shell {
  readonly #bash: ChildProcessWithoutNullStreams;
  #printed = '';
  #count = 0;

  constructor({ cwd, env }: { readonly cwd: string; readonly env: NodeJS.ProcessEnv }) {
    // A process group of its own, so that a command that hangs ends with what it has started.
    this.#bash = spawn('bash', ['--noprofile', '--norc'], { cwd, env, detached: true });
    this.#bash.stdout.setEncoding('utf8').on('data', (text: string) => {
      this.#printed += text;
    });
    this.#bash.stdin.write('exec 2>&1\n');
  }

  /** The answer of a command; an error, and the end of the shell, when it takes too long. */
  async run(command: string, { deadlineMs }: { readonly deadlineMs: number }): Promise<ShellAnswer> {
    this.#count += 1;
    this.#printed = '';
    const end = new RegExp(`\\n?end-of-${this.#count} (\\d+)\\n`);
    this.#bash.stdin.write(`{\n${command}\n} </dev/null\nprintf '\\nend-of-${this.#count} %s\\n' $?\n`);
    const signal = AbortSignal.timeout(deadlineMs);
    for (;;) {
      const found = end.exec(this.#printed);
      if (found) return { code: Number(found[1]), output: this.#printed.slice(0, found.index) };
      await new Promise<void>((resolve, reject) => {
        const late = () => {
          this.close();
          reject(new Error(`No end after ${deadlineMs / 1000} s: ${command}\n${this.#printed}`));
        };
        if (signal.aborted) late();
        signal.addEventListener('abort', late, { once: true });
        this.#bash.stdout.once('data', () => {
          signal.removeEventListener('abort', late);
          resolve();
        });
      });
    }
  }

  close(): void {
    const { pid } = this.#bash;
    if (pid === undefined) return;
    try {
      process.kill(-pid, 'SIGKILL');
    } catch {
      // it has ended
    }
  }
}
