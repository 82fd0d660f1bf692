import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { addToLedger, describeLedger, type LedgerEntry, readLedger } from '../runner/ledger.ts';

function entry(overrides: Partial<LedgerEntry> = {}): LedgerEntry {
  const files = ['a', 'b', 'c'];
  return { at: '2026-11-28T09:00:00Z', commit: 'abc', phase: 'e2e', files, red: [], flakes: [], ...overrides };
}

const late = { test: 'is on time', why: 'late', isSafety: false };

describe('the ledger of flaky tests', () => {
  let folder = '';
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'windlass-ledger-'));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  it('says how often a file was flaky or red, the most flaky one first', () => {
    const flaky = entry({ flakes: [{ file: 'a', ...late }], red: ['c'] });
    expect(describeLedger([entry({ files: ['b', 'c'] }), flaky, entry({ flakes: [{ file: 'b', ...late }] })])).toEqual([
      'a: flaky in 1 of 2 runs, red in 0',
      '  last at 2026-11-28T09:00:00Z, abc: is on time: late',
      'b: flaky in 1 of 3 runs, red in 0',
      '  last at 2026-11-28T09:00:00Z, abc: is on time: late',
      'c: flaky in 0 of 3 runs, red in 1',
      '3 runs of phases, 3 files that were flaky or red',
    ]);
  });

  it('keeps the last runs', async () => {
    const file = join(folder, 'ledger.json');
    for (let run = 0; run < 203; run += 1) await addToLedger(entry({ commit: String(run) }), file);
    const kept = readLedger(file);
    expect([kept.length, kept[0]?.commit, kept.at(-1)?.commit]).toEqual([200, '3', '202']);
  });

  it('is empty where nothing has run', () => {
    expect(describeLedger(readLedger(join(folder, 'none.json')))).toEqual([
      '0 runs of phases, 0 files that were flaky or red',
    ]);
  });
});
