import { expect, test } from '@jest/globals';
import { ordinalIn, ordinalsOf, parseReserved, type ReservedOrdinal } from '../../api/stateful-set/ordinals.ts';

function wantedOf(replicas: number, start: number, reserved: readonly ReservedOrdinal[]): readonly number[] {
  return [...ordinalsOf({ replicas, start, reserved }).wanted()];
}

test.each([
  ['one reserved', { replicas: 4, start: 0, reserved: [1] }, [0, 2, 3, 4]],
  ['a start and two reserved', { replicas: 3, start: 2, reserved: [1, 3] }, [2, 4, 5]],
  ['a range and a number', { replicas: 4, start: 0, reserved: ['2-5', 7] }, [0, 1, 6, 8]],
  ['overlapping ranges in any order', { replicas: 3, start: 0, reserved: ['4-6', '0-2', '2-4', 1] }, [7, 8, 9]],
  ['a range around the start', { replicas: 2, start: 5, reserved: ['2-8'] }, [9, 10]],
  ['no replicas', { replicas: 0, start: 0, reserved: [] }, []],
] as const)('AS-12: the first ordinals that are not reserved: %s', (_, of, expected) => {
  expect(wantedOf(of.replicas, of.start, of.reserved)).toEqual(expected);
});

test.each([['3'], ['a-b'], ['5-2'], ['-1-4'], ['1-99999999999'], [-1], [1.5]] as const)(
  'AS-14: with the entry %p the whole list counts as empty',
  (entry) => {
    expect(parseReserved(entry)).toBeUndefined();
    expect(wantedOf(2, 0, [0, entry])).toEqual([0, 1]);
  },
);

test.each([
  { replicas: 4, start: 0, reserved: ['2-5', 7] },
  { replicas: 7, start: 3, reserved: [1, 3, '6-8', 8, '11-12'] },
  { replicas: 5, start: 0, reserved: [0] },
])('AS-50, AS-51: counts the pods before an ordinal: %j', (of) => {
  const ordinals = ordinalsOf(of);
  const wanted = wantedOf(of.replicas, of.start, of.reserved);
  for (let ordinal = 0; ordinal < 30; ordinal++) {
    expect(ordinals.isWanted(ordinal)).toBe(wanted.includes(ordinal));
  }
  expect(wanted.map(ordinals.below)).toEqual(wanted.map((_, place) => place));
});

test('AS-12: neither a range of billions nor billions of replicas are expanded', () => {
  const reserved = ordinalsOf({ replicas: 2, start: 0, reserved: ['0-2147483600'] });
  expect([...reserved.wanted()]).toEqual([2147483601, 2147483602]);
  expect(reserved.below(2147483602)).toBe(1);

  const many = ordinalsOf({ replicas: 2147483647, start: 0, reserved: ['1-5'] });
  expect(many.isWanted(2000000000)).toBe(true);
  expect(many.below(2000000000)).toBe(1999999995);
  const [first, second] = many.wanted();
  expect([first, second]).toEqual([0, 6]);
});

test('AS-12: no ordinal is larger than 32 bits allow', () => {
  expect(wantedOf(5, 2147483646, [])).toEqual([2147483646, 2147483647]);
});

test.each([
  ['web-0', 0],
  ['web-12', 12],
  ['web-2147483647', 2147483647],
  ['web-2147483648', undefined],
  ['web-01', undefined],
  ['web-', undefined],
  ['web', undefined],
  ['web-a', undefined],
  ['webs-1', undefined],
  ['web-1-2', undefined],
] as const)('AS-10: the ordinal in the name %s of a pod of web', (name, ordinal) => {
  expect(ordinalIn(name, 'web')).toBe(ordinal);
});
