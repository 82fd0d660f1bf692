import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { groupedFiles, groupsIn } from '../runner/groups.ts';

// concatenated, so that this file does not count as one of them
const alone = `describe${'Alone'}`;
const together = `describe${'Together'}`;
const proof = `describe${'Proof'}`;

describe('groupsIn', () => {
  it('runs a file beside others unless it says otherwise', () => {
    expect(groupsIn(`describe('a pod', () => {})`)).toEqual(['together']);
    expect(groupsIn(`${alone}('a death', () => {})`)).toEqual(['alone']);
    expect(groupsIn(`${together}('a pod', () => {}); ${alone}('a death', () => {})`)).toEqual(['together', 'alone']);
  });

  it('keeps proofs apart by their topics', () => {
    expect(groupsIn(`${proof}('load', 'a burst', () => {})`)).toEqual(['load']);
    expect(groupsIn(`${proof}(\n  'by-hand',\n 'a reset', () => {}); ${alone}('a death', () => {})`)).toEqual([
      'alone',
      'by-hand',
    ]);
    expect(groupsIn(`${together}('a pod', () => {}); ${proof}('slow', 'a freeze', () => {})`)).toEqual([
      'together',
      'slow',
    ]);
  });
});

describe('groupedFiles', () => {
  let root = '';
  beforeAll(() => {
    root = mkdtempSync(join(tmpdir(), 'windlass-groups-'));
    mkdirSync(join(root, 'test', 'e2e', 'deep'), { recursive: true });
    const files = {
      'image.test.ts': `${alone}('it', () => {})`,
      'cloneset.test.ts': `${together}('it', () => {}); ${alone}('it', () => {})`,
      'bursts.test.ts': `${proof}('load', 'it', () => {})`,
      'deep/environment.test.ts': `describe('it', () => {})`,
      'fleet.ts': `${alone}('no test', () => {})`,
    };
    for (const [file, text] of Object.entries(files)) writeFileSync(join(root, 'test', 'e2e', file), text);
  });
  afterAll(() => rmSync(root, { recursive: true }));

  it('finds the files of a folder by group', () => {
    expect(groupedFiles(root, 'test/e2e', [])).toEqual({
      together: ['test/e2e/cloneset.test.ts', 'test/e2e/deep/environment.test.ts'],
      alone: ['test/e2e/cloneset.test.ts', 'test/e2e/image.test.ts'],
      load: ['test/e2e/bursts.test.ts'],
      'by-hand': [],
      slow: [],
      docs: [],
    });
  });

  it('finds those that a pattern names', () => {
    expect(groupedFiles(root, 'test/e2e', ['test/e2e/image', 'environment'])).toMatchObject({
      together: ['test/e2e/deep/environment.test.ts'],
      alone: ['test/e2e/image.test.ts'],
    });
    expect(groupedFiles(root, 'test/e2e', ['nothing'])).toMatchObject({ together: [], alone: [], load: [] });
  });
});
