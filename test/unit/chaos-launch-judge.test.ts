import { describe, expect, it } from '@jest/globals';
import type { LaunchBarrier } from '../../api/container-launch-priority.ts';
import type { Pod } from '../../api/core/pod.ts';
import { type LaunchEvidence, launchViolations } from '../chaos/judges/launch-judge.ts';

type Now = 'held' | 'running' | 'ready';

/** A version of the pod, by the states of its containers. */
function version(now: Readonly<Record<string, Now>>, annotations: Readonly<Record<string, string>> = {}): Pod {
  const containerStatuses = Object.entries(now).map(([name, is]) => ({
    name,
    ready: is === 'ready',
    restartCount: 0,
    state: is === 'held' ? { waiting: { reason: 'CreateContainerConfigError' } } : { running: {} },
  }));
  return { metadata: { uid: 'pod-1', annotations }, status: { containerStatuses } } as unknown as Pod;
}

const completed = { 'apps.kruise.io/container-launch-priority-completed': 'true' };
const end = version({ first: 'ready', second: 'ready' }, completed);

function barrier(data: Readonly<Record<string, string>>, owner = 'pod-1'): LaunchBarrier {
  return { metadata: { ownerReferences: [{ uid: owner }] }, data } as unknown as LaunchBarrier;
}

function evidence(more: Partial<LaunchEvidence> = {}): LaunchEvidence {
  return {
    subject: 'shop/web',
    order: { first: 10, second: -1 },
    versions: [version({ first: 'running', second: 'held' }), version({ first: 'ready', second: 'held' }), end],
    starts: ['first', 'second'],
    early: [],
    barrier: barrier({ p_10: 'true', 'p_-1': 'true' }),
    ...more,
  };
}

describe('what speaks against a launch', () => {
  it('is nothing when each container started once, after those before it', () => {
    expect(launchViolations(evidence())).toEqual([]);
    // the kubelet may report several changes at once
    expect(launchViolations(evidence({ versions: [end] }))).toEqual([]);
  });

  const cases: readonly (readonly [string, Partial<LaunchEvidence>, RegExp])[] = [
    [
      'a container that ran too early',
      { versions: [version({ first: 'running', second: 'running' }), end] },
      /second ran before first was ready/,
    ],
    ['what a container saw', { early: ['second before first'] }, /started too early: second before first/],
    ['a second start', { starts: ['first', 'second', 'second'] }, /second was started 2 times/],
    ['a wait for ever', { versions: [version({ first: 'ready', second: 'held' }, completed)] }, /second is not ready/],
    [
      'a launch without an end',
      { versions: [version({ first: 'ready', second: 'ready' })] },
      /not marked as completed/,
    ],
    [
      'a wait that nobody took back',
      {
        versions: [
          version({ first: 'ready', second: 'ready' }, { ...completed, 'windlass.io/container-launch': '{}' }),
        ],
      },
      /still says what its launch waits for/,
    ],
    ['a barrier without a key', { barrier: barrier({ p_10: 'true' }) }, /lacks p_-1/],
    ['a barrier of another pod', { barrier: barrier({ p_10: 'true', 'p_-1': 'true' }, 'pod-0') }, /belongs to nobody/],
    ['no barrier', { barrier: undefined }, /its barrier is gone/],
  ];

  it.each(cases)('is %s', (_, more, text) => {
    expect(launchViolations(evidence(more)).join('\n')).toMatch(text);
  });
});
