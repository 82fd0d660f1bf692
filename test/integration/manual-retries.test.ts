import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { commandLinesOf } from '../support/command-lines.ts';
import { describeProof } from '../support/groups.ts';
import { commandRows } from '../support/manual-retries/command-rows.ts';
import { startOperations, stopOperations, typing } from '../support/manual-retries/operations.ts';
import { runRows } from '../support/manual-retries/run-rows.ts';
import { useSharedWindlass } from './windlass.ts';

const page = new URL('../../docs/manual-retries.md', import.meta.url);

const windlass = useSharedWindlass();

beforeAll(async () => await startOperations(windlass));

afterAll(stopOperations);

const rows = [...commandRows, ...runRows];

describeProof('by-hand', 'the page of manual retries', () => {
  it('has a test for each command line', () => {
    expect(rows.flatMap(({ lines }) => lines).toSorted()).toEqual(commandLinesOf(page).toSorted());
  });

  for (const { lines, tests } of rows) {
    for (const line of lines) {
      // tctl sends what temporal does, so what each type does then need not be tested twice
      const all = Object.entries(tests);
      for (const [what, test] of line.startsWith('tctl ') ? all.slice(0, 1) : all) {
        it.concurrent(`${line}: ${what}`, async () => await test(typing(line)));
      }
    }
  }
});
