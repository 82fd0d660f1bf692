import { describe, expect, it } from '@jest/globals';
import { Value } from 'typebox/value';
import type { ObjectMeta } from '../../api/core/meta.ts';
import {
  hasMarks,
  hookKey,
  isAllHooked,
  isHooked,
  isWorkingState,
  type LifecycleHook,
  lifecycleStateOf,
  lifecycleStates,
  marksMissing,
  marksOn,
} from '../../api/fleet/lifecycle.ts';
import { lifecycleSchema } from '../../api/fleet/lifecycle-schema.ts';

function pod(metadata: Partial<ObjectMeta> = {}): { readonly metadata: ObjectMeta } {
  return { metadata: { name: 'web-1', uid: 'u', resourceVersion: '1', creationTimestamp: '', ...metadata } };
}

const hook: LifecycleHook = { labelsHandler: { drain: 'on', quiet: 'yes' }, finalizersHandler: ['shop/drain'] };
const all = { labels: { drain: 'on', quiet: 'yes' }, finalizers: ['shop/drain', 'other/one'] };

describe('marks of a hook', () => {
  it('LC-1: hold as soon as one is on the pod', () => {
    expect(isHooked(hook, pod())).toBe(false);
    expect(isHooked(hook, pod({ finalizers: ['shop/drain'] }))).toBe(true);
    expect(isHooked(hook, pod({ labels: { quiet: 'yes' } }))).toBe(true);
    expect(isHooked(undefined, pod(all))).toBe(false);
    expect(isHooked({}, pod(all))).toBe(false);
  });

  it('LC-2: are all there when none is missing; an empty hook is all there, an absent one is not', () => {
    expect(isAllHooked(hook, pod(all))).toBe(true);
    expect(isAllHooked(hook, pod({ ...all, finalizers: [] }))).toBe(false);
    expect(isAllHooked(hook, pod({ ...all, labels: { drain: 'on' } }))).toBe(false);
    expect(isAllHooked({}, pod())).toBe(true);
    expect(isAllHooked(undefined, pod(all))).toBe(false);
  });

  it('LC-3: names the marks that are on the pod and those that are missing', () => {
    const half = pod({ labels: { drain: 'on', quiet: 'no' }, finalizers: ['shop/drain'] });
    expect(marksOn(hook, half)).toEqual(['finalizer shop/drain', 'label drain=on']);
    expect(marksMissing(hook, half)).toEqual(['label quiet=yes']);
    expect(marksMissing(undefined, half)).toEqual([]);
  });

  it('LC-4: finds a label with an empty value on pods that lack it', () => {
    const empty: LifecycleHook = { labelsHandler: { drained: '' } };
    expect(isHooked(empty, pod())).toBe(true);
    expect(isHooked(empty, pod({ labels: { drained: 'x' } }))).toBe(false);
  });

  it.each(['constructor', 'toString', '__proto__'])('LC-4: a pod without labels lacks a label called %s', (key) => {
    const one: LifecycleHook = { labelsHandler: Object.fromEntries([[key, '']]) };
    expect(isHooked(one, pod({ labels: {} }))).toBe(true);
    expect(isHooked(one, pod({ labels: Object.fromEntries([[key, 'x']]) }))).toBe(false);
  });

  it('LC-5: counts a label with another value as removed', () => {
    const one: LifecycleHook = { labelsHandler: { drain: 'true' } };
    expect(isHooked(one, pod({ labels: { drain: 'true' } }))).toBe(true);
    expect(isHooked(one, pod({ labels: { drain: 'false' } }))).toBe(false);
  });

  it('are there in a hook or not', () => {
    expect([hook, { labelsHandler: { a: '' } }, { finalizersHandler: ['a/b'] }].every(hasMarks)).toBe(true);
    expect([undefined, {}, { labelsHandler: {}, finalizersHandler: [] }].some(hasMarks)).toBe(false);
  });
});

describe('lifecycle state', () => {
  it('is that of the label, also one that nobody knows, and empty without one', () => {
    expect(lifecycleStateOf(pod())).toBe('');
    for (const state of [...lifecycleStates, 'Else']) {
      expect(lifecycleStateOf(pod({ labels: { 'lifecycle.apps.kruise.io/state': state } }))).toBe(state);
    }
  });

  it('lets a pod be available when it is Normal or nobody manages it', () => {
    expect(lifecycleStates.filter(isWorkingState)).toEqual(['Normal']);
    expect(isWorkingState('')).toBe(true);
  });

  it('LC-52: has one key for each hook in the readiness gate', () => {
    expect(hookKey).toEqual({
      preDelete: { userAgent: 'Lifecycle', key: 'preDeleteHook' },
      preUpdate: { userAgent: 'Lifecycle', key: 'preUpdateHook' },
    });
  });

  it('has hooks of any content, as long as the types are right', () => {
    expect(
      Value.Check(lifecycleSchema, { preNormal: {}, inPlaceUpdate: hook, preDelete: { markPodNotReady: true } }),
    ).toBe(true);
    expect(Value.Check(lifecycleSchema, { preDelete: { finalizersHandler: 'shop/drain' } })).toBe(false);
  });
});
