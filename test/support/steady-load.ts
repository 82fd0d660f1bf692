import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/** The results of all requests. */
export interface LoadReport {
  readonly asked: number;
  readonly failures: readonly { readonly at: string; readonly why: string }[];
  /** How often each text was the answer. */
  readonly answers: Readonly<Record<string, number>>;
  readonly slowestMs: number;
}

/** A line in the output of the load process. */
export type LoadLine =
  | { readonly kind: 'begun' }
  /** A request is not connected after some seconds; it comes from this port. */
  | { readonly kind: 'stuck'; readonly at: string; readonly port: number }
  | { readonly kind: 'ended'; readonly report: LoadReport };

export interface SteadyLoad {
  /** Waits for the requests in progress. */
  stop(): Promise<LoadReport>;
}

export interface LoadOptions {
  /** Each of them is requested. */
  readonly urls: readonly string[];
  /** Concurrent requests of each URL. */
  readonly atOnce: number;
  /** Between an answer and the next request. */
  readonly pauseMs: number;
  /** The number of requests that are made however soon the load is stopped. Absent: none. */
  readonly atLeast?: number;
  /** The command line that runs another one where the requests are to come from. */
  readonly commandIn: (argv: readonly string[]) => readonly string[];
  /** Called while a request waits for its connection, so that the reason can still be found. */
  readonly onStuck?: (port: number) => Promise<void>;
}

/**
 * Requests URLs continuously, each time over a new connection, from a process of its own. Resolves when each has
 * answered, without its query, once.
 */
export async function steadyLoad(options: LoadOptions): Promise<SteadyLoad> {
  const { urls, atOnce, pauseMs, atLeast = 0, commandIn, onStuck } = options;
  const script = fileURLToPath(new URL('./http-load.ts', import.meta.url));
  const argv = commandIn([process.execPath, script, ...[atOnce, pauseMs, atLeast].map(String), ...urls]);
  const child = spawn(argv[0] ?? '', argv.slice(1), { stdio: ['pipe', 'pipe', 'inherit'] });
  const exited = once(child, 'exit');
  const begun = Promise.withResolvers<void>();
  const looks: Promise<void>[] = [];
  let report: LoadReport | undefined;
  createInterface({ input: child.stdout }).on('line', (text) => {
    const line: LoadLine = JSON.parse(text);
    if (line.kind === 'begun') begun.resolve();
    if (line.kind === 'stuck' && onStuck) looks.push(onStuck(line.port));
    if (line.kind === 'ended') ({ report } = line);
  });
  await Promise.race([begun.promise, exited]);
  if (child.exitCode !== null) throw new Error(`Cannot ask ${urls}: the load ended before its first answer`);

  return {
    async stop() {
      child.stdin.end();
      await once(child, 'close');
      await Promise.all(looks);
      if (report === undefined) throw new Error(`Cannot ask ${urls}: the load ended without a report`);
      return report;
    },
  };
}
