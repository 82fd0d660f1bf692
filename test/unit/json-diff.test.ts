import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { applyPatch, type Operation } from 'rfc6902';
import { diffJson, formatPath } from '../../api/base/json-diff.ts';

describe('diffJson', () => {
  it('compares lists item by item', () => {
    expect(diffJson({ list: [{ a: 1 }, { a: 2 }] }, { list: [{ a: 1 }, { a: 3 }, { a: 2 }] })).toEqual([
      { op: 'replace', path: ['list', '1', 'a'], value: 3 },
      { op: 'add', path: ['list', '2'], value: { a: 2 } },
    ]);
  });

  it('names a whole map when there was none', () => {
    expect(diffJson({}, { annotations: { a: 'b' } })).toEqual([
      { op: 'add', path: ['annotations'], value: { a: 'b' } },
    ]);
    expect(diffJson({ annotations: {} }, { annotations: { a: 'b' } })).toEqual([
      { op: 'add', path: ['annotations', 'a'], value: 'b' },
    ]);
  });

  it('leads from one document to the other', () => {
    const key = fc.constantFrom('a', 'b/c', 'd~e', '0');
    const { documents } = fc.letrec((tie) => ({
      documents: fc.dictionary(key, tie('value')),
      value: fc.oneof({ maxDepth: 3 }, fc.constantFrom(null, 1, 'x'), fc.array(tie('value')), tie('documents')),
    }));
    fc.assert(
      fc.property(documents, documents, (from, to) => {
        const [before, after] = [JSON.parse(JSON.stringify(from)), JSON.parse(JSON.stringify(to))];
        // Removals are made from the end of a list, or indexes would shift.
        const operations = diffJson(before, after);
        const removals = operations.filter(({ op }) => op === 'remove').toReversed();
        applyPatch(before, [...operations.filter(({ op }) => op !== 'remove'), ...removals].map(asPatch));
        expect(before).toEqual(after);
      }),
    );
  });
});

describe('formatPath', () => {
  it('writes a path as people do', () => {
    expect(formatPath(['spec', 'containers', '0', 'image'])).toBe('spec.containers[0].image');
    expect(formatPath(['metadata', 'labels', 'example.com/team'])).toBe('metadata.labels[example.com/team]');
    expect(formatPath([])).toBe('');
  });
});

function asPatch(operation: ReturnType<typeof diffJson>[number]): Operation {
  const path = operation.path.map((piece) => `/${piece.replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
  return { ...operation, path } as Operation;
}
