/** The entry point of each role of Windlass. */
export const roleEntries = {
  watcher: 'watcher/main.ts',
  webhook: 'webhook/main.ts',
  worker: 'workers/main.ts',
  daemon: 'daemon/main.ts',
  all: 'workers/all.ts',
} as const;

/** A role, as the image's first argument names it. */
export type RoleName = keyof typeof roleEntries;

/**
 * Node's flags for a bundled role, here and in the image. By default Node collects garbage only after tens of
 * megabytes, and in the worker in two heaps; with a quarter of that, a burst takes the same time. The other flag lets a
 * role collect garbage when it is idle.
 */
export const nodeFlags: readonly string[] = ['--max-semi-space-size=4', '--expose-gc'];

/** For the C library: return freed memory to the system. By default it keeps twice the largest piece ever freed. */
export const nodeEnvironment: Readonly<Record<string, string>> = { MALLOC_TRIM_THRESHOLD_: '131072' };
