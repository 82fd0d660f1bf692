import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { nothing } from './counts.ts';
import { type FileResult, fileResults, type JestResult } from './jest-result.ts';

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

/** Those of the arguments that name files. */
export function patternsIn(args: readonly string[]): readonly string[] {
  return args.filter((arg) => arg.startsWith('test/'));
}

/**
 * Runs Jest in a process of its own, with its own output. A Jest that dies, or calls a run failed in which no file
 * failed, counts as a failed test of the folder.
 */
export async function runJest({ root, folder, args, files, env, signal }: JestRun): Promise<readonly FileResult[]> {
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
    const results = fileResults(readResult(outputFile), root);
    const isRed = results.some(({ counts }) => counts.failed > 0);
    return ended === 'exit 0' || isRed ? results : [...results, withoutResult(folder, ended)];
  } finally {
    rmSync(scratch, { recursive: true });
  }
}

/** Nothing, if Jest has written none. */
function readResult(outputFile: string): JestResult {
  return existsSync(outputFile) ? JSON.parse(readFileSync(outputFile, 'utf8')) : { testResults: [] };
}

/** Stands for the tests that Jest did not come to. */
function withoutResult(folder: string, ended: string): FileResult {
  const failures = [{ test: '', why: `Jest ended with ${ended}, and no file has failed` }];
  return { file: folder, seconds: 0, counts: { ...nothing, failed: 1 }, tests: [], failures };
}
