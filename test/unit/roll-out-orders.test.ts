import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { windlassAnnotation } from '../../api/core/well-known.ts';
import {
  isSaying,
  type OrderedObject,
  ordersOf,
  type RollOutOrders,
  readOrders,
} from '../../api/fleet/roll-out-orders.ts';
import '../support/property-seed.ts';

const by = { by: 'ann', at: '2026-11-21T06:00:00Z' };

/** With the annotation of release 0.1.0, and with the status of this one. */
function objectWith(text: string | undefined, rollOut?: RollOutOrders): OrderedObject {
  return {
    metadata: text === undefined ? {} : { annotations: { [windlassAnnotation.rollOut]: text } },
    ...(rollOut && { status: { rollOut } }),
  };
}

describe('orders of an object', () => {
  it('are in its status, and before that in an annotation', () => {
    const all: RollOutOrders[] = [
      { version: 1, revision: 'web-2', paused: by },
      { version: 2, revision: 'web-2', aborted: by, skip: ['web-a', 'web-b'] },
      { version: 3, revision: 'web-2', undo: { ...by, to: 'web-1' } },
    ];
    for (const orders of all) {
      expect(ordersOf(objectWith(JSON.stringify(orders)))).toEqual(orders);
      expect(ordersOf(objectWith(JSON.stringify({ version: 9, revision: 'web-0' }), orders))).toEqual(orders);
    }
  });

  it('may say nothing', () => {
    expect(isSaying({ version: 7, revision: 'web-2' })).toBe(false);
    expect(isSaying({ version: 7, revision: 'web-2', skip: [] })).toBe(false);
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

  it('are read up to limits, whoever has written them', () => {
    const revision = 'web-2';
    for (const version of [-1, 1.5, 1e16, Number.NaN, '1']) {
      expect(readOrders({ version, revision, paused: by })).toBeUndefined();
      // a status that says nothing is not replaced by the annotation
      const given = { version, revision } as RollOutOrders;
      expect(ordersOf(objectWith(JSON.stringify({ version: 1, revision, paused: by }), given))).toBeUndefined();
    }
    const long = 'x'.repeat(1_000);
    expect(readOrders({ version: 1, revision: long, paused: by })).toBeUndefined();
    const many = Array.from({ length: 500 }, (_, index) => `${index}-${long.slice(0, 300)}`);
    const read = readOrders({
      ...{ version: 1, revision, paused: { by: long, at: long }, undo: { ...by, to: long }, skip: [long, ...many] },
    });
    expect([read?.paused?.by.length, read?.paused?.at.length, read?.undo]).toEqual([256, 64, undefined]);
    expect(read?.skip).toEqual(many.slice(0, 5));
  });
});
