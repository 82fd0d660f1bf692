import { describe, expect, it } from '@jest/globals';
import { newReporter } from '../../workflows/shared/reporter.ts';
import { type Gate, newGate } from '../support/gate.ts';

/** A reporter of strings whose writes end when the test says so. */
function reporterOf(initial: string) {
  const writes: string[] = [];
  const gates: Gate[] = [];
  const reporter = newReporter<string>({
    initial,
    same: (a, b) => a === b,
    write: async (before, wanted) => {
      writes.push(`${before}>${wanted}`);
      const gate = newGate();
      gates.push(gate);
      await gate.opened;
      return wanted;
    },
  });
  const finish = async () => {
    gates.shift()?.open();
    await new Promise<void>((resolve) => {
      setImmediate(resolve);
    });
  };
  return { reporter, writes, finish };
}

describe('newReporter', () => {
  it('writes what differs, one after the other, and skips what is overtaken', async () => {
    const { reporter, writes, finish } = reporterOf('a');
    reporter.report('a');
    expect(writes).toEqual([]);
    for (const status of ['b', 'c', 'd']) reporter.report(status);
    expect(writes).toEqual(['a>b']);
    await finish();
    expect(writes).toEqual(['a>b', 'b>d']);
    await finish();
    expect(writes).toHaveLength(2);
  });

  it('writes again what somebody has written over, also when that is found during a write', async () => {
    const { reporter, writes, finish } = reporterOf('a');
    reporter.correct(() => 'x');
    expect(writes).toEqual(['x>a']);
    reporter.correct((written) => `${written}!`);
    await finish();
    expect(writes).toEqual(['x>a', 'a!>a']);
    await finish();
    expect(writes).toHaveLength(2);
  });
});
