import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import {
  corpusTable,
  type Drain,
  freezeCorpus,
  misplaced,
  type ReleasedHistory,
  readCorpus,
} from '../support/release-corpus.ts';

const release = '1.2.3-abcdef0';
const drain: Drain = { history: 'rollOut/paused', commit: '1234567 fix: a pause', reason: 'It waits in another way' };
let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'windlass-corpus-'));
  for (const file of ['rollOut/paused', 'rollOut/trivial', 'pullImages/many']) write(`sources/${file}.json`, file);
  freezeCorpus(release, join(folder, 'sources'), folder);
});

afterEach(() => rmSync(folder, { recursive: true }));

describe('the histories of a release', () => {
  it('are taken over whole', () => {
    const { histories, problems } = readCorpus(folder);
    expect(problems).toEqual([]);
    expect(histories.map(({ workflow, branch, kind }) => `${workflow}/${branch} ${kind}`)).toEqual([
      'pullImages/many replays',
      'rollOut/paused replays',
      'rollOut/trivial replays',
    ]);
    expect(histories.map(({ file }) => readFileSync(file, 'utf8'))).toEqual([
      'pullImages/many',
      'rollOut/paused',
      'rollOut/trivial',
    ]);
  });

  it('stay when they are taken over again, and are not replaced by others', () => {
    moveToDrains(drain);
    freezeCorpus(release, join(folder, 'sources'), folder);
    expect(readdirSync(join(folder, 'releases', release, 'rollOut'))).toEqual(['trivial.json']);
    write('sources/rollOut/trivial.json', 'recorded again');
    expect(() => freezeCorpus(release, join(folder, 'sources'), folder)).toThrow('holds others');
    expect(readCorpus(folder).problems).toEqual([]);
  });

  it('may lie in drains, with a commit and a reason', () => {
    moveToDrains(drain);
    const { histories, problems } = readCorpus(folder);
    expect(problems).toEqual([]);
    expect(histories).toContainEqual(expect.objectContaining({ branch: 'paused', kind: 'drains' }));
    expect(histories).toHaveLength(3);
  });

  it.each<[string, () => void, string]>([
    [
      'recorded again',
      () => appendFileSync(place('rollOut/paused'), ' '),
      `${release}/rollOut/paused.json: it has changed`,
    ],
    ['removed', () => rmSync(place('rollOut/paused')), `${release}/rollOut/paused.json: it is gone`],
    ['added', () => write(`releases/${release}/rollOut/new.json`, ''), 'new.json: SHA256SUMS does not name it'],
    ['without a checksum', () => rmSync(join(folder, 'releases', release, 'SHA256SUMS')), 'SHA256SUMS: it is absent'],
    ['in drains without a line', () => moveToDrains(), 'paused.json: drains.json has no line for it'],
    ['in drains without a reason', () => moveToDrains({ ...drain, reason: '' }), 'needs a commit and a reason'],
    ['in drains without a commit', () => moveToDrains({ ...drain, commit: '' }), 'needs a commit and a reason'],
    ['a line only', () => moveToDrains(drain, { ...drain, history: 'rollOut/trivial' }), 'there is no such file'],
    ['of no release', () => write('drains/0.0.9/rollOut/paused.json', ''), 'drains/0.0.9: there is no releases/0.0.9'],
  ])('are refused when one is %s', (_what, change, problem) => {
    change();
    expect(readCorpus(folder).problems.join('\n')).toContain(problem);
  });

  it('are refused when one is in both places', () => {
    moveToDrains(drain);
    write(`releases/${release}/rollOut/paused.json`, 'rollOut/paused');
    expect(readCorpus(folder).problems).toEqual([`drains/${release}/rollOut/paused.json: it is in releases as well`]);
  });
});

describe('a history that has changed its class', () => {
  const replays: ReleasedHistory = { release, workflow: 'rollOut', branch: 'paused', file: '', kind: 'replays' };

  it('is told with what to do', () => {
    expect(misplaced(replays, 'replays')).toBeUndefined();
    expect(misplaced(replays, 'drains')).toBe(
      'history rollOut/paused of release 1.2.3-abcdef0 no longer replays: runs of that release would have to drain; ' +
        'move it to drains/ in the commit that breaks it and say so in docs/upgrading.md, or make the change replay',
    );
    expect(misplaced({ ...replays, kind: 'drains' }, 'replays')).toContain('move it back from drains/ to releases/');
  });

  it('stands in the table by what it does now', () => {
    const outcomes = [
      { ...replays, now: 'drains' },
      { ...replays, branch: 'trivial', now: 'replays' },
      { ...replays, branch: 'undone', now: 'replays' },
    ] as const;
    expect(corpusTable(outcomes).split('\n')).toEqual([
      'Histories of release 1.2.3-abcdef0: 2 replay, 1 drain',
      '  rollOut            drains   paused',
      '  rollOut            replays  trivial, undone',
      '',
    ]);
  });
});

function place(history: string): string {
  return join(folder, 'releases', release, `${history}.json`);
}

/** Moves rollOut/paused, and writes these lines. */
function moveToDrains(...drains: readonly Drain[]): void {
  const target = join(folder, 'drains', release);
  mkdirSync(join(target, 'rollOut'), { recursive: true });
  renameSync(place('rollOut/paused'), join(target, 'rollOut/paused.json'));
  writeFileSync(join(target, 'drains.json'), JSON.stringify(drains));
}

function write(path: string, text: string): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), text);
}
