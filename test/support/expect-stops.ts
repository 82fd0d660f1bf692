import { expect } from '@jest/globals';
import { BrokenPromise } from './broken-promise.ts';

/** Expects these stops of a pod's containers, in order. One more stop of a container than expected is a broken promise. */
export function expectStops(stops: readonly string[], expected: readonly string[]): void {
  const times = (names: readonly string[], name: string): number => names.filter((other) => other === name).length;
  for (const name of new Set(stops)) {
    const [found, due] = [times(stops, name), times(expected, name)];
    if (found > due) throw new BrokenPromise(`container "${name}" was stopped ${found} times, not ${due}`);
  }
  expect(stops).toEqual(expected);
}
