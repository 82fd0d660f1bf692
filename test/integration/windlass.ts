import { afterAll, beforeAll } from '@jest/globals';
import { startWindlass, type Windlass, type WindlassOptions } from '../support/windlass.ts';

/** Starts Windlass before the tests of a file and ends it after them. Answers how to get at it from within a test. */
export function useWindlass(options: WindlassOptions = {}): () => Windlass {
  let windlass: Windlass | undefined;
  beforeAll(async () => {
    windlass = await startWindlass(options);
  });
  afterAll(async () => {
    await windlass?.stop();
  });
  return () => {
    if (!windlass) throw new Error('Windlass runs only while tests do');
    return windlass;
  };
}
