import { describe, expect, it } from '@jest/globals';
import { formatSelector, isSelected, type LabelSelector, labelMatcher } from '../../api/core/label-selector.ts';

const by = (operator: string, ...values: readonly string[]): LabelSelector => ({
  matchExpressions: [{ key: 'tier', operator, ...(values.length > 0 && { values }) }],
});

describe('isSelected', () => {
  it.each([
    [by('In', 'a', 'b'), true, false, false],
    [by('NotIn', 'a', 'b'), false, true, true],
    [by('Exists'), true, true, false],
    [by('DoesNotExist'), false, false, true],
    [{ matchLabels: { tier: 'a' } }, true, false, false],
    [{}, true, true, true],
  ])('%j: for tier=a, tier=c, and without the label', (selector, withA, withC, without) => {
    expect([
      isSelected(selector, { tier: 'a' }),
      isSelected(selector, { tier: 'c' }),
      isSelected(selector, {}),
    ]).toEqual([withA, withC, without]);
  });

  it('asks for every part', () => {
    const selector = { matchLabels: { app: 'web' }, ...by('In', 'a') };
    expect([isSelected(selector, { app: 'web', tier: 'a' }), isSelected(selector, { app: 'web' })]).toEqual([
      true,
      false,
    ]);
  });

  it('treats absent labels as none, and inherited properties as no labels', () => {
    expect(isSelected(by('DoesNotExist'), undefined)).toBe(true);
    expect(isSelected({ matchExpressions: [{ key: 'constructor', operator: 'Exists' }] }, {})).toBe(false);
  });

  it('selects nothing with a selector that is malformed', () => {
    for (const selector of [by('In'), by('NotIn'), by('Exists', 'a'), by('DoesNotExist', 'a'), by('Like', 'a')]) {
      expect(labelMatcher(selector)).toBeUndefined();
      expect(isSelected(selector, { tier: 'a' })).toBe(false);
    }
  });
});

describe('formatSelector', () => {
  it('writes the parts by key, in the words of label queries', () => {
    const selector: LabelSelector = {
      matchLabels: { zone: 'z', app: 'web' },
      matchExpressions: [
        { key: 'tier', operator: 'NotIn', values: ['b', 'a'] },
        { key: 'env', operator: 'In', values: ['prod'] },
        { key: 'old', operator: 'DoesNotExist' },
        { key: 'new', operator: 'Exists' },
      ],
    };
    expect(formatSelector(selector)).toBe('app=web,env in (prod),new,!old,tier notin (a,b),zone=z');
  });

  it('writes nothing for a selector of everything', () => {
    expect(formatSelector({})).toBe('');
  });
});
