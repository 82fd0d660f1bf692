import { describe, expect, it } from '@jest/globals';
import { KubeError } from '../../kube/failures.ts';
import { despiteConflicts } from '../../kube/retry-on-conflict.ts';

const conflict = () => new KubeError({ status: 409, reason: 'Conflict', message: 'the object has been modified' });

describe('a write despite conflicts', () => {
  it('is made again at once on what is there now', async () => {
    const versions = ['1', '2', '3'];
    const written = await despiteConflicts(async () => {
      const version = versions.shift();
      if (version !== '3') throw conflict();
      return version;
    });
    expect(written).toBe('3');
  });

  it('is given up after five conflicts in a row, and says so by the last of them', async () => {
    let attempts = 0;
    const losing = despiteConflicts(async () => {
      attempts++;
      throw conflict();
    });
    await expect(losing).rejects.toThrow('the object has been modified');
    expect(attempts).toBe(5);
  });

  it('is not made again after any other failure', async () => {
    let attempts = 0;
    const refused = despiteConflicts(async () => {
      attempts++;
      throw new KubeError({ status: 403, reason: 'Forbidden', message: 'not allowed' });
    });
    await expect(refused).rejects.toThrow('not allowed');
    expect(attempts).toBe(1);
  });
});
