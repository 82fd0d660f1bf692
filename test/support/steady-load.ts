import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/** What became of all requests. */
export interface LoadReport {
  readonly asked: number;
  readonly failures: readonly { readonly at: string; readonly why: string }[];
  /** How often each text was the answer. */
  readonly answers: Readonly<Record<string, number>>;
  readonly slowestMs: number;
}

export interface SteadyLoad {
  /** Lets what is under way end. */
  stop(): Promise<LoadReport>;
}

export interface LoadOptions {
  readonly url: string;
  readonly atOnce: number;
  /** Between an answer and the next request. */
  readonly pauseMs: number;
  /** Puts a command line to where the requests are to come from. */
  readonly commandIn: (argv: readonly string[]) => readonly string[];
}

/** Asks a URL all the time, each time over a new connection, from a process of its own. Resolves with the first answer. */
export async function steadyLoad({ url, atOnce, pauseMs, commandIn }: LoadOptions): Promise<SteadyLoad> {
  const script = fileURLToPath(new URL('./http-load.ts', import.meta.url));
  const argv = commandIn([process.execPath, script, url, String(atOnce), String(pauseMs)]);
  const child = spawn(argv[0] ?? '', argv.slice(1), { stdio: ['pipe', 'pipe', 'inherit'] });
  const exited = once(child, 'exit');
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const begun = await lines.next();
  if (begun.value !== 'begun') throw new Error(`Cannot ask ${url}: the load ended before its first answer`);

  return {
    async stop() {
      child.stdin.end();
      const told = await lines.next();
      await exited;
      return JSON.parse(String(told.value)) as LoadReport;
    },
  };
}
