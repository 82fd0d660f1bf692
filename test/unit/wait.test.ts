import { describe, expect, it } from '@jest/globals';
import { measureStolen } from '../support/stolen.ts';
import { waitFor } from '../support/wait.ts';

describe('waitFor', () => {
  it('gives the first answer that is something', async () => {
    const answers = [undefined, false, { name: 'web' }] as const;
    let asked = 0;
    await expect(waitFor('a pod', () => answers[asked++])).resolves.toEqual({ name: 'web' });
  });

  it('asks again after an exception, as expect throws', async () => {
    let asked = 0;
    const probe = () => {
      asked += 1;
      expect(asked).toBe(3);
      return 'reached';
    };
    await expect(waitFor('three', probe)).resolves.toBe('reached');
  });

  it('fails with what was waited for, what was last seen, and what was stolen', async () => {
    const failed = waitFor('the pod to be ready', (see) => see({ phase: 'Pending' }).phase === 'Running', {
      deadlineMs: 20,
    });
    await expect(failed).rejects.toThrow(
      /in vain for the pod to be ready\nlast seen: \{ phase: 'Pending' \}\nCPU time stolen meanwhile: /,
    );
  });

  it('shows the last exception', async () => {
    const failed = waitFor('an answer', () => Promise.reject(new Error('connection refused')), { deadlineMs: 20 });
    await expect(failed).rejects.toThrow('last seen: connection refused');
  });

  it('does not wait for a probe that never answers', async () => {
    const failed = waitFor('an answer', () => new Promise<boolean>(() => undefined), { deadlineMs: 20 });
    await expect(failed).rejects.toThrow('in vain');
  });
});

describe('measureStolen', () => {
  it('counts the share that went to others since it began', () => {
    const lines = ['cpu  100 0 100 800 0 0 0 0 50 0', 'cpu  110 0 110 820 0 0 0 60 55 0'];
    const stolen = measureStolen(() => lines.shift() ?? '');
    expect(stolen()).toBe(60);
  });

  it('knows nothing where the kernel does not tell', () => {
    expect(measureStolen(() => 'cpu 1 2 3')()).toBeUndefined();
    const noFile = () => {
      throw new Error('ENOENT');
    };
    expect(measureStolen(noFile)()).toBeUndefined();
  });
});
