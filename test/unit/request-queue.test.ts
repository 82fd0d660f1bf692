import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { requestQueue } from '../../plan/recreate/request-queue.ts';
import { request } from '../support/recreate-requests.ts';

type Phase = '' | 'Pending' | 'Recreating' | 'Completed';

function made(name: string, creationTimestamp: string, phase: Phase = '') {
  return request({ name, metadata: { creationTimestamp }, ...(phase === '' ? {} : { status: { phase } }) });
}

function namesOf(queue: ReturnType<typeof requestQueue>): readonly string[] {
  return [queue.first, ...queue.behind].flatMap((each) => each?.metadata.name ?? []);
}

describe('requestQueue', () => {
  it('CRR-30: puts what has begun first, whatever is older', () => {
    const queue = requestQueue([made('waits', '1', 'Pending'), made('begun', '3', 'Recreating'), made('new', '4')]);
    expect(namesOf(queue)).toEqual(['begun', 'waits', 'new']);
  });

  it('CRR-30: keeps its first while the node of that has not answered and the others are Pending already', () => {
    const pending = [made('b', '1', 'Pending'), made('c', '2', 'Pending')];
    expect(namesOf(requestQueue([...pending, made('a', '1')]))).toEqual(['a', 'b', 'c']);
  });

  it('CRR-30: puts the older first, and of two of the same second the one whose UID sorts first', () => {
    const queue = requestQueue([
      made('c', '2026-01-01T00:00:01Z'),
      made('b', '2026-01-01T00:00:00Z'),
      made('a', '2026-01-01T00:00:00Z'),
    ]);
    expect(namesOf(queue)).toEqual(['a', 'b', 'c']);
  });

  it('F6: lets others go before one that was paused, unless that has begun', () => {
    const waitingFor = { reason: 'Paused', blockedBy: [], blockedCount: 0, since: '1', unblock: '' };
    const paused = (phase: 'Pending' | 'Recreating') =>
      request({ name: 'paused', metadata: { creationTimestamp: '1' }, status: { phase, waitingFor } });
    expect(namesOf(requestQueue([paused('Pending'), made('b', '2')]))).toEqual(['b', 'paused']);
    expect(namesOf(requestQueue([paused('Recreating'), made('b', '2')]))).toEqual(['paused', 'b']);
    expect(namesOf(requestQueue([paused('Pending')]))).toEqual(['paused']);
  });

  it('CRR-31: has nobody behind a lone request', () => {
    expect(requestQueue([made('lone', '1')])).toMatchObject({ first: { metadata: { name: 'lone' } }, behind: [] });
    expect(requestQueue([])).toEqual({ behind: [] });
  });

  it('CRR-32: passes to the next when the first completes or is deleted', () => {
    const goes = request({ name: 'goes', metadata: { deletionTimestamp: '4' }, status: { phase: 'Recreating' } });
    expect(namesOf(requestQueue([made('done', '1', 'Completed'), goes, made('next', '9')]))).toEqual(['next']);
  });

  it('CRR-30: has exactly one first whoever asks, in whatever order they know the requests', () => {
    const anyRequest = fc
      .record({
        name: fc.uuid(),
        second: fc.nat(2),
        phase: fc.constantFrom<Phase>('', 'Pending', 'Recreating', 'Completed'),
      })
      .map(({ name, second, phase }) => made(name, `2026-01-01T00:00:0${second}Z`, phase));
    fc.assert(
      fc.property(
        fc.uniqueArray(anyRequest, { selector: ({ metadata }) => metadata.uid }),
        fc.infiniteStream(fc.nat()),
        (requests, order) => {
          const shuffled = requests.map((each) => [order.next().value, each] as const).toSorted(([a], [b]) => a - b);
          const queue = requestQueue(shuffled.map(([, each]) => each));
          expect(namesOf(queue)).toEqual(namesOf(requestQueue(requests)));
          const open = requests.filter(({ status }) => status?.phase !== 'Completed');
          expect(namesOf(queue)).toHaveLength(open.length);
        },
      ),
    );
  });
});
