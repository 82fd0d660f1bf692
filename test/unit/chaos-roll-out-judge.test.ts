import { describe, expect, it } from '@jest/globals';
import {
  type RecreationEvidence,
  type RollOutEvidence,
  recreationViolations,
  rollOutViolations,
} from '../chaos/judges/roll-out-judge.ts';
import type { FleetMoment } from '../support/fleet-watch.ts';

function moment(ready: number): FleetMoment {
  return { at: `${ready} ready`, event: 'MODIFIED web-a', pods: 3, ready };
}

function evidence(more: Partial<RollOutEvidence> = {}): RollOutEvidence {
  return {
    subject: 'shop',
    moments: [moment(3), moment(2), moment(3)],
    leastReady: 2,
    before: new Map([['a', { app: 0, greeter: 1 }]]),
    now: new Map([['a', { name: 'web-a', isUpdated: true, restarts: { app: 1, greeter: 2 } }]]),
    expectsUpdate: true,
    ...more,
  };
}

const untouched = { name: 'web-a', isUpdated: false, restarts: { app: 0, greeter: 1 } };

describe('the judge of roll-outs', () => {
  it('finds nothing wrong with pods that were updated once and within the budget', () => {
    expect(rollOutViolations(evidence())).toEqual([]);
  });

  it('objects to a moment with too few ready pods', () => {
    expect(rollOutViolations(evidence({ moments: [moment(3), moment(1)] }))).toEqual([
      'shop: only 1 pods were ready at 1 ready, after MODIFIED web-a',
    ]);
  });

  it('objects to a pod that is gone', () => {
    expect(rollOutViolations(evidence({ now: new Map() }))).toEqual(['shop: pod a is gone']);
  });

  it('objects to a container that was restarted twice', () => {
    const now = new Map([['a', { name: 'web-a', isUpdated: true, restarts: { app: 2, greeter: 2 } }]]);
    expect(rollOutViolations(evidence({ now }))).toEqual(['shop: web-a: app was restarted 2 times']);
  });

  it('objects to a pod that was not updated', () => {
    expect(rollOutViolations(evidence({ now: new Map([['a', untouched]]) }))).toEqual([
      'shop: web-a: app was restarted 0 times',
      'shop: web-a: greeter was restarted 0 times',
      'shop: web-a is not updated',
    ]);
  });

  it('objects to a restart where no update was asked for', () => {
    expect(rollOutViolations(evidence({ expectsUpdate: false, now: new Map([['a', untouched]]) }))).toEqual([]);
    expect(rollOutViolations(evidence({ expectsUpdate: false }))).toHaveLength(2);
  });
});

describe('the judge of roll-outs by recreation', () => {
  const claim = { 'data-web-0': 'x' };
  const recreated = (more: Partial<RecreationEvidence> = {}): RecreationEvidence => ({
    ...evidence({ now: new Map([['b', { name: 'web-0', isUpdated: true, restarts: {} }]]) }),
    known: new Set(['web-0']),
    places: new Map([
      ['web-0', 2],
      ['web-1', 1],
    ]),
    claims: { before: claim, now: { ...claim, 'data-web-1': 'y' } },
    ...more,
  });

  it('finds nothing wrong with pods that were recreated once, with their PVCs', () => {
    expect(recreationViolations(recreated())).toEqual([]);
  });

  it.each<[string, Partial<RecreationEvidence>, string]>([
    ['a pod that was recreated twice', { places: new Map([['web-0', 3]]) }, 'there were 3 pods web-0, and 2 are to be'],
    ['a new pod that was recreated', { places: new Map([['web-1', 2]]) }, 'there were 2 pods web-1, and 1 are to be'],
    ['a lost PVC', { claims: { before: claim, now: {} } }, 'PVC data-web-0 is gone and was x'],
    ['another PVC', { claims: { before: claim, now: { 'data-web-0': 'z' } } }, 'PVC data-web-0 is z and was x'],
    [
      'a pod that was not recreated',
      { now: new Map([['a', { name: 'web-0', isUpdated: true, restarts: {} }]]) },
      'web-0 was not recreated',
    ],
    ['a budget that was exceeded', { moments: [moment(1)] }, 'only 1 pods were ready at 1 ready, after MODIFIED web-a'],
  ])('objects to %s', (_, more, text) => {
    expect(recreationViolations(recreated(more))).toEqual([`shop: ${text}`]);
  });
});
