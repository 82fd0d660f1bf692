import { describe, expect, it } from '@jest/globals';
import type { Pod } from '../../api/core/pod.ts';
import type { ContainerProbeState } from '../../api/node-pod-probe/types.ts';
import { type ProbeEvidence, probeViolations } from '../chaos/judges/probe-judge.ts';

const conditionType = 'chaos.example/up';

function version(status: string, lastTransitionTime: string): Pod {
  const labels = { up: status === 'True' ? 'yes' : 'no' };
  return {
    metadata: { labels },
    status: { conditions: [{ type: conditionType, status, lastTransitionTime }] },
  } as never;
}

function state(verdict: ContainerProbeState['state']): ContainerProbeState {
  return { name: 'chaos#up', state: verdict };
}

/** The facts changed once, and so did the reported state. */
function evidence(more: Partial<ProbeEvidence> = {}): ProbeEvidence {
  return {
    subject: 'shop/web',
    conditionType,
    label: 'up',
    truth: [true, false],
    versions: [version('True', '1'), version('True', '1'), version('False', '2')],
    states: [state('Succeeded'), state('Succeeded'), state('Failed')],
    ...more,
  };
}

describe('what speaks against a probe', () => {
  it('is nothing when each change was shown once', () => {
    expect(probeViolations(evidence())).toEqual([]);
  });

  const [up, , down] = evidence().versions;
  const cases: readonly (readonly [string, Partial<ProbeEvidence>, RegExp])[] = [
    ['a result that turned around', { versions: [up, down, up, down] as Pod[] }, /showed True,False,True,False/],
    ['a change that nobody saw', { versions: [up, up] as Pod[] }, /was True,False, and the pod showed True$/m],
    ['a result that vanished', { versions: [up, { metadata: {} }, up, down] as Pod[] }, /showed True,undefined,True/],
    ['a change that was none', { versions: [version('True', '0'), up, down] as Pod[] }, /changed 3 times by its own/],
    [
      'a label of yesterday',
      { versions: [up, { ...down, metadata: up?.metadata }] as Pod[] },
      /ends with label yes, not/,
    ],
    [
      'a result that its node forgot',
      { states: [state('Succeeded'), state('Unknown'), state('Succeeded'), state('Failed')] },
      /its node said Succeeded,Unknown,Succeeded,Failed/,
    ],
  ];

  it.each(cases)('is %s', (_, more, text) => {
    expect(probeViolations(evidence(more)).join('\n')).toMatch(text);
  });
});
