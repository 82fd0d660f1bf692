import { afterAll, beforeAll } from '@jest/globals';
import { joinWindlass, startWindlass, type Windlass, type WindlassOptions } from '../support/windlass.ts';

/** Set where watcher, worker and webhook were started with their defaults for all files that run together. */
const isShared = process.env.WINDLASS_SHARED === '1';

/**
 * Starts Windlass before the tests of a file and stops it after them. Returns a function that returns it during a test.
 */
export function useWindlass(options: WindlassOptions = {}): () => Windlass {
  return whileTestsRun(() => startWindlass(options));
}

/**
 * The Windlass that all files share, with a node for this file. If there is none, because the file is run alone, one is
 * started. The tests must not change the roles, their rights and their registrations.
 */
export function useSharedWindlass(): () => Windlass {
  return whileTestsRun(() => (isShared ? joinWindlass() : startWindlass()));
}

function whileTestsRun(start: () => Promise<Windlass>): () => Windlass {
  let windlass: Windlass | undefined;
  beforeAll(async () => {
    windlass = await start();
  });
  afterAll(async () => {
    await windlass?.stop();
  });
  return () => {
    if (!windlass) throw new Error('Windlass runs only while tests do');
    return windlass;
  };
}
