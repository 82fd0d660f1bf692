import { relative } from 'node:path';
import type { Counts } from './counts.ts';

/** The parts of Jest's JSON result that are read. */
export interface JestResult {
  readonly testResults: readonly JestFile[];
}

interface JestFile {
  /** An absolute path. */
  readonly name: string;
  readonly status: string;
  /** Of a file that failed: everything that Jest printed about it. */
  readonly message: string;
  /** In milliseconds since 1970, as `endTime`. */
  readonly startTime: number;
  readonly endTime: number;
  readonly assertionResults: readonly JestTest[];
}

interface JestTest {
  readonly fullName: string;
  readonly status: string;
  /** In milliseconds. Absent or null for tests that did not run. */
  readonly duration?: number | null;
  readonly failureMessages?: readonly string[];
}

/** What became of one test file. */
export interface FileResult {
  /** Its path in the project. */
  readonly file: string;
  readonly seconds: number;
  readonly counts: Counts;
  readonly tests: readonly TestTime[];
  readonly failures: readonly Failure[];
}

export interface TestTime {
  readonly test: string;
  readonly seconds: number;
}

/** A test that failed, or a file that could not be run. */
export interface Failure {
  /** Empty: the file as a whole. */
  readonly test: string;
  /** With its stack. */
  readonly why: string;
}

/** By file. One that could not be run, or that failed beside its tests, counts as one failed test. */
export function fileResults({ testResults }: JestResult, root: string): readonly FileResult[] {
  return testResults.map(({ name, status, message, startTime, endTime, assertionResults: tests }) => {
    const failed = tests.filter((test) => test.status === 'failed');
    const failures = failed.map(({ fullName, failureMessages = [] }) => ({
      ...{ test: fullName, why: failureMessages.join('\n') },
    }));
    const beside = status === 'failed' && failures.length === 0 ? [{ test: '', why: message }] : [];
    const passed = tests.filter((test) => test.status === 'passed').length;
    return {
      file: relative(root, name),
      seconds: (endTime - startTime) / 1000,
      counts: {
        ...{ passed, failed: failures.length + beside.length },
        skipped: tests.filter((test) => ['pending', 'todo', 'skipped', 'disabled'].includes(test.status)).length,
      },
      tests: tests.flatMap(({ fullName, duration }) =>
        typeof duration === 'number' ? [{ test: fullName, seconds: duration / 1000 }] : [],
      ),
      failures: [...failures, ...beside],
    };
  });
}
