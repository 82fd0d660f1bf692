import { describe, expect, it } from '@jest/globals';
import { isAllHooked, isHooked, type Lifecycle, marksMissing, marksOn } from '../../api/fleet/lifecycle.ts';
import {
  beforeDelete,
  beforeUpdate,
  canCancelDelete,
  changeWrites,
  enter,
  nextState,
  stateWithoutUpdate,
  whileHeldBeforeDelete,
} from '../../plan/fleet/lifecycle.ts';
import { earlier, now, type PodFacts, pod } from '../support/cloneset-world.ts';

const drain = 'example.com/drain';
const hook = { labelsHandler: { guard: 'on' }, finalizersHandler: [drain] };
const hooks: Lifecycle = { preDelete: hook, inPlaceUpdate: hook, preNormal: hook };
const allMarks: PodFacts = { labels: { guard: 'on' }, finalizers: [drain] };
const someMarks: PodFacts = { finalizers: [drain] };

function at(state: NonNullable<PodFacts['state']>, facts: PodFacts = {}) {
  return pod('web-a', { state, ...facts });
}

const complete = () => true;
const unfinished = () => false;

function unready(key: string): PodFacts {
  const message = `[{"userAgent":"Lifecycle","key":"${key}"}]`;
  return {
    conditions: [
      { type: 'InPlaceUpdateReady', status: 'True', lastTransitionTime: earlier },
      { type: 'KruisePodReady', status: 'False', message, lastTransitionTime: earlier },
      { type: 'ContainersReady', status: 'True', lastTransitionTime: earlier },
      { type: 'Ready', status: 'False', lastTransitionTime: earlier },
    ],
  };
}

describe('marks', () => {
  it('LC-1, LC-2: one mark hooks a pod, all marks hook it fully', () => {
    const cases = [
      [pod('a'), false, false],
      [pod('a', someMarks), true, false],
      [pod('a', allMarks), true, true],
    ] as const;
    for (const [given, some, all] of cases)
      expect([isHooked(hook, given), isAllHooked(hook, given)]).toEqual([some, all]);
  });

  it('LC-2: an empty hook is all there, an absent one is not', () => {
    expect([isAllHooked({}, pod('a')), isAllHooked(undefined, pod('a'))]).toEqual([true, false]);
    expect([isHooked({}, pod('a')), isHooked(undefined, pod('a'))]).toEqual([false, false]);
  });

  it('LC-4, LC-5: a label is a mark while it has exactly the value, and a missing one has the value ""', () => {
    const empty = { labelsHandler: { guard: '' } };
    expect(isHooked(empty, pod('a'))).toBe(true);
    expect(isHooked(hook, pod('a', { labels: { guard: 'false' } }))).toBe(false);
  });

  it('LC-3: says which marks are on a pod and which are missing', () => {
    expect(marksOn(hook, pod('a', someMarks))).toEqual([`finalizer ${drain}`]);
    expect(marksMissing(hook, pod('a', someMarks))).toEqual(['label guard=on']);
  });
});

describe('nextState', () => {
  it('LC-11: without a hook a new pod works as soon as it has a node', () => {
    expect(nextState(at('PreparingNormal', { node: null }), undefined, complete)).toBeUndefined();
    expect(nextState(at('PreparingNormal'), { preDelete: hook }, complete)).toBe('Normal');
  });

  it('LC-11, LC-13: with a hook it works once all marks are there, node or not', () => {
    expect(nextState(at('PreparingNormal', someMarks), hooks, complete)).toBeUndefined();
    expect(nextState(at('PreparingNormal', { ...allMarks, node: null }), hooks, complete)).toBe('Normal');
  });

  it('LC-15, LC-16: a pod that works goes on working without its marks, ready or not', () => {
    expect(nextState(at('Normal', { ready: false }), hooks, complete)).toBeUndefined();
  });

  it('LC-22: after an update a pod waits for its marks if there is a lifecycle at all', () => {
    expect(nextState(at('Updating', someMarks), hooks, complete)).toBe('Updated');
    expect(nextState(at('Updating'), { preDelete: hook }, complete)).toBe('Updated');
    expect(nextState(at('Updating', allMarks), hooks, complete)).toBe('Normal');
    expect(nextState(at('Updating'), undefined, complete)).toBe('Normal');
    expect(nextState(at('Updating', allMarks), hooks, unfinished)).toBeUndefined();
  });

  it('LC-23: an updated pod works again once all marks are back, or when there is no such hook', () => {
    expect(nextState(at('Updated', someMarks), hooks, complete)).toBeUndefined();
    expect(nextState(at('Updated', allMarks), hooks, complete)).toBe('Normal');
    expect(nextState(at('Updated'), { preDelete: hook }, complete)).toBe('Normal');
  });

  it('LC-60: without a lifecycle every state that waits for marks is left', () => {
    expect(nextState(at('Updated'), undefined, complete)).toBe('Normal');
    expect(nextState(at('PreparingNormal'), undefined, complete)).toBe('Normal');
    expect(beforeUpdate(at('PreparingUpdate', allMarks), undefined)).toBe('start');
    expect(beforeDelete(at('PreparingDelete', allMarks), undefined)).toBe('delete');
  });

  it('LC-61: other values of a hook are asked for at once', () => {
    const changed: Lifecycle = { inPlaceUpdate: { labelsHandler: { guard: 'other' } } };
    expect(nextState(at('Updated', allMarks), changed, complete)).toBeUndefined();
    expect(beforeUpdate(at('PreparingUpdate', allMarks), changed)).toBe('start');
  });

  it('LC-45: nothing but its deletion, or calling that off, leads out of PreparingDelete', () => {
    expect(nextState(at('PreparingDelete'), hooks, complete)).toBeUndefined();
  });
});

describe('beforeUpdate', () => {
  it('LC-21: a pod with a mark is held first, one without starts', () => {
    for (const state of ['PreparingNormal', 'Normal'] as const) {
      expect(beforeUpdate(at(state, someMarks), hooks)).toBe('prepare');
      expect(beforeUpdate(at(state), hooks)).toBe('start');
    }
    expect(beforeUpdate(pod('a', someMarks), hooks)).toBe('prepare');
  });

  it('LC-25: a held pod waits until the last mark is gone', () => {
    expect(beforeUpdate(at('PreparingUpdate', someMarks), hooks)).toBe('wait');
    expect(beforeUpdate(at('PreparingUpdate'), hooks)).toBe('start');
  });

  it('LC-29: a pod that is being updated is not held a second time', () => {
    expect(beforeUpdate(at('Updating', allMarks), hooks)).toBe('start');
  });

  it('LC-24: an updated pod that is wanted at yet another revision is held again, and gets its marks for it', () => {
    const updated = at('Updated', { finalizers: ['other'] });
    expect(beforeUpdate(updated, hooks)).toBe('prepare');
    expect(beforeUpdate(updated, { preDelete: hook })).toBe('start');
    expect(changeWrites(enter('PreparingUpdate', updated, hooks, now))).toEqual([
      {
        kind: 'pod',
        patch: {
          metadata: {
            labels: { guard: 'on', 'lifecycle.apps.kruise.io/state': 'PreparingUpdate' },
            annotations: { 'lifecycle.apps.kruise.io/timestamp': now },
            finalizers: [drain],
          },
        },
      },
    ]);
  });
});

describe('stateWithoutUpdate', () => {
  it('LC-26: a pod that waits for an update it no longer needs goes on to where its marks put it', () => {
    expect(stateWithoutUpdate(at('PreparingUpdate', someMarks), hooks)).toBe('Updated');
    expect(stateWithoutUpdate(at('PreparingUpdate', allMarks), hooks)).toBe('Normal');
    expect(stateWithoutUpdate(at('PreparingUpdate'), undefined)).toBe('Normal');
  });
});

describe('beforeDelete', () => {
  it('LC-40, LC-41: a pod with a mark is held until the last one is gone', () => {
    expect(beforeDelete(at('Normal', someMarks), hooks)).toBe('prepare');
    expect(beforeDelete(at('PreparingDelete', someMarks), hooks)).toBe('wait');
    expect(beforeDelete(at('PreparingDelete'), hooks)).toBe('delete');
    expect(beforeDelete(at('Normal'), hooks)).toBe('delete');
  });

  it('LC-44: a deletion is final where held pods are out of service', () => {
    expect(canCancelDelete(hooks)).toBe(true);
    expect(canCancelDelete(undefined)).toBe(true);
    expect(canCancelDelete({ preDelete: { ...hook, markPodNotReady: true } })).toBe(false);
    expect(canCancelDelete({ inPlaceUpdate: { ...hook, markPodNotReady: true } })).toBe(false);
  });
});

describe('enter', () => {
  const quiet: Lifecycle = {
    preDelete: { ...hook, markPodNotReady: true },
    inPlaceUpdate: { ...hook, markPodNotReady: true },
  };
  const conditionsOf = (...args: Parameters<typeof enter>) =>
    Object.fromEntries((enter(...args).conditions ?? []).map(({ type, status, message }) => [type, [status, message]]));

  it('LC-63: writes the state and its time together, and nothing else of the pod', () => {
    expect(changeWrites(enter('Normal', at('Updated'), hooks, now))).toEqual([
      {
        kind: 'pod',
        patch: {
          metadata: {
            labels: { 'lifecycle.apps.kruise.io/state': 'Normal' },
            annotations: { 'lifecycle.apps.kruise.io/timestamp': now },
          },
        },
      },
    ]);
  });

  it('LC-52: takes a held pod out of service where the hook says so', () => {
    const key = (name: string) => `[{"userAgent":"Lifecycle","key":"${name}"}]`;
    expect(conditionsOf('PreparingDelete', at('Normal'), quiet, now)).toMatchObject({
      KruisePodReady: ['False', key('preDeleteHook')],
      Ready: ['False', expect.stringContaining('KruisePodReady')],
    });
    expect(conditionsOf('PreparingUpdate', at('Normal'), quiet, now)).toMatchObject({
      KruisePodReady: ['False', key('preUpdateHook')],
    });
    expect(conditionsOf('PreparingUpdate', at('Normal'), hooks, now)).toEqual({});
  });

  it('LC-53: writes the condition and the state in one patch of the status', () => {
    const [write, ...more] = changeWrites(enter('PreparingDelete', at('Normal'), quiet, now));
    expect(more).toEqual([]);
    expect(write).toMatchObject({
      kind: 'status',
      patch: {
        metadata: { labels: { 'lifecycle.apps.kruise.io/state': 'PreparingDelete' } },
        status: {
          conditions: [
            { type: 'KruisePodReady', status: 'False' },
            { type: 'Ready', status: 'False' },
          ],
        },
      },
    });
  });

  it('LC-53: adds the key to a pod that is held already when the flag comes later, once', () => {
    expect(whileHeldBeforeDelete(at('PreparingDelete'), quiet, now)?.conditions).toHaveLength(2);
    expect(whileHeldBeforeDelete(at('PreparingDelete', unready('preDeleteHook')), quiet, now)).toBeUndefined();
    expect(whileHeldBeforeDelete(at('PreparingDelete'), hooks, now)).toBeUndefined();
  });

  it('LC-24, LC-53: finalizers, which no status carries, come in a write after it', () => {
    const kinds = changeWrites(enter('PreparingUpdate', at('Updated'), quiet, now)).map(({ kind }) => kind);
    expect(kinds).toEqual(['status', 'pod']);
  });

  it('LC-54: brings the pod back into service on every road to Updated and Normal', () => {
    for (const state of ['Updated', 'Normal'] as const) {
      const found = conditionsOf(state, at('Updating', unready('preUpdateHook')), undefined, now);
      expect(found).toEqual({ KruisePodReady: ['True', '[]'] });
    }
  });

  it('LC-43, LC-52: a pod that is not deleted after all is back in service, whatever the flag was then', () => {
    const held = at('PreparingDelete', unready('preDeleteHook'));
    expect(conditionsOf('PreparingNormal', held, hooks, now)).toEqual({ KruisePodReady: ['True', '[]'] });
  });

  it('LC-50: does nothing to the readiness of a pod without the gate', () => {
    const gateless = at('Normal', { gates: ['InPlaceUpdateReady'] });
    expect(conditionsOf('PreparingDelete', gateless, quiet, now)).toEqual({});
  });

  it('LC-55: leaves the key alone while the containers change', () => {
    expect(conditionsOf('Updating', at('PreparingUpdate', unready('preUpdateHook')), quiet, now)).toEqual({});
  });
});
