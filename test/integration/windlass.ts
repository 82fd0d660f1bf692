import { afterAll, beforeAll } from '@jest/globals';
import { joinWindlass, startWindlass, type Windlass, type WindlassOptions } from '../support/windlass.ts';

/** Set where the phase has started watcher, worker and webhook with their defaults for all files that run together. */
const isShared = process.env.WINDLASS_SHARED === '1';

/** Starts Windlass before the tests of a file and ends it after them. Answers how to get at it from within a test. */
export function useWindlass(options: WindlassOptions = {}): () => Windlass {
  return whileTestsRun(() => startWindlass(options));
}

/**
 * The Windlass that all files share, with a node of this file's own. Where there is none, because the file is run alone,
 * one is started for it. Its tests must leave the roles, their rights and their registrations as they are.
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
