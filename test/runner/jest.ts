import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Counts, countJest, type JestResult } from './counts.ts';
import type { FileTime } from './times.ts';

export interface JestRun {
  readonly root: string;
  /** The folder whose tests run: `test/unit`. */
  readonly folder: string;
  readonly args: readonly string[];
  /** These files of it, by path. Absent: those that the arguments name, or all. */
  readonly files?: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

/** What Jest has run. */
export interface JestOutcome {
  readonly counts: Counts;
  readonly times: readonly FileTime[];
}

/** Those of the arguments that name files. */
export function patternsIn(args: readonly string[]): readonly string[] {
  return args.filter((arg) => arg.startsWith('test/'));
}

/** Runs Jest in a process of its own, with its own output, and counts. A Jest that dies counts as a failed test. */
export async function runJest({ root, folder, args, files, env, signal }: JestRun): Promise<JestOutcome> {
  const scratch = mkdtempSync(join(tmpdir(), 'windlass-jest-'));
  const outputFile = join(scratch, 'result.json');
  const patterns = patternsIn(args);
  const options = args.filter((arg) => !patterns.includes(arg));
  const jest = [
    join(root, 'node_modules/jest/bin/jest.js'),
    ...['--json', `--outputFile=${outputFile}`, '--forceExit', '--passWithNoTests', ...options],
    ...(files
      ? ['--runTestsByPath', ...files]
      : ['--testPathPatterns', ...(patterns.length > 0 ? patterns : [`${folder}/`])]),
  ];
  try {
    const child = spawn(process.execPath, jest, {
      cwd: root,
      stdio: ['ignore', 'inherit', 'inherit'],
      // Jest runs our ESM sources in VM modules, which Node still calls an experiment, in every worker.
      env: { ...process.env, ...env, NODE_OPTIONS: '--experimental-vm-modules --disable-warning=ExperimentalWarning' },
    });
    signal.addEventListener('abort', () => child.kill('SIGTERM'), { once: true });
    const ended = await new Promise<string>((resolve) => {
      child.once('error', (error) => resolve(error.message));
      child.once('close', (code, killedBy) => resolve(`exit ${code ?? killedBy}`));
    });
    return readResult(outputFile, ended);
  } finally {
    rmSync(scratch, { recursive: true });
  }
}

function readResult(outputFile: string, ended: string): JestOutcome {
  try {
    const result: JestResult = JSON.parse(readFileSync(outputFile, 'utf8'));
    const times = result.testResults.map(({ name, startTime, endTime }) => ({
      file: name,
      seconds: (endTime - startTime) / 1000,
    }));
    return { counts: countJest(result), times };
  } catch {
    console.log(`Jest ended without a result (${ended})`);
    return { counts: { passed: 0, failed: 1, skipped: 0 }, times: [] };
  }
}
