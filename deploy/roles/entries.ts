/** The source file with which each role of Windlass starts. */
export const roleEntries = {
  watcher: 'watcher/main.ts',
  webhook: 'watcher/admission/main.ts',
  worker: 'workers/main.ts',
  daemon: 'daemon/main.ts',
  all: 'workers/all.ts',
} as const;

/** A process of Windlass, as the first argument of the image names it. */
export type RoleName = keyof typeof roleEntries;

/**
 * What Node is told when it runs a bundled role, here and in the image. Left to itself it lets garbage grow to tens of
 * megabytes before it sweeps, and in the worker twice; with a quarter of that a burst takes as much time as without. The
 * other flag lets a role sweep when it has nothing else to do.
 */
export const nodeFlags: readonly string[] = ['--max-semi-space-size=4', '--expose-gc'];

/** And the C library: to give back what a burst has taken. By itself it keeps twice the largest piece ever freed. */
export const nodeEnvironment: Readonly<Record<string, string>> = { MALLOC_TRIM_THRESHOLD_: '131072' };
