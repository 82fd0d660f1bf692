import { describe, expect, it } from '@jest/globals';
import { earlierIdOf, lockOf, longestOperationId, operationId, operationLock } from '../../api/engine/operation-id.ts';
import { operationTypes } from '../../api/operations.ts';

const uid = '9ab9ac5e-3d67-4f0e-a7e5-0f5a3f0c8f7e';
const shop = { namespace: 'default', name: 'shop', uid };

describe('the workflow ID of an operation', () => {
  it('names the operation and the object as people do', () => {
    expect(operationId('rollOut', shop)).toBe(`roll-out/default/shop/${uid}`);
    expect(operationId('restartContainers', { ...shop, name: 'web' })).toBe(`restart-containers/default/web/${uid}`);
  });

  it('has no namespace for a cluster-scoped object', () => {
    expect(operationId('pullImages', { name: 'node-1', uid })).toBe(`pull-images/node-1/${uid}`);
    expect(operationId('pullImages', { namespace: '', name: 'node-1', uid })).toBe(`pull-images/node-1/${uid}`);
  });

  it('is not longer than a database keeps it, and keeps the whole UID', () => {
    const long = { namespace: 'n'.repeat(63), name: 'a'.repeat(253), uid };
    for (const type of operationTypes) {
      const id = operationId(type, long);
      expect(id).toHaveLength(longestOperationId);
      expect(lockOf(id)).toBe(operationLock(type, uid));
    }
  });
});

describe('the lock that an operation holds', () => {
  it('is the same for every workflow ID of it, and is the ID of release 0.1.0', () => {
    const lock = `roll-out/${uid}`;
    expect(operationLock('rollOut', uid)).toBe(lock);
    for (const id of [operationId('rollOut', shop), operationId('rollOut', { name: 'mesh', uid }), lock]) {
      expect(lockOf(id)).toBe(lock);
    }
    expect(earlierIdOf(operationId('rollOut', shop))).toBe(lock);
    expect(earlierIdOf(lock)).toBeUndefined();
  });

  it('is another one for another operation, and for another object of the same name', () => {
    const other = { ...shop, uid: 'other' };
    const locks = operationTypes.flatMap((type) => [shop, other].map((target) => lockOf(operationId(type, target))));
    expect(new Set(locks).size).toBe(2 * operationTypes.length);
  });

  it('is the ID itself where that names no object', () => {
    expect([lockOf('windlass-probe'), earlierIdOf('windlass-probe')]).toEqual(['windlass-probe', undefined]);
  });
});
