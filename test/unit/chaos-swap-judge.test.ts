import { describe, expect, it } from '@jest/globals';
import type { Pod } from '../../api/core/pod.ts';
import { type SwapEvidence, swapViolations } from '../chaos/judges/swap-judge.ts';

const second = (nth: number): string => `2026-01-01T00:00:0${nth}Z`;

/** What one container is to run and runs: `image id`, or an end. */
interface State {
  readonly image: string;
  readonly runs?: string;
  readonly id: string;
  readonly startedAt: number;
  readonly restarts: number;
  readonly ready?: boolean;
}

function version(resourceVersion: string, states: Readonly<Record<string, State>>): Pod {
  return {
    metadata: { resourceVersion },
    spec: { containers: Object.entries(states).map(([name, { image }]) => ({ name, image })) },
    status: {
      containerStatuses: Object.entries(states).map(
        ([name, { image, runs = image, id, startedAt, restarts, ready }]) => ({
          ...{ name, image: `docker.io/${runs}`, containerID: `containerd://${id}`, restartCount: restarts },
          ...{ ready: ready ?? true, state: { running: { startedAt: second(startedAt) } } },
        }),
      ),
    },
  } as never;
}

const old = { image: 'mesh:1', id: 'a', startedAt: 0, restarts: 0 };
const emptied = { image: 'empty:1', id: 'd', startedAt: 6, restarts: 1 };
const idle = { image: 'empty:1', id: 'b', startedAt: 0, restarts: 0 };
const fresh = { image: 'mesh:2', id: 'c', startedAt: 2, restarts: 1 };

/** A swap as it should be. */
const versions = [
  version('1', { 'mesh-1': old, 'mesh-2': idle }),
  version('2', { 'mesh-1': old, 'mesh-2': { ...idle, image: 'mesh:2', runs: 'empty:1' } }),
  version('3', { 'mesh-1': old, 'mesh-2': fresh }),
  version('4', { 'mesh-1': { ...old, image: 'empty:1', runs: 'mesh:1' }, 'mesh-2': fresh }),
  version('5', { 'mesh-1': emptied, 'mesh-2': fresh }),
];

function violations(more: Partial<SwapEvidence> = {}): readonly string[] {
  return swapViolations({
    subject: 'shop/web',
    pair: ['mesh-1', 'mesh-2'],
    emptyImage: 'empty:1',
    versions,
    exitsOf: (id) => ({ a: [second(5)], b: [second(1)] })[id] ?? [],
    restarts: { 'mesh-1': 1, 'mesh-2': 1 },
    ...more,
  });
}

describe('the judge of swaps', () => {
  it('finds nothing wrong with a new container that serves before the old one ends', () => {
    expect(violations()).toEqual([]);
  });

  it('objects to a version in which neither container serves', () => {
    const down = version('2', { 'mesh-1': emptied, 'mesh-2': idle });
    expect(violations({ versions: versions.toSpliced(1, 0, down) })).toContain(
      'shop/web: no container served in version 2',
    );
  });

  it('objects to an end of the old container before the new one ran, which no version shows', () => {
    expect(violations({ exitsOf: (id) => (id === 'a' ? [second(1)] : []) })).toEqual([
      'shop/web: mesh-1 ended at 2026-01-01T00:00:01.000Z, 1000 ms old, and the other one did not run',
    ]);
  });

  it('takes the ends that the test itself has caused as they are', () => {
    expect(violations({ exitsOf: (id) => (id === 'a' ? [second(1)] : []), endedByTest: true })).toEqual([]);
  });

  it('objects to an empty image for the old container while the new one is not ready', () => {
    const unready = version('3', { 'mesh-1': old, 'mesh-2': { ...fresh, ready: false } });
    const early = version('4', {
      'mesh-1': { ...old, image: 'empty:1', runs: 'mesh:1' },
      'mesh-2': { ...fresh, ready: false },
    });
    expect(violations({ versions: versions.toSpliced(2, 2, unready, early) })).toEqual([
      'shop/web: mesh-1 was emptied in version 4 before mesh-2 was ready',
    ]);
  });

  it('objects to a container that was restarted once more, or not at all', () => {
    expect(violations({ restarts: { 'mesh-1': 2, 'mesh-2': 0 } })).toEqual([
      'shop/web: mesh-1 was restarted 1 times, not 2',
      'shop/web: mesh-2 was restarted 1 times, not 0',
    ]);
  });
});
