import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { windlassAnnotation } from '../../api/core/well-known.ts';
import {
  isSaying,
  ordersAnnotation,
  ordersOf,
  type RollOutOrders,
  readOrders,
} from '../../api/fleet/roll-out-orders.ts';
import '../support/property-seed.ts';

const by = { by: 'ann', at: '2026-11-21T06:00:00Z' };

function objectWith(text: string | null | undefined) {
  return { metadata: text == null ? {} : { annotations: { [windlassAnnotation.rollOut]: text } } };
}

describe('orders in the annotation', () => {
  it('are read as they were written', () => {
    const all: RollOutOrders[] = [
      { version: 1, revision: 'web-2', paused: by },
      { version: 2, revision: 'web-2', aborted: by, skip: ['web-a', 'web-b'] },
      { version: 3, revision: 'web-2', undo: { ...by, to: 'web-1' } },
    ];
    for (const orders of all) {
      const text = ordersAnnotation(orders)[windlassAnnotation.rollOut];
      expect(ordersOf(objectWith(text))).toEqual(orders);
    }
  });

  it('are taken off when they say nothing', () => {
    const silent = { version: 7, revision: 'web-2' };
    expect(isSaying(silent)).toBe(false);
    for (const orders of [undefined, silent, { ...silent, skip: [] }]) {
      expect(ordersAnnotation(orders)).toEqual({ [windlassAnnotation.rollOut]: null });
    }
  });

  it('leave out what nobody of us has written, and are none when it is unknown what they are about', () => {
    for (const text of [undefined, '', '{', '7', '[]', '{"version":1}', '{"revision":"web-2"}']) {
      expect(ordersOf(objectWith(text))).toBeUndefined();
    }
    const odd = { version: 1, revision: 'web-2', paused: 'yes', undo: { by: 'ann' }, skip: ['web-a', 7], more: true };
    expect(readOrders(odd)).toEqual({ version: 1, revision: 'web-2', skip: ['web-a'] });
    expect(readOrders({ version: 1, revision: 'web-2', paused: {} })).toMatchObject({ paused: { by: '', at: '' } });
    fc.assert(fc.property(fc.anything(), (value) => void readOrders(value)));
  });
});
